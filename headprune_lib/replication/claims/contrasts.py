"""Which of two orders of removal is better, over all tasks: four contrasts, fixed beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.stats

from headprune_lib.replication import stats

ALPHA = 0.05
FAMILY = (
    "combined against importance",
    "entropy against random",
    "scored again against once",
    "not normalised against normalised",
)
"""Corrected together by Holm's procedure."""
CONDITION = {"combined against importance": "combined against its control"}
"""The follow-up's idea holds only if what it adds is lost when entropies change places."""

Word = Literal["better", "worse", "no difference shown", "not run"]


@dataclass(frozen=True)
class Contrast:
    """A contrast over all tasks that have both orders.

    Attributes:
        value: mean over tasks of the difference of areas (share of the metric above chance kept,
            mean over 0 to 50% removed), with its 95% interval.
        p: two-sided, that it is 0; ``p_holm`` corrected over the family.
        loss: the same of the loss that is not added, in nats, and its interval.
        control: of a contrast with a condition, the difference from the control and its interval.
        tasks: which it is over: those that have both orders, and whose uncut model has a score
            above chance, of which a share can be kept, in every resample.
    """

    name: str
    word: Word
    value: float = float("nan")
    interval: tuple[float, float] = (float("nan"), float("nan"))
    p: float = float("nan")
    p_holm: float = float("nan")
    loss: tuple[float, float, float] | None = None
    control: tuple[float, float, float] | None = None
    tasks: tuple[str, ...] = ()


def decide(found: Mapping[str, Mapping[str, Any]]) -> list[Contrast]:
    """The contrasts of the family, each with its word.

    Better or worse if p is below 0.05 after Holm's correction over those that were run; the
    combined order besides only if its difference from the control has an interval above 0.

    Args:
        found: task -> values of ``which_first``.
    """
    able = [task for task in found if above_chance(found[task])]
    run = {name: [task for task in able if name in found[task]["contrasts"]] for name in FAMILY}
    pooled = {
        name: _pooled([found[task]["contrasts"][name]["area"] for task in tasks])
        for name, tasks in run.items()
        if tasks
    }
    p = {name: _p(value, error) for name, (value, error) in pooled.items()}
    adjusted = dict(zip(p, stats.holm(list(p.values())).tolist(), strict=True)) if p else {}
    decided = []
    for name in FAMILY:
        if name not in pooled:
            decided.append(Contrast(name, "not run"))
            continue
        value, error = pooled[name]
        control = _of(found, CONDITION.get(name, ""), run[name])
        losses = _of(found, name, run[name], "loss")
        decided.append(
            Contrast(
                name,
                _word(value, adjusted[name], name in CONDITION, control),
                value,
                _interval(value, error),
                p[name],
                adjusted[name],
                losses,
                control,
                tuple(run[name]),
            )
        )
    return decided


def above_chance(values: Mapping[str, Any]) -> bool:
    """Whether the uncut model has a score above chance, of which a share can be kept.

    Args:
        values: of ``which_first``.
    """
    return values["least_above_chance"] > 0


def nearest_to_chance(found: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The task that counts and whose uncut model falls nearest to chance in some resample.

    Measured by what it has above chance on its whole test set, on the trainings that its orders are
    shown on. None where no task counts.

    Args:
        found: task -> values of ``which_first``.
    """

    def left(task: str) -> float:
        values = found[task]
        whole = next(iter(values["orders"].values()))["score"][0] - values["chance"]
        return values["least_above_chance"] / whole

    return min((task for task in found if above_chance(found[task])), key=left, default=None)


def _word(
    value: float, p: float, conditional: bool, control: tuple[float, float, float] | None
) -> Word:
    if p >= ALPHA:
        return "no difference shown"
    if value < 0:
        return "worse"
    if conditional and (control is None or control[1] <= 0):
        return "no difference shown"
    return "better"


def _of(
    found: Mapping[str, Mapping[str, Any]], name: str, tasks: Sequence[str], what: str = "area"
) -> tuple[float, float, float] | None:
    rows = [
        found[task]["contrasts"][name][what] for task in tasks if name in found[task]["contrasts"]
    ]
    if not rows:
        return None
    value, error = _pooled(rows)
    return (value, *_interval(value, error))


def _pooled(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The mean of independent tasks' estimates, and its standard error."""
    value = float(np.mean([row["value"] for row in rows]))
    return value, float(np.sqrt(np.sum([row["error"] ** 2 for row in rows])) / len(rows))


def _interval(value: float, error: float) -> tuple[float, float]:
    half = float(scipy.stats.norm.isf(0.025)) * error
    return value - half, value + half


def _p(value: float, error: float) -> float:
    if error == 0:
        return 1.0 if value == 0 else 0.0
    return float(2 * scipy.stats.norm.sf(abs(value) / error))
