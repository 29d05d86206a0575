"""Heads really removed from a model's weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from transformers.pytorch_utils import Conv1D

from headprune_lib.blocks import AttentionBlock, rows_of
from headprune_lib.heads import HeadTensors, check_mask, find_heads
from headprune_lib.hooking import hooked
from headprune_lib.slicing import keep_heads


def prune_heads(model: nn.Module, mask: HeadTensors | Tensor) -> nn.Module:
    """Remove the weights of the heads that ``mask`` cuts, in place (paper, section 4.3).

    Rows of the query, key and value projections and columns of the output projection go; outputs
    are those of :func:`headprune_lib.masked_heads` up to rounding. Layers may keep different
    numbers of heads; where none is left, attention contributes the output projection's bias, and
    its entry in ``attentions`` keeps its place with the shape (batch, 0, query, key).
    Parameters are new ones: an optimizer that was made before goes on with the old, so make another.

    Args:
        model: a transformers model that :func:`headprune_lib.find_heads` knows. Give the whole
            model rather than a part of it: where its configuration names heads (Whisper's
            ``alignment_heads``) they are renumbered.
        mask: kind -> ``(layer, head)``, 0 removes, of a model of one kind also the tensor alone;
            :func:`headprune_lib.cut_heads` makes one. Heads are numbered as in the unpruned model.
            Of heads that share a key and value head all go, and it with them; or equally many of
            every such group that is left go, and their key and value heads stay.

    Returns:
        ``model``, for chaining.

    Raises:
        RuntimeError: the model is masked right now.
        TypeError, ValueError: a mask that does not fit, has entries other than 0 and 1, cuts a
            head that was removed before, unequally many of groups, or a head that the model's
            configuration names; or weights that cannot be sliced:
            quantised, computed from others, in an adapter, tied to another module, of another size
            than the heads, or on the meta device.

    After any error the model is as it was.
    """
    mask = check_mask(model, mask)
    for kind, values in mask.items():
        if not torch.isin(values[~values.isnan()], torch.tensor([0.0, 1.0])).all():
            raise ValueError(f"mask[{kind!r}] must hold 0 and 1 only: a weight is removed or kept")
    blocks = find_heads(model)
    if hooked(block.part(model, "output") for block in blocks):
        raise RuntimeError(
            "the model is masked or measured right now (masked_heads, a sweep): its hooks are made "
            "for the heads that there are. Remove heads before or after the with block"
        )
    gone = [
        (block.kind, block.layer, head)
        for block in blocks
        for head in range(block.n_heads)
        if mask[block.kind][block.layer, head] == 0 and head not in block.kept
    ]
    if gone:
        raise ValueError(
            f"already removed from this model: {gone[:5]}{' ...' if len(gone) > 5 else ''}; "
            "give 1 for heads that are no longer there, or prune the unpruned model"
        )
    left = [
        [head for head in block.kept if mask[block.kind][block.layer, head] == 1]
        for block in blocks
    ]
    changed = [
        (block, keep)
        for block, keep in zip(blocks, left, strict=True)
        if len(keep) < len(block.kept)
    ]
    _check_removable(changed)
    for block, keep in changed:
        block.group_left(keep)
    check_weights(model, [block for block, _ in changed])
    named = renumbered(model, blocks, [block.kept for block in blocks], left)
    touched = {part for block, _ in changed for part in model.get_submodule(block.path).modules()}
    with _all_or_nothing(touched):
        for block, keep in changed:
            keep_heads(model, block, keep)
    for configuration, name, value in named:
        setattr(configuration, name, value)
    return model


def _check_removable(changed: list[tuple[AttentionBlock, list[int]]]) -> None:
    for block, keep in changed:
        if block.masks_only:
            raise ValueError(
                f"{block.path}: heads of it can be masked and scored, not removed: "
                f"{block.masks_only}; give 1 for all of them, or use masked_heads"
            )
        if block.keeps_one and not keep:
            raise ValueError(
                f"{block.path} cannot lose all its heads: {block.keeps_one}; keep one, or use "
                "masked_heads"
            )


@contextmanager
def _all_or_nothing(modules: Iterable[nn.Module]) -> Iterator[None]:
    """An error inside leaves these modules with the attributes, weights and hooks that they had."""
    before = [
        (
            module,
            dict(module.__dict__),
            {k: dict(v) for k, v in module.__dict__.items() if isinstance(v, dict)},
        )
        for module in modules
    ]
    try:
        yield
    except BaseException:
        for module, attributes, tables in before:
            module.__dict__.clear()
            module.__dict__.update(attributes)
            for name, table in tables.items():  # in place: who added a hook holds its table
                module.__dict__[name].clear()
                module.__dict__[name].update(table)
        raise


def _check_size(block: AttentionBlock, part: str, module: nn.Linear | Conv1D, where: str) -> None:
    if part == "fused":  # checked as three blocks
        return
    heads = len(block.kept) // (block.group if part in ("key", "value") else 1)
    rows, columns = module.weight.shape[:: -1 if isinstance(module, Conv1D) else 1]
    found = columns if part == "output" else rows
    if found != heads * block.width:
        raise ValueError(
            f"{where}: the weights have {found} numbers, not {heads * block.width} for {heads} "
            f"heads of width {block.width}. Does its entry lack a group (query heads that share a "
            "key and value head) or name another width? See headprune_lib.register_attention; "
            "masked_heads works meanwhile"
        )


def not_plain(module: nn.Module) -> str | None:
    """Why a projection's weights cannot be read and sliced as they are; None where they can."""
    if hasattr(module, "lora_A") or hasattr(module, "base_layer"):
        return (
            "wraps the weights in an adapter (LoRA): merge it first, "
            "model = model.merge_and_unload()"
        )
    stored = module.__dict__.get("_parameters", {})
    if "weight_orig" in stored:
        return (
            "has weights pruned by torch.nn.utils.prune, whose mask would not fit a slice; make "
            "that last first, torch.nn.utils.prune.remove(module, 'weight')"
        )
    if parametrize.is_parametrized(module) or "weight_g" in stored:
        return (
            "computes its weights from others (weight_norm, a parametrization), so that a slice "
            "of them would not last; remove that first, "
            "torch.nn.utils.parametrize.remove_parametrizations(module, 'weight')"
        )
    weight = module._parameters.get("weight")
    if not isinstance(module, nn.Linear | Conv1D) or weight is None:
        return "holds no plain weights to slice (quantised?); remove heads first, then quantise"
    if not weight.is_floating_point() or type(weight) not in (nn.Parameter, Tensor):
        return "holds no plain weights to slice (quantised?); remove heads first, then quantise"
    return None


