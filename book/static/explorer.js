// A picture that can be moved: which heads go in an order of removal, and what is left of the score.
// The page has in #explorer-data
//   data:   what headprune_lib.replication.pages.site.removal.removal_data gives
//   chosen: {entry, order, step}, places in data, its orders and its shares

const NAMESPACE = "http://www.w3.org/2000/svg";
const SIZE = { height: 280, left: 44, right: 22, top: 48, bottom: 44 };

function html(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function svg(tag, attributes = {}, text) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const percent = (share) => `${Math.round(100 * share)}%`;
// With a minus sign, and without one before what is rounded to zero.
const number = (value, digits = 1) =>
  (Number(value.toFixed(digits)) + 0).toFixed(digits).replace("-", "−");
const score = (entry, order, step) => `${number(order.mean[step])}${entry.unit}`;
// Round numbers from at most `low` to at least `high`.
function ticks(low, high) {
  const rough = (high - low || 1) / 5;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((size) => size * unit).find((size) => size >= rough);
  const first = Math.floor(low / step);
  return Array.from({ length: Math.ceil(high / step) - first + 1 }, (_, i) => (first + i) * step);
}
const randomOf = (entry) => entry.orders.find((order) => order.name === "random");

// What the picture says, in a sentence.
function told(entry, order, step) {
  const random = randomOf(entry);
  let words =
    `${percent(entry.shares[step])} of the heads removed (${entry.removed[step]} of ` +
    `${entry.removed.at(-1)}): ${entry.metric} ${score(entry, order, step)} in the order “${order.title}”`;
  if (order.interval) {
    const [low, high] = order.interval[step];
    words += `, 95% interval ${number(low)} to ${number(high)}`;
  }
  if (random && random !== order) words += `; ${score(entry, random, step)} in random order`;
  return `${words}; ${score(entry, order, 0)} with all heads.`;
}

function headMap(entry, order, step, width) {
  const gone = new Set((order.heads ?? []).slice(0, entry.removed[step]));
  const drawing = svg("svg", { class: "map", role: "img" });
  let number = 0;
  let y = 0;
  for (const [kind, layers, heads] of entry.kinds) {
    const size = Math.min(24, Math.floor(width / heads));
    if (kind !== "self") {
      y += 20;
      drawing.append(svg("text", { x: 0, y: y - 6 }, kind));
    }
    for (let layer = 0; layer < layers; layer += 1) {
      for (let head = 0; head < heads; head += 1) {
        const state = order.heads === null ? "unknown" : gone.has(number) ? "gone" : "kept";
        const cell = svg("rect", {
          class: state, x: size * head, y: y + size * layer, width: size - 2, height: size - 2,
        });
        cell.append(svg("title", {}, `layer ${layer + 1}, head ${head + 1}: ${state}`));
        drawing.append(cell);
        number += 1;
      }
    }
    y += size * layers;
  }
  const label = order.heads === null
    ? "The stored curve does not say which heads this order removes."
    : `Map of the heads, one layer per line: ${gone.size} of ${number} are removed and drawn dark.`;
  drawing.setAttribute("aria-label", label);
  drawing.setAttribute("width", width);
  drawing.setAttribute("height", y + 4);
  return drawing;
}

function chart(entry, order, step, width) {
  const random = randomOf(entry);
  const lines = random && random !== order ? [random, order] : [order];
  const numbers = [...lines.flatMap((line) => line.mean), ...(order.interval ?? []).flat(), entry.chance];
  const marks = ticks(Math.min(...numbers), Math.max(...numbers));
  const [low, high] = [marks[0], marks.at(-1)];
  const inner = { width: width - SIZE.left - SIZE.right, height: SIZE.height - SIZE.top - SIZE.bottom };
  const x = (share) => SIZE.left + share * inner.width;
  const y = (value) => SIZE.top + (inner.height * (high - value)) / (high - low);
  const drawing = svg("svg", {
    class: "chart", role: "img", width, height: SIZE.height,
    "aria-label": `${entry.metric} against the share of heads removed`,
  });
  const text = (at, down, words, anchor = "middle", name = "") =>
    drawing.append(svg("text", { x: at, y: down, "text-anchor": anchor, class: name }, words));
  for (const value of marks) {
    drawing.append(svg("line", { class: "grid", x1: x(0), x2: x(1), y1: y(value), y2: y(value) }));
    text(x(0) - 6, y(value) + 4, number(value, marks[1] - low < 1 ? 1 : 0), "end");
  }
  for (const share of [0, 0.2, 0.4, 0.6, 0.8, 1]) text(x(share), y(low) + 18, percent(share));
  text(x(0.5), SIZE.height - 6, "share of the heads removed");
  text(0, 12, `${entry.metric}${entry.unit ? `, ${entry.unit}` : ""}`, "start");
  drawing.append(svg("line", { class: "chance", x1: x(0), x2: x(1), y1: y(entry.chance), y2: y(entry.chance) }));
  const mark = x(entry.paper.share);
  drawing.append(svg("line", { class: "paper", x1: mark, x2: mark, y1: SIZE.top, y2: y(low) }));
  text(mark, 38, `the paper: ${percent(entry.paper.share)}`, "middle", "paper");
  if (order.interval) {
    const ends = [...order.interval.map(([low], i) => [i, low]), ...order.interval.map(([, high], i) => [i, high]).reverse()];
    const points = ends.map(([i, value]) => `${x(entry.shares[i])},${y(value)}`).join(" ");
    drawing.append(svg("polygon", { class: "band", points }));
  }
  for (const line of lines) {
    const points = line.mean.map((value, i) => `${x(entry.shares[i])},${y(value)}`).join(" ");
    drawing.append(svg("polyline", { class: line === order ? "order" : "random", points }));
  }
  const at = x(entry.shares[step]);
  drawing.append(svg("line", { class: "here", x1: at, x2: at, y1: SIZE.top, y2: y(low) }));
  for (const line of lines) {
    const name = line === order ? "order" : "random";
    drawing.append(svg("circle", { class: name, cx: at, cy: y(line.mean[step]), r: 5 }));
  }
  return drawing;
}

function key(entry, order) {
  const random = randomOf(entry);
  // Random orders are drawn for the first training alone if they start from another score than the mean.
  const first = order.trainings > 1 && random?.mean[0] !== order.mean[0] ? " on the first training" : "";
  const what = (line) => (line === random ? `draws${first}` : "trainings");
  const of = (line) => (line.trainings > 1 ? `, mean of ${line.trainings} ${what(line)}` : "");
  const items = [["order", `${order.title}${of(order)}`]];
  if (random && random !== order) items.push(["random", `random order${of(random)}`]);
  if (order.interval) items.push(["band", "95% interval"]);
  items.push(["chance", "chance"]);
  items.push(["paper", `share that the paper removes without noticeable loss (${entry.paper.task})`]);
  items.push(["kept", "head kept"], ["gone", "head removed"]);
  const note = order.heads === null
    ? "The stored curve does not say which heads this order removes."
    : `Map: one layer per line, one head per column.${order.trainings > 1 ? ` The map shows the first of ${order.trainings} trainings.` : ""}`;
  const list = html("ul", { class: "key" }, ...items.map(([name, words]) => html("li", { class: name }, words)));
  return html("div", {}, list, html("p", { class: "note" }, note));
}

function show(el, data, chosen) {
  const models = [...new Set(data.map((entry) => entry.model))];
  const choices = ["model", "task", "order"].map((name) => {
    const select = html("select", { name });
    return { name, select, label: html("label", {}, `${name === "order" ? "order of removal" : name} `, select) };
  });
  const [byModel, byTask, byOrder] = choices.map((choice) => choice.select);
  const slider = html("input", { type: "range", min: 0, step: 1, name: "share" });
  const share = html("strong", {});
  const output = html("output", { "aria-live": "polite" });
  const pictures = html("div", { class: "pictures" });
  const legend = html("div", {});
  el.replaceChildren(
    html("div", { class: "choices" }, ...choices.map((choice) => choice.label)),
    html("label", { class: "slide" }, html("span", {}, "remove ", share, " of the heads"), slider),
    output, pictures, legend,
  );

  const fill = (select, options, value) => {
    select.replaceChildren(...options.map(([place, words]) => html("option", { value: place }, words)));
    select.value = value;
  };
  const choose = (change) => {
    Object.assign(chosen, change);
    draw();
  };
  const nearest = (entry, wanted) =>
    entry.shares.reduce((best, each, i) =>
      Math.abs(each - wanted) < Math.abs(entry.shares[best] - wanted) ? i : best, 0);
  // Another curve, at the same share and, where it has it, in the same order.
  const move = (place) => {
    const { entry, order, step } = chosen;
    const name = data[entry].orders[order].name;
    const same = data[place].orders.findIndex((one) => one.name === name);
    choose({ entry: place, order: Math.max(0, same), step: nearest(data[place], data[entry].shares[step]) });
  };

  function draw() {
    const entry = data[chosen.entry];
    const order = entry.orders[chosen.order];
    const tasks = data.flatMap((one, i) => (one.model === entry.model ? [[i, one.task]] : []));
    fill(byModel, models.map((name) => [name, name]), entry.model);
    fill(byTask, tasks, chosen.entry);
    fill(byOrder, entry.orders.map((one, i) => [i, one.title]), chosen.order);
    slider.max = entry.shares.length - 1;
    slider.value = chosen.step;
    share.textContent = percent(entry.shares[chosen.step]);
    const words = told(entry, order, chosen.step);
    slider.setAttribute("aria-valuetext", words);
    output.textContent = words;
    const width = Math.floor(pictures.clientWidth);
    if (width === 0) return; // not shown, as on paper
    const each = width >= 640 ? Math.floor((width - 24) / 2) : width;
    pictures.replaceChildren(
      headMap(entry, order, chosen.step, each), chart(entry, order, chosen.step, each),
    );
    legend.replaceChildren(key(entry, order));
  }

  byModel.addEventListener("change", () => move(data.findIndex((one) => one.model === byModel.value)));
  byTask.addEventListener("change", () => move(Number(byTask.value)));
  byOrder.addEventListener("change", () => choose({ order: Number(byOrder.value) }));
  slider.addEventListener("input", () => choose({ step: Number(slider.value) }));
  let width = el.clientWidth;
  new ResizeObserver(() => {
    if (el.clientWidth !== width) draw();
    width = el.clientWidth;
  }).observe(el);
  draw();
}

const { data, chosen } = JSON.parse(document.getElementById("explorer-data").textContent);
document.getElementById("removal").classList.add("moves"); // shown, so that it has a width
show(document.getElementById("explorer"), data, chosen);
