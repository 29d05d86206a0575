"""Configurations that may say which heads a pruned model has left; whether one does is tried."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import torch
import transformers
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from headprune_lib.discovery import find_heads
from headprune_lib.specs import AttentionLayer

# A class whose configuration refuses a number of heads that does not divide the hidden size, and
# classes that compute the same and do not refuse; with what must be said for them to be the same.
_HOSTS: dict[str, dict[str, dict[str, Any]]] = {
    "Llama": {
        "Mistral": {"sliding_window": None},
        "SeedOss": {"residual_dropout": 0.0},  # for Llama's biases, which Mistral has not
    }
}
_WIDTHS = ("d_kv", "head_dim")

Place = tuple[str, ...]
"""Names that lead from the model's configuration to one within it."""

Counts = dict[tuple[Place, str], int]
"""A number for each field of the configuration, or of one within it."""


@dataclass(frozen=True)
class Candidate:
    """A class and a configuration for it, as a dictionary, and how it says what is left."""

    model_class: type[PreTrainedModel]
    config_class: type[PreTrainedConfig]
    fields: dict[str, Any]
    route: str

    def config(self) -> PreTrainedConfig:
        """The configuration; whatever its class makes of what cannot be is raised."""
        return self.config_class.from_dict(copy.deepcopy(self.fields))


def candidates(model: PreTrainedModel) -> Iterator[Candidate]:
    """What may describe the model, the plainest first: :func:`_uniform`, or numbers layer by layer."""
    blocks, owners = find_heads(model), _owners(model)
    if (counts := _one_count_each(blocks, owners, model.config)) is not None:
        yield from _uniform(model, blocks, owners, counts)
    elif all(block.kept_heads for block in blocks):
        fields = _layer_by_layer(model, blocks, owners)
        yield Candidate(type(model), type(model.config), fields, "per layer")


