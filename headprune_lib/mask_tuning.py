"""Gates that compensate for cut heads: gradient-free mask tuning (Kwon et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from headprune_lib.attention import query_mask
from headprune_lib.discovery import find_heads
from headprune_lib.hooks import record_outputs
from headprune_lib.masking import Gate, Heads, HeadTensors, check_cut, check_mask, gated, ones_of
from headprune_lib.pruning import check_weights
from headprune_lib.specs import AttentionLayer, matrix_of
from headprune_lib.utils import Batch, Device, eval_mode, in_double, model_inputs, on_device

if TYPE_CHECKING:
    from jaxtyping import Float

_GREATEST = 10.0
# Relative to the largest eigenvalue of the normal equations: directions below it are not fitted.
_SINGULAR = 1e-10


def tune_mask(
    model: nn.Module,
    mask: HeadTensors | Tensor | Heads,
    batches: Iterable[Batch],
    *,
    device: Device = None,
) -> HeadTensors:
    r"""Fit gates for the heads that a mask keeps, so that each layer writes what it wrote uncut.

    Block by block, in the order in which they run, the gates minimise
    :math:`\sum_x \| \sum_h g_h W^O_h \mathrm{Att}_h(\hat x) - \sum_h W^O_h \mathrm{Att}_h(x) \|^2`
    over all tokens except padding, where :math:`x` is the block's input in the uncut model and
    :math:`\hat x` its input under the gates fitted so far. A block thus also compensates for the
    blocks before it. Where heads cannot be told apart, and for heads that write nothing, the gates
    stay as close to 1 as possible.

    After Kwon et al. 2022, "A Fast Post-Training Pruning Framework for Transformers". The bound of
    10 and the two inputs are theirs; their code also adds the difference of the residual streams to
    the target and a constant to the fit, damps the fit, leaves the first layer as it is, tunes
    neurons, and stops at the first layer beyond the bound.

    Fitting a block takes two passes of all batches up to it, one uncut and one gated, and keeps its
    inputs in both on the model's device. A module is fitted on all its runs, before it is gated.

    Args:
        model: a transformers model; put in evaluation mode for the call, and left as it was.
        mask: kind -> ``(layer, head)``, 0 to cut and 1 to keep; or the heads to cut, as for
            :func:`headprune_lib.masked_heads`. Entries of heads that were removed from the model
            are passed through.
        batches: dicts of tensors that are the model's keyword arguments; labels are optional, and
            mark the padding of a decoder's input if nothing else does. Read once and kept.
        device: where to compute; the model's own device if not given.

    Returns:
        kind -> float64 tensor of shape ``(layer, head)``: 0 where the mask is 0, the gate where it
        is 1. All gates are 1 in layers without a cut in or before them, and in layers where any
        gate would be outside -10 to 10. :func:`headprune_lib.masked_heads` takes the result,
        :func:`headprune_lib.fold_gates` makes it permanent.

    Raises:
        TypeError, ValueError: a mask that does not fit, or has entries other than 0 and 1; no
            batches; an output projection without plain weights.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(BertConfig(hidden_size=8, num_attention_heads=4, vocab_size=10,
        ...                              num_hidden_layers=1, intermediate_size=8))
        >>> batch = {"input_ids": torch.tensor([[1, 2, 3], [4, 5, 6]])}
        >>> gates = tune_mask(model, {"self": torch.tensor([[1.0, 0.0, 1.0, 1.0]])}, [batch])
        >>> gates["self"].shape, gates["self"][0, 1].item()
        (torch.Size([1, 4]), 0.0)
    """
    every = find_heads(model)
    gates = {kind: values.double() for kind, values in check_cut(model, mask, every).items()}
    kept = list(on_device(model, batches, device))
    runs = _runs(model, every, kept[0])
    blocks = list(runs)
    has_cut = [bool((_own(gates, block) == 0).any()) for block in blocks]
    if not any(has_cut):
        return gates
    blocks = blocks[has_cut.index(True) :]  # earlier blocks are as they were
    fitted = [block for block in blocks if (_own(gates, block) == 1).any()]
    check_weights(model, fitted, ["output"])
    whole = ones_of(every)
    for block in fitted:
        of_block = _own(gates, block)
        fit = _Fit(model, block, of_block != 0)
        given = partial(_inputs, model, every, block, runs[block], kept)
        uncut, cut = given(whole), given(gates)
        for batch, *contexts in zip(kept, uncut, cut, strict=True):
            for of_uncut, of_cut in zip(*contexts, strict=True):
                fit.add(_tokens(of_uncut, block, batch), _tokens(of_cut, block, batch))
        of_block[of_block != 0] = fit.gates()
        gates[block.kind][block.layer, list(block.kept_heads)] = of_block
    return gates


def fold_gates(model: nn.Module, gates: HeadTensors | Tensor) -> nn.Module:
    """Multiply the output projections' columns by the heads' gates, in place.

    The model then computes permanently what :func:`headprune_lib.masked_heads` computes under the
    gates. :func:`headprune_lib.prune_heads` may remove heads whose gate is 0, and saved or exported
    models include the gates.

    Args:
        gates: kind -> ``(layer, head)``, real; those of heads that were removed are ignored.

    Returns:
        ``model``, for chaining.

    Raises:
        TypeError, ValueError: gates that do not fit the model, or weights that cannot be changed
            as they are (quantised, in an adapter, tied, computed from others). The model is then
            unchanged.
    """
    blocks = find_heads(model)
    checked = check_mask(model, gates, blocks)
    blocks = [block for block in blocks if (_own(checked, block) != 1).any()]
    check_weights(model, blocks, ["output"])
    for block in blocks:
        with torch.no_grad():
            weight = matrix_of(block.part(model, "output"))  # (hidden, heads * width)
            weight.mul_(_own(checked, block).repeat_interleave(block.head_dim).to(weight))
    return model


def _runs(
    model: nn.Module, blocks: Sequence[AttentionLayer], batch: Batch
) -> dict[AttentionLayer, int]:
    """The blocks in the order in which they run in a pass, with the number of runs of each."""
    outputs = [block.part(model, "output") for block in blocks]
    with eval_mode(model), torch.no_grad(), record_outputs(outputs) as calls:
        model(**model_inputs(model, batch))
    ran = sorted((call.place, i) for i, call in enumerate(calls) if call.times)
    return {blocks[i]: calls[i].times for _, i in ran}


class _Reached(Exception):
    """Ends a pass that has run as far as needed."""


def _inputs(
    model: nn.Module,
    blocks: Sequence[AttentionLayer],
    block: AttentionLayer,
    times: int,
    batches: Sequence[Batch],
    gates: HeadTensors,
) -> list[list[Tensor]]:
    """The ungated inputs of a block's projection in each batch, at each of its ``times`` runs.

    A pass ends at the last run.
    """
    inputs: list[list[Tensor]] = []

    def keep(context: Tensor) -> Tensor:
        inputs[-1].append(context)
        if len(inputs[-1]) == times:
            raise _Reached
        return _own(gates, block)

    below = [other for other in blocks if (_own(gates, other) != 1).any()]
    gated_blocks = list(dict.fromkeys([*below, block]))
    hooks: list[Gate] = [keep if other == block else _own(gates, other) for other in gated_blocks]
    with eval_mode(model), torch.no_grad(), gated(model, hooks, gated_blocks):
        for batch in batches:
            inputs.append([])
            with suppress(_Reached):
                model(**model_inputs(model, batch))
    return inputs


def _own(gates: HeadTensors, block: AttentionLayer) -> Float[Tensor, " head"]:
    """The gates of the heads that a block still has."""
    return gates[block.kind][block.layer, list(block.kept_heads)]


def _tokens(context: Tensor, block: AttentionLayer, batch: Batch) -> Float[Tensor, "token column"]:
    """A projection's input at every token that is not padding."""
    real = query_mask(block, batch)
    if real is not None and context.shape[:2] == real.shape:
        context = context[real]
    return context.flatten(0, -2)


