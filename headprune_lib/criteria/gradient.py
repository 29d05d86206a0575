"""Criteria based on derivatives of the loss with respect to each head's gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from headprune_lib.criteria.registry import (
    ScoreFunction,
    Sum,
    mean_over_batches,
    register_criterion,
    to_head_tensors,
)
from headprune_lib.discovery import find_heads
from headprune_lib.gradients import (
    batch_gradients,
    check_examples_independent,
    check_unused,
    differentiable_losses,
    prove_gradients,
)
from headprune_lib.hooks import hooked
from headprune_lib.losses import Loss
from headprune_lib.masking import HeadTensors, gated
from headprune_lib.specs import AttentionLayer
from headprune_lib.utils import NO_LABEL, Batch, Device, OomLimit, eval_mode, in_double, on_device

Reduce = Callable[[Tensor, Batch, AttentionLayer], Sum]
"""Reduces a block's gradients on a batch, (example, position, kept head), to a sum and count."""


def _of_gradients(name: str, **settings: Any) -> Callable[[Reduce], ScoreFunction]:
    """Register the mean over batches of a function's reduction of each block's gradients."""

    def register(reduce: Reduce) -> ScoreFunction:
        def score(
            model: nn.Module,
            batches: Iterable[Batch],
            *,
            loss: Loss | None = None,
            device: Device = None,
        ) -> HeadTensors:
            return _mean_of_gradients(model, batches, loss, device, reduce)

        for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(score, attribute, getattr(reduce, attribute))
        return register_criterion(name, **settings)(score)

    return register


def _mean_of_gradients(
    model: nn.Module, batches: Iterable[Batch], loss: Loss | None, device: Device, reduce: Reduce
) -> HeadTensors:
    blocks, oom_limit = find_heads(model), OomLimit()

    def sums_of(batch: Batch) -> list[Sum]:
        gradients = batch_gradients(model, batch, blocks, loss, oom_limit)
        pairs = zip(blocks, gradients, strict=True)
        return [reduce(in_double(gradient), batch, block) for block, gradient in pairs]

    return mean_over_examples(model, blocks, batches, loss, device, sums_of)


def mean_over_examples(
    model: nn.Module,
    blocks: Sequence[AttentionLayer],
    batches: Iterable[Batch],
    loss: Loss | None,
    device: Device,
    sums_of: Callable[[Batch], Iterable[Sum]],
) -> HeadTensors:
    """Mean over batches of sums over examples, which must not depend on each other."""

    def check(batch: Batch) -> None:
        check_examples_independent(model, batch, loss)

    means = mean_over_batches(model, blocks, batches, device, sums_of, check)
    return check_some(model, blocks, means)


def check_some(
    model: nn.Module, blocks: Sequence[AttentionLayer], scores: HeadTensors
) -> HeadTensors:
    """Return the scores; ValueError if all are exactly 0, which gives no order."""
    # allowed under a mask: the heads that are left may have no influence
    kept = [values[~values.isnan()] for values in scores.values()]
    nothing = any(map(len, kept)) and not any(values.any() for values in kept)
    if nothing and not hooked(block.part(model, "output") for block in blocks):
        raise ValueError(
            "every head's score is exactly 0: no label counts (all -100, or texts of one token?), or "
            "the precision is too coarse for the loss (float16)"
        )
    return scores


def _of_mean_loss(gradient: Tensor) -> Tensor:
    """The derivative of a batch's mean loss: (batch, position, head) -> (head,)."""
    return gradient.sum(1).mean(0)


@_of_gradients("importance", variant="example", normalize="l2")
def importance(gradient: Tensor, _batch: Batch, _block: AttentionLayer) -> Sum:
    r"""Eq. 2: absolute derivative of each example's loss in the gate.

    :math:`I_h = \mathbb{E}_x |\partial L(x) / \partial \xi_h|` (Michel, Levy & Neubig 2019), exact
    at any batch size.
    """
    return gradient.sum(1).abs().sum(0), len(gradient)


def example_importance(
    model: nn.Module, batches: Iterable[Batch], *, loss: Loss | None = None, device: Device = None
) -> HeadTensors:
    r""":math:`|\partial L(x) / \partial \xi_h|` per example: kind -> ``(example, layer, head)``.

    Its mean over examples is :func:`headprune_lib.head_importance` without normalisation. NaN where
    a head was removed. Used for confidence intervals of quantities computed from importance.
    """
    blocks, oom_limit = find_heads(model), OomLimit()
    parts: list[list[Tensor]] = []
    for batch in on_device(model, batches, device):
        gradients = batch_gradients(model, batch, blocks, loss, oom_limit)
        if not parts:
            check_examples_independent(model, batch, loss)
        parts.append([gradient.sum(1).abs() for gradient in gradients])
    return to_head_tensors(blocks, [torch.cat(rows) for rows in zip(*parts, strict=True)])


