"""BERT-base on nine tasks, from five seeds each, as others pruned it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.stats

from headprune_lib.replication.pages.tables.pages import points
from headprune_lib.replication.published import MaskedTask, masked_tasks, ranks_alike

__all__ = ["alike", "alike_by_others", "masked_by_others"]

_METRICS = {"mcc": "Matthews correlation", "corr": "mean of Pearson and Spearman"}


@dataclass(frozen=True)
class Alike:
    """Spearman correlations over heads of importance after fine-tuning on a task.

    Attributes:
        seeds: of every two fine-tunings on the task.
        others: another task -> mean over every two fine-tunings, one on each, of different seeds.
        means: of the mean over seeds with that on each other task.
    """

    task: str
    seeds: np.ndarray
    others: dict[str, float]
    means: np.ndarray

    @property
    def nearest(self) -> str:
        """The other task that agrees best."""
        return max(self.others, key=lambda task: self.others[task])


def alike() -> Iterator[Alike]:
    """A task after the other."""
    tasks = masked_tasks()
    means = scipy.stats.spearmanr([task.importance.mean(0) for task in tasks], axis=1).statistic
    for i, task in enumerate(tasks):
        others = {
            other.task: float(ranks_alike(task.importance, other.importance).mean())
            for other in tasks
            if other is not task
        }
        yield Alike(task.task, ranks_alike(task.importance), others, np.delete(means[i], i))


def alike_by_others() -> pd.DataFrame:
    """One row a task: how alike importance is after two fine-tunings on it, and on two tasks."""
    return pd.DataFrame(
        [
            {
                "BERT-base on": one.task,
                "two seeds, mean": f"{one.seeds.mean():.2f}",
                "lowest and highest": f"{one.seeds.min():.2f}, {one.seeds.max():.2f}",
                "with another task, mean": f"{np.mean([*one.others.values()]):.2f}",
                "nearest task": f"{one.others[one.nearest]:.2f} ({one.nearest})",
                "means over seeds, with another task": f"{one.means.min():.2f} to {one.means.max():.2f}",
            }
            for one in alike()
        ]
    )


def masked_by_others() -> pd.DataFrame:
    """One row a task: heads until 90% of the score is left, and what is left by other masks."""
    return pd.DataFrame([_masked(task) for task in masked_tasks()])


def _masked(task: MaskedTask) -> dict[str, str]:
    removed = task.removed

    def score(name: str) -> str:
        return f"{100 * task.scores[name][0]:.1f}"

    def before_and_after(name: str) -> str:
        return f"{score(name)} → {score(f'{name}_retrained')}"

    def ahead(suffix: str) -> str:
        lead, *interval = task.ahead_of_random(suffix)
        return points(lead, interval)

    return {
        "BERT-base on": f"{task.task}, {_METRICS.get(task.metric, 'accuracy')}",
        "heads removed (lowest to highest)": f"{removed.mean():.1f} ({removed.min()} to {removed.max()})",
        "all heads": score("no_mask"),
        "constant answer": score("freq_baseline"),
        "by importance": before_and_after("head"),
        "as many at random": before_and_after("head_random"),
        "importance minus random": ahead(""),
        "the same, fine-tuned": ahead("_retrained"),
        "the removed heads alone": before_and_after("head_invert"),
    }
