"""Means over few trainings: texts within trainings, trainings within the recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike

from headprune_lib.replication.stats.checks import Array, numbers, same


@dataclass(frozen=True)
class TrainingsMean:
    """A mean over trainings with its 95% t interval.

    Attributes:
        error: the standard error of the mean.
        freedom: Satterthwaite's degrees of freedom.
    """

    value: float
    low: float
    high: float
    error: float
    freedom: float


def text_influences(statistic: Callable[[Array], Array], systems: ArrayLike) -> Array:
    """What each text contributes to each system's score, (systems, texts), by the jackknife.

    The sum of the squares of a row is the jackknife's variance of the score, and the sum of the
    products of two rows the covariance of two scores on the same texts.

    Args:
        statistic: maps (..., k) summed counts to (...) scores.
        systems: (systems, texts, k), each text's part of the sums.
    """
    systems = numbers("systems", systems, axes=3)
    texts = systems.shape[1]
    without_one = statistic(systems.sum(1, keepdims=True) - systems)  # (systems, texts)
    centred = without_one.mean(-1, keepdims=True) - without_one
    return centred * np.sqrt((texts - 1) / texts)


def over_trainings(values: ArrayLike, influences: ArrayLike) -> TrainingsMean:
    """The mean over trainings, with a t interval by Satterthwaite's degrees of freedom.

    Its variance is that of the trainings' values, divided by their number, plus that of the mean
    over texts. Noise of the texts that each training has to itself is in both terms, so that the
    interval is rather too wide than too narrow. One training tells of its texts alone.

    Args:
        values: (trainings,).
        influences: (trainings, texts), see :func:`text_influences`; 0 for a text that a training
            was not measured on.
    """
    values, influences = (
        numbers("values", values, axes=1),
        numbers("influences", influences, axes=2),
    )
    same("numbers of trainings", len(values), len(influences))
    trainings, texts = influences.shape
    of_texts = float(np.square(influences.mean(0)).sum())
    of_trainings = float(values.var(ddof=1)) / trainings if trainings > 1 else 0.0
    variance = of_texts + of_trainings
    weighted = of_texts**2 / (texts - 1)
    weighted += of_trainings**2 / (trainings - 1) if trainings > 1 else 0.0
    freedom = variance**2 / weighted if weighted > 0 else float(texts - 1)
    error, value = variance**0.5, float(values.mean())
    half = float(scipy.stats.t.isf(0.025, freedom)) * error
    return TrainingsMean(value, value - half, value + half, error, freedom)
