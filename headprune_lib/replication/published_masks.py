"""BERT-base on nine GLUE tasks, five seeds each: the heads that others masked, and what was left.

By Prasanna, Rogers and Rumshisky 2020; ``data/reference/bert_base_masks.json`` says how each number
was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.stats

from headprune_lib.replication.published import bert_base_masks

STEP = 14
"""Heads masked at each step of their search, a tenth of all."""


@dataclass(frozen=True, eq=False)
class MaskedTask:
    """Fine-tunings of BERT-base on one task.

    Attributes:
        task: as GLUE spells it.
        metric: that the search looked at, as their files call it.
        importance: (seeds, heads), scored at the search's last step; no Eq. 2 of a whole model.
        entropy: (seeds, heads), attention entropy in nats; None where it was not stored.
        removed: (seeds,), heads without which 90% of the score is left.
        scores: name of a mask -> mean of the score over seeds, and standard error of that mean.
    """

    task: str
    metric: str
    importance: np.ndarray
    entropy: np.ndarray | None
    removed: np.ndarray
    scores: dict[str, tuple[float, float]]

    @property
    def heads(self) -> int:
        """Heads of the whole model."""
        return self.importance.shape[1]

    @property
    def above_chance(self) -> bool:
        """Whether the whole models score more than the most frequent answer."""
        return self.scores["no_mask"][0] > self.scores["freq_baseline"][0]

    def ahead_of_random(self, suffix: str = "") -> tuple[float, float, float]:
        """Score by importance minus that of random masks, with its 95% interval.

        By Welch, as if the fine-tunings of the two were others: which belong together was not
        published.

        Args:
            suffix: ``"_retrained"`` for BERT that was fine-tuned under the masks.
        """
        (one, error), (other, of_other) = (
            self.scores[f"{name}{suffix}"] for name in ("head", "head_random")
        )
        variance, less = error**2 + of_other**2, len(self.removed) - 1
        freedom = less * variance**2 / (error**4 + of_other**4)
        half = float(scipy.stats.t.isf(0.025, freedom)) * variance**0.5
        return one - other, one - other - half, one - other + half


@cache
def masked_tasks() -> tuple[MaskedTask, ...]:
    """All nine tasks, by name."""
    file = bert_base_masks()
    return tuple(_task(task, file) for task in file["masks"])


def ranks_alike(one: np.ndarray, other: np.ndarray | None = None) -> np.ndarray:
    """Spearman correlations over heads of every two fine-tunings with different seeds.

    Args:
        one: (seeds, heads), scores after fine-tuning on a task.
        other: the same on another task; the pairs are within ``one`` without it.

    Returns:
        (pairs,): each seed of ``one`` with each other seed of ``other``, or each pair of ``one``'s.
    """
    seeds = len(one)
    ranks = scipy.stats.rankdata(np.concatenate([one, one if other is None else other]), axis=1)
    every = np.corrcoef(ranks)[:seeds, seeds:]
    pairs = np.triu_indices(seeds, 1) if other is None else np.where(~np.eye(seeds, dtype=bool))
    return every[pairs]


def _task(task: str, file: dict[str, Any]) -> MaskedTask:
    seeds, metric = list(file["masks"][task].values()), file["searched_metric"][task]

    def of_heads(name: str) -> np.ndarray:
        return np.array([np.ravel(seed[name]) for seed in seeds])

    return MaskedTask(
        task,
        metric,
        of_heads("head_importance"),
        of_heads("attn_entropy") if "attn_entropy" in seeds[0] else None,
        (of_heads("head_mask") == 0).sum(1),
        {
            # theirs divides by the number of seeds, so that the mean's error is by one less
            name: (scores[task][metric][0], scores[task][metric][1] / (len(seeds) - 1) ** 0.5)
            for name, scores in file["results"].items()
        },
    )
