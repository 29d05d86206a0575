"""The README's findings: the table of verdicts and one figure, from the stored results."""

from __future__ import annotations

from pathlib import Path

from headprune_lib import comparison, judging, plots, results
from headprune_lib.comparison.pages import emphasise_claims
from headprune_lib.journal import replace_files
from headprune_lib.paths import project_root

START, END = "<!-- findings: written by `headprune findings` -->", "<!-- /findings -->"
FIGURE = "book/static/figure3b.png"


def findings(figure3b: dict) -> str:
    """The Markdown between the README's two marks; the values of Figure 3b are what it shows."""
    table = emphasise_claims(comparison.verdict_table(judging.all_verdicts()), "**", "**")
    share, main, random = (figure3b["prunable"][order]["2%"]["share"]
                           for order in ("importance", "importance main", "random"))
    runs = len(figure3b["curves"]["importance"]["runs"])
    caption = (f"![Accuracy against the share of heads removed, for several orders of removal]({FIGURE})\n\n"
               f"*Removing heads of a small BERT together, without retraining. In the order of the paper's "
               f"importance score {share:.0%} of them go at a loss of at most 2% of what the model has "
               f"above chance (mean of {runs} fine-tunings). On the first of them, the only one that the other "
               f"orders are measured on, {main:.0%} go by importance and {random:.0%} in random order.*")
    return f"{caption}\n\n{table.to_markdown(index=False)}"


def write_findings() -> list[Path]:
    """Put the findings into the README and draw its figure; returns the two files.

    Raises:
        ValueError: the README lacks the marks.
    """
    readme, figure = project_root() / "README.md", project_root() / FIGURE
    before, start, rest = readme.read_text("utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"{readme} lacks the marks {START} and {END}; put them where the findings go")
    values = results.load("figure3b", "default").values
    text = f"{before}{START}\n{findings(values)}\n{END}{after}"
    drawn = plots.as_png(plots.figure3b(values))
    replace_files({readme: text.encode(), figure: drawn})
    return [readme, figure]
