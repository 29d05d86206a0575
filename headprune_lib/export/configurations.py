"""Candidate configurations for the heads that a pruned model has left; each is to be tried."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import transformers
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from headprune_lib.specs import AttentionLayer

# Llama's configuration refuses a number of heads that does not divide the hidden size. These
# classes accept it, and compute the same if given these fields.
_LLAMAS: dict[str, dict[str, Any]] = {
    "Mistral": {"sliding_window": None},
    "SeedOss": {"residual_dropout": 0.0},  # for Llama's biases, which Mistral lacks
}
_WIDTHS = ("d_kv", "head_dim")

Place = tuple[str, ...]
"""Field names that lead from the model's configuration to a nested one."""


@dataclass(frozen=True)
class Candidate:
    """A class, a configuration for it as a dictionary, and how that states the heads left."""

    model_class: type[PreTrainedModel]
    config_class: type[PreTrainedConfig]
    fields: dict[str, Any]
    route: str

    def config(self) -> PreTrainedConfig:
        """The configuration; raises whatever its class raises for impossible values."""
        return self.config_class.from_dict(copy.deepcopy(self.fields))


class _Described(NamedTuple):
    """A block, the place of its configuration, and the fields there that count its heads."""

    block: AttentionLayer
    place: Place
    numbers: dict[str, int]


def candidates(model: PreTrainedModel, blocks: Sequence[AttentionLayer]) -> Iterator[Candidate]:
    """Candidates for a model, the simplest first: :func:`_uniform`, or numbers layer by layer."""
    described = _describe(model, blocks)
    if (counts := _one_count_each(described)) is not None:
        yield from _uniform(model, described, counts)
    elif all(block.kept_heads for block, *_ in described):
        fields = _layer_by_layer(model, described)
        yield Candidate(type(model), type(model.config), fields, "per layer")


def numbers_taken(model: PreTrainedModel, blocks: Sequence[AttentionLayer]) -> Iterator[int]:
    """Numbers of heads of this width, below the original, that all layers can be given alike."""
    for groups in range(1, min(block.n_heads // block.queries_per_kv for block in blocks)):
        smaller = [replace(b, kept_heads=tuple(range(groups * b.queries_per_kv))) for b in blocks]
        described = _describe(model, smaller)
        if (counts := _one_count_each(described)) is None:
            return
        if any(_holds(each, smaller) for each in _uniform(model, described, counts)):
            yield len(smaller[0].kept_heads)


def _uniform(
    model: PreTrainedModel, described: Sequence[_Described], counts: dict[tuple[Place, str], int]
) -> Iterator[Candidate]:
    """Candidates with one number of heads for all layers: the model's own class, the same with an
    explicit head width, which a class may or may not read, then a class that computes the same.
    """
    classes = (type(model), type(model.config))
    fields = model.config.to_dict()
    for (path, name), count in counts.items():
        _at(fields, path)[name] = count
    yield Candidate(*classes, fields, "uniform")
    wide = copy.deepcopy(fields)
    for block, path, _ in described:
        config = _at(wide, path)
        config[next((name for name in _WIDTHS if name in config), "head_dim")] = block.head_dim
    if wide != fields:
        yield Candidate(*classes, wide, "uniform, head_dim")
    if type(model).__name__.startswith("Llama"):
        left = {k: v for k, v in wide.items() if k not in ("model_type", "architectures")}
        if "attention_bias" in left:
            left["attention_out_bias"] = left["attention_bias"]
        for host, further in _LLAMAS.items():
            name = type(model).__name__.replace("Llama", host, 1)
            if model_class := getattr(transformers, name, None):
                yield Candidate(model_class, model_class.config_class, left | further, f"as {name}")


def _holds(candidate: Candidate, blocks: Sequence[AttentionLayer]) -> bool:
    """Whether a candidate's class builds output projections for these numbers of heads."""
    with suppress(Exception), torch.device("meta"):  # a class may raise anything for a number
        model = candidate.model_class(candidate.config())
        outputs: list[Any] = [block.part(model, "output") for block in blocks]
        return all(
            len(block.kept_heads) * block.head_dim in output.weight.shape
            for block, output in zip(blocks, outputs, strict=True)
        )
    return False


def by_kind(blocks: Sequence[AttentionLayer]) -> dict[str, list[AttentionLayer]]:
    """The layers of each kind."""
    kinds: dict[str, list[AttentionLayer]] = {}
    for block in blocks:
        kinds.setdefault(block.kind, []).append(block)
    return kinds


def _describe(model: PreTrainedModel, blocks: Sequence[AttentionLayer]) -> list[_Described]:
    places = dict(_configs(model.config))
    paths = [_place(model, block, places) for block in blocks]
    pairs = zip(blocks, paths, strict=True)
    return [_Described(block, path, _numbers(places[path], block)) for block, path in pairs]


def _configs(config: PreTrainedConfig, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    yield place, config
    for name in getattr(config, "sub_configs", {}):
        if isinstance(inner := getattr(config, name, None), PreTrainedConfig):
            yield from _configs(inner, (*place, name))


def _place(model: nn.Module, block: AttentionLayer, places: dict[Place, Any]) -> Place:
    """Place of the configuration that sizes a block: that of the module around it."""
    parts = block.path.split(".")
    for end in range(len(parts) - 1, -1, -1):
        config = getattr(model.get_submodule(".".join(parts[:end])), "config", None)
        same = [path for path, other in places.items() if other is config]
        alike = [path for path, other in places.items() if type(other) is type(config)]
        if same or alike:
            return (same or alike)[0]
    return ()


def _numbers(config: Any, block: AttentionLayer) -> dict[str, int]:
    """The fields that count a block's heads, with the numbers that are left."""
    side = {"enc-enc": "encoder", "enc-dec": "decoder", "dec-dec": "decoder"}.get(block.kind)
    names = [*([f"{side}_attention_heads"] if side else []), "num_attention_heads", "num_heads"]
    real_names, held = getattr(config, "attribute_map", None) or {}, config.to_dict()
    heads = next((real for n in names if (real := real_names.get(n, n)) in held), None)
    groups = real_names.get("num_key_value_heads", "num_key_value_heads")
    if heads is None:
        return {}
    grouped = {groups: len(block.groups)} if held.get(groups) is not None else {}
    return {heads: len(block.kept_heads), **grouped}


def _one_count_each(described: Sequence[_Described]) -> dict[tuple[Place, str], int] | None:
    """One number for each field, or None if no single number suits all blocks."""
    counts: dict[tuple[Place, str], int] = {}
    for block, place, numbers in described:
        if not numbers or not block.kept_heads:
            return None
        for name, count in numbers.items():
            if counts.setdefault((place, name), count) != count:
                return None
    return counts


def _layer_by_layer(model: PreTrainedModel, described: Sequence[_Described]) -> dict[str, Any]:
    """Fields with numbers in ``per_layer_config``, which all configurations take and few read."""
    fields = model.config.to_dict()
    for block, place, numbers in described:
        # index among all layers, some of which may have no attention
        layer = int(getattr(block.part(model, "core"), "layer_idx", None) or block.layer)
        held = _at(fields, place).setdefault("per_layer_config", {})
        name = next((name for name in held if int(name) == layer), str(layer))
        held[name] = {**held.get(name, {}), **numbers}
    return fields


def _at(fields: dict[str, Any], place: Place) -> dict[str, Any]:
    for name in place:
        fields = fields[name]
    return fields
