"""The book builds without a warning, and its pages work offline in a browser."""

import gzip
import json
import re

import pytest
from browser import Visit, contents, needs_chromium, served
from bs4 import BeautifulSoup

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "manifest"}

WIDTHS = (1400, 390)
HEAVIEST = 2.5e6  # bytes of a page and all that it loads, compressed as web servers send it
# What Web Vitals calls good. On a slow machine formulas are set after the text around them has been
# shown, which moves up to half of that.
MOST_SHIFT = 0.1
TOLD = """new Promise(done => { let shift = 0;
  new PerformanceObserver(list => list.getEntries().forEach(
    one => { if (!one.hadRecentInput) shift += one.value; })
  ).observe({type: "layout-shift", buffered: true});
  Promise.resolve(window.MathJax?.startup?.promise).then(() => setTimeout(() => done(JSON.stringify(
    {shift, width: document.documentElement.scrollWidth, markup: document.documentElement.outerHTML}
  )), 300)); })"""

LEFT_OVER = re.compile(r"^\s*\|.*\||\]\(|\{\w+\}`|```|\*\*|^\s*#+ ", re.MULTILINE)

pytestmark = pytest.mark.slow


def test_every_page_of_the_contents_is_there(site, pages):
    assert {"index.html", *contents()} <= pages.keys()


def test_every_image_has_alt_text(pages):
    for name, page in pages.items():
        for image in page.find_all("img"):
            alt = image.get("alt", "").strip()
            # Without alt text Sphinx puts the file's path there.
            assert alt and "_images/" not in alt, f"{name}: {image}"


def test_no_page_shows_an_error(pages):
    for name, page in pages.items():
        assert not page.select(".output.traceback, .output.stderr"), name
        assert "Traceback (most recent call last)" not in page.get_text(), name


def test_no_markup_is_left_as_text(pages):
    for name, page in pages.items():
        for paragraph in page.select("article p"):
            prose = [one for one in paragraph.find_all(string=True) if not one.find_parent("code")]
            text = "".join(prose)
            assert not LEFT_OVER.search(text), f"{name}: {text}"
        # A term that follows a description without an empty line between becomes a part of it.
        assert page.select("dl.simple dd + dd") == [], name


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("| cell | another |", True),
        ("see [the page](page.md)", True),
        ("{term}`head`", True),
        ("**answer", True),
        ("a int | None", False),
        ("kept (2 of 3) [1, 2]", False),
    ],
)
def test_left_over_markup_is_seen(text, left):
    assert bool(LEFT_OVER.search(text)) == left


def test_nothing_is_loaded_from_elsewhere(pages):
    for name, page in pages.items():
        for tag, attribute in LOADS.items():
            for element in page.find_all(tag):
                if tag == "link" and not LOADED_LINKS & set(element.get("rel", [])):
                    continue
                address = element.get(attribute, "")
                assert not re.match(r"(https?:)?//", address), f"{name}: {element}"


@needs_chromium
@pytest.mark.parametrize(
    ("markup", "problem"),
    [
        ("<p>all is well</p><script>console.log('so')</script>", None),
        ("<script>undefined.x</script>", "exception: TypeError"),
        ("<script>console.error('broken')</script>", "console: broken"),
        ("<img src='missing.png' alt='nothing'>", "request: 404"),
        ("<script src='https://example.org/x.js'></script>", "request: net::ERR_NAME_NOT"),
        ("<style>@import url(http://example.org/x.css)</style>", "request: net::ERR_NAME_NOT"),
    ],
)
def test_the_browser_reports_what_is_wrong(markup, problem, browser, tmp_path):
    (tmp_path / "page.html").write_text(f"<link rel='icon' href='data:,'>{markup}")
    with served(tmp_path) as address:
        problems = browser.visit(f"{address}/page.html").problems
    if problem is None:
        assert not problems
    else:
        assert any(found.startswith(problem) for found in problems), problems


@pytest.fixture(scope="module")
def visits(site, pages, browser) -> dict[tuple[str, int], tuple[Visit, dict]]:
    """What became of every page at each width, and what ``TOLD`` says of it."""
    found = {}
    with served(site) as address:
        for name in pages:
            for width in WIDTHS:
                visit = browser.visit(f"{address}/{name}", width, TOLD)
                found[name, width] = visit, json.loads(visit.markup)
    return found


@needs_chromium
def test_every_page_works_in_a_browser(pages, visits):
    problems = []
    for (name, width), (visit, told) in visits.items():
        problems += [f"{name}: {problem}" for problem in visit.problems]
        if width < max(WIDTHS):
            continue
        rendered = BeautifulSoup(told["markup"], "html.parser")
        if pages[name].select(".math") and not rendered.select("mjx-container"):
            problems.append(f"{name}: the formulas were not typeset")
        for error in rendered.select("mjx-merror, [data-mjx-error]"):
            problems.append(f"{name}: {error}")
    assert not problems, "\n".join(problems)


@needs_chromium
def test_no_page_is_wider_than_a_phone(visits):
    widths = {name: told["width"] for (name, width), (_, told) in visits.items() if width == 390}
    assert widths and not {name: width for name, width in widths.items() if width > 390}


@needs_chromium
def test_no_page_is_heavy(site, visits):
    for (name, width), (visit, _) in visits.items():
        sent = sum(len(gzip.compress((site / path[1:]).read_bytes())) for path in visit.loaded)
        assert len(visit.loaded) > 3 and sent < HEAVIEST, (name, width, sent)


@needs_chromium
def test_nothing_moves_while_a_page_loads(visits):
    assert not {
        where: told["shift"] for where, (_, told) in visits.items() if told["shift"] >= MOST_SHIFT
    }
