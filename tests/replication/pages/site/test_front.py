"""The front page in a browser: what it shows, weighs and asks for, and who can use it."""

import json
from pathlib import Path

import axe_core_python
import pytest
from browser import needs_chromium, served

from headprune_lib.replication.claims.evidence import all_verdicts
from headprune_lib.replication.pages.site.answer import answer, tally
from headprune_lib.replication.store import Key

pytestmark = [pytest.mark.slow, needs_chromium]

FRONT, LARGEST, MOST_SHIFT = "index.html", 1_200_000, 0.05
WIDTHS, MODES = (1400, 390), ("light", "dark")
AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
READ = "document.querySelector('.explorer output').textContent"


def settle(script):
    """The value of an expression once the page has come to rest."""
    return f"new Promise(done => setTimeout(() => done(String({script})), 400))"


def press(browser, key, times=1):
    for _ in range(times):
        for kind in ("keyDown", "keyUp"):
            browser.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=
                {"ArrowRight": 39, "ArrowLeft": 37, "Tab": 9}[key],
            )  # fmt: skip


def value(browser, script):
    found = browser.call(
        "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
    )
    return found["result"].get("value")


def in_mode(browser, mode):
    features = [{"name": "prefers-color-scheme", "value": mode}]
    browser.call("Emulation.setEmulatedMedia", features=features)


def stored(name):
    measurement, rest = name.split("/")
    return json.loads(Key(measurement, *rest.split(".")).path().read_text())["values"]


def chosen(browser):
    return value(
        browser,
        """(() => { const {data} = JSON.parse(document.getElementById("explorer-data").textContent);
        const [model, task, order] = ["model", "task", "order"].map(
            (name) => document.querySelector(`.explorer select[name=${name}]`).value);
        const entry = data[Number(task)];
        return {id: entry.id, metric: entry.metric, unit: entry.unit,
                order: entry.orders[Number(order)].name,
                step: Number(document.querySelector(".explorer input").value)}; })()""",
    )


def test_the_title_is_the_answer(pages):
    page = pages[FRONT]
    assert page.h1.get_text().removesuffix("#").strip() == answer(all_verdicts())
    assert page.select_one("meta[name=description]")["content"] == tally(all_verdicts())
    assert page.select_one("meta[property='og:title']")["content"] in page.h1.get_text()
    assert len(page.select("article.claim")) == 8
    assert not page.select("meta[http-equiv=refresh]")


@pytest.mark.parametrize("where", ["served", "file", "subfolder"])
def test_the_slider_shows_what_the_file_holds(site, browser, where, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "book").symlink_to(site)
    with served(tmp_path if where == "subfolder" else site) as address:
        start = {
            "served": f"{address}/{FRONT}",
            "file": (site / FRONT).as_uri(),
            "subfolder": f"{address}/deep/book/{FRONT}",
        }[where]
        visit = browser.visit(start, script=settle(READ))
        assert not visit.problems
        before = chosen(browser)
        value(browser, "document.querySelector('.explorer input').focus()")
        press(browser, "ArrowRight", 3)
        after = chosen(browser)
        assert after == {**before, "step": before["step"] + 3}
        curve = stored(after["id"])["curves"][after["order"]]
        said = value(browser, READ)
        share = stored(after["id"])["shares"][after["step"]]
        assert said.startswith(f"{share:.0%} of the heads removed")
        assert f"accuracy {100 * curve['mean'][after['step']]:.1f}%" in said
        low, high = curve["interval"][after["step"]]
        assert f"95% interval {100 * low:.1f} to {100 * high:.1f}" in said
        dark = value(browser, "document.querySelectorAll('.explorer rect.gone').length")
        assert f"({dark} of " in said


def test_every_stored_curve_can_be_chosen(site, browser):
    browser.visit((site / FRONT).as_uri(), script=settle(READ))
    models = value(
        browser, "[...document.querySelector('.explorer select[name=model]')].map(o => o.value)"
    )
    seen = set()
    for model in models:
        select = """(name, place) => { const one = document.querySelector(
            `.explorer select[name=${name}]`); one.value = place;
            one.dispatchEvent(new Event("change")); }"""
        value(browser, f"({select})('model', {json.dumps(model)})")
        tasks = value(
            browser, "[...document.querySelector('.explorer select[name=task]')].map(o => o.value)"
        )
        for task in tasks:
            value(browser, f"({select})('task', {json.dumps(task)})")
            now = chosen(browser)
            seen.add(now["id"])
            values = stored(now["id"])
            score = (
                values["curves"][now["order"]]["mean"]
                if "curves" in values
                else values["orders"][now["order"]]["score"]
            )[now["step"]]
            said = value(browser, READ)
            scale = 1 if now["metric"] == "BLEU" else 100
            shown = said.split(f": {now['metric']} ")[1].split(now["unit"] or " ")[0]
            number = float(shown.replace("−", "-"))
            assert number == pytest.approx(scale * score, abs=0.051), said
    count = "JSON.parse(document.getElementById('explorer-data').textContent).data.length"
    assert len(seen) == value(browser, count)


def test_without_scripts_and_on_paper_the_picture_is_still(site, browser):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.visit((site / FRONT).as_uri(), script="''")
        shown = "getComputedStyle(document.querySelector('{}')).display"
        assert value(browser, shown.format(".removal .still")) != "none"
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    browser.visit((site / FRONT).as_uri(), script=settle(READ))
    assert value(browser, shown.format(".removal .still")) == "none"
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert value(browser, shown.format(".removal .still")) != "none"
        assert value(browser, shown.format(".removal .explorer")) == "none"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


