"""The pages of the paper's sections, as a reader meets them in a browser."""

import json
import re
from importlib.metadata import files
from urllib.parse import quote, unquote, urlparse

import pytest
from browser import contents, needs_chromium, served

from headprune_lib.replication.paths import project_root

pytestmark = pytest.mark.slow

# Every table and figure of the paper, and the page that shows it.
ARTIFACTS = {
    "notebooks/01_one_head.html": ("table-1", "figure-1"),
    "notebooks/02_all_but_one.html": ("table-2", "table-3", "table-5", "table-6"),
    "notebooks/03_across_datasets.html": ("figure-2a", "figure-2b"),
    "notebooks/04_iterative_pruning.html": (
        *("figure-3a", "figure-3b", "figure-6"),
        *("figure-6a", "figure-6b", "figure-6c", "figure-6d"),
    ),
    "notebooks/05_speed.html": ("table-4",),
    "notebooks/06_attention_types.html": ("figure-4",),
    "notebooks/07_training_dynamics.html": ("figure-5",),
}
CONTENTS = (*contents(), "genindex.html", "search.html")
PAGES = (*ARTIFACTS, "notebooks/08_translation_models.html", "notebooks/09_independent.html")
WIDTHS, MODES = (1400, 390), ("light", "dark")
WAYS = [(width, mode) for width in WIDTHS for mode in MODES]
# One page of each kind, which every run looks at in two ways; all of them in all ways nightly.
KINDS = ("notebooks/04_iterative_pruning.html", "book/prune.html", "book/api.html", "search.html")
TWO_WAYS = ((1400, "light"), (390, "dark"))
HYPHEN = re.compile(r"(?<![\w.)\]/–−-])-(?=\.?\d)")  # in place of a minus sign
NOT_READ = ["code", "pre", "script", "style"]

SMALLEST_TEXT = """JSON.stringify([...document.querySelectorAll(".paper-figure svg")]
  .filter(svg => svg.getClientRects().length)
  .map(svg => [svg.parentElement.id, Math.min(...[...svg.querySelectorAll("text, tspan")].map(text => {
    const shown = text.getScreenCTM();
    return parseFloat(getComputedStyle(text).fontSize) * Math.hypot(shown.a, shown.b);
  }))]))"""
# Entries of the reference, rows of a table and marks of a figure are made alike: the first of them
# are looked at. With all of them, 17,000 nodes on one page, the test took 1.7 times as long.
AXE = """document.querySelectorAll(
    "dl.py ~ dl.py, tbody tr:nth-child(n + 21), .paper-figure svg :is(path, use)"
  ).forEach(one => one.remove());
  axe.run().then(found => JSON.stringify(found.violations.map(
  one => [one.id, one.nodes.slice(0, 3).map(node => node.target.join(" "))])))"""
FIRST_FOUND = """new Promise(done => {
  const look = () => {
    const found = document.querySelector("#search-results ul.search li a");
    found ? done(found.getAttribute("href")) : setTimeout(look, 100);
  };
  look();
  setTimeout(() => done("nothing"), 20000);
})"""


def in_mode(browser, mode):
    browser.call(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}]
    )


def evaluated(browser, script):
    result = browser.call(
        "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
    )
    return json.loads(result["result"]["value"])


@pytest.mark.parametrize("name", ARTIFACTS)
def test_every_table_and_figure_of_the_paper_is_on_its_page(name, pages):
    for anchor in ARTIFACTS[name]:
        assert len(pages[name].select(f"[id={anchor}]")) >= 1, anchor
        kind, _, number = anchor.partition("-")
        shown = pages[name].select("figcaption" if kind == "figure" else "caption")
        title = f"{kind.title()} {number.rstrip('abcd') if number[0] == '6' else number}."
        assert any(words.get_text().startswith(title) for words in shown), title


