"""Removal of heads from a model's weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.utils import parametrize
from transformers.pytorch_utils import Conv1D

from headprune_lib.discovery import find_heads
from headprune_lib.hooks import hooked, state_of
from headprune_lib.masking import Heads, HeadTensors, check_cut
from headprune_lib.slicing import keep_heads
from headprune_lib.specs import AttentionLayer, columns_of, rows_of


def prune_heads(model: nn.Module, mask: HeadTensors | Tensor | Heads) -> nn.Module:
    """Remove the weights of the heads that ``mask`` cuts, in place (paper, section 4.3).

    Rows of the query, key and value projections and columns of the output projection are removed;
    outputs equal those of :func:`headprune_lib.masked_heads` up to rounding. Layers may keep
    different numbers of heads. Where none is left, attention contributes the output projection's
    bias, and its entry in ``attentions`` stays, with the shape (batch, 0, query, key).
    Parameters are replaced: an existing optimizer has the old ones, so make a new one.

    Args:
        model: a transformers model that :func:`headprune_lib.find_heads` knows. Give the whole
            model rather than a part of it: where its configuration names heads (Whisper's
            ``alignment_heads``) they are renumbered.
        mask: kind -> ``(layer, head)``, where 0 removes, or for a model with one kind the tensor
            alone; or the heads to remove, as :func:`headprune_lib.head_mask` takes them. Heads are
            numbered as in the unpruned model, and entries of heads that were removed before are
            ignored, so masks may be cumulative.
            Heads that share a key and value head are removed all together, along with it; or
            equally many are removed from each remaining group, and key and value heads stay.

    Returns:
        ``model``, for chaining.

    Raises:
        RuntimeError: the model is masked right now.
        TypeError, ValueError: a mask that does not fit, has entries other than 0 and 1, cuts
            different numbers of heads in groups, or cuts a head that the model's configuration
            names; or weights that cannot be sliced: quantised, computed from others, in an adapter,
            tied to another module, of a size other than the heads', or on the meta device.

    After any error the model is unchanged.
    """
    blocks = find_heads(model)
    kept = {kind: values.tolist() for kind, values in check_cut(model, mask, blocks).items()}
    check_not_masked(model, blocks)
    keep = [[h for h in block.kept_heads if kept[block.kind][block.layer][h]] for block in blocks]
    pairs = zip(blocks, keep, strict=True)
    changed = [(block, heads) for block, heads in pairs if len(heads) < len(block.kept_heads)]
    for block, heads in changed:
        if block.why_not_prunable:
            raise ValueError(
                f"{block.path}: heads of it can be masked and scored, not removed: "
                f"{block.why_not_prunable}; give 1 for all of them, or use masked_heads"
            )
        if block.why_keep_one and not heads:
            why = f"cannot lose all its heads: {block.why_keep_one}"
            raise ValueError(f"{block.path} {why}; keep one, or use masked_heads")
        block.group_left(heads)
    check_weights(model, [block for block, _ in changed])
    named = renumbered(model, blocks, [block.kept_heads for block in blocks], keep)
    outer = (model.get_submodule(block.path) for block, _ in changed)
    put_back = state_of({inner for module in outer for inner in module.modules()})
    try:
        for block, heads in changed:
            keep_heads(model, block, heads)
    except BaseException:
        put_back()
        raise
    for configuration, name, value in named:
        setattr(configuration, name, value)
    return model


def check_not_masked(model: nn.Module, blocks: Iterable[AttentionLayer]) -> None:
    """Raises RuntimeError where the library's hooks are on, made for the heads present now."""
    if hooked(block.part(model, "output") for block in blocks):
        raise RuntimeError(
            "the model is masked right now. Change its heads outside the masking block or sweep"
        )


def not_plain(module: nn.Module) -> str | None:
    """Why a projection's weights cannot be read and sliced as they are; None where they can."""
    if hasattr(module, "lora_A") or hasattr(module, "base_layer"):
        return "wraps the weights in an adapter (LoRA). Merge it first: model.merge_and_unload()"
    stored = module.__dict__.get("_parameters", {})
    if "weight_orig" in stored:
        return (
            "has weights pruned by torch.nn.utils.prune, whose mask would not fit a slice. Make "
            "that pruning permanent first: torch.nn.utils.prune.remove(module, 'weight')"
        )
    if parametrize.is_parametrized(module) or "weight_g" in stored:
        return (
            "computes its weights from others (weight_norm, a parametrization). Remove that first: "
            "torch.nn.utils.parametrize.remove_parametrizations(module, 'weight'), or, for the "
            "older weight_norm, torch.nn.utils.remove_weight_norm(module)"
        )
    weight = module._parameters.get("weight")
    linear = isinstance(module, nn.Linear | Conv1D)
    if linear and hasattr(weight, "device_mesh"):  # a DTensor, whose module is slow to import
        return "is spread over several processes (FSDP2, TP). Remove heads before it is sharded"
    plain = linear and type(weight) in (nn.Parameter, Tensor)
    if weight is None or not plain or not weight.is_floating_point():
        return "has no plain weights to slice (quantised?). Remove heads first, then quantise"
    return None


