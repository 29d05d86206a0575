"""MNLI's answers apart for the pairs that nearly every fine-tuned BERT-base gets right, and for the others.

Our models are trained on a twentieth of MNLI and are right less often than the paper's. Where an answer
is the same for easy and for hard pairs, it does not hang on that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.claims import kept, rules
from headprune_lib.replication.claims.evidence import share_judged, task_judged
from headprune_lib.replication.claims.others import kept_by_others
from headprune_lib.replication.claims.verdict import NOT_RUN, Judged
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.published import right_of_100_berts
from headprune_lib.replication.stats import TrainingsMean
from headprune_lib.replication.store import OUTCOMES, Arrays, Result

EASY = 90
"""A pair is easy if at least so many of 100 fine-tuned BERT-base models get it right."""

_OF_TEXTS = ("correct", "correct_uncut", "labels", "loss", "loss_change", "loss_uncut")
"""Outcomes whose last axis is texts."""


@dataclass(frozen=True)
class Stratum:
    """What a model does on some of MNLI's pairs.

    Attributes:
        name: which pairs.
        n: how many.
        berts: mean share of them that the 100 BERTs get right.
        uncut: accuracy with all heads, in the mean over fine-tunings.
        chance: accuracy of the best constant answer among these pairs.
        together: what C3's rule says of them alone.
        one_at_a_time: what C1's rule says of them alone.
    """

    name: str
    n: int
    berts: float
    uncut: TrainingsMean
    chance: float
    together: Judged
    one_at_a_time: Judged


def strata(curve: Result, one_head: Result | None) -> list[Stratum]:
    """All pairs, the easy ones, and the others; empty where it is not known how hard the pairs are.

    Args:
        curve: a pruning curve on MNLI's matched development set, or on its first pairs.
        one_head: the effects of single heads on the same pairs; None if they were not measured.
    """
    right = right_by_berts(curve)
    if right is None or (one_head and right_by_berts(one_head) is None):
        return []
    groups = {
        "all": np.ones(len(right), bool),
        f"at least {EASY} of 100 BERTs are right": right >= EASY,
        "the others": right < EASY,
    }
    return [
        _stratum(name, chosen, right, curve, one_head)
        for name, chosen in groups.items()
        if chosen.any()
    ]


def right_by_berts(result: Result) -> np.ndarray | None:
    """How many of 100 BERTs get each text of a result right, (texts,); None where nobody counted.

    The counts are in the order of the texts, which a checksum tells.
    """
    counted = right_of_100_berts()
    texts = {part.signature["data"].get(counted["dataset"]) for part in result.parts.values()}
    if result.dataset != counted["dataset"] or texts != {counted["sha256"]}:
        return None
    return np.array(counted["right"][: result.n_examples])


def _stratum(
    name: str, chosen: np.ndarray, right: np.ndarray, curve: Result, one_head: Result | None
) -> Stratum:
    trainings = kept.along(on_texts(curve, chosen), "importance")
    uncut = stats.over_trainings(
        [training.scores[0] for training in trainings],
        [training.influences[0] for training in trainings],
    )
    found = kept.at_share(trainings, share_judged(curve.task, "encoder"))
    true = kept_by_others(task_judged(curve.task, "encoder"))
    return Stratum(
        name,
        int(chosen.sum()),
        float(right[chosen].mean()) / 100,
        uncut,
        trainings[0].chance,
        rules.together(found, true),
        _one_at_a_time(one_head, chosen) if one_head else NOT_RUN,
    )


def _one_at_a_time(one_head: Result, chosen: np.ndarray) -> Judged:
    measurement = MEASUREMENTS["one_head"]
    outcomes = {OUTCOMES: on_texts(one_head, chosen).raw}
    values = measurement.summarise("encoder", outcomes, {}, measurement.statistics["encoder"])
    return rules.one_at_a_time(values["counts"], values["removable"], "encoder")


def on_texts(result: Result, chosen: np.ndarray) -> Result:
    """A result with the outcomes of some of its texts alone; its values stay those of all.

    Args:
        chosen: (texts,), true for those that stay.
    """
    parts = {
        name: replace(part, raw=_on_texts(part.raw, chosen)) for name, part in result.parts.items()
    }
    return replace(result, n_examples=int(chosen.sum()), parts=parts)


def _on_texts(raw: Mapping[str, np.ndarray], chosen: np.ndarray) -> Arrays:
    return {
        name: values[..., chosen] if name in _OF_TEXTS else values for name, values in raw.items()
    }
