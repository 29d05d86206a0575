"""Questions beyond the paper's claims, each answered by a rule that was fixed beforehand.

Which of two orders of removal is better over all tasks (:func:`decide_contrasts`), whether a
language model's heads can be removed together (:func:`redundancy`) and one at a time
(:func:`single_heads`), and how C1's and C3's rules judge MNLI's easy and hard pairs separately
(:func:`strata`). A fourth question, on training after the cut, is answered on its page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import C1_NEEDED, C1_REMOVABLE, C3_KEPT
from headprune_lib.replication.claims import kept, rules
from headprune_lib.replication.claims.verdict import NOT_RUN, Judged, defined
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.published import right_of_100_berts
from headprune_lib.replication.stats import Z95, TrainingsMean
from headprune_lib.replication.store import OUTCOMES, Result

Values = Mapping[str, Any]
Interval = tuple[float, float, float]
"""An estimate, and the low and high end of its 95% interval."""

# Which order first

FAMILY = (
    "combined against importance",
    "entropy against random",
    "scored again against once",
    "not normalised against normalised",
)
"""The contrasts that Holm's procedure corrects together."""
CONDITION = {"combined against importance": "combined against its control"}
"""The follow-up's idea holds only if its gain is lost when entropies are shuffled."""
FAMILY_ALPHA = 0.05


@dataclass(frozen=True)
class Contrast:
    """A contrast over all tasks that have both orders.

    Attributes:
        value: mean over tasks of the difference of areas (share of the metric above chance kept,
            mean over 0 to 50% removed), with its 95% interval.
        p: two-sided p-value of no difference; ``p_holm`` is corrected over the family.
        loss: the same for the loss that is not added, in nats, and its interval.
        control: for a contrast with a condition, the difference from the control and its interval.
        tasks: the tasks that have both orders, and whose uncut model has a score above chance, of
            which a share can be kept, in every resample.
    """

    name: str
    word: Literal["better", "worse", "no difference shown", "not run"]
    value: float = float("nan")
    interval: tuple[float, float] = (float("nan"), float("nan"))
    p: float = float("nan")
    p_holm: float = float("nan")
    loss: Interval | None = None
    control: Interval | None = None
    tasks: tuple[str, ...] = ()


def decide_contrasts(found: Mapping[str, Values]) -> list[Contrast]:
    """The contrasts of the family, each with its word.

    Better or worse if p is below 0.05 after Holm's correction over those that were run; the
    combined order is better only if its difference from the control also has an interval above 0.

    Args:
        found: task -> values of ``which_first``.
    """
    able = {task: values["contrasts"] for task, values in found.items() if above_chance(values)}
    run = {name: [task for task in able if name in able[task]] for name in FAMILY}
    areas = {
        name: _pooled([able[task][name]["area"] for task in run[name]])
        for name in FAMILY
        if run[name]
    }
    adjusted = stats.holm([p for _, p in areas.values()]).tolist()
    holm = dict(zip(areas, adjusted, strict=True))
    contrasts = []
    for name in FAMILY:
        if name not in areas:
            contrasts.append(Contrast(name, "not run"))
            continue
        (value, low, high), p = areas[name]
        loss, _ = _pooled([able[task][name]["loss"] for task in run[name]])
        other = CONDITION.get(name, "")
        beside = [able[task][other]["area"] for task in run[name] if other in able[task]]
        control = _pooled(beside)[0] if beside else None
        beats_control = other == "" or (control is not None and control[1] > 0)
        word = "no difference shown"
        if holm[name] < FAMILY_ALPHA and value <= 0:
            word = "worse"
        elif holm[name] < FAMILY_ALPHA and beats_control:
            word = "better"
        contrasts.append(
            Contrast(name, word, value, (low, high), p, holm[name], loss, control, tuple(run[name]))
        )
    return contrasts


def _pooled(rows: Sequence[Values]) -> tuple[Interval, float]:
    """The mean of independent tasks' estimates, and the two-sided p that it is 0."""
    value = float(np.mean([row["value"] for row in rows]))
    error = float(np.sqrt(np.sum([row["error"] ** 2 for row in rows])) / len(rows))
    certain = 1.0 if value == 0 else 0.0
    p = float(2 * scipy.stats.norm.sf(abs(value) / error)) if error else certain
    return (value, value - Z95 * error, value + Z95 * error), p


def above_chance(values: Values) -> bool:
    """Whether the uncut model has a score above chance, of which a share can be kept.

    Args:
        values: values of ``which_first``.
    """
    return values["least_above_chance"] > 0


# A language model's heads

LANGUAGE_SHARE = 0.2
"""The share of heads removed that is judged: the paper's for its large translator."""
DELTA_NATS = 0.01
"""The largest added loss per token that still counts as none: 1% of perplexity."""

Answer = Literal["redundant", "not redundant", "open"]


def _answer(yes: bool, no: bool) -> Answer:
    return "redundant" if yes else "not redundant" if no else "open"


