"""Every page of the built book: whole, linked, offline, and for readers with aids, in a browser."""

import gzip
import json
import re
from importlib.metadata import files
from urllib.parse import unquote, urlparse

import pytest
from browser import Visit, contents, needs_chromium, served
from bs4 import BeautifulSoup

pytestmark = pytest.mark.slow

PAPER = [f"notebooks/0{i}" for i in range(1, 10)]
WIDTHS = (1400, 390)
# One page of each kind, which every run looks at in two ways; all of them in all ways nightly.
KINDS = (
    *("index.html", "notebooks/04_iterative_pruning.html", "book/prune.html", "book/api.html"),
    *("book/claims.html", "book/results.html", "book/references.html", "search.html"),
)
CONTENTS = (*contents(), "genindex.html", "search.html")
WAYS = [(width, mode) for width in WIDTHS for mode in ("light", "dark")]

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "manifest"}
HEAVIEST = 2.5e6  # bytes of a page and all that it loads, compressed as web servers send it
FRONT_HEAVIEST = 1.2e6
MOST_SHIFT = 0.05  # half of what Web Vitals calls good
# 6,000 pixels here, and a tenth more where other fonts stand in; the reference is looked up, not read.
HIGHEST = 6_600
READ = {"index.html", *contents()} - {"book/api.html"}
LEFT_OVER = re.compile(r"^\s*\|.*\||\]\(|\{\w+\}`|```|\*\*|^\s*#+ ", re.MULTILINE)
HYPHEN = re.compile(r"(?<![\w.)\]/–−-])-(?=\.?\d)")  # in place of a minus sign
NOT_READ = ["code", "pre", "script", "style"]

TOLD = """new Promise(done => { let shift = 0;
  new PerformanceObserver(list => list.getEntries().forEach(
    one => { if (!one.hadRecentInput) shift += one.value; })
  ).observe({type: "layout-shift", buffered: true});
  const small = [...document.querySelectorAll(".paper-figure svg")]
    .filter(svg => svg.getClientRects().length)
    .map(svg => [svg.parentElement.id, Math.min(...[...svg.querySelectorAll("text, tspan")].map(text => {
      const shown = text.getScreenCTM();
      return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(shown.a, shown.b); }))])
    .filter(([name, size]) => size < 10);
  Promise.resolve(window.MathJax?.startup?.promise).then(() => setTimeout(() => done(JSON.stringify(
    {shift, small, width: document.documentElement.scrollWidth,
     height: document.documentElement.scrollHeight, markup: document.documentElement.outerHTML}
  )), 300)); })"""
# Entries of the reference, rows of a table and marks of a figure are made alike: the first of them
# are looked at. With all of them, 17,000 nodes on one page, the test took 1.7 times as long. What is
# folded is looked at, too.
AXE = """document.querySelectorAll(
    "dl.py ~ dl.py, tbody tr:nth-child(n + 21), .paper-figure svg :is(path, use)"
  ).forEach(one => one.remove());
  document.querySelectorAll("details").forEach(one => { one.open = true; });
  axe.run().then(found => JSON.stringify(found.violations.map(
  one => [one.id, one.nodes.slice(0, 3).map(node => node.target.join(" "))])))"""


@pytest.mark.parametrize("start", PAPER)
def test_a_page_of_the_paper_answers_first_and_describes_its_figures(start, pages):
    (page,) = (page for name, page in pages.items() if name.startswith(start))
    article = page.select_one("article")
    first = [*article.h2.find_all_previous("p")]  # above the first section
    assert any(words.get_text().startswith("The answer.") for words in first)
    shown = article.select(".cell:not(.tag_hide-input) .cell_input")
    assert len(shown) >= 4, "a page shows its code"
    assert "headprune reproduce" in article.get_text()
    for picture in page.select(".paper-figure svg"):
        told = picture["aria-label"]
        assert sum(word[0].isdigit() for word in told.replace("−", "").split()) >= 4, told


