"""How each order of removal looks in a figure: its label, colour and line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from headprune_lib.replication.pages.plots.style import (
    BLUE,
    BROWN,
    GREY,
    ORANGE,
    PINK,
    PURPLE,
    RED,
)


class Look(NamedTuple):
    label: str
    colour: Any
    line: str


LOOKS: dict[str, Look] = {
    "importance": Look("importance, Eq. 2", BLUE, "-"),
    "importance main": Look("importance, first seed, as all other lines", BLUE, "--"),
    "importance unnormalised": Look("importance, not normalised", BLUE, ":"),
    "importance rescored": Look("importance, measured again each step", PURPLE, "-"),
    "oracle": Look("one-by-one effect on the test set (the paper's way)", ORANGE, "--"),
    "oracle leak-free": Look("one-by-one effect on other text", RED, "--"),
    "random": Look("random, mean and band", GREY, "-"),
    "importance reversed": Look("importance reversed", BROWN, "-."),
}
"""Order -> look, in the order of the legend."""


def looks(orders: Iterable[str]) -> dict[str, Look]:
    """The looks of some orders, in the order of the legend; new ones under their own names."""
    orders = list(orders)
    known = {name: look for name, look in LOOKS.items() if name in orders}
    return known | {name: Look(name, PINK, "-.") for name in orders if name not in known}