@pytest.mark.parametrize("name", PAGES)
def test_a_page_answers_first_and_shows_its_method_and_its_command(name, pages):
    article = pages[name].select_one("article")
    assert article.select_one("h1 ~ p").get_text().startswith("The answer.")
    assert article.select_one(".highlight-python"), "no code is shown"
    assert "headprune reproduce" in article.get_text()
    assert "Show code cell source" not in article.get_text()


@pytest.mark.parametrize("name", PAGES)
def test_every_figure_is_described_with_numbers(name, pages):
    pictures = pages[name].select(".paper-figure svg")
    assert bool(pictures) == bool(pages[name].select("figcaption"))
    for picture in pictures:
        told = picture["aria-label"]
        assert sum(word[0].isdigit() for word in told.replace("−", "").split()) >= 4, told


@pytest.mark.parametrize("name", PAGES)
def test_every_table_has_a_caption_and_a_number_of_its_own(name, pages):
    frames = pages[name].select("div.table-frame[id]")
    names = [frame.caption.strong.get_text() for frame in frames]
    assert len(names) == len(set(names))
    plain = pages[name].select(".table-frame:not([id])")
    assert len(plain) <= 1  # how to measure again has none


def test_the_code_of_a_notebook_is_in_one_fold_at_its_end(pages):
    checked = 0
    for name, page in pages.items():
        folds = page.select("article details.page-code")
        assert len(folds) == name.startswith("notebooks/"), name
        for fold in folds:
            assert not fold.has_attr("open")
            after = fold.find_next(["p", "h2", "table", "figure"])
            while after is not None and fold in after.parents:
                after = after.find_next(["p", "h2", "table", "figure"])
            assert after is None or after.find_parent("article") is None, name
            notebook = (project_root() / name).with_suffix(".ipynb")
            sources = [
                "".join(cell["source"]).strip()
                for cell in json.loads(notebook.read_text("utf-8"))["cells"]
                if cell["cell_type"] == "code"
            ]
            shown = [block.get_text().strip() for block in fold.select(".highlight pre")]
            assert shown == [source for source in sources if source], name
            checked += 1
    assert checked >= 12


def test_negative_numbers_have_a_minus_sign(pages):
    hyphens = [
        (name, str(text)[:60])
        for name, page in pages.items()
        for article in page.select("article")
        for text in article.find_all(string=HYPHEN)
        if not text.find_parent(NOT_READ) and not text.find_parent(class_=["math", "sig"])
    ]
    assert not hyphens


def test_a_table_of_the_book_itself_has_a_caption_and_another_number(pages):
    captions = {
        name: [one.get_text() for one in page.select("article .caption-number")]
        for name, page in pages.items()
    }
    numbers = [number.strip() for found in captions.values() for number in found]
    assert len(numbers) == len(set(numbers)) > 10
    assert all(number.startswith("Table B") for number in numbers)
    for name in ("rerun", "rules", "prune", "models"):
        tables = pages[f"book/{name}.html"].select("article table.table")
        assert tables and all(table.caption for table in tables), name


def test_every_supplement_is_numbered_once(pages):
    names = [
        words.strong.get_text()
        for name in pages
        if name.startswith("notebooks/")  # another page may show a table of theirs again
        for words in pages[name].select("article figcaption, article .table-frame caption")
    ]
    assert len(names) == len(set(names)) and len(names) > 40


def test_every_link_leads_somewhere(site, pages):
    lost = []
    for name, page in pages.items():
        for link in page.select("article a[href]"):
            address = urlparse(link["href"])
            if address.scheme or address.netloc:
                continue
            target = (site / name).parent / unquote(address.path) if address.path else site / name
            if not target.exists():
                lost.append(f"{name}: {link['href']}")
            elif address.fragment and target.suffix == ".html":
                other = pages[str(target.resolve().relative_to(site.resolve()))]
                if not other.find(id=unquote(address.fragment)):
                    lost.append(f"{name}: {link['href']}")
    assert not lost


