"""Notebooks run with a user's own parameters: marked as such, and readable without the book."""

from __future__ import annotations

import html
import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headprune_lib.replication.lazy import nbformat
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.store.files import replace_files

_RERUN = "headprune_rerun"  # in a notebook's metadata: the parameters that it was run with
_ROLE = re.compile(r"\{([a-z:]+)\}`([^`<]*?)\s*(?:<[^`>]*>)?`")


def name_of_rerun(folder: Path, stem: str, parameters: Mapping[str, Any]) -> Path:
    """The file of a run with these parameters: ``<stem>-run.ipynb``, numbered if others exist.

    A run with the same parameters replaces the one before; no other file is overwritten.
    """
    asked = json.dumps(dict(parameters), sort_keys=True)
    names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    paths = (folder / f"{name}-run.ipynb" for name in names)
    return next(path for path in paths if not path.exists() or _parameters_of(path) == asked)


def _parameters_of(path: Path) -> str | None:
    try:
        return nbformat.read(path, as_version=4).metadata.get(_RERUN)
    except (OSError, ValueError, nbformat.ValidationError):
        return None


def mark_as_rerun(notebook: nbformat.NotebookNode, parameters: Mapping[str, Any]) -> None:
    """Say at the top, in place, what was changed, and put MyST's roles into plain words."""
    notebook.metadata[_RERUN] = json.dumps(dict(parameters), sort_keys=True)
    changed = ", ".join(f"`{name} = {value!r}`" for name, value in parameters.items())
    banner = (
        f"> **This is a run with parameters of your own: {changed}.** The text was written about the "
        "committed results. Tables, figures and what a cell prints are of this run; a conclusion that "
        "this run does not bear out is marked *Not with these parameters* and given without numbers."
    )
    cell = nbformat.v4.new_markdown_cell(banner, id="rerun", metadata={"tags": ["rerun"]})
    notebook.cells.insert(0, cell)
    in_plain_words(notebook)


def in_plain_words(notebook: nbformat.NotebookNode) -> None:
    """Replace MyST's citations and links, which Jupyter shows as raw text, with plain words."""
    authors = _authors()

    def plain(text: str) -> str:
        return _ROLE.sub(lambda role: _plain(role[1], role[2], authors), text)

    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source)
        for output in cell.get("outputs", ()):
            if "text/markdown" in output.get("data", {}):
                output.data["text/markdown"] = plain(output.data["text/markdown"])


def _plain(role: str, text: str, authors: Mapping[str, tuple[str, str]]) -> str:
    if not role.startswith("cite"):
        return text
    name, year = authors.get(text, (text, ""))
    return f"{name} ({year})" if role == "cite:t" else f"({name}, {year})"


def _authors() -> dict[str, tuple[str, str]]:
    """Key of a reference -> its authors, as cited in a text, and its year."""
    from pybtex.database import parse_file  # as the book's builder reads the file

    cited = {}
    for key, entry in parse_file(project_root() / "book" / "references.bib").entries.items():
        names = [
            " ".join([*person.prelast_names, *person.last_names]).strip("{}")
            for person in entry.persons["author"]
        ]
        authors = names[0] + (
            " et al." if len(names) > 2 else f" and {names[1]}" if names[1:] else ""
        )
        cited[key] = (authors, entry.fields.get("year", ""))
    return cited


def as_html(notebook: nbformat.NotebookNode, title: str) -> str:
    """The notebook as a self-contained HTML page, with code folded away."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    body = "\n".join(part for cell in notebook.cells for part in _parts(cell, markdown.render))
    style = (
        "body{max-width:52rem;margin:2rem auto;padding:0 1rem;font:16px/1.5 sans-serif}"
        "blockquote{border-left:4px solid #c60;margin:0;padding:.2rem 1rem;background:#fff4e5}"
        "pre{overflow:auto;background:#f6f6f6;padding:.6rem}table{border-collapse:collapse}"
        "td,th{padding:.2rem .6rem;text-align:left}svg,img{max-width:100%;height:auto}"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
        f"<style>{style}</style></head><body>\n{body}\n</body></html>\n"
    )


def _parts(cell: nbformat.NotebookNode, rendered: Any) -> Iterator[str]:
    if cell.cell_type == "markdown":
        yield rendered(cell.source)
        return
    yield f"<details><summary>code</summary><pre>{html.escape(cell.source)}</pre></details>"
    shown = {  # an output is shown as the first of these that it has
        "text/html": str,
        "image/svg+xml": str,
        "image/png": '<img src="data:image/png;base64,{}" alt="">'.format,
        "text/markdown": rendered,
        "text/plain": lambda text: f"<pre>{html.escape(text)}</pre>",
    }
    for output in cell.get("outputs", ()):
        is_printed = output.output_type == "stream"
        data = {"text/plain": output.text} if is_printed else output.get("data", {})
        yield next((shown[kind](data[kind]) for kind in shown if kind in data), "")


def open_copy(notebook: Path, folder: Path) -> tuple[Path, list[str]]:
    """Make a working copy of a notebook unless there is one; return it and the command to open it.

    Raises:
        ValueError: neither JupyterLab nor Jupyter Notebook is installed.
    """
    program = next((name for name in ("jupyterlab", "notebook") if find_spec(name)), None)
    if program is None:
        raise ValueError("neither jupyterlab nor notebook is installed. Run pip install jupyterlab")
    copy = folder / notebook.name
    if not copy.exists():
        opened = nbformat.read(notebook, as_version=4)
        in_plain_words(opened)
        replace_files({copy: (nbformat.writes(opened) + "\n").encode()})
    return copy, [sys.executable, "-m", program, str(copy)]
