"""Criteria that take a derivative of the loss in each head's gate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from headprune_lib.batching import NO_LABEL, Batch
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.gradients import (
    batch_gradients,
    check_apart,
    check_some,
    check_unused,
    differentiable_losses,
    gate_gradients,
    mean_over_batches,
    of_mean_loss,
    on_grid,
    one_batch,
    opened,
)
from headprune_lib.heads import AttentionBlock, HeadTensors, find_heads, full_mask
from headprune_lib.losses import Loss
from headprune_lib.masking import masked_heads
from headprune_lib.running import evaluating, on_device, placed


@register_criterion(
    "importance",
    label="importance, Eq. 2",
    variant="example",
    normalize="l2",
    formula=r"I_h = \mathbb{E}_x \left|\frac{\partial L(x)}{\partial \xi_h}\right|",
    source="Michel, Levy & Neubig 2019, Eq. 2: absolute value of each example's derivative",
    look=Look("blue", "-"),
)
def importance(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    r""":math:`I_h = \mathbb{E}_x |\partial L(x) / \partial \xi_h|`, exact at any batch size."""
    return mean_over_batches(
        model,
        batches,
        loss,
        device,
        lambda gradient, _: gradient.sum(1).abs().sum(0),
        lambda _batch, gradient, _kind: len(gradient),
    )


def example_importance(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    r""":math:`|\partial L(x) / \partial \xi_h|` of each example, ``(example, layer, head)`` a kind.

    Its mean over examples is :func:`headprune_lib.head_importance` without normalisation; NaN where
    a head was removed. For intervals of what is computed from importance.

    Raises:
        ValueError: no batches, a label outside the classes, or examples whose losses depend on each
            other.
    """
    blocks = find_heads(model)
    rows: list[list[Tensor]] = [[] for _ in blocks]
    for batch, gradients in batch_gradients(model, batches, blocks, loss, device):
        if not rows[0]:
            check_apart(model, batch, loss)
        for row, gradient in zip(rows, gradients, strict=True):
            row.append(gradient.sum(1).abs().cpu())
    if not rows[0]:
        raise ValueError("no batches given: expected at least one example")
    return on_grid(model, blocks, [torch.cat(row) for row in rows])


@register_criterion(
    "importance-batch",
    label="importance a batch",
    variant="batch",
    normalize="l2",
    formula=r"\mathbb{E}_B \left|\frac{\partial}{\partial \xi_h} "
    r"\frac{1}{|B|} \sum_{x \in B} L(x)\right|",
    source="scripts that take the gradient of a batch's mean loss: it depends on the batch size",
    look=Look("purple", "-."),
)
def importance_batch(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Absolute derivative of each batch's mean loss, mean over batches."""
    return mean_over_batches(
        model, batches, loss, device, lambda gradient, _: of_mean_loss(gradient).abs(), one_batch
    )


