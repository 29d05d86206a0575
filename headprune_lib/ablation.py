"""Sweeps that cut one head, or all heads of a layer but one, and reuse unchanged activations.

Anything computed before an attention module runs does not depend on its heads: the layers below it,
the whole encoder for the decoder's heads, and keys and values computed from the encoder's states. A
head's contribution to the output projection is linear, so attention itself runs once for all heads.
With L layers of equal cost, each cut costs (L - 1)/2 layers and the feed-forward part of one, where
plain masking costs L: a ratio of 0.53 at L = 6, and 0.44 for an encoder-decoder of 6 and 6 layers.
A classifier that reads one position skips the last feed-forward part at the others: 0.42 at L = 6.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from transformers.utils import ModelOutput

from headprune_lib.discovery import find_heads
from headprune_lib.hooks import first_position_alone, record_outputs, replace_outputs
from headprune_lib.masking import Head, HeadTensors, gated, masked_heads, ones_mask, ones_of
from headprune_lib.pruning import not_plain
from headprune_lib.specs import AttentionLayer, matrix_of
from headprune_lib.utils import (
    Batch,
    Device,
    ensure_device,
    eval_mode,
    model_inputs,
    synchronize,
    to_device,
)
from headprune_lib.verify import close

if TYPE_CHECKING:
    from jaxtyping import Float

    Logits = Float[Tensor, "batch *position class"]
else:
    Logits = Tensor

Reduce = Callable[[Any, Batch], Tensor]
"""``(outputs, batch) -> tensor``: what a sweep keeps of a forward pass."""

Sweep = Iterator[tuple[Logits, dict[Head, Logits]]]
"""For each batch, the uncut logits and the cut ones, as ``{(kind, layer, head): logits}``."""

_How = Literal["cut", "keep"]  # cut one head alone, or all others of its layer
_MOST_BYTES = 4 * 2**30


def one_head_masks(model: nn.Module) -> dict[Head, HeadTensors]:
    """Masks by head ``(kind, layer, head)``, each cutting that head alone (paper, section 3.2)."""
    return _masks(find_heads(model), "cut")


def all_but_one_masks(model: nn.Module) -> dict[Head, HeadTensors]:
    """Masks by head, each keeping that head alone in its layer (paper, section 3.3)."""
    return _masks(find_heads(model), "keep")


def _masks(blocks: Sequence[AttentionLayer], how: _How) -> dict[Head, HeadTensors]:
    masks, full = {}, ones_of(blocks)
    for block in blocks:
        for head in block.kept_heads:
            mask = {kind: values.clone() for kind, values in full.items()}
            if how == "keep":
                mask[block.kind][block.layer] = 0
            mask[block.kind][block.layer, head] = float(how == "keep")
            masks[block.kind, block.layer, head] = mask
    return masks


def one_head_ablation(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    reduce: Reduce | None = None,
    device: Device = None,
) -> Sweep:
    """Compute the logits with each head cut in turn (paper, section 3.2), reusing activations.

    Batches are computed lazily, and the model is unchanged between two batches: a sweep may be left
    unfinished, and sweeps of one model may be interleaved.

    Activations are not reused, and the model is masked head by head, where layers share a module,
    where a class was found by its structure, which does not tell what layers pass to each other,
    and where weights are not stored as they are used (quantised, adapted).

    Args:
        model: a model with a task head; an encoder-decoder takes ``decoder_input_ids``, or makes
            them from ``labels``.
        batches: dicts of model inputs; apart from that case, only ``reduce`` sees ``labels``.
        reduce: ``(outputs, batch) -> tensor``, what to keep of each pass instead of the logits,
            which for a language model span the vocabulary at every position and for every head; for
            example ``headprune_lib.losses.default_loss(model)``, one number per example.
        device: where to compute; the model's own device if not given.

    Returns:
        iterator of ``(uncut, cut)`` for each batch, on the CPU: logits of shape ``(batch, class)``
        and ``{(kind, layer, head): logits}`` for every head, or what ``reduce`` returns.

    Raises:
        ValueError: outputs without logits, or a batch whose logits for all heads would take more
            than 4 GiB (give ``reduce``).
    """
    find_heads(model)  # refuse a model without heads now, not at the first batch
    return (_ablate_batch(model, batch, "cut", reduce, device) for batch in batches)


def all_but_one(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    reduce: Reduce | None = None,
    device: Device = None,
) -> Sweep:
    """Like :func:`one_head_ablation`, but cut all other heads of the layer (paper, section 3.3)."""
    find_heads(model)
    return (_ablate_batch(model, batch, "keep", reduce, device) for batch in batches)


def masked_logits(
    model: nn.Module,
    batches: Iterable[Batch],
    mask: HeadTensors | Tensor | None = None,
    *,
    device: Device = None,
) -> Iterator[Logits]:
    """Yield the logits ``(batch, class)`` of each batch under one mask, from plain masked passes.

    As in :func:`headprune_lib.one_head_ablation`, batches are computed lazily, and the model is
    unchanged between them.
    """
    mask = ones_mask(model) if mask is None else mask
    for batch in batches:
        with _for_one_batch(model, batch, device) as inputs, masked_heads(model, mask):
            logits = _logits(model(**model_inputs(model, inputs)), inputs)
        yield logits.cpu()


@contextmanager
def _for_one_batch(model: nn.Module, batch: Batch, device: Device) -> Iterator[Batch]:
    """Yield the batch on the device, with the model there and in evaluation mode."""
    batch = to_device(batch, ensure_device(model, device))
    # not inference mode, whose tensors the caller could not change in place
    with eval_mode(model), torch.no_grad():
        yield batch


def _logits(outputs: Any, _batch: Batch) -> Logits:
    logits = getattr(outputs, "logits", None)
    if not isinstance(logits, Tensor):
        raise ValueError(
            f"{type(outputs).__name__} has no logits. Give reduce, a function of (outputs, batch)"
        )
    return logits


def _ablate_batch(
    model: nn.Module, batch: Batch, how: _How, reduce: Reduce | None, device: Device
) -> tuple[Logits, dict[Head, Logits]]:
    """The uncut logits of one batch, and those of every cut."""
    blocks = find_heads(model)
    cut: dict[Head, Tensor] = {}
    with _for_one_batch(model, batch, device) as inputs, first_position_alone(model, reduce):

        def run() -> Tensor:
            result = (reduce or _logits)(model(**model_inputs(model, inputs)), inputs)
            return result.to("cpu", non_blocking=result.is_cuda)  # synchronised once, at the end

        whole = _Pass(model, blocks)
        with whole.recorded():
            uncut = run()
        n_heads = sum(len(block.kept_heads) for block in blocks)
        if reduce is None and (needed := uncut.nbytes * n_heads) > _MOST_BYTES:
            raise ValueError(
                f"the logits of this batch under {n_heads} masks take {needed / 2**30:.1f} GiB. "
                "Give reduce=headprune_lib.losses.default_loss(model), or smaller batches"
            )
        if all(map(whole.can_be_reused, blocks)):
            for block in blocks:
                heads = [(block.kind, block.layer, head) for head in block.kept_heads]
                if not whole.calls[_path(block, "output")].times:
                    # cross-attention that did not run, without encoder states
                    cut |= {head: uncut.clone() for head in heads}
                    continue
                with whole.returning(whole.unchanged(block)):
                    for column, head in enumerate(heads):
                        with whole.returning(whole.attention(block, column, how)):
                            cut[head] = run()
        else:
            for head, mask in _masks(blocks, how).items():
                with gated(model, mask, blocks):
                    cut[head] = run()
        synchronize(next(model.parameters()).device)
    return uncut, cut


def _path(block: AttentionLayer, part: str) -> str:
    return ".".join(filter(None, (block.path, getattr(block.spec, part))))


def _states(output: Any) -> Any:
    """A module's first output, which for a layer or an encoder is the hidden states."""
    return output[0] if isinstance(output, tuple | list | ModelOutput) and output else output