class _Fit:
    """Least-squares fit of the gates of a block's remaining heads, from sums over tokens alone.

    With ``C`` the projection's input and ``W`` its weight, head h writes ``C_h W_h^T``; inner
    products of what two heads write are sums over entries of ``(C^T C) * (W^T W)``.
    """

    def __init__(self, model: nn.Module, block: AttentionLayer, left: Tensor) -> None:
        weight = in_double(matrix_of(block.part(model, "output")).detach())  # (hidden, column)
        self.width = block.head_dim
        self.columns = left.repeat_interleave(self.width).to(weight.device)
        self.products = weight[:, self.columns].T @ weight  # (columns left, columns)
        self.both = torch.zeros_like(self.products)
        self.gated = self.both[:, self.columns].clone()

    def add(self, uncut: Tensor, gated: Tensor) -> None:
        """Add some tokens, both (token, column): uncut, and under the gates fitted before."""
        gated = in_double(gated)[:, self.columns]
        self.both += gated.T @ in_double(uncut)
        self.gated += gated.T @ gated

    def gates(self) -> Float[Tensor, " left"]:
        """The gates of the remaining heads; all 1 if any is beyond the bound."""
        normal = self._by_head(self.gated * self.products[:, self.columns])
        target = self._by_head(self.both * self.products).sum(1)
        ones = torch.ones_like(target)
        if not (normal.isfinite().all() and target.isfinite().all()):
            return ones
        # solved from 1, so that gates that the text does not determine stay there
        inverse = torch.linalg.pinv(normal, hermitian=True, rtol=_SINGULAR)
        gates = 1 + inverse @ (target - normal.sum(1))
        return gates if bool((gates.abs() <= _GREATEST).all()) else ones

    def _by_head(self, products: Tensor) -> Tensor:
        """Sums of (columns, columns) over each pair of heads, on the CPU."""
        each = products.unflatten(1, (-1, self.width)).unflatten(0, (-1, self.width))
        return each.sum((1, 3)).cpu().double()
