"""What the paper does not have is numbered in the order in which it is read: Table S1, Figure S1, …."""

import re
from itertools import pairwise

import nbformat
import pytest
from bs4 import BeautifulSoup

from headprune_lib.replication.pages.notebooks import notebooks_root
from headprune_lib.replication.paths import project_root

NAME = re.compile(r"(?:Table|Figure) S\d+\b")
CELLS = {
    path: nbformat.read(path, as_version=4).cells
    for path in sorted(notebooks_root().glob("*.ipynb"))
    if not path.stem.endswith("-run")
}


def shown_names(cells) -> list[str]:
    """The names in the captions of a notebook's outputs, from top to bottom."""
    html = (
        out.get("data", {}).get("text/html", "") for one in cells for out in one.get("outputs", [])
    )
    captions = re.findall(r"<(?:figcaption|caption)>.*?</strong>", "".join(html), re.DOTALL)
    return [
        name for one in captions for name in NAME.findall(BeautifulSoup(one, "html.parser").text)
    ]


SHOWN = {path: shown_names(cells) for path, cells in CELLS.items()}


@pytest.mark.parametrize(("kind", "fewest"), [("Table", 40), ("Figure", 15)])
def test_supplements_are_numbered_in_the_order_of_the_pages(kind, fewest):
    names = [name for shown in SHOWN.values() for name in shown if name.startswith(kind)]
    numbers = [int(name.rpartition("S")[2]) for name in names]
    assert all(before < after for before, after in pairwise(numbers)), numbers
    assert len(numbers) > fewest


def test_a_number_that_is_mentioned_is_on_the_page_that_is_meant():
    """The one that a link leads to, otherwise the page itself."""
    root, found = project_root(), 0
    pages = (root / "README.md", root / "index.md", *(root / "book").glob("*.md"))
    texts = {path: path.read_text("utf-8") for path in pages}
    for path, cells in CELLS.items():
        texts[path] = "\n".join(one.source for one in cells if one.cell_type == "markdown")
    for path, text in texts.items():
        for link in re.finditer(rf"\[({NAME.pattern})\]\(([^)#]+)[^)]*\)|({NAME.pattern})", text):
            linked, target, plain = link.groups()
            page = (path.parent / target).resolve() if target else path
            assert (linked or plain) in SHOWN.get(page, []), f"{path.name}: {link[0]}"
            found += 1
    assert found > 10
