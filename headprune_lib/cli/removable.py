"""Which heads can be removed, and why others cannot."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from headprune_lib.heads import HeadTensors, find_heads
from headprune_lib.orders import Step
from headprune_lib.specs import AttentionBlock


def check_some_can_go(model: nn.Module, steps: Sequence[Step], kinds: Sequence[str] | None) -> None:
    """Refuse a removal that could remove nothing.

    Args:
        steps: what can be removed, as :func:`headprune_lib.orders.prune_steps` lists it.
        kinds: only heads of these kinds are to go; all kinds if not given.

    Raises:
        ValueError: there is no step.
    """
    if steps:
        return
    reasons = [block.masks_only for block in _blocks(model, kinds)]
    if all(reasons):
        said = "; ".join(dict.fromkeys(reasons))
        raise ValueError(
            f"no head of {type(model).__name__} can be removed, only masked "
            f"(headprune_lib.masked_heads): {said}"
        )
    raise ValueError("no head may go: lower --keep-at-least, or name another --kind")


def staying(model: nn.Module, kinds: Sequence[str] | None) -> str:
    """What is to be told of heads that can only be masked; empty where all can be removed."""
    blocks = _blocks(model, kinds)
    stay = [block for block in blocks if block.masks_only]
    if not stay:
        return ""
    n_heads, n_stay = (sum(len(block.kept) for block in part) for part in (blocks, stay))
    said = "; ".join(dict.fromkeys(block.masks_only for block in stay))
    return f"{n_stay} of {n_heads} heads stay, for they can only be masked: {said}"


def check_amount(
    steps: Sequence[Step], amount: float, mask: HeadTensors, uniform: bool = False
) -> None:
    """Refuse a share of the heads that is smaller than what goes together.

    Args:
        mask: what this ``amount`` leaves.

    Raises:
        ValueError: it leaves everything, though something was to go.
    """
    if not amount or any(bool((part == 0).any()) for part in mask.values()):
        return
    least = min(map(len, steps))
    together = f"{least} heads go together" if least > 1 else "one head is the least that can go"
    raise ValueError(
        f"--amount {amount:g} would remove nothing: {together}{' in each layer' if uniform else ''}"
    )


def _blocks(model: nn.Module, kinds: Sequence[str] | None) -> list[AttentionBlock]:
    return [block for block in find_heads(model) if not kinds or block.kind in kinds]
