"""Gates that make up for heads that are cut: mask tuning (Kwon et al. 2022), without a gradient."""

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
# Of the eigenvalues of the normal equations: a direction that heads hardly write in is left alone.
_SINGULAR = 1e-10


def tune_mask(
    model: nn.Module,
    mask: HeadTensors | Tensor | Heads,
    batches: Iterable[Batch],
    *,
    device: Device = None,
) -> HeadTensors:
    r"""Gates of the heads that a mask keeps, fitted so that each layer writes what it wrote uncut.

    Block by block, in the order in which they run, the gates minimise
    :math:`\sum_x \| \sum_h g_h W^O_h \mathrm{Att}_h(\hat x) - \sum_h W^O_h \mathrm{Att}_h(x) \|^2`
    over all tokens but padding: :math:`x` is what the block is given in the uncut model and
    :math:`\hat x` what it is given below gates that are fitted already, for that is what it will be
    given, so that a block also makes up for the blocks before it. Where heads cannot be told
    apart, and for heads that write nothing, the gates stay as near 1 as they can.

    After Kwon et al. 2022, "A Fast Post-Training Pruning Framework for Transformers". Theirs are the
    bound of 10 and the two inputs; their code adds the difference of the residual streams to the
    target and a constant to the fit, damps it, leaves the first layer as it is, tunes neurons too,
    and ends at the first layer beyond the bound.

    Every block that is fitted takes two passes of all batches up to it, one uncut and one gated; what
    it is given of them is kept twice where the model is. A module that runs several times is fitted
    on all its runs, as they are ungated.

    Args:
        model: a transformers model; put in evaluation mode for the call, and left as it was.
        mask: kind -> ``(layer, head)``, 0 and 1: what is cut; or the heads to cut, as for
            :func:`headprune_lib.masked_heads`. Entries of heads that were removed from the model are
            handed through.
        batches: dicts of tensors that are the model's keyword arguments; labels are not needed, and
            say what of a decoder's input is padding if nothing else does. Read once and kept.
        device: where to compute; the model's own device if not given.

    Returns:
        kind -> float64 tensor of shape ``(layer, head)``: 0 where the mask is 0, the gate where it is
        1. Layers with no cut in them or before them have gates 1, and so has a layer one of whose
        gates would lie outside -10 to 10. :func:`headprune_lib.masked_heads` takes the result,
        :func:`headprune_lib.fold_gates` makes it last.

    Raises:
        TypeError, ValueError: a mask that does not fit, or has entries other than 0 and 1; no
            batches; an output projection that holds no plain weights.

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
    blocks = blocks[has_cut.index(True) :]  # what runs before is given what it was given, and whole
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
    gates; :func:`headprune_lib.prune_heads` may remove heads whose gate is 0, and what is saved or
    exported has the gates in it.

    Args:
        gates: kind -> ``(layer, head)``, real; those of heads that were removed are ignored.

    Returns:
        ``model``, for chaining.

    Raises:
        TypeError, ValueError: gates that do not fit the model, or weights that cannot be changed
            as they are (quantised, in an adapter, tied, computed from others). The model is then
            as it was.
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
    """The blocks in the order in which they run in a pass of a batch, and how many times each does."""
    outputs = [block.part(model, "output") for block in blocks]
    with eval_mode(model), torch.no_grad(), record_outputs(outputs) as calls:
        model(**model_inputs(model, batch))
    ran = sorted((call.place, i) for i, call in enumerate(calls) if call.times)
    return {blocks[i]: calls[i].times for _, i in ran}


class _Reached(Exception):
    """A pass has come as far as it is needed."""


def _inputs(
    model: nn.Module,
    blocks: Sequence[AttentionLayer],
    block: AttentionLayer,
    times: int,
    batches: Sequence[Batch],
    gates: HeadTensors,
) -> list[list[Tensor]]:
    """What a block's projection is given of each batch, at each of its ``times`` runs, ungated.

    A pass ends at the last of them.
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
    """What a projection is given of every token that is no padding."""
    real = query_mask(block, batch)
    if real is not None and context.shape[:2] == real.shape:
        context = context[real]
    return context.flatten(0, -2)


class _Fit:
    """Least squares of the gates of a block's heads that are left, from sums over tokens alone.

    With ``C`` what the projection is given and ``W`` its weight, head h writes ``C_h W_h^T``; inner
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
        """Take in some tokens, both (token, column): uncut, and under the gates before."""
        gated = in_double(gated)[:, self.columns]
        self.both += gated.T @ in_double(uncut)
        self.gated += gated.T @ gated

    def gates(self) -> Float[Tensor, " left"]:
        """The gates of the heads left; ones where some are beyond the bound."""
        normal = self._by_head(self.gated * self.products[:, self.columns])
        target = self._by_head(self.both * self.products).sum(1)
        ones = torch.ones_like(target)
        if not (normal.isfinite().all() and target.isfinite().all()):
            return ones
        # from 1, so that what the text says nothing of stays there
        inverse = torch.linalg.pinv(normal, hermitian=True, rtol=_SINGULAR)
        gates = 1 + inverse @ (target - normal.sum(1))
        return gates if bool((gates.abs() <= _GREATEST).all()) else ones

    def _by_head(self, products: Tensor) -> Tensor:
        """(columns, columns) summed over each pair of heads, on the CPU."""
        each = products.unflatten(1, (-1, self.width)).unflatten(0, (-1, self.width))
        return each.sum((1, 3)).cpu().double()
