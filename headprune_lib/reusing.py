"""Each head of a model cut in turn on one batch, without computing again what no cut changes.

What has ended before an attention module runs cannot depend on that module's heads: layers below
it, and for the decoder's heads all of the encoder, return what they returned without the cut. So do
the decoder's keys and values of the encoder's states, where the encoder itself is not cut. And a
head's contribution to the output projection is linear, so the attention itself runs once for all
its heads. For each cut only the rest of its layer and what comes after is computed.

With layers of equal cost, a sweep over every head of L layers costs (L - 1)/2 layers plus the
feed-forward part of one layer a head, where plain masking costs L: 0.53 of it at L = 6. An
encoder-decoder of 6 and 6 layers, with sources as long as targets, costs 0.44 of plain masking; in
both the products with all words of the vocabulary come besides, and of width 256 with 4,000 words
that is 0.50 (``headprune bench sweeps`` times a trained translator).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D
from transformers.utils import ModelOutput

from headprune_lib.batching import Batch, check_batch, model_inputs
from headprune_lib.heads import AttentionBlock, Head, HeadTensors, find_heads, full_mask
from headprune_lib.masking import masked_heads
from headprune_lib.pruning import not_plain
from headprune_lib.running import (
    Call,
    evaluating,
    on_device,
    placed,
    recorded,
    replayed,
)
from headprune_lib.verify import close

if TYPE_CHECKING:
    from jaxtyping import Float

    Logits = Float[Tensor, "batch *position class"]
else:
    Logits = Tensor

How = Literal["cut", "keep"]
"""A head goes alone, or all others of its layer go."""

Reduce = Callable[[Any, Batch], Tensor]
"""A model's outputs and the batch they are of -> what of them is wanted."""

Swept = tuple[Logits, dict[Head, Logits]]
"""Logits of one batch: of the uncut model, and ``{(kind, layer, head): with that head cut}``."""


def masks_of(model: nn.Module, how: How) -> dict[Head, HeadTensors]:
    """For each head the mask that cuts it, or keeps it, alone."""
    masks = {}
    for block in find_heads(model):
        for head in block.kept:
            mask = full_mask(model)
            if how == "keep":
                mask[block.kind][block.layer] = 0
            mask[block.kind][block.layer, head] = float(how == "keep")
            masks[block.kind, block.layer, head] = mask
    return masks


def swept(
    model: nn.Module,
    batch: Batch,
    how: How,
    reduce: Reduce | None,
    device: str | torch.device | None,
) -> Swept:
    """What a sweep yields of one batch; see :func:`headprune_lib.one_head_ablation`.

    A model is masked head by head, with nothing reused, where layers share a module, where classes
    were found by their structure, which does not tell what layers hand on to each other, and where
    weights are not as they are used (quantised, adapted).
    """
    blocks = find_heads(model)
    cut: dict[Head, Tensor] = {}
    with for_one_batch(model, batch, device) as inputs:
        run = _Run(model, inputs, reduce or logits_of)
        with _noted(model, blocks) as uncut:
            made = run()
        if reduce is None:
            _check_size(made, sum(len(block.kept) for block in blocks))
        if not uncut.can_be_reused(model):
            for one, mask in masks_of(model, how).items():
                with masked_heads(model, mask):
                    cut[one] = run()
            return made, cut
        for i, block in enumerate(blocks):
            if not uncut.projected[i].times:  # attention to an encoder that is not there
                cut |= {(block.kind, block.layer, head): made.clone() for head in block.kept}
                continue
            with uncut.unchanged(model, i):
                for j, head in enumerate(block.kept):
                    projected = _projection(model, block, uncut.projected[i], j, how)
                    with _attention_returning(model, block, uncut.attended[i], projected):
                        cut[block.kind, block.layer, head] = run()
    return made, cut


@dataclass(frozen=True)
class _Run:
    """One pass of a model over a batch, and what is kept of it, on the CPU."""

    model: nn.Module
    batch: Batch
    reduce: Reduce

    def __call__(self) -> Tensor:
        outputs = self.model(**model_inputs(self.model, self.batch))
        return self.reduce(outputs, self.batch).cpu()


@dataclass(frozen=True)
class _Uncut:
    """What parts of a model did in the pass without a cut.

    Attributes:
        attended: of each block the core.
        projected: of each block the output projection.
        parts: by path the attention modules and all that they lie in: layers, an encoder.
        views: by path what makes keys and values of another side's states.
    """

    blocks: list[AttentionBlock]
    attended: list[Call]
    projected: list[Call]
    parts: dict[str, Call]
    views: dict[str, Call]

    def can_be_reused(self, model: nn.Module) -> bool:
        """Whether a block's part in the pass, and what came before it, can be told apart."""
        return not (
            any(call.times > 1 for call in self.projected)
            or [call.times for call in self.attended] != [call.times for call in self.projected]
            or any(block.how in ("found", "assumed") or block.keeps_groups for block in self.blocks)
            or not all(map(partial(_is_linear, model), self.blocks, self.attended, self.projected))
        )

    def unchanged(self, model: nn.Module, i: int) -> AbstractContextManager[None]:
        """Inside, what the heads of a block cannot change returns what it did."""
        own, start = self.blocks[i].path, self.attended[i].place
        before = {
            path: call.output
            for path, call in self.parts.items()
            if call.times == 1 and call.place < start and path != own
        }
        returned = [_states(output) for output in before.values()]
        before |= {
            path: call.output
            for path, call in self.views.items()
            if call.times == 1 and any(call.inputs[0] is one for one in returned)
        }
        outermost = {
            path: output
            for path, output in before.items()
            if not any(path.startswith(f"{other}.") for other in before)
        }
        modules = [model.get_submodule(path) for path in outermost]
        return replayed(modules, list(outermost.values()))


