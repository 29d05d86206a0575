"""The bound that ends pruning, and the options that belong to it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# What each option bounds, as tables and figures call it.
TITLES = {
    "--amount": "heads left",
    "--parameters": "parameters",
    "--cache-bytes": "bytes of keys and values",
    "--seconds": "seconds a pass",
    "--lose-points": "accuracy on held-out text",
    "--lose-nats": "loss on held-out text (nats, or squared error)",
}
SIZED, HELD_OUT = ("--cache-bytes", "--seconds"), ("--lose-points", "--lose-nats")


@dataclass(frozen=True)
class Bound:
    """The one option that sets how many heads are removed."""

    option: str  # one of TITLES
    value: float
    at: tuple[int, int] | None = None  # examples a batch and tokens an example
    held_out: Path | None = None  # text that quality is measured on


def one_bound(given: Mapping[str, float | None], at: str | None, held_out: Path | None) -> Bound:
    """Return the bound among the options; exactly one must be given.

    Raises:
        ValueError: not exactly one, an infinite value, or a wrong --at or --held-out.
    """
    named = {option: value for option, value in given.items() if value is not None}
    if len(named) != 1:
        names = " and ".join(named) or "no bound"
        raise ValueError(f"{names} given. Give exactly one of {', '.join(given)}")
    ((option, value),) = named.items()
    if math.isinf(value):
        raise ValueError(f"{option} is {value}. Give a finite number")
    for name, companion, options, hint in (
        ("--at", at, SIZED, "examples x tokens, such as 16x128"),
        ("--held-out", held_out, HELD_OUT, "a file that is neither DATA nor --test"),
    ):
        if (companion is None) == (option in options):
            verb = "needs" if companion is None else "takes no"
            only = f"Give {name} ({hint}) only with {' or '.join(options)}"
            raise ValueError(f"{option} {verb} {name}. {only}")
    size = re.fullmatch(r"([1-9][0-9]{0,6})x([1-9][0-9]{0,6})", at or "")
    if at is not None and size is None:
        raise ValueError(f"--at is {at!r}. Give examples x tokens, such as 16x128")
    return Bound(option, value, (int(size[1]), int(size[2])) if size else None, held_out)
