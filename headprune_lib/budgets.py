"""How many heads of an order are removed, and what the model then costs.

Heads are removed until a bound is met, or as long as the model is good enough. What is bounded is a function
of a mask, made once for a model: parameters, bytes of its cache, seconds of a pass; nothing is
removed for it.

>>> from transformers import BertConfig, BertForSequenceClassification
>>> from headprune_lib import score_heads
>>> from headprune_lib.selection import removal_units
>>> config = BertConfig(hidden_size=8, num_attention_heads=4, num_hidden_layers=2,
...                     intermediate_size=8, vocab_size=10)
>>> model = BertForSequenceClassification(config)
>>> steps = removal_units(model, score_heads(model, [], "random"))
>>> cut = prune_to_budget(model, steps, parameters_cost(model), at_most=5050)
>>> [(point.heads, point.value) for point in cut.curve]
[(0, 5226.0), (1, 5156.0), (2, 5086.0), (3, 5016.0)]
>>> int(cut.mask["self"].sum())
5
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from headprune_lib.discovery import alike, find_heads
from headprune_lib.masking import HeadTensors, ones_mask, without_heads
from headprune_lib.messages import one_line
from headprune_lib.selection import Step
from headprune_lib.slicing import keep_heads, layer_number
from headprune_lib.specs import AttentionLayer
from headprune_lib.utils import (
    Batch,
    ensure_device,
    eval_mode,
    model_inputs,
    n_parameters,
    seconds_of,
    to_device,
)
from headprune_lib.verify import record

Measured = Callable[[HeadTensors], float]
"""Something of the model that a mask would leave: what it costs, or how good it is."""


@dataclass(frozen=True)
class Point:
    """What was measured at one point of an order.

    Attributes:
        steps: number of steps removed there.
        heads: number of heads removed there.
        value: of the bounded quantity.
    """

    steps: int
    heads: int
    value: float


@dataclass(frozen=True)
class BudgetResult:
    """How many heads can be removed along an order within a bound.

    Attributes:
        mask: kind -> ``(layer, head)``, ready for :func:`headprune_lib.prune_heads`.
        steps: how many steps of the order it cuts.
        curve: what was walked, from the uncut model on.
    """

    mask: HeadTensors
    steps: int
    curve: tuple[Point, ...]


def prune_to_budget(
    model: nn.Module, steps: Sequence[Step], cost: Measured, at_most: float
) -> BudgetResult:
    """The fewest first steps of an order after which the model costs ``at_most`` so much.

    Args:
        steps: as :func:`headprune_lib.selection.removal_units` lists them.
        cost: such as :func:`parameters_cost`, or a function of one's own.

    Raises:
        ValueError: the model costs more even with all steps removed.
    """
    walk = _Walk(model, steps, cost)
    for n in range(len(steps) + 1):
        if walk.at(n) <= at_most:
            return walk.until(n)
    first, last = walk.at(0), walk.at(len(steps))
    raise ValueError(
        f"{at_most:,.6g} is out of reach: the model has {first:,.6g} now, and {last:,.6g} with all "
        f"{sum(map(len, steps))} heads gone that may go; give at least that, or let more go"
    )


def prune_while(
    model: nn.Module, steps: Sequence[Step], quality: Measured, at_least: float
) -> BudgetResult:
    """As many first steps of an order as leave the model ``at_least`` so good, by bisection.

    Of a quality that falls along the order this is the last such place. Where it rises and falls,
    it is one of several: the model is good enough there, and with one step more it is not.

    Args:
        steps: as :func:`headprune_lib.selection.removal_units` lists them.
        quality: higher is better; on text that neither the scores nor the final figure are of.

    Raises:
        ValueError: the model is not so good before anything is cut.
    """
    walk = _Walk(model, steps, quality)
    if not walk.at(0) >= at_least:
        raise ValueError(f"the uncut model reaches {walk.at(0):.6g} itself, not {at_least:.6g}")
    good, bad = 0, len(steps)
    if walk.at(bad) >= at_least:
        return walk.until(bad)
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
        self.steps, self.look, self.whole = steps, look, ones_mask(model)
        self.seen: dict[int, float] = {}

    def heads(self, n: int) -> Step:
        return [head for step in self.steps[:n] for head in step]

    def at(self, n: int) -> float:
        if n not in self.seen:
            self.seen[n] = self.look(without_heads(self.whole, self.heads(n)))
        return self.seen[n]

    def until(self, n: int) -> BudgetResult:
        points = (Point(i, len(self.heads(i)), value) for i, value in sorted(self.seen.items()))
        return BudgetResult(without_heads(self.whole, self.heads(n)), n, tuple(points))


Size = tuple[int, int]
"""Query heads and key and value heads that a layer has left."""


def _heads_left(block: AttentionLayer, mask: HeadTensors) -> list[int]:
    row = mask[block.kind][block.layer].tolist()
    return [head for head in block.kept_heads if row[head] != 0]


def _size_of(block: AttentionLayer, heads: Collection[int]) -> Size:
    """The size of a block that is left with these heads."""
    return len(heads), sum(not set(group).isdisjoint(heads) for group in block.groups)


def parameters_cost(model: nn.Module) -> Measured:
    """The number of parameters that a mask would leave, exactly."""
    whole = n_parameters(model)
    blocks = [block for block in find_heads(model) if not block.why_not_prunable]
    gone: dict[tuple[str, Size], int] = {}

    def cost(mask: HeadTensors) -> float:
        left = whole
        for block in blocks:
            heads = _heads_left(block, mask)
            size = block.path, _size_of(block, heads)
            if size not in gone:
                module = model.get_submodule(block.path)
                without_numbers: dict[int, Any] = {
                    id(weight): nn.Parameter(torch.empty_like(weight, device="meta"), False)
                    for weight in module.parameters()
                }
                smaller = _smaller(model, block, heads, without_numbers)
                gone[size] = n_parameters(module) - n_parameters(smaller)
            left -= gone[size]
        return float(left)

    return cost


def _smaller(
    model: nn.Module, block: AttentionLayer, heads: Sequence[int], memo: dict[int, Any]
) -> nn.Module:
    """A copy of an attention module that is left with these heads."""
    smaller = copy.deepcopy(model.get_submodule(block.path), memo)
    if len(heads) < len(block.kept_heads):
        keep_heads(smaller, replace(block, path=""), heads)
    return smaller


def cache_cost(model: nn.Module, batch_size: int, length: int) -> Measured:
    """The bytes of keys and values that a mask would leave in the cache of generation.

    Measured where the model runs once over one text of this length, so that sliding windows and the
    weights' precision count as they are. A layer without heads still notes how long the text is.

    Raises:
        ValueError: a model that keeps no keys and values, cannot run on so many tokens, or keeps
            something else than one entry a head.
    """
    each: dict[AttentionLayer, tuple[bool, int, int]] = {}
    for block, keys, values in _cached(model, length):
        heads, groups, entries = len(block.kept_heads), len(block.groups), keys.shape[1]
        if entries not in (heads, groups) or values.shape[1] != entries:
            raise ValueError(
                f"{block.path} keeps {entries} keys and {values.shape[1]} values a token for "
                f"{heads} query and {groups} key and value heads: its cache with fewer heads is not known"
            )
        size = (keys.nbytes + values.nbytes) // len(keys) // entries
        # a layer without heads keeps one number a token to say how long the text is
        mark = keys.shape[2] * keys.element_size() + values.shape[2] * values.element_size()
        # Falcon keeps keys and values once a query head
        each[block] = entries == groups, size, 0 if block.kind == "cross" else mark
    if not each:
        raise ValueError(
            f"{type(model).__name__} keeps no keys and values: there is no cache to bound"
        )

    def cost(mask: HeadTensors) -> float:
        total = 0
        for block, (by_group, size, mark) in each.items():
            heads, groups = _size_of(block, _heads_left(block, mask))
            total += (groups if by_group else heads) * size or mark
        return float(total * batch_size)

    return cost


def _cached(model: nn.Module, length: int) -> Iterator[tuple[AttentionLayer, Tensor, Tensor]]:
    """Blocks that keep keys and values of one text, with what they keep."""
    inputs = random_tokens(model, 1, length)
    with eval_mode(model), torch.no_grad():
        try:
            outputs = model(**inputs, use_cache=True)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            raise ValueError(
                f"{type(model).__name__} does not run on {length} tokens with a cache "
                f"({type(error).__name__}: {one_line(error, 120)})"
            ) from error
    cache: Any = getattr(outputs, "past_key_values", None)
    for block in find_heads(model):
        side = "cross" if block.kind == "enc-dec" else "self"
        of_side = getattr(cache, f"{side}_attention_cache", cache)
        number = layer_number(block.part(model, "core"))
        encodes = block.kind in ("enc-enc", "vision", "audio")
        if not isinstance(of_side, Cache) or number is None or encodes or not block.kept_heads:
            continue
        layer: Any = of_side.layers[number]
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if keys is not None and values is not None and block.spec.makes_keys:
            yield block, keys, values


def random_tokens(model: nn.Module, batch_size: int, length: int) -> Batch:
    """So many texts of so many random tokens; for an encoder-decoder as many on either side."""
    config: Any = getattr(model, "config", None)
    words = getattr(config.get_text_config(), "vocab_size", None) if config is not None else None
    if words is None or getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise ValueError(f"{type(model).__name__} does not read tokens; give a batch of its inputs")
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(words, (batch_size, length), generator=generator)
    ids = ids.to(ensure_device(model, None))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return inputs | ({"decoder_input_ids": ids} if config.is_encoder_decoder else {})


@dataclass(frozen=True)
class Seconds:
    """A table of measured times; called with a mask, the seconds of a pass that it would leave."""

    whole: float  # seconds of a pass of the model as it is
    layers: dict[str, dict[Size, float]]  # path of an attention module -> seconds of every size
    blocks: tuple[AttentionLayer, ...]

    def __call__(self, mask: HeadTensors) -> float:
        """Seconds of a pass, if all but attention takes as long as it does."""
        total = self.whole
        for block in self.blocks:
            table, left = self.layers[block.path], _size_of(block, _heads_left(block, mask))
            if left not in table:
                raise ValueError(
                    f"{block.path} was not measured with {left}: give seconds_cost these steps"
                )
            total += table[left] - table[_size_of(block, block.kept_heads)]
        return total


def seconds_cost(
    model: nn.Module, batch: Batch, steps: Sequence[Step], *, rounds: int = 7
) -> Seconds:
    """Measure each attention layer with every number of heads that an order leaves it.

    Layers are sliced copies that get what the layer gets in a pass of the model; all take turns with
    the whole model, round by round, and medians count. Layers that are alike are measured once.
    Held in memory meanwhile: the copies of one layer, about half as many layers as it has heads.

    Args:
        batch: of the size and length that the seconds are to be of; ``labels`` are left out.
        steps: as :func:`headprune_lib.selection.removal_units` lists them.

    Raises:
        ValueError: the model does not run on the batch, or not through a layer that loses heads.
    """
    device = ensure_device(model, None)
    inputs = model_inputs(model, to_device(batch, device))
    blocks = tuple(b for b in find_heads(model) if b.kept_heads and not b.why_not_prunable)
    tables: dict[str, dict[Size, float]] = {}
    measured: dict[Any, dict[Size, float]] = {}
    wholes: list[float] = []
    with eval_mode(model), torch.inference_mode():
        calls, problem = record(model, [block.path for block in blocks], inputs)
        if missing := [block.path for block in blocks if block.path not in calls]:
            raise ValueError(f"{missing[0]} does not run on this batch {problem}".rstrip())
        for block in blocks:
            sizes = _sizes(block, steps)
            shape = alike(model.get_submodule(block.path)), block.kept_heads, frozenset(sizes)
            if shape not in measured:
                layers = {size: _smaller(model, block, sizes[size], {}) for size in sizes}
                times: dict[Size, list[float]] = {size: [] for size in sizes}
                for _ in range(rounds + 1):
                    wholes.append(seconds_of(partial(model, **inputs), device))
                    for size, layer in layers.items():
                        call = copy.deepcopy(calls[block.path])  # which the layer may write to
                        run = partial(layer, *call.args, **call.kwargs)
                        times[size].append(seconds_of(run, device))
                # the first round warms up
                measured[shape] = {size: statistics.median(times[size][1:]) for size in sizes}
            tables[block.path] = measured[shape]
    return Seconds(statistics.median(wholes), tables, blocks)


def _sizes(block: AttentionLayer, steps: Sequence[Step]) -> dict[Size, list[int]]:
    """The sizes that a layer has along an order, with the heads that it has left there."""
    left = list(block.kept_heads)
    sizes = {_size_of(block, left): left}
    for step in steps:
        gone = {head for kind, layer, head in step if (kind, layer) == (block.kind, block.layer)}
        left = [head for head in left if head not in gone]
        sizes.setdefault(_size_of(block, left), left)
    return sizes
