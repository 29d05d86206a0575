"""What the paper does not have is numbered in the order in which it is read: Table S1, Figure S1, …."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from headprune_lib.replication.pages.notebooks import notebooks_root
from headprune_lib.replication.paths import project_root

NAME = re.compile(r"(?:Table|Figure) S\d+\b")
NOTEBOOKS = sorted(
    path for path in notebooks_root().glob("*.ipynb") if not path.stem.endswith("-run")
)


def cells_of(path: Path) -> list[dict]:
    return json.loads(path.read_text("utf-8"))["cells"]


def shown_names(path: Path) -> list[str]:
    """The names in the captions of a notebook's outputs, from top to bottom."""
    found = []
    for cell in cells_of(path):
        for output in cell.get("outputs", []):
            page = BeautifulSoup(
                "".join(output.get("data", {}).get("text/html", "")), "html.parser"
            )
            words = page.select("figcaption > strong, caption strong")
            found += [one.get_text().rstrip(".") for one in words]
    return [name for name in found if NAME.fullmatch(name)]


def ascending(names: list[str]) -> bool:
    """Whether each kind's numbers rise, gaps allowed."""
    numbers = {
        kind: [int(name.rpartition("S")[2]) for name in names if name.startswith(kind)]
        for kind in ("Table", "Figure")
    }
    return all(before < after for one in numbers.values() for before, after in pairwise(one))


SHOWN = {path: shown_names(path) for path in NOTEBOOKS}


def test_supplements_are_numbered_in_the_order_of_the_pages():
    names = [name for path in NOTEBOOKS for name in SHOWN[path]]
    assert ascending(names), names
    assert sum(name.startswith("Table") for name in names) > 40
    assert sum(name.startswith("Figure") for name in names) > 15


@pytest.mark.parametrize(
    ("names", "rise"),
    [
        (["Table S1", "Figure S1", "Table S2", "Table S9", "Figure S3"], True),
        (["Table S9", "Table S10"], True),
        (["Table S2", "Figure S1", "Table S1"], False),
        (["Figure S1", "Figure S1"], False),
    ],
)
def test_numbers_out_of_order_and_twice_are_seen(names, rise):
    assert ascending(names) is rise


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_page_shows_what_its_code_names(path):
    """The stored outputs are those of the cells as they stand."""
    code = "\n".join("".join(cell["source"]) for cell in cells_of(path) if "outputs" in cell)
    named = re.findall(rf'"({NAME.pattern})"', code)
    assert [name for name in SHOWN[path] if name in named] == named


def texts() -> dict[Path, str]:
    """What is written by hand: the Markdown of notebooks, the pages, the README."""
    root = project_root()
    written = {
        path: path.read_text("utf-8")
        for path in (root / "README.md", root / "index.md", *(root / "book").glob("*.md"))
    }
    for path in NOTEBOOKS:
        cells = [cell for cell in cells_of(path) if cell["cell_type"] == "markdown"]
        written[path] = "\n".join("".join(cell["source"]) for cell in cells)
    return written


def test_a_number_that_is_mentioned_is_on_the_page_that_is_meant():
    """The one that a link leads to, otherwise the page itself."""
    found = 0
    for path, text in texts().items():
        for link in re.finditer(rf"\[({NAME.pattern})\]\(([^)#]+)[^)]*\)|({NAME.pattern})", text):
            linked, target, plain = link.groups()
            page = (path.parent / target).resolve() if target else path
            assert (linked or plain) in SHOWN.get(page, []), f"{path.name}: {link[0]}"
            found += 1
    assert found > 10
