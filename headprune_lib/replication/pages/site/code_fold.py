"""The code of a notebook's page, in one fold at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes

SUMMARY = "Show all code of this page"


def code_of(notebook: Path) -> list[str]:
    """The source of every cell of code that is not empty, from top to bottom."""
    cells = nbformat.read(notebook, as_version=4).cells
    sources = (cell.source.strip() for cell in cells if cell.cell_type == "code")
    return [source for source in sources if source]


def fold(sources: list[str]) -> list[nodes.Node]:
    """A closed ``<details>`` with the cells below one another."""
    start = f'<details class="page-code"><summary>{SUMMARY}</summary>'
    blocks = [nodes.literal_block(source, source, language="python") for source in sources]
    return [
        nodes.raw("", start, format="html"),
        *blocks,
        nodes.raw("", "</details>", format="html"),
    ]


def append_code(app: Any, doctree: nodes.document) -> None:
    """Put the code of a notebook below its page; what Sphinx calls once a page is read."""
    source = Path(app.env.doc2path(app.env.docname))
    if source.suffix == ".ipynb" and (sources := code_of(source)):
        doctree[-1].extend(fold(sources))
