"""A page's text holds at most ten numbers; the others are in its tables and figures."""

import re

import nbformat
import pytest
from bs4 import BeautifulSoup

from headprune_lib.replication.claims.evidence import all_verdicts
from headprune_lib.replication.pages.notebooks import notebooks_root
from headprune_lib.replication.pages.site.answer import all_results, answer, how_sure, tally
from headprune_lib.replication.pages.site.cards import cards_html
from headprune_lib.replication.paths import project_root

MOST = 10
NO_TEXT = (
    r"(?ms)```.*?```",  # code
    r"`[^`]*`",
    r"(?s)\$\$.*?\$\$",  # formulas
    r"\$[^$\n]*\$",
    r"(?m)^\s*(#|>|\|).*$",  # headings, quotations, tables
    r"<[^>]*>",
    r"\{\w+:?\w*\}|\{\{.*?\}\}",  # roles, and what a page is given
    r"\]\([^)]*\)",  # addresses
)
NAMES = (
    r"(?i)\b(figures?|tables?|sections?|equation|eq\.|layers?|heads?) \w?\d[\w.]*"
    r"((, | and | or | to )\w?\d[\w.]*)*",
    r"§ ?[\d.]+",
    r"\b(\d+ [A-Z][a-z]+ )?(19|20)\d\d\b",  # dates
    r"[A-Za-z][\w-]*\d[\w.-]*",  # C3, MiniLM-L6, n512
)
NUMBER = r"[+−±-]?\d+(?:[.,]\d+)*%?"
ONE = rf"{NUMBER}(?: \[[^\]]*\])?(?: (?:to|of|of the|of its) {NUMBER})?"


def numbers(text: str) -> list[str]:
    """The numbers of a Markdown text, as digits; names that hold digits are none.

    One number is a numeral with its interval, a range ("19% to 61%"), and a part of a whole
    ("4 of 10"). One that is said twice counts twice.
    """
    for pattern in NO_TEXT + NAMES:
        text = re.sub(pattern, " ", text)
    return re.findall(ONE, re.sub(r"\s+", " ", text.replace("*", "")))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("it keeps **96.6% [95.1%, 98.1%]** at 40%", ["96.6% [95.1%, 98.1%]", "40%"]),
        ("4 of the 10 lose 19% to 61%, by −8.67", ["4 of the 10", "19% to 61%", "−8.67"]),
        ("of 9,815 pairs, 16 and 64", ["9,815", "16", "64"]),
        ("C3 of SmolLM2-135M in Tables 2 and 5, head 9 of layer 4, §3.2, 27 November 2026", []),
        ("# §4 Top 5\n`top(5)` $x_1 = 2$ [five](page_5.ipynb) {cite:t}`michel2019sixteen`", []),
    ],
)
def test_what_a_number_is(text, found):
    assert numbers(text) == found


NOTEBOOKS = sorted(notebooks_root().glob("[01][0-9]_*.ipynb"))


@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if not path.stem.endswith("-run")], ids=lambda one: one.stem
)
def test_a_notebook_has_few_numbers(path):
    cells = nbformat.read(path, as_version=4).cells
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    texts += [data["text/markdown"] for data in outputs if "text/markdown" in data]
    found = [number for text in texts for number in numbers(text)]
    assert len(found) <= MOST, found


@pytest.mark.slow
def test_the_front_page_and_each_claim_have_few_numbers():
    verdicts = all_verdicts()
    front = (project_root() / "index.md").read_text("utf-8").partition("(cite)=")[0]
    given = (answer(verdicts), tally(verdicts), how_sure(verdicts, all_results())[1])
    found = numbers("\n\n".join((front, *given)))
    assert len(found) <= MOST, found
    for card in BeautifulSoup(cards_html(verdicts), "html.parser").select("article"):
        text = "\n\n".join(part.get_text() for part in card.find_all("p", recursive=False))
        assert len(numbers(text)) <= MOST, numbers(text)
