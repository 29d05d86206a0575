"""Values that the paper and others published, from the project's copies in ``data/reference``.

Others measured the paper's figures again, masked heads of BERT-base on nine GLUE tasks (Prasanna,
Rogers and Rumshisky 2020), and measured curves of BERT-base in further orders of removal.
Each file says how its numbers were made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import yaml

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.data import whole_task
from headprune_lib.replication.paths import reference_root


@cache
def _read(name: str) -> dict[str, Any]:
    text = (reference_root() / name).read_text("utf-8")
    return json.loads(text) if name.endswith(".json") else yaml.safe_load(text)


def independent_grids() -> list[dict[str, Any]]:
    """Per-head numbers that other laboratories measured, one grid per laboratory, task and kind."""
    return _read("independent_reproductions.json")["grids"]


def paper(artifact: str) -> dict:
    """The published values of a table or figure, layers and heads counted from 1."""
    return _read("paper_values.yml")[artifact]


# A task here -> the task of the paper whose values are shown next to its own.
_STANDS_FOR = {
    "snli": "mnli",
    "enfr": "wmt",
    "wmt14-enfr": "wmt",
    "deen": "iwslt",
    "multi30k": "iwslt",
    "iwslt14-deen": "iwslt",
}


def published_task(task: str) -> str:
    """The paper's task that one of ours stands for; itself where it is one of the paper's.

    >>> published_task("snli"), published_task("snli-held"), published_task("sst2")
    ('mnli', 'mnli', 'sst2')
    """
    whole = whole_task(task)
    return _STANDS_FOR.get(whole, whole)


def published_shares() -> dict[str, float]:
    """The paper's task -> the share of heads removed there without noticeable effect."""
    figure3 = paper("figure3")
    return {"mnli": figure3["bert_mnli"], "wmt": figure3["wmt"], **paper("figure6")}


def published_share(task: str) -> float | None:
    """The share of heads that the paper removes on a task; None where the paper has none.

    >>> published_share("snli"), published_share("reviews")
    (0.4, None)
    """
    return published_shares().get(published_task(task))


def independent_curves() -> dict[str, Any]:
    """Figures 3b, 4, 5, 6a, 6b and 6d measured again by others, with their source."""
    return _read("independent_curves.json")


def right_of_100_berts() -> dict[str, Any]:
    """How many of 100 fine-tuned BERTs got each pair of MNLI's matched set right, and the source.

    ``right`` is in the order of stored results on ``dataset``, whose checksum is ``sha256``.
    """
    return _read("mnli_right_of_100_berts.json")


def _curves(task: str) -> list[dict[str, Any]]:
    """BERT-base's curves on a task of the paper, as others measured them."""
    curves = independent_curves().values()
    return [curve for curve in curves if isinstance(curve, dict) and curve.get("task") == task]


def bert_curve(task: str) -> dict[str, Any] | None:
    """BERT-base's curve by importance on a task of the paper, measured by others; None without one.

    >>> bert_curve("mnli")["n_test"], bert_curve("mrpc")
    (9815, None)
    """
    return next((curve for curve in _curves(task) if curve.get("order") == "importance"), None)


HEADS = 144
"""Number of heads of BERT-base."""