def test_no_page_shows_an_error_left_over_markup_or_a_hyphen_for_a_minus_sign(pages):
    assert {"index.html", *contents()} <= pages.keys()
    for name, page in pages.items():
        assert not page.select(".output.traceback, .output.stderr"), name
        assert "Traceback (most recent call last)" not in page.get_text(), name
        # A term that follows a description without an empty line between becomes a part of it.
        assert not page.select("dl.simple dd + dd"), name
        for paragraph in page.select("article p"):
            prose = [one for one in paragraph.find_all(string=True) if not one.find_parent("code")]
            assert not LEFT_OVER.search("".join(prose)), f"{name}: {prose}"
        for article in page.select("article"):
            for text in article.find_all(string=HYPHEN):
                read = not text.find_parent(NOT_READ) and not text.find_parent(
                    class_=["math", "sig"]
                )
                assert not read, f"{name}: {text}"
        for image in page.find_all("img"):
            alt = image.get("alt", "").strip()
            # Without alt text Sphinx puts the file's path there.
            assert alt and "_images/" not in alt, f"{name}: {image}"


def test_nothing_is_loaded_from_elsewhere_and_every_link_leads_somewhere(site, pages):
    lost = []
    places = {name: {one["id"] for one in page.select("[id]")} for name, page in pages.items()}
    for name, page in pages.items():
        for tag, attribute in LOADS.items():
            for element in page.find_all(tag):
                if tag != "link" or LOADED_LINKS & set(element.get("rel", [])):
                    assert not re.match(r"(https?:)?//", element.get(attribute, "")), (
                        name,
                        element,
                    )
        for link in page.select("article a[href]"):
            address = urlparse(link["href"])
            if address.scheme or address.netloc:
                continue
            target = (site / name).parent / unquote(address.path) if address.path else site / name
            there = target.exists()
            if there and address.fragment and target.suffix == ".html":
                other = str(target.resolve().relative_to(site.resolve()))
                there = unquote(address.fragment) in places[other]
            if not there:
                lost.append(f"{name}: {link['href']}")
    assert not lost


@pytest.fixture(scope="module")
def visits(site, pages, browser) -> dict[tuple[str, int], tuple[Visit, dict]]:
    """What became of every page, and what ``TOLD`` says of it: wide from a server, narrow from a file."""
    found = {}
    with served(site) as address:
        for name in pages:
            for width, where in zip(
                WIDTHS, (f"{address}/{name}", (site / name).as_uri()), strict=True
            ):
                for _ in range(2):  # a busy machine sets formulas late: then a second time
                    visit = browser.visit(where, width, TOLD)
                    found[name, width] = visit, (told := json.loads(visit.markup))
                    if told["shift"] < MOST_SHIFT:
                        break
    return found


@needs_chromium
def test_every_page_works_in_a_browser(site, pages, visits):
    """Without an error, typeset, no larger than is read, light, at rest, its figures readable."""
    problems = []
    for (name, width), (visit, told) in visits.items():
        problems += [f"{name} at {width}: {problem}" for problem in visit.problems]
        if told["shift"] >= MOST_SHIFT or told["small"] or told["width"] > width:
            problems.append(f"{name} at {width}: {told['shift'], told['small'], told['width']}")
        if width != WIDTHS[0]:
            continue
        sent = sum(len(gzip.compress((site / path[1:]).read_bytes())) for path in visit.loaded)
        heaviest = FRONT_HEAVIEST if name == "index.html" else HEAVIEST
        if not (len(visit.loaded) > 3 and sent < heaviest):
            problems.append(f"{name}: {sent} bytes")
        if name in READ and told["height"] > HIGHEST:
            problems.append(f"{name}: {told['height']} pixels high")
        rendered = BeautifulSoup(told["markup"], "html.parser")
        if pages[name].select(".math") and not rendered.select("mjx-container"):
            problems.append(f"{name}: the formulas were not typeset")
        if rendered.select("mjx-merror, [data-mjx-error]"):
            problems.append(f"{name}: a formula has an error")
    assert not problems, "\n".join(problems)


@needs_chromium
@pytest.mark.parametrize(
    ("name", "width", "mode"),
    [
        pytest.param(
            *(name, width, mode),
            marks=[]
            if name in KINDS and (width, mode) in (WAYS[0], WAYS[-1])
            else pytest.mark.nightly,
        )
        for name in CONTENTS
        for width, mode in WAYS
    ],
)
def test_nothing_stands_in_the_way_of_readers_with_aids(name, width, mode, site, browser):
    (axe,) = (file for file in files("axe-core-python") if file.name == "axe.min.js")
    with browser.in_mode(mode):
        browser.visit((site / name).as_uri(), width)
        assert browser.value("document.documentElement.dataset.theme") == mode
        browser.value(axe.locate().read_text("utf-8") + ";0")
        assert json.loads(browser.value(AXE)) == []
