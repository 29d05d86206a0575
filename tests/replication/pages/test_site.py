"""The book builds without a warning, and its pages work offline in a browser."""

import re

import pytest
from browser import needs_chromium, served
from bs4 import BeautifulSoup

from headprune_lib.replication.paths import project_root

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "manifest"}

pytestmark = pytest.mark.slow


def test_every_page_of_the_contents_is_there(site, pages):
    files = re.findall(r"(?:root|file): (\S+)", (project_root() / "_toc.yml").read_text())
    assert {"index.html", *(f"{file}.html" for file in files)} <= pages.keys()


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


def test_nothing_is_loaded_from_elsewhere(pages):
    for name, page in pages.items():
        for tag, attribute in LOADS.items():
            for element in page.find_all(tag):
                if tag == "link" and not LOADED_LINKS & set(element.get("rel", [])):
                    continue
                address = element.get(attribute, "")
                assert not re.match(r"(https?:)?//", address), f"{name}: {element}"


FIRST_PAGE = "book/intro.html"


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


@needs_chromium
def test_every_page_works_in_a_browser(site, pages, browser):
    problems = []
    with served(site) as address:
        for name, page in pages.items():
            if name == "index.html":  # it leads on at once, to a page that is visited itself
                assert page.select_one("meta[http-equiv=refresh]")["content"].endswith(FIRST_PAGE)
                continue
            visit = browser.visit(f"{address}/{name}")
            problems += [f"{name}: {problem}" for problem in visit.problems]
            rendered = BeautifulSoup(visit.markup, "html.parser")
            if page.select(".math") and not rendered.select("mjx-container"):
                problems.append(f"{name}: the formulas were not typeset")
            for error in rendered.select("mjx-merror, [data-mjx-error]"):
                problems.append(f"{name}: {error}")
    assert not problems, "\n".join(problems)


@needs_chromium
def test_no_page_is_wider_than_a_phone(site, pages, browser):
    script = "String(document.documentElement.scrollWidth)"
    with served(site) as address:
        widths = {
            name: int(browser.visit(f"{address}/{name}", 390, script).markup)
            for name in pages
            if name != "index.html"  # it only leads on to the first page
        }
    assert not {name: width for name, width in widths.items() if width > 390}
