"""How each order of removal looks in a figure: its label, colour and line."""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any, NamedTuple

from headprune_lib.criteria import CRITERIA
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.order_names import parse_part
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
from headprune_lib.replication.titles import order_title

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
    name: Look(order_title(name), colour, line)
    for name, colour, line in (
        ("importance", BLUE, "-"),
        ("importance main", BLUE, "--"),
        ("importance unnormalised", BLUE, ":"),
        ("importance rescored", PURPLE, "-"),
        ("oracle", ORANGE, "--"),
        ("oracle leak-free", RED, "-."),
        ("random", GREY, "-"),
        ("importance reversed", BROWN, "-."),
    )
}
"""Order -> look, in the order of the legend."""


def looks(orders: Iterable[str]) -> dict[str, Look]:
    """The looks of some orders, in the order of the legend; criteria and unknown ones last."""
    orders = list(orders)
    known = {name: look for name, look in LOOKS.items() if name in orders}
    return known | {name: _look(name) for name in orders if name not in known}


def _look(order: str) -> Look:
    """As the order's criterion has it; one of no criterion goes by its own name.

    Along an order with gates fitted there are diamonds on the line of the order itself.
    """
    named = parse_part(order, "tuned")
    if named.tuned:
        own = LOOKS.get(named.order) or _look(named.order)
        return Look(order_title(order), own.colour, "D" + own.line.lstrip(string.ascii_letters))
    name, *words = order.split(" ")
    if name not in CRITERIA:
        return Look(order_title(order), PINK, "-.")
    plain = shown(name)
    dash = plain.dash if not words else ":" if words == ["unnormalised"] else "-."
    return Look(order_title(order), COLOURS[plain.colour], plain.marker + dash)
