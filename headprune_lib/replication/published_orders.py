"""Orders of removal that others measured on BERT-base, as curves beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import yaml

from headprune_lib.replication import stats
from headprune_lib.replication.paths import reference_root
from headprune_lib.replication.published import independent_curves
from headprune_lib.replication.stats.bounds import ORDERS_UP_TO

_HEADS = 144
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
    """A curve of BERT-base without training after the cut.

    Attributes:
        who: measured it.
        task: ``"mnli"`` or ``"sst2"``.
        order: what heads were removed by, in this book's words.
        shares: of the heads removed, 0 first.
        accuracy: at each of these.
        chance: the share of the most frequent answer among the sentences.
        source: where the numbers are from.
    """

    who: str
    task: str
    order: str
    shares: np.ndarray
    accuracy: np.ndarray
    chance: float
    source: str

    @property
    def kept(self) -> np.ndarray:
        """Share of the accuracy above chance that is kept at each share removed."""
        return stats.kept_above_chance(self.accuracy, self.accuracy[0], self.chance)

    @property
    def area(self) -> float:
        """Mean of what is kept over 0 to 50% removed, along straight lines between the points."""
        grid = np.linspace(0, ORDERS_UP_TO, 101)
        return float(stats.area_under_curve(grid, np.interp(grid, self.shares, self.kept)))


@cache
def _file() -> dict[str, Any]:
    path = reference_root() / "published_head_pruning.yml"
    return yaml.safe_load(path.read_text("utf-8"))


def published_orders() -> list[PublishedOrder]:
    """All curves, task by task; of each, those of one laboratory together."""
    return [
        one
        for task in ("mnli", "sst2")
        for one in (*_greedy_gnorm(task), *_hies(task), *_again(task))
    ]


def five_seeds() -> list[dict[str, float]]:
    """What entropy adds to importance on MNLI in the mean of five fine-tunings, in points."""
    found = _file()["hies"]["mnli_five_seeds"]
    return [
        {"percent_removed": percent, "points": combined - importance}
        for percent, importance, combined in zip(
            found["percent_removed"], found["importance"], found["combined"], strict=True
        )
    ]


def trained_methods() -> list[dict[str, Any]]:
    """Methods that train the model or its gates: heads left, and the score."""
    return _file()["trained"]


def said_of_training() -> list[dict[str, str]]:
    """What others conclude of methods that train; without curves."""
    return _file()["said"]


def _greedy_gnorm(task: str) -> list[PublishedOrder]:
    found = _file()["greedy_gnorm"]
    shares = np.array(found["heads_removed"]) / _HEADS
    return [
        _order(found, task, name, shares, np.array(curve)) for name, curve in found[task].items()
    ]


def _hies(task: str) -> list[PublishedOrder]:
    found = _file()["hies"]
    curves = dict(found[task])
    shares = np.array(curves.pop("percent_removed")) / 100
    return [
        _order(found, task, name, shares, np.array(curve) / 100) for name, curve in curves.items()
    ]


def _again(task: str) -> list[PublishedOrder]:
    """The paper's own figures, measured again with its authors' code."""
    found = independent_curves()
    return [
        PublishedOrder(
            "Silent-Zebra",
            task,
            _TITLES[one["order"]],
            np.array([0, *one["heads_removed"]]) / _HEADS,
            np.array([one["base"], *one["score"]]),
            one["chance"],
            found["source"],
        )
        for one in found.values()
        if isinstance(one, dict) and one.get("task") == task
    ]


def _order(
    found: dict[str, Any], task: str, name: str, shares: np.ndarray, accuracy: np.ndarray
) -> PublishedOrder:
    (chance, *_) = (one.chance for one in _again(task))  # of the same sentences
    return PublishedOrder(
        found["who"], task, _TITLES[name], shares, accuracy, chance, found["source"]
    )
