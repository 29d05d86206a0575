"""The front page in a browser: what it shows, and who can use it."""

import json

import pytest
from browser import needs_chromium, served, settled

from headprune_lib.replication.claims.evidence import all_verdicts
from headprune_lib.replication.pages.site.answer import summary_table, tally, title
from headprune_lib.replication.store import Key

pytestmark = [pytest.mark.slow, needs_chromium]

FRONT, CARDS = "index.html", "book/claims.html"
WIDTHS = (1400, 390)
READ = "document.querySelector('.explorer output').textContent"
CHOSEN = """(() => { const {data} = JSON.parse(document.getElementById("explorer-data").textContent);
    const [model, task, order] = ["model", "task", "order"].map(
        (name) => document.querySelector(`.explorer select[name=${name}]`).value);
    const entry = data[Number(task)];
    return {id: entry.id, metric: entry.metric, unit: entry.unit, last: data.length,
            order: entry.orders[Number(order)].name,
            step: Number(document.querySelector(".explorer input").value)}; })()"""
CHOOSE = """((name, place) => { const one = document.querySelector(
    `.explorer select[name=${name}]`); one.value = place; one.dispatchEvent(new Event("change")); })"""
OPTIONS = "[...document.querySelector('.explorer select[name=%s]')].map(one => one.value)"
FOCUSED = """(() => { const one = document.activeElement, style = getComputedStyle(one);
    return [[...document.querySelectorAll("*")].indexOf(one),
            one === document.body ? "" : one.outerHTML.slice(0, 90),
            style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2]; })()"""
SMALL_TEXT = """(() => { const found = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) { const one = walk.currentNode.parentElement;
        if (walk.currentNode.textContent.trim() && one.getClientRects().length) {
            const svg = one.ownerSVGElement, width = svg?.getBoundingClientRect().width;
            const scale = svg ? width / (svg.viewBox.baseVal?.width || width) : 1;
            const size = scale * parseFloat(getComputedStyle(one).fontSize);
            if (size < 10) found.push([size, one.outerHTML.slice(0, 80)]); } }
    return JSON.stringify(found); })()"""
FILLS = """JSON.stringify(["", ".not-counted "].map(which =>
    [...new Set([...document.querySelectorAll(`.dots li${which.trim()} .dot`)]
        .filter(dot => which || dot.closest(".counts"))
        .map(dot => getComputedStyle(dot).backgroundColor))]))"""
SEARCHED = """(() => { const field = document.querySelector(".rows-wanted");
    field.value = "language heads bible"; field.dispatchEvent(new Event("input"));
    return JSON.stringify([...document.querySelectorAll("table.long tbody tr")].map(
        row => [...row.cells].map(cell => cell.textContent))); })()"""
FRAMES = """JSON.stringify([...document.querySelectorAll(".table-frame")].filter(frame =>
    !frame.closest("details:not([open])")).map(frame => [
    frame.scrollWidth > frame.clientWidth + 1,
    frame.previousElementSibling?.className === "scroll-hint", frame.tabIndex]))"""


def press(browser, key, times=1):
    code = {"ArrowRight": 39, "Tab": 9}[key]
    for kind in ("keyDown", "keyUp") * times:
        browser.call(
            "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
        )


def stored(name):
    measurement, rest = name.split("/")
    return json.loads(Key(measurement, *rest.split(".")).path().read_text())["values"]


def test_the_title_is_the_answer(pages):
    page, verdicts = pages[FRONT], all_verdicts()
    assert page.h1.get_text().removesuffix("#").strip() == title(verdicts)
    assert page.select_one("meta[name=description]")["content"] == tally(verdicts)
    rows = page.select("table.answer tbody tr")
    assert [row.select_one(".verdict").get_text() for row in rows] == [
        *summary_table(verdicts).verdict
    ]
    assert len(pages[CARDS].select("article.claim")) == 8


