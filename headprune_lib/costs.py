"""What a model takes with fewer heads: parameters, bytes of its cache, seconds of a pass.

Each is a function of a mask, made once for a model; nothing is removed for it.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from headprune_lib.batching import Batch, model_inputs
from headprune_lib.discovery import alike
from headprune_lib.heads import AttentionBlock, HeadTensors, find_heads
from headprune_lib.messages import one_line
from headprune_lib.orders import Step
from headprune_lib.rehearsing import Ran, copied, record
from headprune_lib.running import evaluating, on_device, placed, seconds_of
from headprune_lib.slicing import keep_heads, layer_number

Cost = Callable[[HeadTensors], float]
Size = tuple[int, int]
"""Query heads and key and value heads that a layer has left."""


def size_left(block: AttentionBlock, mask: HeadTensors) -> Size:
    """How many query heads, and key and value heads, a mask leaves of a block."""
    row = mask[block.kind][block.layer].tolist()
    left = {head for head in block.kept if row[head] != 0}
    return len(left), sum(not left.isdisjoint(group) for group in block.groups)


def parameters_cost(model: nn.Module) -> Cost:
    """The number of parameters that a mask would leave, exactly."""
    whole = sum(parameter.numel() for parameter in model.parameters())
    blocks = [block for block in find_heads(model) if not block.masks_only]
    each = [_parameters_of_heads(model, block) for block in blocks]

    def cost(mask: HeadTensors) -> float:
        gone = 0
        for block, (by_head, by_group) in zip(blocks, each, strict=True):
            heads, groups = size_left(block, mask)
            gone += (len(block.kept) - heads) * by_head + (len(block.groups) - groups) * by_group
        return float(whole - gone)

    return cost


def _parameters_of_heads(model: nn.Module, block: AttentionBlock) -> tuple[int, int]:
    """The parameters of one query head, and of one key and value head: sliced off, and counted."""
    if not block.kept:
        return 0, 0
    module = model.get_submodule(block.path)
    own = replace(block, path="", whole_groups="", keeps_groups="")

    def left(keep: Sequence[int]) -> int:
        shapes: dict[int, Any] = {  # no weights are copied
            id(p): nn.Parameter(torch.empty_like(p, device="meta"), p.requires_grad)
            for p in module.parameters()
        }
        sliced = copy.deepcopy(module, shapes)
        keep_heads(sliced, own, keep)
        return sum(parameter.numel() for parameter in sliced.parameters())

    whole, first = left(block.kept), set(block.groups[0])
    without_group = whole - left([head for head in block.kept if head not in first])
    if block.group == 1:
        return without_group, 0
    seconds = {group[1] for group in block.groups}
    without_one = whole - left([head for head in block.kept if head not in seconds])
    by_head = without_one // len(block.groups)
    return by_head, without_group - block.group * by_head


def cache_cost(model: nn.Module, batch_size: int, length: int) -> Cost:
    """The bytes of keys and values that a mask would leave in the cache of generation.

    Measured where the model runs once over one text of this length, so that sliding windows and the
    weights' precision count as they are. A layer without heads still notes how long the text is.

    Raises:
        ValueError: a model that keeps no keys and values, cannot run on so many tokens, or keeps
            something else than one entry a head.
    """
    layers = _cache_layers(model, length)
    each = {}
    for block in find_heads(model):
        keys, values = layers.get(block.path, (None, None))
        if keys is None or values is None or not block.kept:
            continue
        kept, entries = (len(block.kept), len(block.groups)), keys.shape[1]
        if entries not in kept or values.shape[1] != entries:
            raise ValueError(
                f"{block.path} keeps {entries} keys and {values.shape[1]} values a token for "
                f"{kept[0]} query and {kept[1]} key and value heads: what its cache would be with "
                "fewer heads is not known"
            )
        size = (keys.nbytes + values.nbytes) // len(keys) // entries
        # Falcon keeps keys and values once a query head
        each[block] = entries == kept[1], size, _mark(block, keys, values)
    if not each:
        raise ValueError(
            f"{type(model).__name__} keeps no keys and values of attention when it runs: there is "
            "no cache to bound"
        )

    def cost(mask: HeadTensors) -> float:
        total = 0
        for block, (by_group, size, mark) in each.items():
            heads, groups = size_left(block, mask)
            total += (groups if by_group else heads) * size or mark
        return float(total * batch_size)

    return cost


def _mark(block: AttentionBlock, keys: Tensor, values: Tensor) -> int:
    """Bytes that a layer without heads keeps of one text to say how long it is."""
    if block.kind == "cross":
        return 0
    return keys.shape[2] * keys.element_size() + values.shape[2] * values.element_size()


def _cache_layers(model: nn.Module, length: int) -> dict[str, tuple[Any, Any]]:
    """Path of an attention module -> the keys and values that it keeps of one text, if it does."""
    inputs = random_tokens(model, 1, length)
    with evaluating(model), torch.no_grad():
        try:
            made = model(**inputs, use_cache=True)
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            raise ValueError(
                f"{type(model).__name__} does not run on {length} tokens with a cache "
                f"({type(error).__name__}: {one_line(error, 120)})"
            ) from error
    cache: Any = getattr(made, "past_key_values", None)
    found = {}
    for block in find_heads(model):
        own = cache
        if hasattr(cache, "cross_attention_cache"):
            cross = block.kind == "enc-dec"
            own = cache.cross_attention_cache if cross else cache.self_attention_cache
        number = layer_number(block.part(model, "core"))
        encoding = block.kind in ("enc-enc", "vision", "audio")
        reads = not block.architecture.makes_keys
        if not isinstance(own, Cache) or number is None or encoding or reads:
            continue
        layer = own.layers[number]
        found[block.path] = getattr(layer, "keys", None), getattr(layer, "values", None)
    return found


def random_tokens(model: nn.Module, batch_size: int, length: int) -> Batch:
    """So many texts of so many random tokens; for an encoder-decoder as many on either side.

    Raises:
        ValueError: a model that does not read text.
    """
    config: Any = getattr(model, "config", None)
    words = getattr(config.get_text_config(), "vocab_size", None) if config is not None else None
    if words is None or getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise ValueError(f"{type(model).__name__} does not read tokens; give a batch of its inputs")
    drawn = torch.Generator().manual_seed(0)
    ids = torch.randint(words, (batch_size, length), generator=drawn)
    device = placed(model, None)
    made = {"input_ids": ids.to(device), "attention_mask": torch.ones_like(ids, device=device)}
    if config.is_encoder_decoder:
        made["decoder_input_ids"] = made["input_ids"]
    return made


@dataclass(frozen=True)
class Seconds:
    """A table of measured times; called with a mask, the seconds of a pass that it would leave.

    Attributes:
        whole: seconds of one pass of the model as it is.
        layers: for each attention module its path, and of every size its median seconds.
        blocks: the blocks of these modules.
    """

    whole: float
    layers: dict[str, dict[Size, float]]
    blocks: tuple[AttentionBlock, ...]

    def __call__(self, mask: HeadTensors) -> float:
        """Seconds of a pass, if all but attention takes as long as it does.

        Raises:
            ValueError: a layer is left with a number of heads that was not measured.
        """
        total = self.whole
        for block in self.blocks:
            table, left = self.layers[block.path], size_left(block, mask)
            if left not in table:
                raise ValueError(
                    f"{block.path} was not measured with {left[0]} heads of {left[1]} groups: "
                    "give seconds_cost the steps that the mask is of"
                )
            total += table[left] - table[len(block.kept), len(block.groups)]
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
        steps: as :func:`headprune_lib.orders.prune_steps` lists them.

    Raises:
        ValueError: the model does not run on the batch, or not through a layer that loses heads.
    """
    device = placed(model, None)
    inputs = model_inputs(model, on_device(batch, device))
    blocks = tuple(block for block in find_heads(model) if block.kept and not block.masks_only)
    tables: dict[str, dict[Size, float]] = {}
    measured: dict[Any, dict[Size, float]] = {}
    wholes: list[float] = []
    with evaluating(model), torch.inference_mode():
        ran, problem = record(model, [block.path for block in blocks], inputs)
        if missing := [block.path for block in blocks if block.path not in ran]:
            raise ValueError(f"{missing[0]} does not run on this batch {problem}".rstrip())
        for block in blocks:
            module, sizes = model.get_submodule(block.path), _sizes(block, steps)
            shape = (alike(module), block.kept, frozenset(sizes))
            if shape not in measured:
                measured[shape], whole = _timed(
                    model, inputs, block, ran[block.path], sizes, rounds
                )
                wholes += whole
            tables[block.path] = measured[shape]
    return Seconds(statistics.median(wholes), tables, blocks)


