"""Output of a notebook's cells for its page: numbers for the prose, figures, tables, verdicts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any

import pandas as pd
from IPython.display import HTML, Markdown
from matplotlib.figure import Figure

from headprune_lib.replication.claims.evidence import judge
from headprune_lib.replication.formatting import NOT_MEASURED, estimate, points, signed
from headprune_lib.replication.pages.frames import frame, prunable_at
from headprune_lib.replication.pages.page import open_page, pick
from headprune_lib.replication.pages.plots.style import NARROW, WIDE, style
from headprune_lib.replication.pages.svg import as_svg, describe
from headprune_lib.replication.pages.tables import anchor, as_html, judged_text, kept_text, number
from headprune_lib.replication.pages.tables.verdicts import again_table
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import setting

NOT_BORNE_OUT = "**Not with these parameters:**"
"""Prefix of a conclusion that a run does not bear out."""
_NAMES = r"`[^`]*`|\]\([^)]*\)"  # and what is numbered
_NAMES += r"|\b(?:Tables?|Figures?|Equation|Eq\.|[Ss]ections?) \w?\d\w*(?:(?:,| and| or) \w?\d\w*)*"
_NUMBER = r"(?<![\w.-])(?:[+−-]?\d+(?:[.,]\d+)*|nan)%?(?: \[[^\]]*\])?(?![\w-])"


def say(text: str) -> Markdown:
    """A paragraph for a page, with numbers that the cell has just computed."""
    return Markdown(textwrap.dedent(text).strip())


def holds(condition: object, sentence: str) -> Markdown | None:
    """A conclusion if its condition is met, else a note that these parameters do not bear it out.

    The committed notebooks bear out all conclusions; other runs report and go on. What is not borne
    out was said of the committed results, so the run's own numbers are left out of it.

    Args:
        condition: None if a result that the conclusion is about was not measured; then nothing
            is written.
    """
    if condition is None:
        return None
    if condition:
        return say(sentence)
    plain = re.sub(r"(?<!\*)\*(?!\*)", "", " ".join(sentence.split()))  # all of it is in italics
    return Markdown(f"{NOT_BORNE_OUT} *{without_numbers(plain)}*")


def without_numbers(text: str) -> str:
    """A Markdown text with an ellipsis for each number, names that hold digits excepted.

    >>> without_numbers("C1: **12% [0%, 50%]** of MiniLM-L6's heads, −1.5 in layer 2 (Table 3 or S4).")
    "C1: **…** of MiniLM-L6's heads, … in layer … (Table 3 or S4)."
    """
    return re.sub(f"({_NAMES})|{_NUMBER}", lambda found: found[1] or "…", text)


def show(
    table: pd.DataFrame, name: str = "", caption: str = "", csv: pd.DataFrame | None = None
) -> HTML:
    """A table for a page; one without rows says that nothing was measured.

    Args:
        table: its first column names the rows.
        name: number of the table on the page, such as ``"Table 1"`` or ``"Table S1"``; its anchor
            is ``#table-1``. An unnamed table has neither.
        caption: what it shows, as HTML.
        csv: the contents of its CSV, if that is more than is shown.
    """
    if table.empty:
        return HTML(f"<p>{NOT_MEASURED.capitalize()}.</p>")
    return HTML(as_html(table, name, caption, csv))


def show_figure(name: str, caption: str, draw: Callable[..., Figure], *what: Any) -> HTML:
    """A figure for a page, drawn once for a wide and once for a narrow screen.

    Args:
        name: its number on the page, such as ``"Figure 1"``; its anchor is ``#figure-1``.
        caption: what it shows, as HTML.
        draw: a function of ``plots``, called with ``what``.
    """
    pictures = []
    for variant, layout in (("wide", WIDE), ("narrow", NARROW)):
        with style():
            figure = draw(*what, layout=layout)
        pictures.append(as_svg(figure, anchor(name), f"{name}. {describe(figure)}", variant))
    words = f"<figcaption><strong>{name}.</strong> {caption}</figcaption>"
    return HTML(
        f'<figure class="paper-figure" id="{anchor(name)}">{"".join(pictures)}{words}</figure>'
    )


def show_again(*results: Result) -> HTML:
    """A folded table of how to measure each result again: commands, minutes, machines and files."""
    words = (
        f"{len(results)} result{'s' * (len(results) != 1)}: commands, minutes, machines and files"
    )
    table = show(again_table(results)).data
    return HTML(f"<details><summary>{words}</summary>{table}</details>")
