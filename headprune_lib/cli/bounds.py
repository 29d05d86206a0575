"""What ends the pruning: the option that was given, checked, and how far an order goes by it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # wrong arguments must not wait for torch
    from torch import nn

    from headprune_lib.budgets import BudgetResult
    from headprune_lib.masking import HeadTensors
    from headprune_lib.selection import Step
    from headprune_lib.utils import Batch

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
    may_be_0 = option in (*_HELD_OUT, "--amount")
    if not math.isfinite(value) or value < 0 or (value == 0 and not may_be_0):
        raise ValueError(f"{option} is {value}; give a number above 0")
    for name, companion, options, hint in (
        ("--at", at, _SIZED, "examples x tokens such as 16x128"),
        ("--held-out", held_out, _HELD_OUT, "a file that is neither DATA nor --test"),
    ):
        if companion is None and option in options:
            raise ValueError(f"{option} needs {name}, {hint}")
        if companion is not None and option not in options:
            raise ValueError(f"{name} belongs to {' and '.join(options)}, not to {option}")
    if at is None:
        return Bound(option, value, None, held_out)
    size = re.fullmatch(r"([1-9][0-9]{0,6})x([1-9][0-9]{0,6})", at)
    if size is None:
        raise ValueError(f"--at is {at!r}; give examples x tokens, such as 16x128")
    return Bound(option, value, (int(size[1]), int(size[2])), held_out)


class Budget:
    """A bound on a model, ready to be held against orders; what it needs is measured once.

    Args:
        steps: of any order of the model under the same options.
        held_out: batches, of the options that look at quality.

    Attributes:
        limit: what the model may cost at most, or must be good for at least; None of a share of
            the heads.

    Raises:
        ValueError: a bound that no order keeps, or that the model has no figure for.
    """

    def __init__(
        self, bound: Bound, model: nn.Module, steps: Sequence[Step], held_out: Sequence[Batch]
    ) -> None:
        from headprune_lib.budgets import prune_to_budget
        from headprune_lib.masking import ones_mask

        self.bound, self.model = bound, model
        self.limit: float | None = None
        if bound.option in _HELD_OUT:
            self.value = _quality(bound.option, model, held_out)
            unit = 100 if bound.option == "--lose-points" else 1
            self.limit = self.value(ones_mask(model)) - bound.value / unit
        elif bound.option != "--amount":
            self.value = _cost(bound, model, steps)
            share = bound.option == "--parameters" and bound.value <= 1
            self.limit = bound.value * (self.value(ones_mask(model)) if share else 1)
            # refuses a bound that is out of reach before minutes are spent on scores
            prune_to_budget(
                model, [[head for step in steps for head in step]], self.value, self.limit
            )

    def cut(self, steps: Sequence[Step], mask: HeadTensors) -> BudgetResult:
        """How far an order goes; ``mask`` is what a share of the heads leaves, if that is asked."""
        from headprune_lib.budgets import BudgetResult, prune_to_budget, prune_while

        if self.limit is None:
            return BudgetResult(mask, len(removed_units(steps, mask)), ())
        walk = prune_while if self.bound.option in _HELD_OUT else prune_to_budget
        return walk(self.model, steps, self.value, self.limit)

    def shown(self, value: float) -> float:
        """A value of the walk as people know it: a loss falls as a quality rises."""
        if self.bound.option in ("--parameters", "--cache-bytes"):
            return round(value)
        return -value if self.bound.option == "--lose-nats" else value


def removed_units(steps: Sequence[Step], mask: HeadTensors) -> list[Step]:
    """The steps that a mask cuts."""
    return [
        step for step in steps if all(mask[kind][layer, head] == 0 for kind, layer, head in step)
    ]


def _cost(bound: Bound, model: nn.Module, steps: Sequence[Step]) -> Callable[[HeadTensors], float]:
    """What a masked model would cost without the heads that the mask cuts."""
    from headprune_lib.budgets import cache_cost, parameters_cost, random_tokens, seconds_cost

    if bound.at is None:
        return parameters_cost(model)
    if bound.option == "--cache-bytes":
        return cache_cost(model, *bound.at)
    return seconds_cost(model, random_tokens(model, *bound.at), steps)


def _quality(
    option: str, model: nn.Module, batches: Sequence[Batch]
) -> Callable[[HeadTensors], float]:
    """Accuracy, or the loss with its sign turned, of a model under a mask."""
    from headprune_lib.cli.quality import names_classes, quality
    from headprune_lib.masking import masked_heads
    from headprune_lib.utils import to_device

    if option == "--lose-points" and not names_classes(batches[0]):
        raise ValueError(
            f"--lose-points counts points of accuracy, and {type(model).__name__} names no class "
            "of a text; give --lose-nats"
        )
    device = next(model.parameters()).device
    batches = [to_device(batch, device) for batch in batches]

    def value(mask: HeadTensors) -> float:
        with masked_heads(model, mask):
            figures = quality(model, batches)
        return figures["accuracy"] if option == "--lose-points" else -figures["loss"]

    return value