@_of_gradients("importance-batch", variant="batch", normalize="l2")
def importance_batch(gradient: Tensor, _batch: Batch, _block: AttentionLayer) -> Sum:
    """Absolute derivative of each batch's mean loss.

    Derivatives of examples cancel out, so that it depends on the batch size, as in scripts that
    take the gradient of a batch's mean loss.
    """
    return _of_mean_loss(gradient).abs(), 1


@register_criterion("importance-bertology", variant="bertology", normalize="l2")
def importance_bertology(
    model: nn.Module, batches: Iterable[Batch], *, loss: Loss | None = None, device: Device = None
) -> HeadTensors:
    """Absolute running total of the batches' derivatives.

    ``run_bertology.py`` of transformers up to version 4 never zeroes its gradient, so that it sums
    absolute running totals.
    """
    running: dict[str, Tensor] = {}

    def reduce(gradient: Tensor, _batch: Batch, block: AttentionLayer) -> Sum:
        running[block.path] = running.get(block.path, 0) + _of_mean_loss(gradient)
        return running[block.path].abs(), 1

    return _mean_of_gradients(model, batches, loss, device, reduce)


@_of_gradients("importance-signed")
def importance_signed(gradient: Tensor, _batch: Batch, _block: AttentionLayer) -> Sum:
    """Derivative with its sign: what removal costs, to first order.

    Minus Eq. 2 without the absolute value, in nats; independent of the batch size. Closing a gate
    from 1 to 0 adds this much to the loss, to first order. A harmful head scores below 0 and is
    removed first; one that helps some examples as much as it harms others scores 0. Molchanov et
    al. 2017 explain why the absolute value is taken.
    """
    return -gradient.sum((0, 1)), len(gradient)


@_of_gradients("importance-token", variant="token", normalize="l2")
def importance_token(gradient: Tensor, batch: Batch, block: AttentionLayer) -> Sum:
    """Absolute value of each token's share of the derivative.

    The code of Michel, Levy & Neubig 2019 computes this in place of Eq. 2: a mean over tokens.
    """
    # non-padding positions; in the decoder of an encoder-decoder, as many as there are labels
    decoder, labels = block.kind in ("enc-dec", "dec-dec"), batch.get("labels")
    mask = batch.get("decoder_attention_mask" if decoder else "attention_mask")
    if mask is None and decoder and labels is not None and labels.shape == gradient.shape[:2]:
        mask = labels != NO_LABEL
    n_tokens = gradient.shape[0] * gradient.shape[1] if mask is None else mask.sum()
    return gradient.abs().sum((0, 1)), n_tokens


@_of_gradients("fisher", variant="fisher")
def fisher(gradient: Tensor, _batch: Batch, _block: AttentionLayer) -> Sum:
    """Fisher information: squared derivative of a batch's mean loss.

    In squared nats; it depends on the batch size, as in the code of Kwon et al. 2022.
    """
    return _of_mean_loss(gradient).square(), 1


@register_criterion("logits-norm")
def logits_norm(
    model: nn.Module, batches: Iterable[Batch], *, loss: Loss | None = None, device: Device = None
) -> HeadTensors:
    """Absolute derivative of the logits' l2 norm; needs no labels.

    Guo and Sheridan 2026 (Greedy-Gnorm), whose code calls it Taylor importance.
    """
    if loss is not None:
        raise ValueError("logits-norm differentiates the logits' norm, not a loss. Leave loss out")
    return importance(model, batches, loss=_norm, device=device)


def _norm(outputs: Any, batch: Batch) -> Tensor:
    """Norm of the logits (batch, …, class) -> (batch,); of token logits, only labelled ones."""
    logits = outputs.logits
    labels = batch.get("labels")
    if labels is not None and labels.shape == logits.shape[:-1] and labels.ndim > 1:
        logits = logits * (labels != NO_LABEL)[..., None]
    return logits.flatten(1).norm(dim=1)


