"""What ends the pruning: the option that was given, checked, and how far an order goes by it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # wrong arguments must not wait for torch
    from torch import nn

    from headprune_lib.batching import Batch
    from headprune_lib.budgets import Cut
    from headprune_lib.heads import HeadTensors
    from headprune_lib.orders import Step

# What each option bounds, as tables and figures call it.
TITLES = {
    "--amount": "heads left",
    "--parameters": "parameters",
    "--cache-bytes": "bytes of keys and values",
    "--seconds": "seconds a pass",
    "--lose-points": "accuracy on held-out text",
    "--lose-nats": "loss on held-out text (nats)",
}
_SIZED, _HELD_OUT = ("--cache-bytes", "--seconds"), ("--lose-points", "--lose-nats")


@dataclass(frozen=True)
class Bound:
    """The one option that says how many heads go.

    Attributes:
        option: its name, one of :data:`TITLES`.
        value: what it was given.
        at: examples a batch and tokens an example, of the options that need them.
        held_out: file of text that quality is looked at on, of the options that need it.
    """

    option: str
    value: float
    at: tuple[int, int] | None = None
    held_out: Path | None = None

    @property
    def title(self) -> str:
        """What is bounded."""
        return TITLES[self.option]


def one_bound(given: Mapping[str, float | None], at: str | None, held_out: Path | None) -> Bound:
    """The bound among the options, of which exactly one is to be given.

    Raises:
        ValueError: none or several, a value that bounds nothing, or what belongs to another option.
    """
    named = {option: value for option, value in given.items() if value is not None}
    if len(named) != 1:
        raise ValueError(
            f"{' and '.join(named) or 'no bound'} given; name exactly one of {', '.join(given)}"
        )
    ((option, value),) = named.items()
    if option == "--amount" and not 0 <= value <= 1:
        raise ValueError(f"--amount is {value}; give the share of heads to remove, 0 to 1")
    if (
        not math.isfinite(value)
        or value < 0
        or (value == 0 and option not in (*_HELD_OUT, "--amount"))
    ):
        raise ValueError(f"{option} is {value}; give a number above 0")
    if (at is not None) != (option in _SIZED):
        raise ValueError(
            f"{option} needs --at, examples x tokens such as 16x128"
            if at is None
            else f"--at belongs to {' and '.join(_SIZED)}, not to {option}"
        )
    if (held_out is not None) != (option in _HELD_OUT):
        raise ValueError(
            f"{option} needs --held-out, a file that is neither DATA nor --test"
            if held_out is None
            else f"--held-out belongs to {' and '.join(_HELD_OUT)}, not to {option}"
        )
    return Bound(option, value, _size(at), held_out)


def _size(at: str | None) -> tuple[int, int] | None:
    if at is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,6})x([1-9][0-9]{0,6})", at)
    if found is None:
        raise ValueError(f"--at is {at!r}; give examples x tokens, such as 16x128")
    return int(found[1]), int(found[2])


class Budget:
    """A bound on a model, ready to be held against orders; what it needs is measured once.

    Args:
        steps: of any order of the model under the same options.
        held_out: batches, of the options that look at quality.

    Raises:
        ValueError: a bound that no order keeps, or that the model has no figure for.
    """

    def __init__(
        self, bound: Bound, model: nn.Module, steps: Sequence[Step], held_out: Sequence[Batch]
    ) -> None:
        from headprune_lib.budgets import cut_until
        from headprune_lib.heads import full_mask

        self.bound, self.model = bound, model
        self.limit: float | None = None
        if bound.option in _HELD_OUT:
            self.look = _Quality(bound.option, model, held_out)
            start = self.look(full_mask(model))
            self.limit = start - bound.value / (100 if bound.option == "--lose-points" else 1)
        elif bound.option != "--amount":
            self.look = _cost(bound, model, steps)
            share = bound.option == "--parameters" and bound.value <= 1
            self.limit = bound.value * (self.look(full_mask(model)) if share else 1)
            cut_until(model, [[head for step in steps for head in step]], self.look, self.limit)

    def cut(self, steps: Sequence[Step], mask: HeadTensors) -> Cut:
        """How far an order goes; ``mask`` is what a share of the heads leaves, if that is asked."""
        from headprune_lib.budgets import Cut, cut_until, cut_while

        if self.limit is None:
            return Cut(mask, len(taken(steps, mask)), ())
        if self.bound.option in _HELD_OUT:
            return cut_while(self.model, steps, self.look, self.limit)
        return cut_until(self.model, steps, self.look, self.limit)

    def shown(self, value: float) -> float:
        """A value of the walk as people know it: a loss falls as a quality rises."""
        return -value if self.bound.option == "--lose-nats" else value


def taken(steps: Sequence[Step], mask: HeadTensors) -> list[Step]:
    """The steps that a mask cuts."""
    return [
        step for step in steps if all(mask[kind][layer, head] == 0 for kind, layer, head in step)
    ]


def _cost(bound: Bound, model: nn.Module, steps: Sequence[Step]) -> Any:
    from headprune_lib.budgets import cache_cost, parameters_cost, random_tokens, seconds_cost

    if bound.option == "--parameters":
        return parameters_cost(model)
    assert bound.at is not None
    if bound.option == "--cache-bytes":
        return cache_cost(model, *bound.at)
    return seconds_cost(model, random_tokens(model, *bound.at), steps)


class _Quality:
    """Accuracy, or the loss with its sign turned, of a model under a mask."""

    def __init__(self, option: str, model: nn.Module, batches: Sequence[Batch]) -> None:
        from headprune_lib.cli.quality import names_classes
        from headprune_lib.running import on_device

        device = next(model.parameters()).device
        self.option, self.model = option, model
        self.batches = [on_device(batch, device) for batch in batches]
        if option == "--lose-points" and not names_classes(batches[0]):
            raise ValueError(
                f"--lose-points counts points of accuracy, and {type(model).__name__} names no "
                "class of a text; give --lose-nats"
            )

    def __call__(self, mask: HeadTensors) -> float:
        from headprune_lib.cli.quality import quality
        from headprune_lib.masking import masked_heads

        with masked_heads(self.model, mask):
            found = quality(self.model, self.batches)
        return found["accuracy"] if self.option == "--lose-points" else -found["loss"]
