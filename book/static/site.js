// What the theme's markup lacks for screen readers.
document.addEventListener("DOMContentLoaded", () => {
  // A label that differs from the visible text hides that text from speech control.
  document.querySelectorAll(".search-button-field, summary").forEach((element) => {
    element.removeAttribute("aria-label");
  });
  document.querySelectorAll(".theme-switch").forEach((icon) => {
    icon.removeAttribute("title");
    icon.setAttribute("aria-hidden", "true");
  });
  // All that is read lies in a landmark; the theme leaves the book's title outside of them.
  const title = document.querySelector(".bd-sidebar-primary .navbar-brand")?.parentElement;
  title?.setAttribute("role", "region");
  title?.setAttribute("aria-label", "Title of the book");
  // An entry of a bibliography stands in a list: say that it is an item of it.
  document.querySelectorAll("[role=doc-biblioentry]").forEach((entry) => {
    entry.setAttribute("role", "listitem");
  });
  // Whatever is linked to is seen: what folds it opens.
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let fold = target?.closest?.("details"); fold; fold = fold.parentElement.closest("details")) {
      fold.open = true;
    }
    target?.scrollIntoView?.();
  };
  window.addEventListener("hashchange", unfold);
  if (location.hash) unfold();
});

// Tables: a header that is pressed sorts by its column, by the cells' first number or else their text. A
// long table shows its first rows and has a field to search all of them; what the page holds as data
// beside it belongs to it.
const FIRST_ROWS = 20;
const LONGER_THAN = 24;
document.addEventListener("DOMContentLoaded", () => {
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim().replaceAll("−", "-").replace(/(\d),(?=\d{3})/g, "$1");
    const found = text.match(/^[<+]?\s*(-?\d+(\.\d+)?(e[+-]?\d+)?)/);
    return found ? Number(found[1]) : text.toLowerCase();
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  const made = (cells) => {
    const row = document.createElement("tr");
    cells.forEach((text, i) => {
      const cell = document.createElement(i ? "td" : "th");
      if (!i) cell.scope = "row";
      cell.textContent = text;
      row.append(cell);
    });
    return row;
  };
  document.querySelectorAll("table.sortable, table.long").forEach((table) => {
    const body = table.tBodies[0];
    let rows = [...body.rows];
    const data = table.parentElement.querySelector(":scope > script[type='application/json']");
    let waiting = Number(data?.dataset.rows ?? 0); // rows that are not made yet
    const all = () => {
      if (waiting) rows.push(...JSON.parse(data.textContent).map(made));
      waiting = 0;
      return rows;
    };
    const linked = (row) => location.hash && row.id === decodeURIComponent(location.hash.slice(1));
    const long = Boolean(data) || rows.length > LONGER_THAN;
    let show = () => body.replaceChildren(...rows);
    if (long) {
      const input = Object.assign(document.createElement("input"), { type: "search", className: "rows-wanted" });
      const label = document.createElement("label");
      const count = document.createElement("output");
      const bar = document.createElement("p");
      bar.className = "row-search";
      label.append("Search this table ", input);
      bar.append(label, " ", count);
      show = () => {
        const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
        const found = words.length
          ? all().filter((row) => words.every((word) => row.textContent.toLowerCase().includes(word)))
          : rows;
        body.replaceChildren(...found.filter((row, i) => i < FIRST_ROWS || linked(row)));
        const total = found.length + (words.length ? 0 : waiting);
        count.textContent = `${Math.min(FIRST_ROWS, total)} of ${total.toLocaleString("en")} shown`;
      };
      input.addEventListener("input", show);
      (table.closest(".pst-scrollable-table-container, .table-frame") ?? table).before(bar);
      show();
    }
    if (rows.length < 3 || !table.classList.contains("sortable")) return;
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      if (!header.textContent.trim()) return;
      const button = document.createElement("button");
      button.className = "sort";
      button.type = "button";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => {
        const up = header.getAttribute("aria-sort") !== "ascending";
        [...table.tHead.rows[0].cells].forEach((cell) => cell.removeAttribute("aria-sort"));
        header.setAttribute("aria-sort", up ? "ascending" : "descending");
        rows = all().sort((a, b) => (up ? 1 : -1) * compare(value(a, column), value(b, column)));
        show();
      });
    });
  });
});

// What is larger than its frame can be scrolled with the keyboard, and says so.
document.addEventListener("DOMContentLoaded", () => {
  const FRAMES = ".table-frame, .scrolled, .bd-article .pst-scrollable-table-container";
  const mark = (frame) => {
    const wide = frame.scrollWidth > frame.clientWidth + 1;
    const tall = frame.scrollHeight > frame.clientHeight + 1;
    const caption = frame.querySelector(".caption-text") ?? frame.querySelector("caption");
    const words = caption?.textContent.trim() ?? "Table";
    if (frame.classList.contains("scrolled")) {
      // Made as a region with a name, which takes the focus.
    } else if (wide || tall) {
      frame.tabIndex = 0;
      frame.setAttribute("role", "group");
      frame.setAttribute("aria-label", `${words} (scrolls)`);
    } else {
      ["tabindex", "role", "aria-label"].forEach((name) => frame.removeAttribute(name));
    }
    if (wide === frame.classList.contains("scrolls")) return;
    frame.classList.toggle("scrolls", wide);
    if (wide) {
      const hint = document.createElement("p");
      hint.className = "scroll-hint";
      hint.textContent = "Wider than the screen: swipe sideways, or press Tab and the arrow keys.";
      frame.before(hint);
    } else if (frame.previousElementSibling?.className === "scroll-hint") {
      frame.previousElementSibling.remove();
    }
  };
  const watch = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));
  document.querySelectorAll(FRAMES).forEach((frame) => watch.observe(frame));
});

// Formulas stay readable as TeX where MathJax is not there.
window.addEventListener("load", () => {
  if (!window.MathJax?.version) document.documentElement.classList.add("no-mathjax");
});

// The book's own name and search stand in the sidebar: name it as a part of the page.
document.addEventListener("DOMContentLoaded", () => {
  const sidebar = document.querySelector(".bd-sidebar-primary");
  sidebar?.setAttribute("role", "region");
  sidebar?.setAttribute("aria-label", "The book");
});

// Of the reference: a signature over several lines is no list of definitions, as its parameters are
// defined further down;
// and what is wider than a phone can be scrolled with the keyboard.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("dt.sig > dl").forEach((list) => {
    const block = document.createElement("div");
    [...list.children].forEach((parameter) => {
      const line = document.createElement("div");
      line.style.marginInlineStart = "2rem";
      line.append(...parameter.childNodes);
      block.append(line);
    });
    list.replaceWith(block);
  });
  const watch = new ResizeObserver((entries) =>
    entries.forEach(({ target }) => {
      if (target.scrollWidth > target.clientWidth + 1) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }),
  );
  document.querySelectorAll("dl.py").forEach((entry) => watch.observe(entry));
});
