"""The README's findings: the table of verdicts and one figure, from the stored results."""

from __future__ import annotations

from pathlib import Path

from headprune_lib.replication import measurements
from headprune_lib.replication.claims import evidence
from headprune_lib.replication.claims.rules import C3_TOLERANCE
from headprune_lib.replication.pages import plots, tables
from headprune_lib.replication.pages.page import collect, pick
from headprune_lib.replication.pages.tables.pages import emphasise_claims
from headprune_lib.replication.pages.values import prunable_at
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.store.files import replace_files
from headprune_lib.replication.store.results import Result

START, END = "<!-- findings: written by `headprune findings` -->", "<!-- /findings -->"
FIGURE = "book/static/figure3b.png"
_MODEL, _TASK = "minilm", "reviews"


def shown_curve() -> Result:
    """The stored pruning curve that the figure draws.

    Raises:
        FileNotFoundError: it was not measured; the message names the command that does.
    """
    if (curve := pick(collect(measurements.found("figure3b")), _MODEL, _TASK)) is None:
        raise FileNotFoundError(
            f"no stored pruning curve of {_MODEL} on {_TASK}; measure it with: "
            "headprune reproduce figure3b"
        )
    return curve


def findings(figure3b: dict) -> str:
    """The Markdown between the README's two marks; the values of Figure 3b are what it shows."""
    table = emphasise_claims(tables.verdict_table(evidence.all_verdicts()), "**", "**")
    share, main, random = (
        prunable_at(figure3b, order)["share"]
        for order in ("importance", "importance main", "random")
    )
    runs = len(figure3b["curves"]["importance"]["runs"])
    caption = (
        f"![Accuracy against the share of heads removed, for several orders of removal]({FIGURE})\n\n"
        f"*Removing heads of a small BERT together, without retraining. In the order of the paper's "
        f"importance score {share:.0%} of them go at a loss of at most {C3_TOLERANCE:.0%} of what the "
        f"model has above chance (mean of {runs} fine-tunings). On the first of them, the only one that "
        f"the other orders are measured on, {main:.0%} go by importance and {random:.0%} in random order.*"
    )
    return f"{caption}\n\n{table.to_markdown(index=False)}"


def write_findings() -> list[Path]:
    """Put the findings into the README and draw its figure; returns the two files.

    Raises:
        ValueError: the README lacks the marks.
        FileNotFoundError: there is no stored result to draw.
    """
    readme, figure = project_root() / "README.md", project_root() / FIGURE
    before, start, rest = readme.read_text("utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(
            f"{readme} lacks the marks {START} and {END}; put them where the findings go"
        )
    curve = shown_curve()
    text = f"{before}{START}\n{findings(curve.values)}\n{END}{after}"
    drawn = plots.as_png(plots.figure3b(curve.values, curve.task))
    replace_files({readme: text.encode(), figure: drawn})
    return [readme, figure]
