"""A model, or a part of it, with inputs it runs on, and what several laws compute from them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache

from headprune_lib import find_heads, masked_heads, ones_mask, prune_heads
from headprune_lib.example_inputs import example_inputs
from headprune_lib.hooks import record_outputs
from headprune_lib.masking import HeadTensors
from headprune_lib.specs import AttentionLayer


class Case:
    """A model, inputs that it runs on, and what several laws compute from them."""

    def __init__(self, model: Any, inputs: dict[str, Any], whole: bool) -> None:
        self.model, self.inputs, self.whole = model, inputs, whole

    @cached_property
    def blocks(self) -> list[AttentionLayer]:
        """The attention layers that ``find_heads`` finds."""
        return find_heads(self.model)

    @cached_property
    def plain(self) -> list[Tensor]:
        """The outputs of the model."""
        return self.run(self.model)

    @cached_property
    def made_of_codes(self) -> bool:
        """Whether the model returns the same without the heads that :attr:`mask` cuts.

        A tiny model's outputs may be made of codes that no cut changes; its layers count too.
        """
        with masked_heads(self.model, self.mask):
            masked = outputs_of(self.model, self.inputs)
        return distance(masked, outputs_of(self.model, self.inputs)) == 0

    def run(self, model: nn.Module, inputs: dict[str, Any] | None = None) -> list[Tensor]:
        """The outputs of the model, or of a copy; with its layers' if :attr:`made_of_codes`."""
        inputs = self.inputs if inputs is None else inputs
        if not self.made_of_codes:
            return outputs_of(model, inputs)
        layers = dict.fromkeys(block.layer_path for block in self.blocks)
        with record_outputs([model.get_submodule(path) for path in layers]) as calls:
            outputs = outputs_of(model, inputs)
        return [*outputs, *(tensors_of(call.output)[0] for call in calls)]

    @cached_property
    def generates(self) -> bool:
        """Whether the unpruned model generates, from tokens alone or from inputs of its kind."""
        if not self.whole or not getattr(self.model, "can_generate", bool)():
            return False
        try:
            return hasattr(self.generate(self.model), "logits")
        except Exception:  # the model needs further arguments
            return False

    def generate(self, model: Any, **settings: Any) -> Any:
        """Generate four tokens and their logits with the model or a copy of it."""
        names = ("input_ids", "attention_mask")
        if "input_ids" not in self.inputs:
            names = tuple(name for name in self.inputs if not name.startswith("decoder_"))
        asked = {k: v for k, v in self.inputs.items() if k in names and isinstance(v, Tensor)}
        defaults = model.generation_config
        if model.config.is_encoder_decoder and defaults.decoder_start_token_id is None:
            settings["decoder_start_token_id"] = 1
        try:
            with torch.no_grad():
                return model.generate(
                    **asked,
                    eos_token_id=-1,  # never drawn
                    max_new_tokens=4,
                    do_sample=False,
                    return_dict_in_generate=True,
                    output_logits=True,
                    **settings,
                )
        finally:
            vars(model).pop("_previous_max_cache_length", None)  # sizes the next static cache

    @cached_property
    def mask(self) -> HeadTensors:
        """A mask that cuts one head or group per layer; a layer's only one in every second layer.

        If groups must stay because another layer reads their keys and values, one head of each.
        """
        mask = ones_mask(self.model)
        for block in self.blocks:
            row, size = mask[block.kind][block.layer, : block.n_heads], block.queries_per_kv
            units = block.n_heads // size
            if block.why_keep_groups and size > 1:
                row[block.layer % size :: size] = 0
            elif units > 1:
                row[(block.layer % units) * size :][:size] = 0
            elif block.layer % 2 == 0:
                row[:] = 0
        return mask

    @cached_property
    def emptying(self) -> HeadTensors:
        """A mask that cuts all heads of every second layer."""
        mask = ones_mask(self.model)
        for block in self.blocks:
            if block.layer % 2 == 0:
                mask[block.kind][block.layer, : block.n_heads] = 0
        return mask

    def removable(self, mask: HeadTensors) -> HeadTensors:
        """The mask without heads that cannot be removed, so that the rest of the model is tested.

        If nothing can be removed, it stays as it is, and is refused.
        """
        allowed = {kind: values.clone() for kind, values in mask.items()}
        for block in self.blocks:
            row = allowed[block.kind][block.layer, : block.n_heads]
            if block.why_not_prunable or (block.why_keep_one and not row.any()):
                row[:] = 1
        return allowed if any((values == 0).any() for values in allowed.values()) else mask

    @cached_property
    def masked(self) -> list[Tensor]:
        """The outputs of the model under :attr:`mask`."""
        with masked_heads(self.model, self.mask):
            return self.run(self.model)

    @cached_property
    def pruned(self) -> Any:
        """A copy without the heads that :attr:`mask` cuts."""
        return prune_heads(copy.deepcopy(self.model), self.mask)

    @cached_property
    def of_pruned(self) -> list[Tensor]:
        """The outputs of :attr:`pruned`."""
        return self.run(self.pruned)


