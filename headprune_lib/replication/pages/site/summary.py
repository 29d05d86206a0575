"""The answer as a table, a row per claim: the paper, others on its models, ours, word, how sure."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from headprune_lib.replication.bounds import ALPHA
from headprune_lib.replication.claims.rules import CLAIMS, UNTRAINED, Claim
from headprune_lib.replication.claims.verdict import PLURALS, Row, Verdict
from headprune_lib.replication.formatting import formatted
from headprune_lib.replication.pages.tables.beyond import grid
from headprune_lib.replication.pages.tables.markup import verdict_html
from headprune_lib.replication.pages.tables.verdicts import criterion_met
from headprune_lib.replication.store.packing import KINDS

COLUMNS = (
    "claim",
    "the paper",
    "the paper's models, by others",
    "our models",
    "verdict",
    "how sure",
)

_HALVES = {"encoder": "encoders", "translation": "translators"}
_LAB = "Silent-Zebra"  # published the effect of each head of the paper's models


def summary_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """One row per claim, in plain words."""
    rows = []
    for verdict in verdicts:
        claim = CLAIMS[verdict.claim]
        cells = (claim.paper_value, by_others(verdict), ours(verdict), verdict.word)
        rows.append((f"{claim.id} {claim.title}", *cells, how_sure(verdict)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def summary_html(verdicts: Sequence[Verdict], cards: str) -> str:
    """The table for the front page; each claim is a link to its card on the page ``cards``."""
    lines = []
    for verdict, row in zip(verdicts, summary_table(verdicts).to_numpy().tolist(), strict=True):
        title = html.escape(CLAIMS[verdict.claim].title, quote=False)
        link = f'<a href="{cards}#claim-{verdict.claim.lower()}">{verdict.claim}. {title}</a>'
        texts = [_in_lines(cell) for cell in row[1:]]
        texts[COLUMNS.index("verdict") - 1] = verdict_html(verdict.word)
        cells = "".join(
            f'<td data-column="{name}">{text}</td>'
            for name, text in zip(COLUMNS[1:], texts, strict=True)
        )
        lines.append(f'<tr><th scope="row">{link}</th>{cells}</tr>')
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    return f'<table class="answer"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def _in_lines(text: str) -> str:
    """A cell as HTML: each sentence, clause and number of a list on a line of its own.

    >>> _in_lines("Kept: 96% (encoders), 94% (translators); counted or not: 3%")
    'Kept: 96% (encoders),<br>94% (translators);<br>counted or not: 3%'
    """
    lines = re.split(r"(?<=[.;]) |(?<=\),) ", text)
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def ours(verdict: Verdict) -> str:
    """The range of the results that count, from least to largest, and the range of all results.

    Results without a trained model are listed separately.
    """
    claim, measured = CLAIMS[verdict.claim], verdict.measured
    untrained = [row for row in measured if row.judged.aside == UNTRAINED]
    trained = [row for row in measured if row not in untrained]
    of_counted, of_all = (_ranges(claim, rows) for rows in (verdict.counted or trained, trained))
    what = f"{claim.shown[0].upper()}{claim.shown[1:]}: " if measured else ""
    text = f"{what}{of_counted}" + f"; counted or not: {of_all}" * (of_counted != of_all)
    return text + "".join(f"; {row.setting}: {_ranges(claim, [row])}" for row in untrained)


def by_others(verdict: Verdict) -> str:
    """Others' findings on the paper's own models that bear on the claim."""
    if verdict.claim in _GRIDS:
        return _GRIDS[verdict.claim]()
    shown = [row for row in verdict.others if row.judged.estimates]
    if not shown:
        sentences = [f"{row.setting}: {row.judged.measured}" for row in verdict.others]
        return " ".join(sentences) or "not measured"
    form = CLAIMS[verdict.claim].form
    return ", ".join(
        f"{formatted(form, estimate.value)} ({', '.join(filter(None, (row.setting, estimate.label)))})"
        for row in shown
        for estimate in row.judged.estimates
    )


def how_sure(verdict: Verdict) -> str:
    """The number of results that count, their models and trainings, and the paper's criterion."""
    if not verdict.measured:
        return "not measured"
    sure = f"{counted(verdict)}. Measured on {measured_on(verdict.measured)}."
    return f"{sure} Paper's criterion: {criterion_met(verdict)}."