class Redundancy(NamedTuple):
    """Whether heads can be removed together.

    ``kept`` is the share of the uncut model's gain over token frequencies; None where it has no
    gain.
    """

    answer: Answer
    kept: float | None
    interval: tuple[float | None, float | None]


class SingleHeads(NamedTuple):
    """How many heads can be removed one at a time, and how many cannot."""

    answer: Answer
    heads: int
    removable: int
    needed: int


def redundancy(values: Values) -> Redundancy:
    """Judge the values of ``language_curve`` in the paper's order.

    Raises:
        ValueError: 20% removed was not measured.
    """
    steps = np.flatnonzero(np.isclose(values["shares"], LANGUAGE_SHARE))
    if not len(steps):
        raise ValueError(f"{LANGUAGE_SHARE:.0%} removed was not measured, only {values['shares']}")
    curve = values["curves"]["importance"]
    share, (low, high) = curve["kept"][steps[0]], curve["kept_interval"][steps[0]]
    if not defined(share, low, high):
        return Redundancy("open", None, (None, None))
    answer = _answer(low >= C3_KEPT, high < C3_KEPT)
    return Redundancy(answer, float(share), (float(low), float(high)))


def single_heads(values: Values) -> SingleHeads:
    """Judge the values of ``language_heads``."""
    low, high = np.array([head["interval"] for head in values["heads"]]).T
    removable, needed, heads = (high <= DELTA_NATS).sum(), (low > DELTA_NATS).sum(), len(low)
    enough = removable >= C1_REMOVABLE * heads - 1e-9
    many = needed > C1_NEEDED * heads + 1e-9
    return SingleHeads(_answer(enough, many), heads, int(removable), int(needed))


# MNLI's easy and hard pairs: our models are trained on a twentieth of MNLI and are right less often than
# the paper's; an answer that is the same for both does not depend on that.

EASY = 90
"""A pair is easy if at least so many of 100 fine-tuned BERT-base models get it right."""
_OF_TEXTS = ("correct", "correct_uncut", "labels", "loss", "loss_change", "loss_uncut")
"""Outcomes whose last axis is texts."""


class Stratum(NamedTuple):
    """A model's results on some of MNLI's pairs.

    Attributes:
        name: the pairs, in words.
        n: how many there are.
        uncut: accuracy with all heads, as a mean over fine-tunings.
        together: judgement by C3's rule of these pairs only.
        one_at_a_time: judgement by C1's rule of these pairs only.
    """

    name: str
    n: int
    uncut: TrainingsMean
    together: Judged
    one_at_a_time: Judged


def strata(curve: Result, one_head: Result | None) -> list[Stratum]:
    """All pairs, the easy ones, and the others; empty where it is not known how hard the pairs are.

    Args:
        curve: a pruning curve on MNLI's matched development set, or on its first pairs.
        one_head: the effects of single heads on the same pairs; None if they were not measured.
    """
    right = _right_by_berts(curve)
    if right is None or (one_head and _right_by_berts(one_head) is None):
        return []
    groups = {
        "all": right >= 0,
        f"at least {EASY} of 100 BERTs are right": right >= EASY,
        "the others": right < EASY,
    }
    return [
        _stratum(name, chosen, curve, one_head) for name, chosen in groups.items() if chosen.any()
    ]


def _right_by_berts(result: Result) -> np.ndarray | None:
    """How many of 100 BERTs get each text of a result right, (texts,); None where nobody counted.

    The counts are in the order of the texts, which a checksum identifies.
    """
    counted = right_of_100_berts()
    texts = {part.signature["data"].get(counted["dataset"]) for part in result.parts.values()}
    if result.dataset != counted["dataset"] or texts != {counted["sha256"]}:
        return None
    return np.array(counted["right"][: result.n_examples])


def _stratum(name: str, chosen: np.ndarray, curve: Result, one_head: Result | None) -> Stratum:
    trainings = kept.along(_on_texts(curve, chosen), "importance")
    share = rules.share_judged(curve.task, "encoder")
    true = kept.kept_by_others(rules.task_judged(curve.task, "encoder"))
    alone = NOT_RUN
    if one_head:
        part = _on_texts(one_head, chosen).parts[OUTCOMES]
        values = MEASUREMENTS["one_head"].values_of("encoder", {OUTCOMES: part})
        alone = rules.one_at_a_time([{**values["removable"], **values["counts"]}], "encoder")
    return Stratum(
        name,
        int(chosen.sum()),
        stats.over_trainings(
            [training.scores[0] for training in trainings],
            [training.influences[0] for training in trainings],
        ),
        rules.together(kept.at_share(trainings, share), true),
        alone,
    )


def _on_texts(result: Result, chosen: np.ndarray) -> Result:
    """A result with only the outcomes of the ``chosen`` texts; its values stay those of all."""
    parts = {
        name: replace(
            part,
            arrays={
                outcome: values[..., chosen] if outcome in _OF_TEXTS else values
                for outcome, values in part.raw.items()
            },
        )
        for name, part in result.parts.items()
    }
    return replace(result, parts=parts)
