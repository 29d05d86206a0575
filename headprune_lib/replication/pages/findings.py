"""Markdown and files written from the stored results, outside the book.

Between two marks the README has the answer, one figure and a short table of verdicts. The
leaderboard of orders of removal is a file of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from headprune_lib.replication import measurements
from headprune_lib.replication.bounds import SHOWN_TOLERANCE
from headprune_lib.replication.claims import evidence, rules
from headprune_lib.replication.pages import plots, tables
from headprune_lib.replication.pages.frames import prunable_at
from headprune_lib.replication.pages.page import collect, pick
from headprune_lib.replication.pages.plots.style import style
from headprune_lib.replication.pages.site import answer
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.store import Result, plain
from headprune_lib.replication.store.files import replace_files

START, END = "<!-- findings: written by `headprune findings` -->", "<!-- /findings -->"
FIGURE = "book/static/figure3b.png"
LEADERBOARD = "book/static/leaderboard"
"""Path relative to the checkout, without the extension."""
_MODEL, _TASK = "minilm", "reviews"


def shown_curve() -> Result:
    """The stored pruning curve that the figure draws.

    Raises:
        FileNotFoundError: it was not measured; the message names the command to do so.
    """
    if (curve := pick(collect(measurements.found("figure3b")), _MODEL, _TASK)) is None:
        raise FileNotFoundError(
            f"no pruning curve of {_MODEL} on {_TASK} is stored. Measure it with: "
            "headprune reproduce figure3b"
        )
    return curve


def findings(curve: Result) -> str:
    """The Markdown between the README's two marks, which shows the pruning curve of Figure 3b."""
    figure3b, verdicts = curve.values, evidence.all_verdicts()
    sure = " ".join(answer.how_sure(verdicts, answer.all_results()))
    share, main, random = (
        prunable_at(figure3b, order)["share"]
        for order in ("importance", "importance main", "random")
    )
    removed = rules.share_judged(_TASK, "encoder")
    at_share = rules.kept_at(curve)
    kept, trainings = tables.kept_text(at_share), at_share["trainings"]
    picture = (
        f"![Accuracy against the share of heads removed, for several orders of removal; by importance "
        f"{kept} of the accuracy above chance is kept with {removed:.0%} removed]({FIGURE})\n\n"
        f"*Heads of MiniLM removed together, without retraining. In the order of the paper's importance "
        f"score the model keeps {kept} of its accuracy above chance with {removed:.0%} of the heads "
        f"removed, the paper's share on SST-2 (95% interval, mean of {trainings} fine-tunings). At a loss of "
        f"at most {SHOWN_TOLERANCE:.0%}, {share:.0%} of the heads can be removed. On the first fine-tuning "
        f"alone {main:.0%} can be removed by importance and {random:.0%} in random order.*"
    )
    table = answer.summary_table(verdicts)[["claim", "verdict", "how sure"]]
    lines = table.to_markdown(index=False, tablefmt="pipe")
    return (
        f"**{answer.title(verdicts)}.** {answer.answer(verdicts)}.\n\n{answer.standing(verdicts)}\n\n"
        f"{answer.tally(verdicts)}\n\n{picture}\n\n{lines}\n\n"
        f"**How sure are we?** {sure}"
    )


def write_findings() -> list[Path]:
    """Update the README, its figure and the leaderboard from what is stored; return the files.

    Raises:
        ValueError: the README lacks the marks.
        FileNotFoundError: there is no stored result to draw.
    """
    readme, figure = (project_root() / name for name in ("README.md", FIGURE))
    before, start, rest = readme.read_text("utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(
            f"{readme} lacks the marks {START} and {END}. Put them where the findings belong"
        )
    curve = shown_curve()
    with style():
        picture = plots.as_png(plots.figure3b(curve))
    files = {readme: f"{before}{START}\n{findings(curve)}\n{END}{after}".encode(), figure: picture}
    if orders := collect(measurements.found("which_first")):
        rows, leaderboard = plain(tables.leaderboard_rows(orders)), project_root() / LEADERBOARD
        content = json.dumps(rows, indent=1) + "\n"
        files[leaderboard.with_suffix(".json")] = content.encode()
        files[leaderboard.with_suffix(".csv")] = pd.DataFrame(rows).to_csv(index=False).encode()
    replace_files(files)
    return list(files)