def counted(verdict: Verdict) -> str:
    """The number of measured results that count, in total and by verdict."""
    words = Counter(row.word for row in verdict.counted)
    text = f"{words.total()} of {len(verdict.measured)} results count"
    each = ", ".join(f"{number} {PLURALS[word]}" for word, number in words.items())
    return f"{text}: {each}" if each else text


def measured_on(rows: Sequence[Row]) -> str:
    """The trained models behind some results, such as ``3 models, 1 to 3 trainings each``.

    >>> measured_on([])
    'no trained model'
    """
    rows = [row for row in rows if row.judged.aside != UNTRAINED]
    if not rows:
        return "no trained model"
    models, trainings = len({row.model for row in rows}), {row.judged.trainings for row in rows}
    low, high = min(trainings), max(trainings)
    each = f"{low} to {high} trainings" if low < high else f"{low} training{'s' * (low > 1)}"
    return f"{models} model{'s' * (models > 1)}, {each} each"


def _ranges(claim: Claim, rows: Sequence[Row]) -> str:
    """Least and largest estimate for each part of a rule, for encoders and for translators."""
    form = claim.form
    parts: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        for estimate in row.judged.estimates:
            parts.setdefault((estimate.label, row.half), []).append(estimate.value)
    if not parts:
        return "not measured"
    several = len({half for _, half in parts}) > 1
    ranges = []
    for (label, half), values in parts.items():
        low, high = (formatted(form, end) for end in (min(values), max(values)))
        name = ", ".join(filter(None, (label, _HALVES[half] if several else "")))
        ranges.append(f"{low}{f' to {high}' * (low != high)}{f' ({name})' * bool(name)}")
    return ", ".join(ranges)


def _cut_alone() -> str:
    translator, bert = grid(_LAB, "WMT en-fr", kind="enc-enc"), grid(_LAB, "MNLI")
    changing = int((translator.p < ALPHA).sum())
    low, high = (formatted("{:+.1f}", 100 * end) for end in (bert.values.min(), bert.values.max()))
    return (
        f"WMT14 translator: {changing} of {translator.values.size} encoder heads change BLEU at "
        f"p < {ALPHA}. BERT-base on MNLI: {low} to {high} points, whichever head is removed"
    )


def _one_left() -> str:
    best = 100 * grid(_LAB, "MNLI", "all_but_one").values.max(1)
    low, high = (formatted("{:+.1f}", end) for end in (best.min(), best.max()))
    return (
        f"BERT-base on MNLI: {low} to {high} points with each layer's best head alone, chosen on the "
        "test set"
    )


def _on_two_texts() -> str:
    def effects(task: str, *kinds: str) -> np.ndarray:
        return np.concatenate([grid(_LAB, task, kind=kind).values.ravel() for kind in kinds])

    bert = np.corrcoef(effects("MNLI", "self"), effects("MNLI mismatched", "self"))[0, 1]
    of_wmt, of_mtnt = (effects(f"{text} en-fr", *KINDS) for text in ("WMT", "MTNT"))
    translator = np.corrcoef(of_wmt, of_mtnt)[0, 1]
    return (
        f"r = {bert:.2f} for BERT-base (MNLI matched and mismatched), {translator:.2f} for the WMT14 "
        "translator (news and MTNT)"
    )


# Claims on single heads, for which others published grids, not results that a rule judges.
_GRIDS = {"C1": _cut_alone, "C2": _one_left, "C7": _on_two_texts}
