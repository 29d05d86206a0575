"""The rows and verdicts of the claims, from stored results and from what others measured.

Others' rows apply the rules to the paper's own models: BERT-base on MNLI, SST-2, CoLA and MRPC, and
the IWSLT model. They never count: they show the outcome of our rules in the paper's own setting.
Others published scores, not the outcome of every example, so that an interval of accuracy treats
the two models' errors as independent, which makes it wider than a paired one. BLEU and Matthews
correlation have only the paper's criterion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headprune_lib.replication import measurements, paper
from headprune_lib.replication.bounds import C4_UP_TO, C5_REMOVED, C8_UP_TO
from headprune_lib.replication.claims import rules
from headprune_lib.replication.claims.kept import BERT_TASKS, bert_at_share
from headprune_lib.replication.claims.rules import CLAIMS, UNTRAINED, Claim
from headprune_lib.replication.claims.verdict import BY_OTHERS, NOT_RUN, Judged, Row, Verdict
from headprune_lib.replication.published import (
    STEP,
    MaskedTask,
    bert_steps,
    independent_curves,
    masked_tasks,
    published_share,
)
from headprune_lib.replication.stats import Z95, area_under_curve, kept_above_chance
from headprune_lib.replication.store import Key, Result
from headprune_lib.replication.titles import setting

FIXED = "2026-11-22T21:40:00+00:00"
"""When the bounds were fixed. Results measured earlier are exploratory."""
# Measured after the bounds were fixed, and after Figure 5 of the same trainings had shown the outcome.
PARTLY_KNOWN = {("C3", "deen", "post-norm-6"), ("C4", "deen", "post-norm-6")}
_HELD = "-held"
NEW_PAIRS = "the new pairs of the task count"


def all_verdicts(root: Path | None = None) -> list[Verdict]:
    """The verdicts on C1 to C8 from all stored results, both halves of the paper together.

    Args:
        root: the folder of results; the project's own if not given.
    """
    names = {claim.measurement for claim in CLAIMS.values()}
    rows = [row for each in measurements.found(*names, root=root) for row in rows_of(each, root)]
    others = others_rows()
    return [
        Verdict(
            tuple(row for row in rows if row.claim == claim.id) or (_not_run(claim),),
            tuple(row for row in others if row.claim == claim.id),
        )
        for claim in CLAIMS.values()
    ]


def rows_of(result: Result, root: Path | None = None) -> list[Row]:
    """The rows of a result, in order of claims; none where no claim rests on it.

    Args:
        root: the folder of results, where further trainings are; the project's own if not given.
    """
    half, rows = measurements.half_of(result), []
    held = Key(result.measurement, f"{result.task}{_HELD}", result.model).path(root).exists()
    for claim in CLAIMS.values():
        if result.measurement != claim.measurement or half not in claim.halves:
            continue
        for label, judged in claim.judge(result, root).items():
            if judged.word == "not run":  # a curve without the one-by-one order says nothing of C8
                continue
            named = "" if judged.aside == UNTRAINED else setting(result)
            rows.append(
                Row(
                    claim.id,
                    half,
                    paper.name_of(claim.measurement, half, result.task),
                    ", ".join(filter(None, (named, label))),
                    replace(judged, aside=NEW_PAIRS) if held else judged,
                    f"{result.model} {result.task}" if half == "translation" else result.model,
                    _kind(claim, result),
                )
            )
    return rows


def judge(result: Result, claim: str) -> Row | None:
    """The row of a result on a claim: ``word`` by our rule, ``counts``, ``judged.power``."""
    return next((row for row in rows_of(result) if row.claim == claim), None)


def _not_run(claim: Claim) -> Row:
    half = claim.halves[0]
    return Row(claim.id, half, paper.name_of(claim.measurement, half, paper.MAIN), "", NOT_RUN)


def _kind(claim: Claim, result: Result) -> str:
    """By the date of a result's first part: a part seen earlier makes the result exploratory."""
    if (claim.id, result.task, result.model) in PARTLY_KNOWN:
        return "partly known"
    dates = [part.provenance for part in result.parts.values()]
    first = min(date.get("first_measured", date["date"]) for date in dates)
    return "exploratory" if first < FIXED else "confirmatory"


# The paper's own models, measured by others

_IWSLT = "fairseq's IWSLT model"
# A task on which others masked heads -> the figure where the paper prunes BERT-base on it.
_MASKED = {"MNLI": "figure3b", "SST-2": "figure6a", "CoLA": "figure6b", "MRPC": "figure6c"}


def others_rows() -> list[Row]:
    """Rows on C3, C4, C5 and C8 from others' curves, and on C3 from their masks."""
    curves = independent_curves()
    mnli, iwslt = curves["figure3b"], curves["figure6d"]
    removed, bleu = np.array(iwslt["percent_removed"]) / 100, np.array(iwslt["importance"])
    above_chance = mnli["base"] - mnli["chance"]
    judged = [
        *(("C3", name, _bert(curves[name]), _together(curves[name])) for name in _FIGURES),
        *(
            ("C3", _MASKED[task.task], f"BERT-base from five seeds, {task.task}", _until_less(task))
            for task in masked_tasks()
            if task.task in _MASKED
        ),
        ("C3", "figure6d", _IWSLT, _together_bleu(removed, bleu)),
        ("C4", "figure4", _IWSLT, _kinds(curves["figure4_on_iwslt"])),
        ("C5", "figure5", _IWSLT, _training(curves["figure5"])),
        (
            *("C8", "figure3b", _bert(mnli)),
            _orders(*bert_steps(mnli), bert_steps(curves["figure3b_one_by_one"])[1], above_chance),
        ),
        (
            *("C8", "figure6d", _IWSLT),
            _orders(removed, bleu, np.array(iwslt["one_by_one"]), float(bleu[0])),
        ),
    ]
    return [
        Row(
            claim,
            "translation" if model == _IWSLT else "encoder",
            name,
            model,
            replace(each, power=None, smallest="", aside=BY_OTHERS),
            kind="exploratory",
        )
        for claim, name, model, each in judged
    ]


