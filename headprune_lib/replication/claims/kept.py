"""The share of the score above chance that models keep along an order, training by training.

All fine-tunings of one recipe count together if they were measured on the same texts: those of the
pruning curve and, where its texts begin with theirs, those of ``which_first``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headprune_lib.replication import stats, store
from headprune_lib.replication.measurements.estimates import scored
from headprune_lib.replication.order_names import parse_part
from headprune_lib.replication.published import bert_curve, bert_steps, published_share
from headprune_lib.replication.stats import TrainingsMean
from headprune_lib.replication.store import Key, Part, Result

BERT_TASKS = {"mnli": "MNLI", "sst2": "SST-2", "cola": "CoLA"}
"""Tasks on which others published BERT-base's curve -> their spelling."""


def kept_by_others(task: str) -> float:
    """Share of the score above chance that others' BERT-base keeps at the paper's share.

    1, nothing lost, for a task without such a curve, and for translation.
    """
    curve = bert_curve(task)
    return bert_at_share(curve)[0] if curve else 1.0


def bert_at_share(curve: Mapping[str, Any]) -> tuple[float, float]:
    """Share kept of the score above chance at the paper's share, and the score there."""
    cut = float(np.interp(published_share(curve["task"]), *bert_steps(curve)))
    return float(stats.kept_above_chance(cut, curve["base"], curve["chance"])), cut


@dataclass(frozen=True)
class Along:
    """One training along an order of removal, the unpruned model first.

    Attributes:
        weights: a hash of the training's weights.
        scores: (steps,).
        influences: (steps, texts), see :func:`headprune_lib.replication.stats.text_influences`.
    """

    weights: str
    shares: np.ndarray
    chance: float
    scores: np.ndarray
    influences: np.ndarray

    def step(self, share: float) -> int | None:
        """The index of the step that removes a share of the heads; None if it was not measured."""
        indices = np.flatnonzero(np.isclose(self.shares, share))
        return int(indices[0]) if len(indices) else None


def along(result: Result, order: str) -> list[Along]:
    """Every training of a pruning curve that an order was followed on."""
    return [
        training
        for name, part in result.parts.items()
        if parse_part(name).curve == order
        for training in _trainings(part)
    ]


def pooled(result: Result, order: str, root: Path | None = None) -> list[Along]:
    """As :func:`along`, with further fine-tunings of the same recipe on the same texts."""
    trainings = along(result, order)
    further = store.stored(Key("which_first", result.task, result.model), root)
    if further is None or "labels" not in next(iter(result.parts.values())).raw:
        return trainings
    known = {training.weights for training in trainings}
    first = result.parts.get(order)
    for name, part in further.parts.items():
        if parse_part(name).curve == order and first and _alike(first, part):
            trainings += [other for other in _trainings(part) if other.weights not in known]
    return trainings


def mean_kept(
    trainings: Sequence[Along], weights: Sequence[np.ndarray], less: Sequence[Along] = ()
) -> TrainingsMean | None:
    """The mean over trainings of a weighted sum of the shares kept along their curves.

    The share kept is the ratio of the mean score above chance to the unpruned models' mean, by the
    delta method. None where the 95% interval of the unpruned models' score reaches down to chance:
    then there is nothing to keep.

    Args:
        weights: weights of each training's steps.
        less: the same trainings along another order, whose sum is subtracted.
    """
    above = np.array([training.scores[0] - training.chance for training in trainings])
    uncut = stats.over_trainings(above, _padded(training.influences[0] for training in trainings))
    if uncut.low <= 0:
        return None
    values, influences = _linear(trainings, weights, uncut.value)
    if less:
        their_values, theirs = _linear(less, weights, uncut.value)
        values, influences = values - their_values, influences - theirs
    return stats.over_trainings(values, influences)


def at_share(trainings: Sequence[Along], share: float) -> dict[str, Any] | None:
    """The share kept with a share of the heads removed, as :func:`rules.together` takes it.

    ``raw`` is the share of the score itself, without subtracting chance, as in the paper's curves.
    """
    steps = [training.step(share) for training in trainings]
    if not steps or None in steps:
        return None
    weights = [
        np.eye(len(training.shares))[step] for training, step in zip(trainings, steps, strict=True)
    ]
    mean = mean_kept(trainings, weights)
    cut = np.mean([w @ training.scores for w, training in zip(weights, trainings, strict=True)])
    return {
        "share": share,
        "kept": mean and mean.value,
        **spread(mean),
        "raw": float(cut / np.mean([training.scores[0] for training in trainings])),
        "trainings": len(trainings),
    }


def spread(mean: TrainingsMean | None) -> dict[str, Any]:
    """The 95% interval of a mean, its error and degrees of freedom; all None without a mean."""
    if mean is None:
        return {"interval": [None, None], "error": None, "freedom": None}
    return {"interval": [mean.low, mean.high], "error": mean.error, "freedom": mean.freedom}


def area_weights(shares: np.ndarray, up_to: float) -> np.ndarray:
    """Weights of a curve's steps whose weighted sum is the mean over 0 to a share removed."""
    inside = shares <= up_to + 1e-9
    weights = np.zeros(len(shares))
    weights[inside] = stats.area_under_curve(shares[inside], np.eye(int(inside.sum())))
    return weights


def shared(first: Iterable[Along], second: Iterable[Along]) -> tuple[list[Along], list[Along]]:
    """The trainings on which both orders were followed, in the same sequence."""
    others = {training.weights: training for training in second}
    both = [training for training in first if training.weights in others]
    return both, [others[training.weights] for training in both]


def _linear(
    trainings: Sequence[Along], weights: Sequence[np.ndarray], uncut: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values (trainings,) around the ratio of the means, and influences (trainings, texts)."""
    above = [training.scores - training.chance for training in trainings]
    sums = np.array([w @ each for w, each in zip(weights, above, strict=True)])
    ratio = sums.mean() / uncut
    values = ratio + (sums - ratio * np.array([each[0] for each in above])) / uncut
    influences = _padded(
        (w @ training.influences - ratio * training.influences[0]) / uncut
        for w, training in zip(weights, trainings, strict=True)
    )
    return values, influences


def _padded(rows: Iterable[np.ndarray]) -> np.ndarray:
    """Rows padded to one length with 0 for texts on which a training was not measured."""
    rows = list(rows)
    padded = np.zeros((len(rows), max(map(len, rows))))
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return padded


def _alike(first: Part, other: Part) -> bool:
    """Whether two parts are fine-tunings of one recipe, and the second's texts begin the first's."""
    labels = other.raw["labels"]
    return (
        _recipe(first) == _recipe(other)
        and first.signature["own"]["n_scoring"] == other.signature["own"]["n_scoring"]
        and np.array_equal(first.raw["labels"][: len(labels)], labels)
    )


def _recipe(part: Part) -> Mapping[str, Any]:
    (recipe, *_) = part.signature["recipe"].values()
    return {name: value for name, value in recipe.items() if name != "seed"}


def _trainings(part: Part) -> list[Along]:
    scores = scored(part.raw)
    return [
        Along(
            str(training.get("weights_sha256")),
            part.raw["shares"],
            scores.chance,
            scores.of(counts.sum(1)),
            stats.text_influences(scores.of, counts),
        )
        for training, counts in zip(part.runs, scores.counts.astype(float), strict=True)
    ]
