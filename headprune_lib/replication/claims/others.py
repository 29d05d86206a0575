"""What the rules say of the paper's own models, as others measured them again.

BERT-base on MNLI, SST-2, CoLA and MRPC, and the paper's IWSLT model. These never count: they show
what the paper's own setting gives by our rules. Others published scores, not the outcome of every
example, so that an interval of accuracy takes the two models' errors as independent, which makes it
wider than a paired one; BLEU and Matthews correlation have none, and only the paper's criterion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headprune_lib.replication.claims import rules
from headprune_lib.replication.claims.verdict import Judged, Row
from headprune_lib.replication.published import bert_curve, independent_curves, published_share
from headprune_lib.replication.published_masks import STEP, MaskedTask, masked_tasks
from headprune_lib.replication.stats import area_under_curve, kept_above_chance
from headprune_lib.replication.stats.bounds import C4_UP_TO, C5_REMOVED, C8_UP_TO
from headprune_lib.replication.stats.power import Z95

HEADS = 144
WHO = "measured by others"
_NO_INTERVAL = "Without outcomes of single examples there is no interval."


def others_rows() -> list[Row]:
    """Rows on C3, C4, C5 and C8 from others' curves, and on C3 from their masks."""
    found = independent_curves()
    encoders = ("figure3b", "figure6a", "figure6b")
    return [
        *(
            _row("C3", name, "encoder", _bert(found[name]), _together(found[name]))
            for name in encoders
        ),
        *(
            _row("C3", _MASKED[task.task], "encoder", f"{_FIVE}, {task.task}", _until_less(task))
            for task in masked_tasks()
            if task.task in _MASKED
        ),
        _row("C3", "figure6d", "translation", _IWSLT, _together_bleu(found["figure6d"])),
        _row("C4", "figure4", "translation", _IWSLT, _kinds(found["figure4_on_iwslt"])),
        _row("C5", "figure5", "translation", _IWSLT, _training(found["figure5"])),
        _row(
            "C8",
            "figure3b",
            "encoder",
            _bert(found["figure3b"]),
            _orders(found["figure3b"], found["figure3b_one_by_one"]),
        ),
        _row("C8", "figure6d", "translation", _IWSLT, _orders_bleu(found["figure6d"])),
    ]


_IWSLT = "fairseq's IWSLT model"
_FIVE = "BERT-base from five seeds"
# A task that others masked heads on -> the figure where the paper prunes BERT-base on it.
_MASKED = {"MNLI": "figure3b", "SST-2": "figure6a", "CoLA": "figure6b", "MRPC": "figure6c"}
BERT_TASKS = {"mnli": "MNLI", "sst2": "SST-2", "cola": "CoLA"}


def _bert(curve: Mapping[str, Any]) -> str:
    return f"BERT-base, {BERT_TASKS[curve['task']]}"


def _row(claim: str, name: str, half: str, setting: str, judged: Judged) -> Row:
    return Row(claim, half, name, setting, judged, seen=True)


def _read(judged: Judged, measured: str) -> Judged:
    """What a rule says of scores without an interval: the paper's criterion alone."""
    estimates = tuple(replace(one, interval=None) for one in judged.estimates)
    told = f"{measured} {_NO_INTERVAL}"
    return Judged("undecided", judged.met, told, aside=WHO, estimates=estimates)