def bert_steps(curve: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Shares of BERT-base's heads that others removed, and the scores, the whole model first."""
    removed, scores = [0, *curve["heads_removed"]], [curve["base"], *curve["score"]]
    return np.array(removed) / HEADS, np.array(scores)


STEP = 14
"""Heads masked at each step of the search behind the masks, a tenth of all."""


@dataclass(frozen=True, eq=False)
class MaskedTask:
    """Fine-tunings of BERT-base on one task.

    Attributes:
        task: as GLUE spells it.
        importance: (seeds, heads), scored at the search's last step; not Eq. 2 of a whole model.
        removed: (seeds,), numbers of heads without which 90% of the score is left.
    """

    task: str
    importance: np.ndarray
    removed: np.ndarray

    @property
    def heads(self) -> int:
        """Number of heads of the whole model."""
        return self.importance.shape[1]


@cache
def masked_tasks() -> tuple[MaskedTask, ...]:
    """All nine tasks, sorted by name."""
    tasks = []
    for task, by_seed in _read("bert_base_masks.json")["masks"].items():
        importance, mask = (
            np.array([np.ravel(seed[name]) for seed in by_seed.values()])
            for name in ("head_importance", "head_mask")
        )
        tasks.append(MaskedTask(task, importance, (mask == 0).sum(1)))
    return tuple(tasks)


def ranks_alike(one: np.ndarray, other: np.ndarray | None = None) -> np.ndarray:
    """Spearman correlations over heads of every two fine-tunings with different seeds.

    Args:
        one: (seeds, heads), scores after fine-tuning on a task.
        other: the same on another task; without it the pairs are within ``one``.

    Returns:
        (pairs,): each seed of ``one`` with each other seed of ``other``, or each pair of ``one``'s.
    """
    import scipy.stats

    seeds, scores = len(one), np.concatenate([one, one if other is None else other])
    every = scipy.stats.spearmanr(scores, axis=1).statistic[:seeds, seeds:]
    pairs = np.triu_indices(seeds, 1) if other is None else np.where(~np.eye(seeds, dtype=bool))
    return every[pairs]


_TITLES = {
    "taylor": "norm of the logits",
    "attattr": "attention attribution",
    "entropy": "attention entropy",
    "random": "random",
    "importance": "importance",
    "combined": "importance and entropy",
    "one-by-one accuracy": "one by one, on the test set",
}


@dataclass(frozen=True, eq=False)
class PublishedOrder:
    """A published curve of BERT-base without retraining.

    Attributes:
        who: short name of the study.
        task: ``"mnli"`` or ``"sst2"``.
        order: the order of removal, in this book's words.
        shares: of the heads removed, 0 first.
        accuracy: at each of these.
        chance: the share of the most frequent answer among the sentences.
    """

    who: str
    task: str
    order: str
    shares: np.ndarray
    accuracy: np.ndarray
    chance: float

    @property
    def kept(self) -> np.ndarray:
        """Share of the accuracy above chance that is kept at each share removed."""
        return stats.kept_above_chance(self.accuracy, self.accuracy[0], self.chance)

    @property
    def area(self) -> float:
        """Mean share kept over 0 to 50% removed, with straight lines between the points."""
        grid = np.linspace(0, ORDERS_UP_TO, 101)
        return float(stats.area_under_curve(grid, np.interp(grid, self.shares, self.kept)))


def published_orders() -> list[PublishedOrder]:
    """All curves, by task and then by laboratory."""
    others, orders = _read("published_head_pruning.yml"), []
    gnorm, hies = others["greedy_gnorm"], others["hies"]
    for task in ("mnli", "sst2"):
        again = _curves(task)  # the paper's own figures, with its authors' code
        percent = {name: np.array(values) for name, values in hies[task].items()}
        shares = percent.pop("percent_removed") / 100
        curves = [
            (gnorm["who"], name, np.array(gnorm["heads_removed"]) / HEADS, np.array(accuracy))
            for name, accuracy in gnorm[task].items()
        ]
        curves += [(hies["who"], name, shares, values / 100) for name, values in percent.items()]
        curves += [("Silent-Zebra", curve["order"], *bert_steps(curve)) for curve in again]
        chance = again[0]["chance"]  # all are of the same sentences
        orders += [
            PublishedOrder(who, task, _TITLES[name], removed, accuracy, chance)
            for who, name, removed, accuracy in curves
        ]
    return orders


def five_seeds() -> list[dict[str, float]]:
    """Points that entropy adds to importance on MNLI, in the mean of five fine-tunings."""
    measured = _read("published_head_pruning.yml")["hies"]["mnli_five_seeds"]
    return [
        {"percent_removed": percent, "points": combined - importance}
        for percent, importance, combined in zip(
            measured["percent_removed"], measured["importance"], measured["combined"], strict=True
        )
    ]
