"""Masks of a model's heads, and the hook that multiplies heads by them inside a ``with`` block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn

from headprune_lib.discovery import find_heads
from headprune_lib.hooks import changed_inputs
from headprune_lib.specs import AttentionLayer

Head = tuple[str, int, int]
"""A head as ``(kind, layer, head)``, counted from 0."""

Heads = Iterable[Head] | Iterable[tuple[int, int]] | Mapping[int, Iterable[int]]
"""Heads as :func:`head_mask` takes them."""

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped

    HeadTensors = dict[str, Shaped[Tensor, "layer head"]]
else:
    HeadTensors = dict[str, Tensor]
    """One tensor of shape ``(layer, head)`` per kind of attention; in a mask, 1 keeps a head."""


def ones_mask(model: nn.Module) -> HeadTensors:
    """A mask that keeps every head: float32 ones of shape ``(layer, head)`` for each kind.

    Where the layers of a kind have different numbers of heads, the shape is that of the widest, and
    NaN marks entries without a head.
    """
    return ones_of(find_heads(model))


def ones_of(blocks: Sequence[AttentionLayer]) -> HeadTensors:
    """:func:`ones_mask` for the blocks of a model."""
    mask = {kind: torch.full(shape, torch.nan) for kind, shape in shapes_of(blocks).items()}
    for block in blocks:
        mask[block.kind][block.layer, : block.n_heads] = 1
    return mask


def mask_shapes(model: nn.Module) -> dict[str, tuple[int, int]]:
    """``{kind: (layers, most heads in a layer)}``: the shape of masks and scores, pruned or not."""
    return shapes_of(find_heads(model))


def shapes_of(blocks: Sequence[AttentionLayer]) -> dict[str, tuple[int, int]]:
    """:func:`mask_shapes` for the blocks of a model."""
    shapes: dict[str, tuple[int, int]] = {}
    for block in blocks:
        layers, heads = shapes.get(block.kind, (0, 0))
        shapes[block.kind] = (layers + 1, max(heads, block.n_heads))
    return shapes


def _by_kind(kinds: Collection[str], values: Any, what: str, maker: str) -> HeadTensors:
    """Kind -> tensor, also from a single tensor or array if the model has one kind."""
    if isinstance(values, Tensor | np.ndarray) and len(kinds) == 1:
        values = dict.fromkeys(kinds, values)
    if not isinstance(values, Mapping):
        alone = ", or the tensor alone" if len(kinds) == 1 else ""
        raise TypeError(
            f"{what} must be a dict of kind -> tensor{alone}, given {type(values).__name__}. The "
            f"kinds are {list(kinds)}. {maker}"
        )
    tensors = {}
    for kind, value in values.items():
        tensors[kind] = torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
        if not isinstance(tensors[kind], Tensor):
            raise TypeError(f"{what}[{kind!r}] is a {type(value).__name__}, not a tensor. {maker}")
    return tensors


def check_mask(
    model: nn.Module, mask: HeadTensors | Tensor | Heads, blocks: Sequence[AttentionLayer]
) -> HeadTensors:
    """Return ``mask`` as floating-point tensors by kind, or raise an error that says what is wrong.

    Args:
        mask: kind -> ``(layer, head)``, tensors or arrays, or for a model with one kind the tensor
            alone; or the heads to cut, as :func:`headprune_lib.head_mask` takes them.
        blocks: the result of ``find_heads(model)``.

    Returns:
        kind -> ``(layer, head)``, float32 or float64, on the CPU; NaN where there is no head. While
        gradients are enabled, a mask that requires one is returned as it is, on its own device.

    Raises:
        TypeError: not a dict of tensors, or tensors of integers or complex numbers.
        ValueError: a kind missing or unknown, a shape other than ``(layer, head)``, NaN or infinity
            for an existing head.
        IndexError: a head to cut that the model does not have.
    """
    full = ones_of(blocks)
    if _names_heads(mask):
        return without_heads(full, mask)
    maker = "Use ones_mask(model) to keep every head, or head_mask(model, heads) to cut some"
    by_kind = _by_kind(full, mask, "mask", maker)
    if set(by_kind) != set(full):
        raise ValueError(
            f"the mask has the kinds {list(by_kind)}, and {type(model).__name__} needs a tensor "
            f"for each of {list(full)}. {maker}"
        )
    return {kind: _check_entries(kind, values, full[kind]) for kind, values in by_kind.items()}


def check_cut(
    model: nn.Module, mask: HeadTensors | Tensor | Heads, blocks: Sequence[AttentionLayer]
) -> HeadTensors:
    """Like :func:`check_mask`, for a mask whose entries must be 0 or 1, without a gradient."""
    with torch.no_grad():
        checked = check_mask(model, mask, blocks)
    for kind, values in checked.items():
        if not ((values == 0) | (values == 1) | values.isnan()).all():
            raise ValueError(f"mask[{kind!r}] must contain only 0 and 1, to remove or keep a head")
    return checked


def _check_entries(kind: str, values: Tensor, full: Tensor) -> Tensor:
    if not (values.dtype == torch.bool or values.is_floating_point()):
        raise TypeError(f"mask[{kind!r}] is {values.dtype}. Give a bool or floating-point tensor")
    if values.shape != full.shape:
        shapes = f"{tuple(values.shape)}, expected (layer, head) = {tuple(full.shape)}"
        raise ValueError(f"mask[{kind!r}] has shape {shapes}")
    numbers = values.detach().cpu().to(torch.promote_types(values.dtype, torch.float32))
    wrong = ~full.isnan() & ~numbers.isfinite()
    if wrong.any():
        layer, head = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"mask[{kind!r}][{layer}, {head}] is {numbers[layer, head].item()}. "
            "Give finite entries, 1 to keep a head and 0 to cut it"
        )
    learned = values.requires_grad and torch.is_grad_enabled()
    return values if learned else numbers.masked_fill(full.isnan(), torch.nan)


def _names_heads(given: HeadTensors | Tensor | Heads) -> TypeGuard[Heads]:
    """Whether heads are given rather than a mask: ``{layer: heads}``, or a list."""
    if isinstance(given, Mapping):
        return bool(given) and all(isinstance(layer, Integral) for layer in given)
    return isinstance(given, Iterable) and not isinstance(given, Tensor | np.ndarray | str)


def check_scores(
    model: nn.Module,
    scores: HeadTensors | Tensor,
    blocks: Sequence[AttentionLayer],
    kinds: Sequence[str] | None = None,
) -> HeadTensors:
    """Check that scores fit the model and cover its heads; return them by kind on the CPU.

    For a model with one kind, the tensor alone will do. If ``kinds`` are given, only they matter.

    Raises:
        TypeError, ValueError: not tensors, another model's shapes, or NaN for an existing head.
    """
    shapes = shapes_of(blocks)
    by_kind = _by_kind(shapes, scores, "scores", "Make them with score_heads(model, batches)")
    scores = {kind: values.cpu() for kind, values in by_kind.items()}
    wanted = {kind: shapes[kind] for kind in kinds or shapes}
    scored = {kind: tuple(values.shape) for kind, values in scores.items()}
    if scored not in (wanted, shapes):
        raise ValueError(
            f"scores have shapes {scored}, but {type(model).__name__} has {shapes} as (layer, "
            "head). Give scores of this model"
        )
    check_scored([block for block in blocks if block.kind in wanted], scores)
    return scores


def check_scored(blocks: Iterable[AttentionLayer], scores: HeadTensors) -> None:
    """Raises ValueError where scores ``(…, layer, head)`` are NaN for an existing head."""
    for block in blocks:
        row = scores[block.kind][..., block.layer, list(block.kept_heads)]
        if len(lost := row.isnan().nonzero()):
            head = block.kept_heads[lost[0, -1]]
            raise ValueError(
                f"the score of ({block.kind!r}, layer {block.layer}, head {head}) is NaN, which "
                "marks removed heads. Look for an infinite or NaN loss (float16, all-padding rows)"
            )


def head_mask(model: nn.Module, heads: Heads) -> HeadTensors:
    """A mask that cuts some heads and keeps the others.

    Args:
        heads: a list of ``(kind, layer, head)``, counted from 0. For a model with one kind also a
            list of ``(layer, head)``, or ``{layer: [head, ...]}`` as in transformers 4.

    Raises:
        IndexError: a head outside the model.
        TypeError: anything other than heads.
    """
    return without_heads(ones_mask(model), heads)


def without_heads(mask: HeadTensors, heads: Heads) -> HeadTensors:
    """A copy of a mask with further heads cut, which are given as for :func:`head_mask`."""
    mask = {kind: values.clone() for kind, values in mask.items()}
    for kind, layer, head in _named(heads, mask):
        shape = tuple(mask[kind].shape) if kind in mask else (0, 0)
        inside = 0 <= layer < shape[0] and 0 <= head < shape[1]
        if not inside or mask[kind][layer, head].isnan():
            raise IndexError(
                f"the model has no head ({kind!r}, layer {layer}, head {head}), counted from 0. "
                f"Its layers and heads are { {k: tuple(m.shape) for k, m in mask.items()} }"
            )
        mask[kind][layer, head] = 0
    return mask


def _named(heads: Heads, kinds: Collection[str]) -> Iterator[Head]:
    """Yield each head as ``(kind, layer, head)``."""
    if isinstance(heads, Mapping):
        by_layer = ((k, v if isinstance(v, Iterable) else [v]) for k, v in heads.items())
        heads = [(layer, head) for layer, some in by_layer for head in some]
    for head in heads:
        named: Any = tuple(head) if isinstance(head, Iterable) and not isinstance(head, str) else ()
        if len(named) == 2 and len(kinds) == 1:
            named = (*kinds, *named)
        if len(named) != 3 or not all(isinstance(number, Integral) for number in named[1:]):
            short = ", or (layer, head), or {layer: [head, ...]}" if len(kinds) == 1 else ""
            raise TypeError(
                f"{head!r} is not a head. Give a list of (kind, layer, head){short}, counted from "
                f"0. The kinds are {list(kinds)}"
            )
        yield named


Gate = Tensor | Callable[[Tensor], Tensor] | None
"""One block's gates, or a function that makes them from the output projection's input."""


@contextmanager
def masked_heads(model: nn.Module, mask: HeadTensors | Tensor | Heads) -> Iterator[nn.Module]:
    """Multiply each head's output by its entry of ``mask`` inside the block (paper, section 2.3).

    The mask acts on the *input* of the attention output projection, where heads are still separate.
    It works with every attention implementation, in training and in generation. Inside the block,
    code made by :func:`torch.compile` from this or any other model runs uncompiled, since it would
    ignore the mask.

    ``backward()`` may come after the block. It gives the masked model's gradients, also with
    activation checkpointing, which runs layers again in the backward pass. A mask that requires a
    gradient gets one.

    Args:
        model: a transformers model that :func:`headprune_lib.find_heads` knows.
        mask: kind -> tensor or array of shape ``(layer, head)``, bool or floating; 1 keeps, 0 cuts.
            For a model with one kind, the tensor alone will do. Entries of removed heads are
            ignored. Or the heads to cut, as :func:`headprune_lib.head_mask` takes them.

    Raises:
        TypeError, ValueError, IndexError: see :func:`headprune_lib.masking.check_mask`.
        RuntimeError: activation checkpointing repeats, inside the block, a pass that was made
            outside it.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(BertConfig(hidden_size=8, num_attention_heads=4, vocab_size=10,
        ...                              num_hidden_layers=1, intermediate_size=8)).eval()
        >>> mask = {"self": torch.tensor([[1.0, 0.0, 1.0, 1.0]])}
        >>> with masked_heads(model, mask):
        ...     hidden = model(torch.tensor([[1, 2, 3]])).last_hidden_state
    """
    blocks = find_heads(model)
    with gated(model, check_mask(model, mask, blocks), blocks):
        yield model


@contextmanager
def masked_rows(
    model: nn.Module, masks: Sequence[HeadTensors], rows: Sequence[int]
) -> Iterator[nn.Module]:
    """Like :func:`headprune_lib.masked_heads`, with a separate mask for each example of a batch.

    Args:
        masks: masks as for :func:`headprune_lib.masked_heads`.
        rows: the index of each example's mask. In a beam search, each example has as many rows in
            the batch as there are beams.
    """
    blocks = find_heads(model)
    stacked = stacked_masks(model, masks, blocks)
    with gated(model, {kind: values[:, list(rows)] for kind, values in stacked.items()}, blocks):
        yield model


def stacked_masks(
    model: nn.Module, masks: Sequence[HeadTensors], blocks: Sequence[AttentionLayer] | None = None
) -> dict[str, Float[Tensor, "layer mask head"]]:
    """Check several masks and stack them as kind -> ``(layer, mask, head)``."""
    blocks = find_heads(model) if blocks is None else blocks
    checked = [check_mask(model, mask, blocks) for mask in masks]
    return {kind: torch.stack([mask[kind] for mask in checked], dim=1) for kind in checked[0]}


@contextmanager
def gated(
    model: nn.Module,
    gates: Mapping[str, Tensor] | Sequence[Gate],
    blocks: Sequence[AttentionLayer] | None = None,
) -> Iterator[None]:
    """Inside the block, multiply each attention output projection's input by its heads' gates.

    All masks, learned gates and derivatives with respect to gates use this hook.
    A gradient flows to every gate that requires one, also with activation checkpointing.

    Args:
        gates: kind -> ``(layer, head)``, ``(layer, row, head)`` or
            ``(layer, row or 1, position or 1, head)``, finite for every head that is still there.
            Or one entry per block, for its remaining heads: ``(head,)``, ``(row, head)`` or
            ``(row or 1, position or 1, head)``; a function that returns such a tensor for the
            projection's input ``(row, position, head * width)``, called at every run; or None,
            which leaves the block as it is. If gates have fewer rows than the batch, each row
            applies to equally many consecutive rows of the batch.
        blocks: the blocks that the gates belong to; all of ``find_heads(model)`` if not given.

    Raises:
        ValueError: gates by row that do not divide the batch's rows, or gates by row for a model
            whose code windows or flattens examples (raised by the forward pass).
        RuntimeError: see :func:`headprune_lib.masked_heads`.
    """
    blocks = find_heads(model) if blocks is None else blocks
    if isinstance(gates, Mapping):
        gates = _gates_of_blocks(blocks, gates)
    pairs = zip(blocks, gates, strict=True)
    changes = [None if gate is None else partial(_gated, block, gate) for block, gate in pairs]
    with changed_inputs([block.part(model, "output") for block in blocks], changes):
        yield


def _gates_of_blocks(blocks: Sequence[AttentionLayer], gates: Mapping[str, Tensor]) -> list[Gate]:
    """Split gates by kind into the gates of each block; None where all of them are 1."""

    def of_block(block: AttentionLayer, _context: Tensor | None = None) -> Tensor:
        return gates[block.kind][block.layer][..., list(block.kept_heads)]

    if any(values.requires_grad for values in gates.values()):
        # read at every run: an optimizer may change them inside the block
        return [partial(of_block, block) for block in blocks]
    each = [of_block(block) for block in blocks]
    copies: dict[tuple[torch.device, torch.dtype], tuple[Tensor, ...]] = {}

    def copy_of(i: int, context: Tensor) -> Tensor:
        where = context.device, context.dtype
        if where not in copies:  # one transfer for all blocks
            together = torch.cat([gate.flatten() for gate in each]).to(*where)
            copies[where] = together.split([gate.numel() for gate in each])
        return copies[where][i].view(each[i].shape)

    return [None if bool((gate == 1).all()) else partial(copy_of, i) for i, gate in enumerate(each)]


def _gated(
    block: AttentionLayer, gate: Tensor | Callable[[Tensor], Tensor], context: Tensor
) -> Tensor:
    """An output projection's input, ``(row, position, head * width)``, times the gates."""
    factors = gate(context) if callable(gate) else gate
    factors = _by_row(factors.to(context), context, block)
    by_head = context.unflatten(-1, (len(block.kept_heads), block.head_dim))
    return (by_head * factors[..., None]).flatten(-2)


def _by_row(gate: Tensor, context: Tensor, block: AttentionLayer) -> Tensor:
    """A block's gates in a shape that broadcasts over ``(row, position, head)``."""
    if gate.ndim == 1:
        return gate
    if len(gate) == 1:
        return gate[0]
    if not block.batch_first:
        raise ValueError(
            f"{block.path} gets its examples windowed, flattened or transposed, so that each "
            "cannot have its own mask. Give batches of one example"
        )
    if len(context) % len(gate):
        raise ValueError(
            f"the batch has {len(context)} rows, not a multiple of the {len(gate)} masks. Give "
            "the index of a mask for each example"
        )
    if len(gate) < len(context):
        gate = gate.repeat_interleave(len(context) // len(gate), dim=0)
    return gate[:, None] if gate.ndim == 2 else gate