def test_it_is_light_and_asks_nobody_else(site, browser):
    with served(site) as address:
        browser.visit(f"{address}/{FRONT}", script=settle("1"))
        asked = [
            event["params"]["request"]["url"]
            for event in browser.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        weight = sum(
            event["params"]["encodedDataLength"]
            for event in browser.events
            if event.get("method") == "Network.loadingFinished"
        )
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
    assert 100_000 < weight < LARGEST
    assert not [url for url in asked if "mathjax" in url]


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_moves_while_it_loads(site, browser, width):
    shifts = """new Promise(done => { let sum = 0;
        new PerformanceObserver(list => list.getEntries().forEach(
            one => { if (!one.hadRecentInput) sum += one.value; })
        ).observe({type: "layout-shift", buffered: true});
        setTimeout(() => done(String(sum)), 800); })"""
    with served(site) as address:
        assert float(browser.visit(f"{address}/{FRONT}", width, shifts).markup) < MOST_SHIFT


@pytest.mark.parametrize("page", [FRONT, "book/status.html", "book/references.html"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("mode", MODES)
def test_axe_finds_nothing(site, browser, page, width, mode):
    in_mode(browser, mode)
    try:
        browser.visit((site / page).as_uri(), width, settle("1"))
        assert value(browser, "document.documentElement.dataset.theme") == mode
        # what is folded is looked at, too
        value(browser, "document.querySelectorAll('details').forEach(one => { one.open = true; })")
        # rows of a table are made alike
        rows = "document.querySelectorAll('tbody tr:nth-child(n + 21)')"
        value(browser, f"{rows}.forEach(one => one.remove())")
        value(browser, AXE.read_text("utf-8") + ";0")
        found = json.loads(
            value(
                browser,
                "axe.run().then(found => JSON.stringify(found.violations.map(one => "
                "[one.id, one.nodes.map(node => node.html.slice(0, 120))])))",
            )
        )
    finally:
        in_mode(browser, "light")
    assert found == []


# The front page, and one of each kind: a notebook with tables to sort, a long table to search, code.
FOCUSED = (FRONT, "notebooks/01_one_head.html", "book/models.html", "book/prune.html")


def test_the_front_page_is_eleven_screens_of_a_phone_at_most(site, browser):
    height = browser.visit(
        (site / FRONT).as_uri(), 390, settle("document.documentElement.scrollHeight")
    ).markup
    assert int(height) < 11 * 900


@pytest.mark.parametrize("page", FOCUSED)
@pytest.mark.parametrize("width", WIDTHS)
def test_focus_is_seen_on_every_control(site, browser, page, width):
    browser.visit((site / page).as_uri(), width, settle("1"))
    hidden, seen = [], set()
    for _ in range(250):
        press(browser, "Tab")
        place, name, outline = value(
            browser,
            """(() => { const one = document.activeElement, style = getComputedStyle(one);
            return [[...document.querySelectorAll("*")].indexOf(one),
                    one === document.body ? "" : one.outerHTML.slice(0, 90),
                    style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2]; })()""",
        )
        if not name or place in seen:
            break
        seen.add(place)
        if not outline:
            hidden.append(name)
    assert len(seen) > (30 if page == FRONT else 10)
    assert hidden == []


def test_text_is_never_under_ten_pixels(site, browser):
    smallest = """(() => { const found = [];
        const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) { const one = walk.currentNode.parentElement;
            if (walk.currentNode.textContent.trim() && one.getClientRects().length) {
                const scale = one.ownerSVGElement
                    ? one.ownerSVGElement.getBoundingClientRect().width
                      / (one.ownerSVGElement.viewBox.baseVal?.width
                         || one.ownerSVGElement.getBoundingClientRect().width) : 1;
                const size = scale * parseFloat(getComputedStyle(one).fontSize);
                if (size < 10) found.push([size, one.outerHTML.slice(0, 80)]); } }
        return JSON.stringify(found); })()"""
    for width in WIDTHS:
        assert (
            json.loads(browser.visit((site / FRONT).as_uri(), width, settle(smallest)).markup) == []
        )


def test_every_link_of_the_front_page_leads_somewhere(site, pages):
    for link in pages[FRONT].select("article.bd-article a[href]"):
        path, _, anchor = link["href"].partition("#")
        if ":" in path:
            continue
        page = pages[path or FRONT]
        assert not anchor or page.find(id=anchor), link["href"]


@pytest.mark.parametrize("mode", MODES)
def test_dots_of_what_does_not_count_are_hollow(site, browser, mode):
    in_mode(browser, mode)
    fills = """JSON.stringify(["", ".not-counted "].map(which =>
        [...new Set([...document.querySelectorAll(`.dots li${which.trim()} .dot`)]
            .filter(dot => which || dot.closest(".counts"))
            .map(dot => getComputedStyle(dot).backgroundColor))]))"""
    with served(site) as address:
        full, hollow = json.loads(browser.visit(f"{address}/{FRONT}", 1400, settle(fills)).markup)
    in_mode(browser, "light")
    assert len(full) == len(hollow) == 1 and full != hollow


def test_a_table_that_is_wider_than_a_phone_says_that_it_scrolls(site, browser):
    told = """JSON.stringify([...document.querySelectorAll(".table-frame")].map(frame =>
        [frame.scrollWidth > frame.clientWidth + 1,
         frame.previousElementSibling?.className === "scroll-hint", frame.tabIndex]))"""
    with served(site) as address:
        frames = json.loads(
            browser.visit(f"{address}/notebooks/01_one_head.html", 390, settle(told)).markup
        )
    assert any(wide for wide, *_ in frames)
    assert all(hint and place == 0 for wide, hint, place in frames if wide)