def numbers_taken(model: PreTrainedModel) -> Iterator[int]:
    """The numbers of heads of this width, smaller than that built, that can be said of all layers."""
    blocks, owners = find_heads(model), _owners(model)
    for groups in range(1, min(block.n_heads // block.queries_per_kv for block in blocks)):
        smaller = [replace(b, kept_heads=tuple(range(groups * b.queries_per_kv))) for b in blocks]
        counts = _one_count_each(smaller, owners, model.config)
        if counts is None:
            return
        if any(_holds(each, smaller) for each in _uniform(model, smaller, owners, counts)):
            yield len(smaller[0].kept_heads)


def _uniform(
    model: PreTrainedModel,
    blocks: Sequence[AttentionLayer],
    owners: dict[str, Place],
    counts: Counts,
) -> Iterator[Candidate]:
    """The model's own class with one number of heads for all layers; then with the width of a head
    said apart, which a class may or may not read; then another class that computes the same.
    """
    own = (type(model), type(model.config))
    fields = model.config.to_dict()
    for (place, name), count in counts.items():
        _at(fields, place)[name] = count
    yield Candidate(*own, fields, "uniform")
    wide = copy.deepcopy(fields)
    for block in blocks:
        config = _at(wide, owners[block.path])
        config[next((name for name in _WIDTHS if name in config), "head_dim")] = block.head_dim
    if wide != fields:
        yield Candidate(*own, wide, "uniform, head_dim")
    yield from _hosted(model, wide)


def _holds(candidate: Candidate, blocks: Sequence[AttentionLayer]) -> bool:
    """Whether a candidate's class makes output projections of these numbers of heads."""
    with suppress(Exception), torch.device("meta"):  # whatever the class makes of a number
        model = candidate.model_class(candidate.config())
        outputs: list[Any] = [block.part(model, "output") for block in blocks]
        return all(
            len(block.kept_heads) * block.head_dim in output.weight.shape
            for block, output in zip(blocks, outputs, strict=True)
        )
    return False


def uneven(model: nn.Module) -> dict[str, list[int]]:
    """The kinds whose layers have different numbers of heads left, or none: their numbers."""
    counts: dict[str, list[int]] = {}
    for block in find_heads(model):
        counts.setdefault(block.kind, []).append(len(block.kept_heads))
    return {kind: left for kind, left in counts.items() if len(set(left)) > 1 or 0 in left}


def _owners(model: PreTrainedModel) -> dict[str, Place]:
    """Where the configuration lies that sizes each attention module: that of the module around it."""
    places = dict(_configs(model.config))
    found: dict[str, Place] = {}
    for block in find_heads(model):
        found[block.path] = ()
        parts = block.path.split(".")
        for end in range(len(parts) - 1, -1, -1):
            config = getattr(model.get_submodule(".".join(parts[:end])), "config", None)
            same = [place for place, one in places.items() if one is config] or [
                place for place, one in places.items() if type(one) is type(config)
            ]
            if same:
                found[block.path] = same[0]
                break
    return found


def _configs(config: PreTrainedConfig, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    yield place, config
    for name in getattr(config, "sub_configs", {}):
        if isinstance(inner := getattr(config, name, None), PreTrainedConfig):
            yield from _configs(inner, (*place, name))


def _at(fields: dict[str, Any], place: Place) -> dict[str, Any]:
    for name in place:
        fields = fields[name]
    return fields


def _real_name(config: PreTrainedConfig, name: str) -> str:
    return (getattr(config, "attribute_map", None) or {}).get(name, name)


def _count_names(config: Any, block: AttentionLayer) -> list[tuple[str, int]]:
    """The fields that say how many heads a block has, with the numbers for what is left of it."""
    side = {"enc-enc": "encoder", "enc-dec": "decoder", "dec-dec": "decoder"}.get(block.kind)
    names = [*([f"{side}_attention_heads"] if side else []), "num_attention_heads", "num_heads"]
    held = config.to_dict()
    heads = next((real for n in names if (real := _real_name(config, n)) in held), None)
    if heads is None:
        return []
    said = [(heads, len(block.kept_heads))]
    groups = _real_name(config, "num_key_value_heads")
    if held.get(groups) is not None:
        said.append((groups, len(block.groups)))
    return said


def _one_count_each(
    blocks: Sequence[AttentionLayer], owners: dict[str, Place], config: PreTrainedConfig
) -> Counts | None:
    """A number for each field, or None where no one number does."""
    counts: Counts = {}
    for block in blocks:
        place = owners[block.path]
        said = _count_names(reduce(getattr, place, config), block)
        if not said or not block.kept_heads:
            return None
        for name, count in said:
            if counts.setdefault((place, name), count) != count:
                return None
    return counts


def _layer_by_layer(
    model: PreTrainedModel, blocks: Sequence[AttentionLayer], owners: dict[str, Place]
) -> dict[str, Any]:
    """Numbers in ``per_layer_config``, which every configuration takes and few classes read."""
    fields = model.config.to_dict()
    for block in blocks:
        place, core = owners[block.path], block.part(model, "core")
        # among all layers, of which some may have no attention
        layer = int(getattr(core, "layer_idx", None) or block.layer)
        held = _at(fields, place).setdefault("per_layer_config", {})
        name = next((name for name in held if int(name) == layer), str(layer))
        said = dict(_count_names(reduce(getattr, place, model.config), block))
        held[name] = {**held.get(name, {}), **said}
    return fields


def _hosted(model: PreTrainedModel, fields: dict[str, Any]) -> Iterator[Candidate]:
    for name, hosts in _HOSTS.items():
        if not type(model).__name__.startswith(name):
            continue
        for host, said in hosts.items():
            model_class = getattr(transformers, type(model).__name__.replace(name, host, 1), None)
            if model_class is None:
                continue
            config_class = model_class.config_class
            left = {k: v for k, v in fields.items() if k not in ("model_type", "architectures")}
            if "attention_bias" in left:
                left["attention_out_bias"] = left["attention_bias"]
            yield Candidate(model_class, config_class, left | said, f"as {model_class.__name__}")