def _states(output: Any) -> Any:
    """The first of what a module returns: hidden states, where it is a layer or an encoder."""
    return output[0] if isinstance(output, tuple | list | ModelOutput) and output else output


@contextmanager
def _noted(model: nn.Module, blocks: list[AttentionBlock]) -> Iterator[_Uncut]:
    """Inside, a pass of the model is noted as one without a cut."""
    parts = {
        ".".join(names[:end])
        for names in (block.path.split(".") for block in blocks)
        for end in range(1, len(names) + 1)
    }
    views = {
        ".".join(filter(None, (block.path, getattr(block.architecture, name))))
        for block in blocks
        if block.kind == "enc-dec" and not block.architecture.fused
        for name in ("key", "value")
    }
    cores, projections = (
        [block.part(model, name) for block in blocks] for name in ("core", "output")
    )
    paths, n = [*parts, *views], len(blocks)
    with recorded([*cores, *projections, *map(model.get_submodule, paths)]) as calls:
        named = dict(zip(paths, calls[2 * n :], strict=True))
        yield _Uncut(
            blocks,
            calls[:n],
            calls[n : 2 * n],
            {path: named[path] for path in parts},
            {path: named[path] for path in views},
        )


def logits_of(outputs: Any, _batch: Batch) -> Logits:
    """A model's logits, on the CPU.

    Raises:
        ValueError: outputs without any.
    """
    logits = getattr(outputs, "logits", None)
    if not isinstance(logits, Tensor):
        raise ValueError(
            f"the model returns {type(outputs).__name__}, without logits; say with "
            "reduce=(outputs, batch) what of it is wanted"
        )
    return logits.cpu()


_MOST_BYTES = 4 * 2**30


def _check_size(logits: Tensor, n_heads: int) -> None:
    needed = logits.numel() * logits.element_size() * n_heads
    if needed > _MOST_BYTES:
        raise ValueError(
            f"the logits of this batch {tuple(logits.shape)} under each of {n_heads} cuts would "
            f"take {needed / 2**30:.1f} GiB: give reduce=(outputs, batch), such as "
            "headprune_lib.losses.default_loss(model), or smaller batches"
        )


def _is_linear(model: nn.Module, block: AttentionBlock, attended: Call, projected: Call) -> bool:
    """Whether a block returned what its output projection's weights make of the heads."""
    projection = block.part(model, "output")
    if not projected.times:
        return True
    if not_plain(projection) is not None:
        return False
    whole = _product(projection, projected.inputs[0], slice(None))
    bias: Any = projection.bias
    made = whole if bias is None else whole + bias
    returned = projected.output if block.architecture.core else _states(attended.output)
    return close(projected.output, made, made) and torch.equal(returned, projected.output)


@contextmanager
def for_one_batch(
    model: nn.Module, batch: Batch, device: str | torch.device | None
) -> Iterator[Batch]:
    """The batch on the device, while the model is ready for it.

    Entered anew for each batch: a generator that yields from inside would leave the model in
    evaluation mode, and gradients off, for whatever its caller does next.
    """
    check_batch(batch)
    device = placed(model, device)
    # no_grad, for inference mode's tensors could not be changed in place by the caller
    with evaluating(model), torch.no_grad():
        yield on_device(batch, device)


def _attention_returning(
    model: nn.Module,
    block: AttentionBlock,
    attended: Call,
    projected: Float[Tensor, "batch position hidden"],
) -> AbstractContextManager[None]:
    """Inside, a block's attention returns what it did, with its output projection's in place."""
    core, before = block.part(model, "core"), attended.output
    if block.architecture.core:  # the module around the core applies the projection
        return replayed([core, block.part(model, "output")], [before, projected])
    return replayed([core], [(projected, *before[1:]) if isinstance(before, tuple) else projected])


def _projection(
    model: nn.Module, block: AttentionBlock, projected: Call, j: int, how: How
) -> Float[Tensor, "batch position hidden"]:
    """The output projection without (``cut``) or with only (``keep``) the block's j-th kept head.

    (B, T, width) x (width, hidden) -> (B, T, hidden)
    """
    projection: Any = block.part(model, "output")
    context = projected.inputs[0]  # (B, T, heads * width)
    columns = slice(j * block.width, (j + 1) * block.width)
    share = _product(projection, context, columns)
    if how == "cut":
        return projected.output - share
    return share if projection.bias is None else share + projection.bias


def _product(projection: Any, context: Tensor, columns: slice) -> Tensor:
    turned = isinstance(projection, Conv1D)  # (in, out) where a linear layer has (out, in)
    weight = projection.weight.T if turned else projection.weight
    return nn.functional.linear(context[..., columns], weight[:, columns])
