"""How each order of removal looks in a figure: its label, colour and line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from headprune_lib.criteria import CRITERIA
from headprune_lib.replication.pages.plots.style import (
    BLUE,
    BROWN,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    PURPLE,
    RED,
)

COLOURS = {
    "blue": BLUE,
    "orange": ORANGE,
    "green": GREEN,
    "red": RED,
    "purple": PURPLE,
    "brown": BROWN,
    "pink": PINK,
    "grey": GREY,
}
"""What a criterion names its colour by."""


class Look(NamedTuple):
    """``line`` is matplotlib's format: a marker, if any, and a dash."""

    label: str
    colour: Any
    line: str


LOOKS: dict[str, Look] = {
    "importance": Look(CRITERIA["importance"].label, BLUE, "-"),
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
    """The looks of some orders, in the order of the legend; criteria and unknown ones last."""
    orders = list(orders)
    known = {name: look for name, look in LOOKS.items() if name in orders}
    return known | {name: _look(name) for name in orders if name not in known}


def _look(order: str) -> Look:
    """As the order's criterion has it; one of no criterion goes by its own name."""
    name, _, way = order.partition(" ")
    if name not in CRITERIA:
        return Look(order, PINK, "-.")
    criterion = CRITERIA[name]
    own = criterion.look
    label = criterion.label + {"": "", "unnormalised": ", not normalised"}.get(way, f" {way}")
    dash = {"": own.dash, "unnormalised": ":"}.get(way, "-.")
    return Look(label, COLOURS[own.colour], own.marker + dash)