def _curve(curve: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Shares removed and scores, the whole model first."""
    return (
        np.array([0, *curve["heads_removed"]]) / HEADS,
        np.array([curve["base"], *curve["score"]]),
    )


def kept_by_others(task: str) -> float:
    """Share of the score above chance that BERT-base keeps at the paper's share, by others.

    1, nothing lost, for a task of which there is no such curve, and for translation.
    """
    curve = bert_curve(task)
    return _kept(curve)[0] if curve else 1.0


def _kept(curve: Mapping[str, Any]) -> tuple[float, float]:
    """Share kept of the score above chance at the paper's share, and the score there."""
    x, y = _curve(curve)
    cut = float(np.interp(published_share(curve["task"]), x, y))
    return float(kept_above_chance(cut, curve["base"], curve["chance"])), cut


def _together(curve: Mapping[str, Any]) -> Judged:
    share, uncut, (kept, cut) = published_share(curve["task"]), curve["base"], _kept(curve)
    found = {"share": share, "kept": kept, "raw": cut / uncut}
    if curve["metric"] != "accuracy":
        judged = rules.together({**found, "interval": [kept, kept]})
        told = f"With {share:.0%} removed, {kept:.1%} of the score above chance is kept."
        return _read(judged, told)
    # of a ratio: the uncut model's error counts by what is kept
    variance = (cut * (1 - cut) + kept**2 * uncut * (1 - uncut)) / curve["n_test"]
    error = math.sqrt(variance) / (uncut - curve["chance"])
    interval = [kept - Z95 * error, kept + Z95 * error]
    judged = rules.together({**found, "interval": interval})
    return replace(judged, power=None, smallest="", aside=WHO)


def _until_less(task: MaskedTask) -> Judged:
    """The paper's criterion where a search had to stop before the paper's share: it is not met.

    Others tell how many heads went until less than 90% of the score was left, so that no more can be
    read. A score is taken not to rise again while further heads go.
    """
    share = published_share(task.task.lower().replace("-", ""))
    removed, at_share = task.removed, share * task.heads
    left, less = int((removed >= at_share).sum()), int((removed + STEP <= at_share).sum())
    unknown = len(removed) - left - less
    told = (
        f"With {share:.0%} removed, scored anew every {STEP} heads, at least 90% of the score is left "
        f"in {left} of {len(removed)} fine-tunings, less in {less}, not known in {unknown}."
    )
    met = False if less == len(removed) else None
    return Judged("undecided", met, told, aside=WHO, trainings=len(removed))


def _together_bleu(curve: Mapping[str, Any]) -> Judged:
    share = published_share("deen")
    x, y = np.array(curve["percent_removed"]) / 100, np.array(curve["importance"])
    kept = float(kept_above_chance(np.interp(share, x, y), y[0]))
    found = {"share": share, "kept": kept, "raw": kept, "interval": [kept, kept]}
    return _read(rules.together(found), f"With {share:.0%} removed, {kept:.1%} of BLEU is kept.")


def _kinds(curves: Mapping[str, Any]) -> Judged:
    x = np.array(curves["percent_removed"]) / 100
    names = ("enc-enc", "enc-dec", "dec-dec")
    kept = {name: kept_above_chance(curves[name], curves[name][0]) for name in names}
    areas = {name: area_under_curve(x[x <= C4_UP_TO], kept[name][x <= C4_UP_TO]) for name in names}
    left = {name: float(np.interp(1 - rules.C4_PAPER_LEFT, x, kept[name])) for name in names}
    differences = {
        name: {
            "difference": areas["enc-dec"] - areas[name],
            "interval": [areas["enc-dec"] - areas[name]] * 2,
        }
        for name in ("enc-enc", "dec-dec")
    }
    judged = rules.kinds(differences, left)
    told = (
        f"Mean share of BLEU kept over 0-{C4_UP_TO:.0%}: "
        + ", ".join(f"{name} {areas[name]:.2f}" for name in names)
        + f". With {rules.C4_PAPER_LEFT:.0%} of a kind left: "
        + ", ".join(f"{name} {left[name]:.0%}" for name in names)
    )
    return _read(judged, f"{told}.")


def _training(curves: Mapping[str, Any]) -> Judged:
    shares = [percent / 100 for percent in curves["percent_removed"]]
    checkpoints = [
        {"bleu": bleu, "kept": kept_above_chance(bleu, bleu[0]).tolist()}
        for bleu in curves["bleu_by_epoch"].values()
    ]
    values = {
        "shares": shares,
        "removed": C5_REMOVED,
        "trainings": [{"checkpoints": checkpoints}],
    }
    return replace(rules.apart(values), power=None, smallest="", aside=WHO)


def _orders(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Judged:
    (x, y), (_, z) = _curve(ours), _curve(theirs)
    return _areas(x, y, z, ours["base"] - ours["chance"])


def _orders_bleu(curves: Mapping[str, Any]) -> Judged:
    x = np.array(curves["percent_removed"]) / 100
    y, z = (np.array(curves[name]) for name in ("importance", "one_by_one"))
    return _areas(x, y, z, float(y[0]))


def _areas(x: np.ndarray, y: np.ndarray, z: np.ndarray, uncut: float) -> Judged:
    grid = np.linspace(0, C8_UP_TO, 101)
    minus = area_under_curve(grid, np.interp(grid, x, y)) - area_under_curve(
        grid, np.interp(grid, x, z)
    )
    inside = (x > 0) & (x < 1)
    above = (y >= z)[inside]
    told = (
        f"Mean over 0-{C8_UP_TO:.0%} removed, importance minus the paper's one-by-one: "
        f"{minus / uncut:+.3f} of the score above chance; at or above it at {above.sum()} of "
        f"{len(above)} steps."
    )
    area = {"difference": minus / uncut, "interval": [minus / uncut] * 2}
    return _read(rules.orders(area, above.tolist(), "encoder"), told)
