"""What a head's removal costs by the second-order expansion of the loss in its gate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from headprune_lib.batching import Batch
from headprune_lib.criteria.derivatives import opened
from headprune_lib.criteria.example_losses import check_unused, differentiable_losses
from headprune_lib.criteria.gradients import check_some, gate_gradients, on_grid
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import AttentionBlock, HeadTensors, find_heads
from headprune_lib.losses import Loss
from headprune_lib.running import evaluating, on_device, placed


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
