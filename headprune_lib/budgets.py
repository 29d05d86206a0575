"""How many heads of an order to remove under a bound on the model's cost or quality.

Heads are removed until a cost is low enough, or as long as the quality is high enough. A cost is a
function of a mask, set up once for a model: parameters, bytes of cache or seconds of a pass. It is
computed without removing anything.

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
"""The cost or quality of the model that a mask would leave."""


@dataclass(frozen=True)
class Point:
    """A measurement at one point of an order.

    Attributes:
        steps: number of steps removed there.
        heads: number of heads removed there.
        value: the bounded quantity there.
    """

    steps: int
    heads: int
    value: float


@dataclass(frozen=True)
class BudgetResult:
    """The heads that can be removed along an order within a bound.

    Attributes:
        mask: kind -> ``(layer, head)``, ready for :func:`headprune_lib.prune_heads`.
        steps: number of steps of the order that the mask cuts.
        curve: all points that were measured, from the uncut model on.
    """

    mask: HeadTensors
    steps: int
    curve: tuple[Point, ...]


def prune_to_budget(
    model: nn.Module, steps: Sequence[Step], cost: Measured, at_most: float
) -> BudgetResult:
    """Find the fewest first steps of an order whose removal brings the cost down to ``at_most``.

    Args:
        steps: the order, as from :func:`headprune_lib.selection.removal_units`.
        cost: what :func:`parameters_cost` returns, for example, or a function of your own.

    Raises:
        ValueError: the model costs more even with all steps removed.
    """
    walk = _Walk(model, steps, cost)
    for n in range(len(steps) + 1):
        if walk.at(n) <= at_most:
            return walk.until(n)
    first, last = walk.at(0), walk.at(len(steps))
    raise ValueError(
        f"{at_most:,.6g} cannot be reached: the model has {first:,.6g} now, and {last:,.6g} "
        f"without all {sum(map(len, steps))} heads that may be removed. Give a higher bound, "
        "or allow more heads to be removed"
    )


def prune_while(
    model: nn.Module, steps: Sequence[Step], quality: Measured, at_least: float
) -> BudgetResult:
    """Find by bisection how many first steps of an order keep the quality at ``at_least`` or above.

    If the quality falls along the order, this is the last such point. If it rises and falls, this
    is one of several: the model is good enough there, and one step later it is not.

    Args:
        steps: the order, as from :func:`headprune_lib.selection.removal_units`.
        quality: higher is better; measure it on text used for neither scores nor final figures.

    Raises:
        ValueError: the uncut model is not that good itself.
    """
    walk = _Walk(model, steps, quality)
    if not walk.at(0) >= at_least:
        raise ValueError(
            f"{at_least:.6g} cannot be kept: the uncut model itself has {walk.at(0):.6g}"
        )
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
    """Points of an order, each measured at most once."""

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
"""Numbers of query heads and of key and value heads that a layer has left."""


def _heads_left(block: AttentionLayer, mask: HeadTensors) -> list[int]:
    row = mask[block.kind][block.layer].tolist()
    return [head for head in block.kept_heads if row[head] != 0]


def _size_of(block: AttentionLayer, heads: Collection[int]) -> Size:
    """The size of a block that is left with these heads."""
    return len(heads), sum(not set(group).isdisjoint(heads) for group in block.groups)


def parameters_cost(model: nn.Module) -> Measured:
    """Return a function from a mask to the exact number of parameters that it would leave."""
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
    """Return a function from a mask to the bytes that it would leave in the key-value cache.

    The cache is measured in one pass over one text of this length, so that sliding windows and the
    weights' precision are accounted for. A layer without heads still records the text's length.

    Raises:
        ValueError: a model that caches no keys and values, cannot run on that many tokens, or
            caches anything other than one entry per head.
    """
    each: dict[AttentionLayer, tuple[bool, int, int]] = {}
    emptied = 0  # bytes of layers that have no heads already
    for block, keys, values in _cached(model, length):
        if not block.kept_heads:
            emptied += (keys.nbytes + values.nbytes) // len(keys)
            continue
        heads, groups, entries = len(block.kept_heads), len(block.groups), keys.shape[1]
        if entries not in (heads, groups) or values.shape[1] != entries:
            raise ValueError(
                f"{block.path} caches {entries} keys and {values.shape[1]} values per token for "
                f"{heads} query heads and {groups} key and value heads, so the size of its cache "
                "with fewer heads is not known"
            )
        size = (keys.nbytes + values.nbytes) // len(keys) // entries
        # a layer without heads caches one number per token to record the text's length
        mark = keys.shape[2] * keys.element_size() + values.shape[2] * values.element_size()
        # Falcon caches keys and values per query head
        each[block] = entries == groups, size, 0 if block.kind == "cross" else mark
    if not (each or emptied):
        raise ValueError(
            f"{type(model).__name__} caches no keys and values, so there is no cache to bound"
        )

    def cost(mask: HeadTensors) -> float:
        total = emptied
        for block, (by_group, size, mark) in each.items():
            heads, groups = _size_of(block, _heads_left(block, mask))
            total += (groups if by_group else heads) * size or mark
        return float(total * batch_size)

    return cost


def _cached(model: nn.Module, length: int) -> Iterator[tuple[AttentionLayer, Tensor, Tensor]]:
    """Yield the blocks that cache keys and values of one text, with these keys and values."""
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
        if not isinstance(of_side, Cache) or number is None or encodes:
            continue
        layer: Any = of_side.layers[number]
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if keys is not None and values is not None and block.spec.makes_keys:
            yield block, keys, values


def random_tokens(model: nn.Module, batch_size: int, length: int) -> Batch:
    """A batch of random tokens, (batch_size, length), for an encoder-decoder on both sides."""
    config: Any = getattr(model, "config", None)
    words = getattr(config.get_text_config(), "vocab_size", None) if config is not None else None
    if words is None or getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise ValueError(f"{type(model).__name__} reads no tokens, so it cannot run on random ones")
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(words, (batch_size, length), generator=generator)
    ids = ids.to(ensure_device(model, None))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return inputs | ({"decoder_input_ids": ids} if config.is_encoder_decoder else {})


@dataclass(frozen=True)
class Seconds:
    """A table of measured times; called with a mask, it returns the seconds of a pass under it."""

    whole: float  # seconds of a pass of the unchanged model
    layers: dict[str, dict[Size, float]]  # path of an attention module -> seconds by size
    blocks: tuple[AttentionLayer, ...]

    def __call__(self, mask: HeadTensors) -> float:
        """Seconds of a pass, assuming that everything except attention takes as long as before."""
        total = self.whole
        for block in self.blocks:
            table, left = self.layers[block.path], _size_of(block, _heads_left(block, mask))
            if left not in table:
                raise ValueError(
                    f"{block.path} was not measured with {left} heads and groups. Give "
                    "seconds_cost the same steps"
                )
            total += table[left] - table[_size_of(block, block.kept_heads)]
        return total


def seconds_cost(
    model: nn.Module, batch: Batch, steps: Sequence[Step], *, rounds: int = 7
) -> Seconds:
    """Time each attention layer with every number of heads that an order leaves it.

    Sliced copies of a layer get its inputs from a pass of the model. They are timed in turn with
    the whole model, in several rounds, and the median counts. Identical layers are timed once. For
    a layer with n heads, copies as large as about n / 2 layers are in memory at once.

    Args:
        batch: a batch of the size and length to be timed; ``labels`` are left out.
        steps: the order, as from :func:`headprune_lib.selection.removal_units`.

    Raises:
        ValueError: the model, or a layer whose heads can be removed, does not run on the batch.
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
                        call = copy.deepcopy(calls[block.path])  # the layer may write to it
                        run = partial(layer, *call.args, **call.kwargs)
                        times[size].append(seconds_of(run, device))
                # the first round warms up
                measured[shape] = {size: statistics.median(times[size][1:]) for size in sizes}
            tables[block.path] = measured[shape]
    return Seconds(statistics.median(wholes), tables, blocks)


def _sizes(block: AttentionLayer, steps: Sequence[Step]) -> dict[Size, list[int]]:
    """The sizes of a layer along an order, with the heads left at each."""
    left = list(block.kept_heads)
    sizes = {_size_of(block, left): left}
    for step in steps:
        gone = {head for kind, layer, head in step if (kind, layer) == (block.kind, block.layer)}
        left = [head for head in left if head not in gone]
        sizes.setdefault(_size_of(block, left), left)
    return sizes