def check_weights(
    model: nn.Module, blocks: Iterable[AttentionLayer], parts: Sequence[str] = ()
) -> None:
    """Raises ValueError where weights cannot be changed as they are: see :func:`prune_heads`.

    Args:
        parts: names of projections; all that a block has, if none is given.
    """
    users: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        users.setdefault(id(parameter), []).append(name)
    for block in blocks:
        for part in parts or block.spec.projections:
            module: Any = block.part(model, part)
            where = f"{block.path}, {part}"
            if (problem := not_plain(module)) is not None:
                raise ValueError(f"{where}: {type(module).__name__} {problem}")
            weight = module.weight
            if weight.is_meta:
                raise ValueError(f"{where}: the weights are on the meta device. Load them first")
            if len(users.get(id(weight), ())) > 1:
                raise ValueError(
                    f"{where}: the weights are tied ({users[id(weight)]}), so that "
                    "changing them would change another module. Use masked_heads"
                )
            n_heads, n_groups = len(block.kept_heads), len(block.groups)
            units = {"fused": (0 if block.spec.query else n_heads) + 2 * n_groups}
            units |= {"key": n_groups, "value": n_groups}
            size = columns_of(module) if part == "output" else rows_of(module)
            wanted = units.get(part, n_heads) * block.head_dim
            # verified blocks have the sizes they were verified with
            if size != wanted and block.source != "found":
                raise ValueError(
                    f"{where}: the weights have width {size}, not {wanted} for heads of width "
                    f"{block.head_dim}. Check the groups and the width in the module's entry "
                    "(headprune_lib.register_attention), or use masked_heads"
                )


def renumbered(
    model: Any,
    blocks: Sequence[AttentionLayer],
    before: Sequence[Sequence[int]],
    after: Sequence[Sequence[int]],
) -> list[tuple[Any, str, list]]:
    """Renumber the cross-attention heads that the model's configurations name.

    They count a layer's present heads, so removing a head shifts those after it. ``before`` and
    ``after`` are each block's heads (original indices) in the order in which they are counted.

    Returns:
        ``(configuration, attribute, value)`` to be set; ValueError if a named head is removed.
    """
    changes = []
    each = zip(blocks, before, after, strict=True)
    layers = {b.layer: (old, list(new)) for b, old, new in each if b.kind == "enc-dec"}
    for owner, name, pairs in _named_heads(model, {k: len(old) for k, (old, _) in layers.items()}):
        heads = [(layer, layers[layer][0][number]) for layer, number in pairs]
        if gone := [(layer, head) for layer, head in heads if head not in layers[layer][1]]:
            raise ValueError(
                f"{name} of the {type(owner).__name__} names cross-attention heads that would "
                f"be removed, as (layer, head): {gone[:5]}{' …' if len(gone) > 5 else ''}. "
                f"Keep them, or set {name} to other heads first"
            )
        if name == "alignment_heads":
            places = [[layer, layers[layer][1].index(head)] for layer, head in heads]
            changes.append((owner, name, places))
    return changes


def _named_heads(
    model: Any, n_heads: Mapping[int, int]
) -> Iterator[tuple[Any, str, list[tuple[int, int]]]]:
    """Yield configuration, attribute, and ``(layer, place)`` of each head that it names.

    Two configurations of transformers name heads: Whisper takes word timestamps from the attention
    of ``alignment_heads``, and SpeechT5 takes a loss from that of each layer's first heads.
    """
    generation = getattr(model, "generation_config", None)
    config: Any = getattr(model, "config", None)
    pairs = [(layer, n) for layer, n in getattr(generation, "alignment_heads", None) or ()]
    if pairs and all(0 <= number < n_heads.get(layer, 0) for layer, number in pairs):
        yield generation, "alignment_heads", pairs  # else they are another model's
    # SpeechT5 for text is trained without that loss
    makes_speech = hasattr(model, "speech_decoder_postnet")
    if makes_speech and getattr(config, "use_guided_attention_loss", False):
        name = "guided_attention_loss_num_heads"
        first = range(getattr(config, name))
        pairs = [(layer, number) for layer, n in n_heads.items() for number in first if number < n]
        yield config, name, pairs
