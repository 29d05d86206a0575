"""The share of the score above chance that models keep along an order, training by training.

All fine-tunings of one recipe count together if they were measured on the same texts: those of the
pruning curve and, where its texts begin with theirs, those of ``which_first``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headprune_lib.replication import stats, store
from headprune_lib.replication.measurements.estimates import scored
from headprune_lib.replication.order_names import IMPORTANCE, parse_part
from headprune_lib.replication.published import bert_curve, bert_steps, published_share
from headprune_lib.replication.stats import TrainingsMean
from headprune_lib.replication.store import Key, Part, Result

Weigh = Callable[[np.ndarray], np.ndarray]
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

    @property
    def above(self) -> np.ndarray:
        """The scores above chance, (steps,)."""
        return self.scores - self.chance


def along(result: Result, order: str) -> list[Along]:
    """Every training of a pruning curve that an order was followed on."""
    return [
        training
        for name, part in result.parts.items()
        if parse_part(name).curve == order
        for training in _trainings(part)
    ]


def pooled(result: Result, root: Path | None = None) -> list[Along]:
    """Every training along importance, with further ones of the recipe on the same texts."""
    trainings = along(result, IMPORTANCE)
    further = store.stored(Key("which_first", result.task, result.model), root)
    if further is None or "labels" not in next(iter(result.parts.values())).raw:
        return trainings
    known = {training.weights for training in trainings}
    first = result.parts.get(IMPORTANCE)
    for name, part in further.parts.items():
        if parse_part(name).curve == IMPORTANCE and first and _alike(first, part):
            trainings += [other for other in _trainings(part) if other.weights not in known]
    return trainings


def mean_kept(
    trainings: Sequence[Along], weigh: Weigh, less: Sequence[Along] = ()
) -> TrainingsMean | None:
    """The mean over trainings of a weighted sum of the shares kept along their curves.

    The share kept is the ratio of the mean score above chance to the unpruned models' mean, by the
    delta method. None where the 95% interval of the unpruned models' score reaches down to chance:
    then there is nothing to keep.

    Args:
        weigh: the shares removed along a curve -> the weights of its steps.
        less: the same trainings along another order, whose sum is subtracted.
    """
    uncut = np.array([training.above[0] for training in trainings])
    of_uncut = _padded(training.influences[0] for training in trainings)
    mean = stats.over_trainings(uncut, of_uncut)
    if mean.low <= 0:
        return None
    sums, of_sums = _weighed(trainings, weigh)
    if less:
        minus, of_minus = _weighed(less, weigh)
        sums, of_sums = sums - minus, of_sums - of_minus
    ratio = sums.mean() / mean.value
    values = ratio + (sums - ratio * uncut) / mean.value
    return stats.over_trainings(values, (of_sums - ratio * of_uncut) / mean.value)


def _weighed(trainings: Sequence[Along], weigh: Weigh) -> tuple[np.ndarray, np.ndarray]:
    """Weighted sums of the scores above chance, (trainings,), and influences (trainings, texts)."""
    weights = [weigh(training.shares) for training in trainings]
    both = list(zip(weights, trainings, strict=True))
    sums = np.array([w @ training.above for w, training in both])
    return sums, _padded(w @ training.influences for w, training in both)


def at_share(trainings: Sequence[Along], share: float) -> dict[str, Any] | None:
    """The share kept with a share of the heads removed, as :func:`rules.together` takes it.

    ``raw`` is the share of the score itself, without subtracting chance, as in the paper's curves.
    None where a training was not measured there.
    """

    def there(shares: np.ndarray) -> np.ndarray:
        return np.isclose(shares, share).astype(float)

    if not trainings or not all(there(training.shares).any() for training in trainings):
        return None
    mean = mean_kept(trainings, there)
    cut = np.mean([there(training.shares) @ training.scores for training in trainings])
    return {
        "share": share,
        "kept": mean and mean.value,
        **spread(mean),
        "raw": float(cut / np.mean([training.scores[0] for training in trainings])),
        "trainings": len(trainings),
    }


def area_between(
    first: Iterable[Along], second: Iterable[Along], up_to: float
) -> dict[str, Any] | None:
    """Mean share kept up to a share removed, the first order minus the second.

    Over the trainings on which both orders were followed; None where there is none.
    """

    def area(shares: np.ndarray) -> np.ndarray:
        inside = shares <= up_to + 1e-9
        weights = np.zeros(len(shares))
        weights[inside] = stats.area_under_curve(shares[inside], np.eye(int(inside.sum())))
        return weights

    others = {training.weights: training for training in second}
    both = [training for training in first if training.weights in others]
    if not both:
        return None
    mean = mean_kept(both, area, [others[training.weights] for training in both])
    return {"difference": mean and mean.value, **spread(mean), "trainings": len(both)}


def spread(mean: TrainingsMean | None) -> dict[str, Any]:
    """The 95% interval of a mean, its error and degrees of freedom; all None without a mean."""
    if mean is None:
        return {"interval": [None, None], "error": None, "freedom": None}
    return {"interval": [mean.low, mean.high], "error": mean.error, "freedom": mean.freedom}


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