@register_criterion(
    "importance-bertology",
    label="importance of the bertology script",
    variant="bertology",
    normalize="l2",
    formula=r"\frac{1}{n} \sum_{i=1}^{n} \left|\sum_{j \leq i} \frac{\partial}{\partial \xi_h} "
    r"\frac{1}{|B_j|} \sum_{x \in B_j} L(x)\right|",
    source="run_bertology.py of transformers up to version 4: sums of absolute running totals",
    look=Look("purple", ":"),
)
def importance_bertology(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Absolute running total of the batches' derivatives, mean over batches."""
    running: defaultdict[int, Tensor] = defaultdict(lambda: torch.zeros((), dtype=torch.float64))

    def reduce(gradient: Tensor, block: int) -> Tensor:
        running[block] = running[block] + of_mean_loss(gradient)
        return running[block].abs()

    return mean_over_batches(model, batches, loss, device, reduce, one_batch)


@register_criterion(
    "importance-signed",
    label="importance with its sign",
    formula=r"-\mathbb{E}_x \frac{\partial L(x)}{\partial \xi_h}",
    source="Eq. 2 without the absolute value; Molchanov et al. 2017 explain why it is taken",
    look=Look("blue", "-."),
)
def importance_signed(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Minus the derivative, mean over examples, in nats; it does not depend on the batch size.

    Closing a gate from 1 to 0 adds this much to the loss, to first order. A head that does harm
    scores below 0 and goes first; one that helps some examples as much as it harms others scores 0.
    """
    return mean_over_batches(
        model,
        batches,
        loss,
        device,
        lambda gradient, _: -gradient.sum((0, 1)),
        lambda _batch, gradient, _kind: len(gradient),
    )


@register_criterion(
    "importance-token",
    label="importance a token (the authors' code)",
    variant="token",
    normalize="l2",
    formula=r"\frac{1}{\sum_x |x|} \sum_x \sum_{t \in x} \left|\mathrm{Att}_h(x)_t^\top "
    r"\frac{\partial L(x)}{\partial \mathrm{Att}_h(x)_t}\right|",
    source="the code of Michel, Levy & Neubig 2019: absolute value of each token position's share",
    look=Look("purple", "--"),
)
def importance_token(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Absolute value of each token position's share of the derivative, mean over tokens."""
    return mean_over_batches(
        model, batches, loss, device, lambda gradient, _: gradient.abs().sum((0, 1)), _n_tokens
    )


def _n_tokens(batch: Batch, gradient: Tensor, kind: str) -> int:
    """Positions of a batch that are not padding; ``gradient`` is (batch, position, head).

    The heads of a decoder beside an encoder have as many positions as there are labels.
    """
    decoder, labels = kind in ("enc-dec", "dec-dec"), batch.get("labels")
    mask = batch.get("decoder_attention_mask" if decoder else "attention_mask")
    if mask is None and decoder and labels is not None and labels.shape == gradient.shape[:2]:
        mask = labels != NO_LABEL
    return gradient.shape[0] * gradient.shape[1] if mask is None else int(mask.sum())


@register_criterion(
    "importance-integrated",
    label="importance integrated over the mask",
    formula=r"\mathbb{E}_x \left|\int_0^1 \frac{\partial L(x)}{\partial \xi_h}"
    r"\bigg|_{\xi = \alpha \mathbf{1}} d\alpha\right|",
    source="integrated gradients (Sundararajan et al. 2017) in the gates, from all closed to all open",
    look=Look("purple", "--", "^"),
    cost="8 forward and backward passes",
)
def importance_integrated(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    steps: int = 8,
) -> HeadTensors:
    """Absolute integral of each example's derivative, mean over examples, in nats.

    Over all heads the integrals sum to the loss with no head minus the loss with all of them. The
    midpoint rule takes ``steps`` passes of what :func:`headprune_lib.head_importance` takes one.

    Raises:
        ValueError: no batches, or fewer steps than 1.
    """
    if steps < 1:
        raise ValueError(f"steps is {steps}; the integral needs at least 1")
    blocks, count = find_heads(model), 0
    totals = [torch.zeros(len(block.kept), dtype=torch.float64) for block in blocks]
    for batch in batches:
        integrals = [torch.zeros(()) for _ in blocks]
        for step in range(steps):
            at = (step + 0.5) / steps
            mask = {kind: at * ones for kind, ones in full_mask(model).items()}
            with masked_heads(model, mask):
                ((moved, gradients),) = batch_gradients(model, [batch], blocks, loss, device)
            if not count and not step:
                check_apart(model, moved, loss)
            # a gate's derivative is that of its factor, which multiplies what is already scaled
            integrals = [
                total + gradient.sum(1).double().cpu() / at / steps
                for total, gradient in zip(integrals, gradients, strict=True)
            ]
        count += len(integrals[0])
        totals = [total + each.abs().sum(0) for total, each in zip(totals, integrals, strict=True)]
    if not count:
        raise ValueError("no batches given: importance is a mean over at least one example")
    check_some(model, blocks, totals)
    return on_grid(model, blocks, [total / count for total in totals])


@register_criterion(
    "fisher",
    label="Fisher information",
    variant="fisher",
    formula=r"\mathbb{E}_B \left(\frac{\partial}{\partial \xi_h} "
    r"\frac{1}{|B|} \sum_{x \in B} L(x)\right)^2",
    source="Kwon et al. 2022, whose code squares the gradient of each batch's mean loss; "
    "it depends on the batch size",
    look=Look("brown", "-"),
)
def fisher(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Squared derivative of each batch's mean loss, mean over batches; in squared nats."""
    return mean_over_batches(
        model, batches, loss, device, lambda gradient, _: of_mean_loss(gradient).square(), one_batch
    )


@register_criterion(
    "logits-norm",
    label="norm of the logits",
    formula=r"\mathbb{E}_x \left|\frac{\partial \|z(x)\|_2}{\partial \xi_h}\right|",
    source="Guo et al. 2026 (Greedy-Gnorm), whose code calls it Taylor importance",
    look=Look("green", "-."),
)
def logits_norm(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
) -> HeadTensors:
    """Absolute derivative of the logits' l2 norm, mean over examples; it ignores labels.

    Raises:
        ValueError: a loss of one's own, which would not be used.
    """
    if loss is not None:
        raise ValueError(
            "logits-norm derives the norm of the logits and uses no loss: leave it out"
        )
    return mean_over_batches(
        model,
        batches,
        _norm,
        device,
        lambda gradient, _: gradient.sum(1).abs().sum(0),
        lambda _batch, gradient, _kind: len(gradient),
    )


def _norm(outputs: Any, batch: Batch) -> Tensor:
    """(batch, …, class) -> (batch,); of a model with logits at each position, the labelled ones."""
    logits = outputs.logits
    labels = batch.get("labels")
    if labels is not None and labels.shape == logits.shape[:-1] and labels.ndim > 1:
        logits = logits * (labels != NO_LABEL)[..., None]
    return logits.flatten(1).norm(dim=1)


@register_criterion(
    "second-order",
    label="second order",
    formula=r"\mathbb{E}_x \left[-\frac{\partial L(x)}{\partial \xi_h} + \frac{1}{2} "
    r"\frac{\partial^2 L(x)}{\partial \xi_h^2}\right]",
    source="LeCun et al. 1990 (optimal brain damage), in the gates and without dropping the slope",
    look=Look("brown", "--"),
    cost="a forward, a backward and 4 second backward passes",
)
def second_order(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    probes: int | None = 4,
    seed: int = 0,
) -> HeadTensors:
    """The loss that closing a gate adds, to second order, mean over examples, in nats.

    Args:
        probes: the diagonal of the Hessian is estimated from so many products with random signs
            a batch (Hutchinson 1989); None computes it exactly, with one product a head.
        seed: of the signs.

    Raises:
        ValueError: no batches, fewer probes than 1, a loss that is not one number an example, or an
            attention kernel without a second derivative (flash or flex attention).
    """
    kernel = getattr(model.config, "_attn_implementation", "eager")
    if kernel not in ("eager", "sdpa"):
        raise ValueError(
            f"a second derivative is wanted, and the kernel {kernel!r} has none: call "
            'model.set_attn_implementation("eager") or ("sdpa") first'
        )
    if probes is not None and probes < 1:
        raise ValueError(f"probes is {probes}; give at least 1, or None for one a head")
    blocks, count = find_heads(model), 0
    device = placed(model, device)
    generator = torch.Generator().manual_seed(seed)
    totals = [torch.zeros(len(block.kept), dtype=torch.float64) for block in blocks]
    for batch in batches:
        batch = on_device(batch, device)
        # PyTorch's fused kernels of sdpa have no second derivative; its plain one has
        with (
            evaluating(model, frozen=True),
            torch.enable_grad(),
            sdpa_kernel(SDPBackend.MATH),
        ):
            if not count:  # refused once, and for all batches
                gate_gradients(model, batch, blocks, loss)
            gates = [_gate(model, block) for block in blocks]
            with opened(model, blocks, gates):  # for what is computed again in the backward pass
                losses = differentiable_losses(model, batch, loss)
                found = torch.autograd.grad(
                    losses.sum(), gates, create_graph=True, allow_unused=True
                )
                silent = [
                    block for block, slope in zip(blocks, found, strict=True) if slope is None
                ]
                check_unused(model, batch, loss, silent)
                slopes = [
                    torch.zeros_like(gate) if slope is None else slope
                    for slope, gate in zip(found, gates, strict=True)
                ]
                curves = _diagonal(slopes, gates, probes, generator)
        count += len(losses)
        for total, slope, curve in zip(totals, slopes, curves, strict=True):
            total += (-slope.detach() + curve / 2).double().cpu()
    if not count:
        raise ValueError("no batches given: a head's cost is a mean over at least one example")
    check_some(model, blocks, totals)
    return on_grid(model, blocks, [total / count for total in totals])


def _gate(model: nn.Module, block: AttentionBlock) -> Tensor:
    """A gate at 1 for each head of a block, that a gradient is wanted in."""
    weight = next(model.parameters())
    return torch.ones(len(block.kept), dtype=weight.dtype, device=weight.device, requires_grad=True)


def _diagonal(
    slopes: Sequence[Tensor],
    gates: list[Tensor],
    probes: int | None,
    generator: torch.Generator,
) -> list[Tensor]:
    """Second derivative of the summed loss in each gate, exact or estimated."""
    if probes is None:
        return _exact(slopes, gates)
    found = [torch.zeros_like(gate) for gate in gates]
    for _ in range(probes):
        signs = [
            (torch.randint(0, 2, gate.shape, generator=generator) * 2 - 1).to(gate)
            for gate in gates
        ]
        product = torch.stack(
            [(slope * sign).sum() for slope, sign in zip(slopes, signs, strict=True)]
        ).sum()
        through = torch.autograd.grad(product, gates, retain_graph=True, materialize_grads=True)
        found = [
            total + sign * row / probes
            for total, sign, row in zip(found, signs, through, strict=True)
        ]
    return [each.detach() for each in found]


def _exact(slopes: Sequence[Tensor], gates: list[Tensor]) -> list[Tensor]:
    found = []
    for slope, gate in zip(slopes, gates, strict=True):
        rows = [
            torch.autograd.grad(each, gate, retain_graph=True, materialize_grads=True)[0][i]
            for i, each in enumerate(slope)
        ]
        found.append(torch.stack(rows).detach() if rows else torch.zeros_like(gate))
    return found