@needs_chromium
def test_text_of_figures_can_be_read_at_the_width_shown(site, browser):
    small = []
    with served(site) as address:
        for name in PAGES:
            for width in WIDTHS:
                found = json.loads(browser.visit(f"{address}/{name}", width, SMALLEST_TEXT).markup)
                small += [(name, width, *one) for one in found if one[1] < 10]
    assert not small


@needs_chromium
@pytest.mark.parametrize(
    ("name", "width", "mode"),
    [
        pytest.param(
            *(name, width, mode),
            marks=[] if name in KINDS and (width, mode) in TWO_WAYS else [pytest.mark.nightly],
        )
        for name in CONTENTS
        for width, mode in WAYS
    ],
)
def test_nothing_stands_in_the_way_of_readers_with_aids(name, width, mode, site, browser):
    (axe,) = (file for file in files("axe-core-python") if file.name == "axe.min.js")
    in_mode(browser, mode)
    with served(site) as address:
        browser.visit(f"{address}/{name}", width)
        browser.call("Runtime.evaluate", expression=axe.locate().read_text("utf-8"))
        violations = evaluated(browser, AXE)
    in_mode(browser, "light")
    assert not violations


@needs_chromium
def test_every_page_works_from_a_file(site, pages, browser):
    problems = [
        f"{name}: {problem}"
        for name in pages
        for problem in browser.visit((site / name).as_uri()).problems
    ]
    assert not problems


@needs_chromium
def test_a_long_table_scrolls_in_a_frame_and_is_searched(site, browser):
    script = """(() => {
      const table = document.querySelector("table.long");
      const frame = table.closest(".pst-scrollable-table-container");
      const rows = () => [...table.tBodies[0].rows].filter(row => row.getClientRects().length);
      const before = rows().length;
      const input = document.querySelector(".row-search input");
      input.value = "BERT passed";
      input.dispatchEvent(new Event("input"));
      return JSON.stringify([before, rows().map(row => row.textContent.toLowerCase()),
        document.querySelector(".row-search output").textContent, frame.tabIndex,
        document.documentElement.scrollHeight]);
    })()"""
    settled = f"new Promise(done => setTimeout(() => done({script}), 300))"
    for width in WIDTHS:
        found = browser.visit((site / "book/models.html").as_uri(), width, settled).markup
        before, shown, said, place, height = json.loads(found)
        assert 0 < len(shown) < before and said == f"{len(shown)} of {before}"
        assert all("bert" in row and "passed" in row for row in shown)
        assert place == 0 and height < 6000


@needs_chromium
def test_a_search_for_a_table_finds_its_page_first(site, browser):
    with served(site) as address:
        for words, page in (
            ("Table 1", "notebooks/01_one_head.html"),
            ("Table 5", "notebooks/02_all_but_one.html"),
            ("Figure 4", "notebooks/06_attention_types.html"),
        ):
            found = browser.visit(f"{address}/search.html?q={quote(words)}", script=FIRST_FOUND)
            assert found.markup.startswith(page), (words, found.markup)


@needs_chromium
def test_a_table_is_sorted_by_the_header_that_is_pressed(site, browser):
    script = """(() => {
      const table = document.querySelector("table.sortable:has(tbody tr:nth-child(4))");
      const header = [...table.tHead.rows[0].cells]
        .findIndex(cell => cell.textContent.startsWith("accuracy"));
      const cells = () => [...table.tBodies[0].rows].map(row => Number(row.cells[header].textContent));
      const button = table.tHead.rows[0].cells[header].querySelector("button");
      button.click();
      const up = cells();
      button.click();
      return JSON.stringify([up, cells(), table.tHead.rows[0].cells[header].getAttribute("aria-sort")]);
    })()"""
    with served(site) as address:
        shown = browser.visit(f"{address}/notebooks/01_one_head.html", script=script).markup
    up, down, state = json.loads(shown)
    assert up == sorted(up) and down == up[::-1] and len(set(up)) > 2 and state == "descending"