def test_the_slider_shows_what_the_file_holds(site, browser, tmp_path):
    """In a folder of a server, as where the book is published."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "book").symlink_to(site)
    with served(tmp_path) as address:
        visit = browser.visit(f"{address}/deep/book/{FRONT}", script=settled(READ))
        assert not visit.problems
        before = browser.value(CHOSEN)
        browser.value("document.querySelector('.explorer input').focus()")
        press(browser, "ArrowRight", 3)
        after, said = browser.value(CHOSEN), browser.value(READ)
        gone = browser.value("document.querySelectorAll('.explorer rect.gone').length")
    step = before["step"] + 3
    assert after == {**before, "step": step}
    values = stored(after["id"])
    curve = values["curves"][after["order"]]
    low, high = curve["interval"][step]
    assert said.startswith(f"{values['shares'][step]:.0%} of the heads removed ({gone} of ")
    assert f"accuracy {100 * curve['mean'][step]:.1f}%" in said
    assert f"95% interval {100 * low:.1f} to {100 * high:.1f}" in said


def test_every_stored_curve_can_be_chosen(site, browser):
    browser.visit((site / FRONT).as_uri(), script=settled(READ))
    seen = set()
    for model in browser.value(OPTIONS % "model"):
        browser.value(f"{CHOOSE}('model', {json.dumps(model)})")
        for task in browser.value(OPTIONS % "task"):
            browser.value(f"{CHOOSE}('task', {json.dumps(task)})")
            now, said = browser.value(CHOSEN), browser.value(READ)
            seen.add(now["id"])
            values = stored(now["id"])
            by_curve = "curves" in values
            of_order = values["curves" if by_curve else "orders"][now["order"]]
            score = of_order["mean" if by_curve else "score"][now["step"]]
            shown = said.split(f": {now['metric']} ")[1].split(now["unit"] or " ")[0]
            expected = score * (1 if now["metric"] == "BLEU" else 100)
            assert float(shown.replace("−", "-")) == pytest.approx(expected, abs=0.051), said
    assert len(seen) == now["last"]


def test_there_is_a_picture_without_scripts_and_on_paper(site, browser):
    shown = "getComputedStyle(document.querySelector('.removal .{}')).display"
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.visit((site / FRONT).as_uri(), script="''")
        assert browser.value(shown.format("still svg")) != "none"
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    browser.visit((site / FRONT).as_uri(), script=settled(READ))
    assert browser.value(shown.format("still")) == "none"
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert browser.value(shown.format("pictures svg.chart")) != "none"
        assert browser.value(shown.format("choices")) != "none", "they say which model is shown"
        assert browser.value(shown.format("slide")) == "none"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("width", WIDTHS)
def test_text_is_never_under_ten_pixels(site, browser, width):
    found = browser.visit((site / FRONT).as_uri(), width, settled(SMALL_TEXT)).markup
    assert json.loads(found) == []
    assert browser.value("document.documentElement.scrollHeight") < 12 * 900  # screens of a phone


@pytest.mark.parametrize(
    ("page", "width", "fewest"),
    [
        (FRONT, 1400, 30),
        (FRONT, 390, 30),
        ("notebooks/01_one_head.html", 1400, 10),  # tables to sort
        ("book/models.html", 390, 10),  # a long table to search
    ],
)
def test_focus_is_seen_on_every_control(site, browser, page, width, fewest):
    browser.visit((site / page).as_uri(), width, settled("1"))
    hidden, seen = [], set()
    for _ in range(250):
        press(browser, "Tab")
        place, name, outline = browser.value(FOCUSED)
        if not name or place in seen:
            break
        seen.add(place)
        if not outline:
            hidden.append(name)
    assert len(seen) > fewest
    assert hidden == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_dots_of_what_does_not_count_are_hollow(site, browser, mode):
    with browser.in_mode(mode):
        full, hollow = json.loads(
            browser.visit((site / CARDS).as_uri(), 1400, settled(FILLS)).markup
        )
    assert len(full) == len(hollow) == 1 and full != hollow


def test_a_search_finds_what_the_page_holds_as_data(site, browser):
    page = (site / "book/results.html").as_uri()
    rows = json.loads(browser.visit(page, 1400, settled(SEARCHED)).markup)
    assert len(rows) == 20 and {(row[0], row[2]) for row in rows} == {("language heads", "Bible")}


def test_a_table_that_is_wider_than_a_phone_says_that_it_scrolls(site, browser):
    page = (site / "notebooks/01_one_head.html").as_uri()
    frames = json.loads(browser.visit(page, 390, settled(FRAMES)).markup)
    assert any(wide for wide, *_ in frames)
    assert all(hint and place == 0 for wide, hint, place in frames if wide)
