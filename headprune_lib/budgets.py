"""How far down an order heads go: until a bound is kept, or as long as the model is good enough.

>>> from transformers import BertConfig, BertForSequenceClassification
>>> from headprune_lib.costs import parameters_cost
>>> from headprune_lib.criteria.weights import random_scores
>>> from headprune_lib.orders import prune_steps
>>> config = BertConfig(hidden_size=8, num_attention_heads=4, num_hidden_layers=2,
...                     intermediate_size=8, vocab_size=10)
>>> model = BertForSequenceClassification(config)
>>> steps = prune_steps(model, random_scores(model, []))
>>> cut = cut_until(model, steps, parameters_cost(model), at_most=5050)
>>> [(point.heads, point.value) for point in cut.curve]
[(0, 5226.0), (1, 5156.0), (2, 5086.0), (3, 5016.0)]
>>> int(cut.mask["self"].sum())
5
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from headprune_lib.heads import HeadTensors, cut_heads
from headprune_lib.orders import Step

Measured = Callable[[HeadTensors], float]
"""Something of the model that a mask would leave: what it costs, or how good it is."""


@dataclass(frozen=True)
class Point:
    """What was seen at one place of an order.

    Attributes:
        steps: how many steps are gone there.
        heads: how many heads that is.
        value: of what is bounded.
    """

    steps: int
    heads: int
    value: float


@dataclass(frozen=True)
class Cut:
    """How far an order goes.

    Attributes:
        mask: kind -> ``(layer, head)``, ready for :func:`headprune_lib.prune_heads`.
        steps: how many steps of the order it cuts.
        curve: what was walked, from the uncut model on.
    """

    mask: HeadTensors
    steps: int
    curve: tuple[Point, ...]


def cut_until(model: nn.Module, steps: Sequence[Step], cost: Measured, at_most: float) -> Cut:
    """The fewest first steps of an order after which the model costs ``at_most`` so much.

    Args:
        steps: as :func:`headprune_lib.orders.prune_steps` lists them.
        cost: one of ``headprune_lib.costs``, or a function of one's own.

    Raises:
        ValueError: the model costs more even when all steps are gone.
    """
    walk = _Walk(model, steps, cost)
    for n in range(len(steps) + 1):
        if walk.at(n) <= at_most:
            return walk.until(n)
    first, last = walk.at(0), walk.at(len(steps))
    raise ValueError(
        f"{at_most:,.6g} is out of reach: the model has {first:,.6g} now, and {last:,.6g} when all "
        f"{sum(map(len, steps))} heads that may go are gone; give at least that, or let more go "
        "(kinds, keep_at_least)"
    )


def cut_while(model: nn.Module, steps: Sequence[Step], quality: Measured, at_least: float) -> Cut:
    """As many first steps of an order as leave the model ``at_least`` so good, by bisection.

    Of a quality that falls along the order this is the last such place. Where it rises and falls,
    it is one of several: the model is good enough there, and with one step more it is not.

    Args:
        steps: as :func:`headprune_lib.orders.prune_steps` lists them.
        quality: higher is better; on text that neither the scores nor the final figure are of.

    Raises:
        ValueError: the model is not so good before anything is cut.
    """
    walk = _Walk(model, steps, quality)
    if not walk.at(0) >= at_least:
        raise ValueError(f"the uncut model reaches {walk.at(0):.6g} itself, not {at_least:.6g}")
    good, bad = 0, len(steps) + 1
    if walk.at(len(steps)) >= at_least:
        good = len(steps)
    else:
        bad = len(steps)
    while bad - good > 1:
        middle = (good + bad) // 2
        if walk.at(middle) >= at_least:
            good = middle
        else:
            bad = middle
    return walk.until(good)


class _Walk:
    """Places of an order, each looked at once."""

    def __init__(self, model: nn.Module, steps: Sequence[Step], look: Measured) -> None:
        self.model, self.steps, self.look = model, steps, look
        self.seen: dict[int, float] = {}

    def mask(self, n: int) -> HeadTensors:
        return cut_heads(self.model, [head for step in self.steps[:n] for head in step])

    def at(self, n: int) -> float:
        if n not in self.seen:
            self.seen[n] = self.look(self.mask(n))
        return self.seen[n]

    def until(self, n: int) -> Cut:
        curve = tuple(
            Point(place, sum(map(len, self.steps[:place])), value)
            for place, value in sorted(self.seen.items())
        )
        return Cut(self.mask(n), n, curve)