def _sizes(block: AttentionBlock, steps: Sequence[Step]) -> dict[Size, list[int]]:
    """The sizes that a layer has along an order, with the heads that it has left there."""
    left = list(block.kept)
    found = {(len(left), len(block.groups)): list(left)}
    for step in steps:
        own = {head for kind, layer, head in step if (kind, layer) == (block.kind, block.layer)}
        if own:
            left = [head for head in left if head not in own]
            groups = sum(not set(left).isdisjoint(group) for group in block.groups)
            found[len(left), groups] = list(left)
    return found


def _timed(
    model: nn.Module,
    inputs: Batch,
    block: AttentionBlock,
    ran: Ran,
    sizes: dict[Size, list[int]],
    rounds: int,
) -> tuple[dict[Size, float], list[float]]:
    """The median seconds of a layer in each size, and those of passes of the model between them."""
    module, copies = model.get_submodule(block.path), {}
    for size, keep in sizes.items():
        copies[size] = copy.deepcopy(module)
        if len(keep) < len(block.kept):
            keep_heads(copies[size], replace(block, path=""), keep)
    times: dict[Size, list[float]] = {size: [] for size in sizes}
    wholes: list[float] = []
    device = next(module.parameters()).device
    for number in range(rounds + 1):
        whole = seconds_of(partial(model, **inputs), device)
        for size, layer in copies.items():
            args, kwargs = copied((ran.args, ran.kwargs))
            taken = seconds_of(partial(layer, *args, **kwargs), device)
            if number:  # the first round warms up
                times[size].append(taken)
        if number:
            wholes.append(whole)
    return {size: statistics.median(taken) for size, taken in times.items()}, wholes