@register_criterion("importance-integrated")
def importance_integrated(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: Device = None,
    steps: int = 8,
) -> HeadTensors:
    r"""Absolute derivative integrated while all gates open together.

    Integrated gradients (Sundararajan et al. 2017) in the gates, from all closed to all open:
    :math:`\mathbb{E}_x |\int_0^1 \partial L(x) / \partial \xi_h |_{\xi = \alpha 1} d\alpha|`, in
    nats. Over all heads the integrals sum to the loss with no head minus the loss with all of them.
    The midpoint rule takes ``steps`` passes per pass of :func:`headprune_lib.head_importance`.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}. Give at least 1")
    blocks, oom_limit = find_heads(model), OomLimit()

    def sums_of(batch: Batch) -> list[Sum]:
        integrals: list[Any] = [0] * len(blocks)
        for step in range(steps):
            at = (step + 0.5) / steps
            half_open = [torch.full((len(block.kept_heads),), at) for block in blocks]
            with gated(model, half_open, blocks):
                gradients = batch_gradients(model, batch, blocks, loss, oom_limit)
            # the gradient is that of a further factor on the gated output: divide by the gate
            terms = (in_double(gradient.sum(1)) / at / steps for gradient in gradients)
            integrals = [total + term for total, term in zip(integrals, terms, strict=True)]
        return [(integral.abs().sum(0), len(integral)) for integral in integrals]

    return mean_over_examples(model, blocks, batches, loss, device, sums_of)


@register_criterion("second-order")
def second_order(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: Device = None,
    probes: int | None = 4,
    seed: int = 0,
) -> HeadTensors:
    r"""Cost of removal by the loss's second-order expansion.

    :math:`\mathbb{E}_x [-\partial L(x) / \partial \xi_h + \frac{1}{2} \partial^2 L(x) / \partial
    \xi_h^2]` in nats: optimal brain damage (LeCun et al. 1990) of the gates, with the slope kept.

    Args:
        probes: number of products with random signs per batch from which the diagonal of the
            Hessian is estimated (Hutchinson 1989); None computes it exactly, one product per head.
        seed: of the random signs.

    Raises:
        ValueError: an attention kernel without a second derivative (flash or flex attention).
    """
    kernel = getattr(model.config, "_attn_implementation", "eager")
    if kernel not in ("eager", "sdpa"):
        raise ValueError(
            f"a second derivative is needed, and the kernel {kernel!r} has none. Call "
            'model.set_attn_implementation("eager") or ("sdpa") first'
        )
    if probes is not None and probes < 1:
        raise ValueError(f"probes is {probes}. Give at least 1, or None for one per head")
    blocks = find_heads(model)
    generator = torch.Generator().manual_seed(seed)

    def sums_of(batch: Batch) -> list[Sum]:
        prove_gradients(model, batch, blocks, loss)
        weight = next(model.parameters())
        gates = [torch.ones(len(b.kept_heads)).to(weight).requires_grad_() for b in blocks]
        with eval_mode(model, frozen=True), torch.enable_grad(), gated(model, gates, blocks):
            losses = differentiable_losses(model, batch, loss)
            total = losses.sum()
            gradients = torch.autograd.grad(total, gates, create_graph=True, allow_unused=True)
            missing = [b for b, slope in zip(blocks, gradients, strict=True) if slope is None]
            check_unused(model, batch, loss, missing)
            pairs = zip(gates, gradients, strict=True)
            slopes = [torch.zeros_like(gate) if slope is None else slope for gate, slope in pairs]
            curves = _diagonal(torch.cat(slopes), gates, probes, generator)
        of_blocks = zip(slopes, curves.split([len(gate) for gate in gates]), strict=True)
        return [(-slope.detach() + curve / 2, len(losses)) for slope, curve in of_blocks]

    with sdpa_kernel(SDPBackend.MATH):  # the fused kernels of sdpa have no second derivative
        means = mean_over_batches(model, blocks, batches, device, sums_of)
        return check_some(model, blocks, means)


def _diagonal(
    slopes: Tensor, gates: Sequence[Tensor], probes: int | None, generator: torch.Generator
) -> Tensor:
    """Second derivative of the summed loss with respect to each gate, (heads of all blocks,).

    Each vector v gives v * (H v). Its mean over vectors of random signs estimates the diagonal of
    H; its sum over the unit vectors is the diagonal.
    """
    n = len(slopes)
    if probes is None:
        vectors = torch.eye(n)
    else:
        signs = [torch.randint(0, 2, (n,), generator=generator) * 2 - 1 for _ in range(probes)]
        vectors = torch.stack(signs)
    total = torch.zeros_like(slopes)
    for vector in vectors.to(slopes):
        along = slopes @ vector
        rows = torch.autograd.grad(along, gates, retain_graph=True, materialize_grads=True)
        total += vector * torch.cat(rows) / (probes or 1)
    return total.detach()