def outputs_of(model: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
    """Every floating-point tensor that the model returns, caches left out."""
    torch.manual_seed(0)
    with torch.no_grad():
        return tensors_of(model(**inputs))


def tensors_of(outputs: Any) -> list[Tensor]:
    """Floating-point tensors in what a model returns, however it is nested."""
    if isinstance(outputs, Tensor):
        return [outputs] if outputs.is_floating_point() else []
    if isinstance(outputs, Cache | EncoderDecoderCache):
        return []
    if isinstance(outputs, dict):
        outputs = outputs.values()
    if isinstance(outputs, tuple | list) or hasattr(outputs, "__iter__"):
        return [tensor for one in outputs for tensor in tensors_of(one)]
    return []


def distance(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest difference over the largest value; infinite if shapes or NaN differ."""
    if len(found) != len(expected) or not expected:
        return float("inf")
    most = 0.0
    for left, right in zip(found, expected, strict=True):
        if left.shape != right.shape or not torch.equal(left.isfinite(), right.isfinite()):
            return float("inf")
        there = right.isfinite()
        if there.any():
            scale = max(1e-6, float(right[there].abs().max()))
            most = max(most, float((left - right)[there].abs().max()) / scale)
    return most


class NotReached(LookupError):
    """Attention that none of the inputs reached; says which, and what went wrong."""


def parts_of(
    model: nn.Module, blocks: list[AttentionLayer]
) -> Iterator[tuple[nn.Module, dict[str, Any]]]:
    """Yield the model with inputs it runs on, then parts of it for the blocks these do not reach.

    Raises:
        NotReached: after the last part, if there are blocks that no inputs reached.
        LookupError: no inputs were found that it runs on.
    """
    missing = {block.path for block in blocks}
    roots = ["", *(p for p, m in model.named_modules() if p and hasattr(m, "main_input_name"))]
    problem = ""
    ran = False
    for root_path in roots:
        prefix = f"{root_path}." if root_path else ""
        if not any(path.startswith(prefix) for path in missing):
            continue
        root = model.get_submodule(root_path)
        best: tuple[int, dict[str, Any], set[str]] | None = None
        for inputs in example_inputs(root):
            reached, error = _reached(root, prefix, missing, inputs)
            if error:
                problem = problem or error
            elif best is None or len(reached) > best[0]:
                best = len(reached), inputs, reached
                if len(reached) == len(missing):
                    break
        if best is not None and best[0]:
            ran = True
            missing -= best[2]
            yield root, best[1]
        if not missing:
            return
    if not ran:
        raise LookupError(f"no inputs were found that it runs on ({problem})")
    if missing:
        raise NotReached(f"no inputs were found that reach {min(missing)} ({problem})")


def _reached(
    root: nn.Module, prefix: str, paths: set[str], inputs: dict[str, Any]
) -> tuple[set[str], str]:
    """The paths whose modules run on the inputs, and what goes wrong, if anything."""
    within = [path for path in paths if path.startswith(prefix)]
    try:
        with record_outputs([root.get_submodule(p.removeprefix(prefix)) for p in within]) as calls:
            outputs_of(root, inputs)
    except Exception as error:
        return set(), f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    return {path for path, call in zip(within, calls, strict=True) if call.times}, ""
