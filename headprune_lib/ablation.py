"""Sweeps that cut one head, or all heads of a layer but one, and reuse what no cut changes.

What ends before an attention module runs does not depend on that module's heads: layers below it,
all of the encoder for the decoder's heads, and the keys and values made of the encoder's states. A
head's contribution to the output projection is linear, so attention itself runs once for all heads.
With L layers of equal cost each cut costs (L - 1)/2 of them and the feed-forward part of one, where
plain masking costs L: 0.53 of it at L = 6, and 0.44 for an encoder-decoder of 6 and 6 layers.
Of a classifier that reads one position the last feed-forward part is spared as well: 0.42 at L = 6.
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
"""A model's outputs and the batch they are of -> what of them is wanted."""

Sweep = Iterator[tuple[Logits, dict[Head, Logits]]]
"""For each batch the logits of the uncut model, and ``{(kind, layer, head): with it cut}``."""

_How = Literal["cut", "keep"]  # a head goes alone, or all others of its layer go
_MOST_BYTES = 4 * 2**30


def one_head_masks(model: nn.Module) -> dict[Head, HeadTensors]:
    """For each head ``(kind, layer, head)`` the mask that cuts it alone (paper, section 3.2)."""
    return _masks(find_heads(model), "cut")


def all_but_one_masks(model: nn.Module) -> dict[Head, HeadTensors]:
    """For each head the mask that keeps it alone in its layer (paper, section 3.3)."""
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
    """Logits with each head cut in turn (paper, section 3.2), activations reused.

    Nothing is computed before a batch is asked for, and between two batches the model is as it was:
    a sweep may be left half used, and sweeps of one model may take turns.

    Nothing is reused, and the model masked head by head, where layers share a module, where classes
    were found by their structure, which does not tell what layers hand on to each other, and where
    weights are not as they are used (quantised, adapted).

    Args:
        model: one with a head of its task; an encoder-decoder is given ``decoder_input_ids``, or
            makes them of ``labels``.
        batches: dicts of model inputs; other ``labels`` are seen by ``reduce`` alone.
        reduce: ``(outputs, batch) -> tensor``, what to keep of each pass in place of the logits, of
            which a language model has as many for each head as there are words; such as
            ``headprune_lib.losses.default_loss(model)``, one number an example.
        device: where to compute; the model's own device if not given.

    Returns:
        iterator of ``(uncut, cut)`` for each batch, on the CPU: logits of shape ``(batch, class)``
        and ``{(kind, layer, head): logits}`` for every head, or what ``reduce`` makes.

    Raises:
        ValueError: outputs without logits, or so many of them that all heads' would take more than
            4 GiB (give ``reduce``).
    """
    find_heads(model)  # a model without any is refused here, and not where a batch is asked for
    return (_ablate_batch(model, batch, "cut", reduce, device) for batch in batches)


def all_but_one(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    reduce: Reduce | None = None,
    device: Device = None,
) -> Sweep:
    """As :func:`one_head_ablation`, with every other head of the layer cut (paper, section 3.3)."""
    find_heads(model)
    return (_ablate_batch(model, batch, "keep", reduce, device) for batch in batches)


def masked_logits(
    model: nn.Module,
    batches: Iterable[Batch],
    mask: HeadTensors | Tensor | None = None,
    *,
    device: Device = None,
) -> Iterator[Logits]:
    """Logits ``(batch, class)`` of each batch under one mask, by plain masked forward passes.

    As of :func:`headprune_lib.one_head_ablation`, batches are computed as they are asked for, and
    the model is as it was between them.
    """
    mask = ones_mask(model) if mask is None else mask
    for batch in batches:
        with _for_one_batch(model, batch, device) as inputs, masked_heads(model, mask):
            logits = _logits(model(**model_inputs(model, inputs)), inputs)
        yield logits.cpu()


@contextmanager
def _for_one_batch(model: nn.Module, batch: Batch, device: Device) -> Iterator[Batch]:
    """The batch on the device, while the model is ready for it."""
    batch = to_device(batch, ensure_device(model, device))
    # no_grad, for inference mode's tensors could not be changed in place by the caller
    with eval_mode(model), torch.no_grad():
        yield batch


def _logits(outputs: Any, _batch: Batch) -> Logits:
    logits = getattr(outputs, "logits", None)
    if not isinstance(logits, Tensor):
        raise ValueError(f"{type(outputs).__name__} has no logits; give reduce=(outputs, batch)")
    return logits


def _ablate_batch(
    model: nn.Module, batch: Batch, how: _How, reduce: Reduce | None, device: Device
) -> tuple[Logits, dict[Head, Logits]]:
    """What a sweep yields of one batch."""
    blocks = find_heads(model)
    cut: dict[Head, Tensor] = {}
    with _for_one_batch(model, batch, device) as inputs, first_position_alone(model, reduce):

        def run() -> Tensor:
            result = (reduce or _logits)(model(**model_inputs(model, inputs)), inputs)
            return result.to("cpu", non_blocking=result.is_cuda)  # waited for once, at the end

        whole = _Pass(model, blocks)
        with whole.recorded():
            uncut = run()
        n_heads = sum(len(block.kept_heads) for block in blocks)
        if reduce is None and (needed := uncut.nbytes * n_heads) > _MOST_BYTES:
            raise ValueError(
                f"the logits of this batch under {n_heads} cuts take {needed / 2**30:.1f} GiB: give "
                "a reduce such as headprune_lib.losses.default_loss(model), or smaller batches"
            )
        if all(map(whole.can_be_reused, blocks)):
            for block in blocks:
                heads = [(block.kind, block.layer, head) for head in block.kept_heads]
                if not whole.calls[_path(block, "output")].times:
                    # attention to an encoder that is not there
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
    """The first of what a module returns: hidden states, where it is a layer or an encoder."""
    return output[0] if isinstance(output, tuple | list | ModelOutput) and output else output


class _Pass:
    """What modules did in the uncut pass: attention, its parts and all that they lie in."""

    def __init__(self, model: nn.Module, blocks: Sequence[AttentionLayer]) -> None:
        self.model = model
        # what makes keys and values of another side's states
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
        """Inside, the pass is made."""
        with record_outputs([self.model.get_submodule(path) for path in self.paths]) as calls:
            yield
        self.calls = dict(zip(self.paths, calls, strict=True))

    def returning(self, outputs: dict[str, Any]) -> AbstractContextManager[None]:
        """Inside, the modules of these paths return this, without computing anything."""
        modules = [self.model.get_submodule(path) for path in outputs]
        return replace_outputs(modules, list(outputs.values()))

    def can_be_reused(self, block: AttentionLayer) -> bool:
        """Whether a block's part in the pass, and what came before it, can be told apart."""
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
        # whether it returned what its output projection's weights make of the heads
        expected = nn.functional.linear(output.inputs[0], matrix_of(projection), projection.bias)
        returned = output.output if block.spec.core else _states(core.output)
        return close(output.output, expected, expected) and torch.equal(returned, output.output)

    def unchanged(self, block: AttentionLayer) -> dict[str, Any]:
        """By path what the heads of a block cannot change, outermost modules only, and its output."""
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
        """By path what a block's attention returns without its kept head of this place, or with it alone.

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