def check_weights(
    model: nn.Module, blocks: Iterable[AttentionBlock], parts: Sequence[str] = ()
) -> None:
    """Raises ValueError where weights cannot be changed as they are: see :func:`prune_heads`.

    Args:
        parts: names of projections; all that a block has, if none is given.
    """
    users: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        users.setdefault(id(parameter), []).append(name)
    for block in blocks:
        for part in parts or block.architecture.projections:
            module: Any = block.part(model, part)
            where = f"{block.path}, {part}"
            if (problem := not_plain(module)) is not None:
                raise ValueError(f"{where}: {type(module).__name__} {problem}")
            weight = module.weight
            if weight.is_meta:
                raise ValueError(f"{where}: the weights are on the meta device; load them first")
            if len(users.get(id(weight), ())) > 1:
                raise ValueError(
                    f"{where}: the weights are tied ({users[id(weight)]}), so that "
                    "slicing would change another module; use masked_heads"
                )
            if block.how != "found":  # what was proved has the sizes that it was proved with
                _check_size(block, part, module, where)
        if block.architecture.fused and not parts:
            projection = block.part(model, "fused")
            wanted = (len(block.kept) + 2 * len(block.kept) // block.group) * block.width
            found = rows_of(projection)
            if found != wanted:
                raise ValueError(
                    f"{block.path}: the fused projection has {found} outputs, not "
                    f"{wanted} for query, key and value (attention to an encoder?); "
                    "use masked_heads"
                )


def renumbered(
    model: Any,
    blocks: Sequence[AttentionBlock],
    before: Sequence[Sequence[int]],
    after: Sequence[Sequence[int]],
) -> list[tuple[Any, str, list]]:
    """What the model's configurations must say once heads of the attention to the encoder moved.

    They count the heads that a layer has, so that a head that goes moves those after it. Of all
    configurations of transformers two name heads: Whisper takes the times of words from the
    attention of ``alignment_heads``, and SpeechT5 a loss from that of the first heads of each layer.

    Args:
        before: the heads of each block (original indices), in their order, as the configurations
            count them.
        after: the heads of each block as the configurations are to count them.

    Returns:
        ``(configuration, attribute, value)`` to be set.

    Raises:
        ValueError: a head that is named goes.
    """
    changes = []
    layers = {
        block.layer: (old, list(new))
        for block, old, new in zip(blocks, before, after, strict=True)
        if block.kind == "enc-dec"
    }
    for owner, name, pairs in _named_heads(model, {k: len(old) for k, (old, _) in layers.items()}):
        heads = [(layer, layers[layer][0][place]) for layer, place in pairs]
        if gone := [(layer, head) for layer, head in heads if head not in layers[layer][1]]:
            raise ValueError(
                f"{name} of the {type(owner).__name__} names heads of attention to the encoder "
                f"that would be removed, (layer, head): {gone[:5]}{' …' if len(gone) > 5 else ''}. "
                f"Keep them, or set {name} to other heads first"
            )
        if name == "alignment_heads":
            places = [[layer, layers[layer][1].index(head)] for layer, head in heads]
            changes.append((owner, name, places))
    return changes


def _named_heads(
    model: Any, n_heads: Mapping[int, int]
) -> Iterator[tuple[Any, str, list[tuple[int, int]]]]:
    """Configuration, attribute, and ``(layer, place)`` of each head that it names."""
    generation = getattr(model, "generation_config", None)
    config: Any = getattr(model, "config", None)
    pairs = [(layer, place) for layer, place in getattr(generation, "alignment_heads", None) or ()]
    if pairs and all(0 <= place < n_heads.get(layer, 0) for layer, place in pairs):
        yield generation, "alignment_heads", pairs  # else they are another model's
    # SpeechT5 for text is trained without that loss
    makes_speech = hasattr(model, "speech_decoder_postnet")
    if makes_speech and getattr(config, "use_guided_attention_loss", False):
        first = config.guided_attention_loss_num_heads
        yield (
            config,
            "guided_attention_loss_num_heads",
            [(layer, place) for layer, n in n_heads.items() for place in range(min(first, n))],
        )