class _Pass:
    """The uncut pass as recorded: calls of attention modules, their parts and enclosing modules."""

    def __init__(self, model: nn.Module, blocks: Sequence[AttentionLayer]) -> None:
        self.model = model
        # projections that make keys and values from the encoder's states
        self.cross = [
            _path(block, part)
            for block in blocks
            if block.kind == "enc-dec" and not block.spec.fused
            for part in ("key", "value")
        ]
        paths = list(self.cross)
        for block in blocks:
            paths += itertools.accumulate(block.path.split("."), "{}.{}".format)
            paths += [_path(block, "core"), _path(block, "output")]
        self.paths = list(dict.fromkeys(paths))

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record the pass that is run inside the block."""
        with record_outputs([self.model.get_submodule(path) for path in self.paths]) as calls:
            yield
        self.calls = dict(zip(self.paths, calls, strict=True))

    def returning(self, outputs: dict[str, Any]) -> AbstractContextManager[None]:
        """Inside the block, the modules at these paths return these outputs without computing."""
        modules = [self.model.get_submodule(path) for path in outputs]
        return replace_outputs(modules, list(outputs.values()))

    def can_be_reused(self, block: AttentionLayer) -> bool:
        """Whether a block's cuts can be computed from the recorded pass."""
        core, output = self.calls[_path(block, "core")], self.calls[_path(block, "output")]
        if output.times > 1 or core.times != output.times:
            return False
        if block.source in ("found", "assumed") or block.why_keep_groups:
            return False
        if not output.times:
            return True
        projection: Any = block.part(self.model, "output")
        if not_plain(projection) is not None:
            return False
        # it must return exactly what its output projection's weights make of the heads
        expected = nn.functional.linear(output.inputs[0], matrix_of(projection), projection.bias)
        returned = output.output if block.spec.core else _states(core.output)
        return close(output.output, expected, expected) and torch.equal(returned, output.output)

    def unchanged(self, block: AttentionLayer) -> dict[str, Any]:
        """Outputs by path that a block's heads cannot change, of the outermost modules only."""
        start = self.calls[_path(block, "core")].place
        before = {
            path: call.output
            for path, call in self.calls.items()
            if call.times == 1
            and call.place < start
            and not f"{path}.".startswith(f"{block.path}.")
        }
        states = [_states(output) for output in before.values()]
        for path in self.cross:
            call = self.calls[path]
            if call.times == 1 and any(call.inputs[0] is state for state in states):
                before[path] = call.output
        inner = {path for path in before if any(path.startswith(f"{outer}.") for outer in before)}
        return {path: output for path, output in before.items() if path not in inner}

    def attention(self, block: AttentionLayer, place: int, how: _How) -> dict[str, Any]:
        """A block's attention outputs by path, without its kept head at ``place`` or with it alone.

        The head's share of the projection: (B, T, width) x (width, hidden) -> (B, T, hidden).
        """
        core, output = self.calls[_path(block, "core")].output, self.calls[_path(block, "output")]
        projection: Any = block.part(self.model, "output")
        columns = slice(place * block.head_dim, (place + 1) * block.head_dim)
        context, weight = output.inputs[0], matrix_of(projection)
        projected = nn.functional.linear(context[..., columns], weight[:, columns])
        if how == "cut":
            projected = output.output - projected
        elif projection.bias is not None:
            projected = projected + projection.bias
        if block.spec.core:  # the module around the core applies the projection
            return {_path(block, "core"): core, _path(block, "output"): projected}
        return {block.path: (projected, *core[1:]) if isinstance(core, tuple) else projected}