_FIGURES = ("figure3b", "figure6a", "figure6b")


def _bert(curve: Mapping[str, Any]) -> str:
    return f"BERT-base, {BERT_TASKS[curve['task']]}"


def _without_interval(judged: Judged, measured: str) -> Judged:
    """The judgement of scores without an interval: by the paper's criterion only."""
    return replace(
        judged,
        word="undecided",
        measured=f"{measured} Without outcomes of single examples there is no interval.",
        estimates=tuple(replace(estimate, interval=None) for estimate in judged.estimates),
    )


def _together(curve: Mapping[str, Any]) -> Judged:
    share, uncut, (kept, cut) = published_share(curve["task"]), curve["base"], bert_at_share(curve)
    # variance of a ratio: the uncut model's error is weighted by the share kept
    variance = (cut * (1 - cut) + kept**2 * uncut * (1 - uncut)) / curve["n_test"]
    half = Z95 * math.sqrt(variance) / (uncut - curve["chance"])
    interval = [kept - half, kept + half]
    judged = rules.together(
        {"share": share, "kept": kept, "raw": cut / uncut, "interval": interval}
    )
    if curve["metric"] == "accuracy":
        return judged
    measured = f"With {share:.0%} removed, {kept:.1%} of the score above chance is kept."
    return _without_interval(judged, measured)


def _together_bleu(removed: np.ndarray, bleu: np.ndarray) -> Judged:
    share = published_share("deen")
    kept = float(np.interp(share, removed, bleu) / bleu[0])
    judged = rules.together({"share": share, "kept": kept, "raw": kept, "interval": [kept, kept]})
    return _without_interval(judged, f"With {share:.0%} removed, {kept:.1%} of BLEU is kept.")


def _until_less(task: MaskedTask) -> Judged:
    """The paper's criterion, which is not met if every search stopped before the paper's share.

    Others report only how many heads were removed until less than 90% of the score was left. A
    score is assumed not to rise again as further heads are removed.
    """
    share = published_share(task.task.lower().replace("-", ""))
    removed, at_share = task.removed, share * task.heads
    left, less = int((removed >= at_share).sum()), int((removed + STEP <= at_share).sum())
    unknown = len(removed) - left - less
    measured = (
        f"With {share:.0%} removed, scored anew every {STEP} heads, at least 90% of the score is left "
        f"in {left} of {len(removed)} fine-tunings, less in {less}, not known in {unknown}."
    )
    met = False if less == len(removed) else None
    return Judged("undecided", met, measured, trainings=len(removed))


def _kinds(curves: Mapping[str, Any]) -> Judged:
    removed = np.array(curves["percent_removed"]) / 100
    inside, at = removed <= C4_UP_TO, 1 - rules.C4_PAPER_LEFT
    kept = {
        name: kept_above_chance(curves[name], curves[name][0])
        for name in ("enc-enc", "enc-dec", "dec-dec")
    }
    areas = {name: area_under_curve(removed[inside], share[inside]) for name, share in kept.items()}
    left = {name: float(np.interp(at, removed, share)) for name, share in kept.items()}
    judged = rules.kinds(
        {other: _alone(areas["enc-dec"] - areas[other]) for other in ("enc-enc", "dec-dec")}, left
    )
    means = ", ".join(f"{name} {area:.2f}" for name, area in areas.items())
    shares = ", ".join(f"{name} {share:.0%}" for name, share in left.items())
    measured = (
        f"Mean share of BLEU kept over 0 to {C4_UP_TO:.0%}: {means}. "
        f"With {rules.C4_PAPER_LEFT:.0%} of a kind left: {shares}."
    )
    return _without_interval(judged, measured)


def _training(curves: Mapping[str, Any]) -> Judged:
    checkpoints = [
        {"bleu": bleu, "kept": kept_above_chance(bleu, bleu[0]).tolist()}
        for bleu in curves["bleu_by_epoch"].values()
    ]
    shares = [percent / 100 for percent in curves["percent_removed"]]
    trainings = [{"checkpoints": checkpoints}]
    return rules.apart({"shares": shares, "removed": C5_REMOVED, "trainings": trainings})


def _orders(
    removed: np.ndarray, importance: np.ndarray, one_by_one: np.ndarray, above_chance: float
) -> Judged:
    grid = np.linspace(0, C8_UP_TO, 101)
    ours, theirs = (
        area_under_curve(grid, np.interp(grid, removed, scores))
        for scores in (importance, one_by_one)
    )
    minus = (ours - theirs) / above_chance
    inside = (removed > 0) & (removed < 1)
    above = (importance >= one_by_one)[inside]
    measured = (
        f"Mean over 0 to {C8_UP_TO:.0%} removed, importance minus the paper's one-by-one: "
        f"{minus:+.3f} of the score above chance; at or above it at {above.sum()} of "
        f"{len(above)} steps."
    )
    return _without_interval(rules.orders(_alone(minus), above.tolist(), "encoder"), measured)


def _alone(difference: float) -> dict[str, Any]:
    return {"difference": difference, "interval": [difference] * 2}
