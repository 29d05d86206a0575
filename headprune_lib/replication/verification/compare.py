"""Stored outcomes beside the same measured again, and how far the two may differ.

The bounds hold for the very weights that a result was measured on. Another processor flips a
rounding now and then: a few answers of a mask, or one translation in a hundred, may differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.metrics import MILLINAT, coarse
from headprune_lib.replication.store import Arrays

ANSWERS, OF = 2, 300
"""Answers of a mask that may differ, in so many."""
NATS = 0.01
"""How far a loss may be off."""
PASSAGE = 0.02
"""The same of a passage of hundreds of tokens."""
TRANSLATIONS, NGRAMS = 0.01, 0.005
"""The share of a mask's translations that may differ, and of their n-grams; one in any case."""
RELATIVE = 1e-3
"""How far a score may be off, as a share of the largest one of its layer."""
PLACES = 2
"""Places of an order with another head: two with all but equal scores may change places. Had more
than rounding moved them, the outcomes of the masks between the two would differ as well."""
GATE = 0.02
"""How far a gate that is fitted again may be off."""


@dataclass(frozen=True)
class Quantity:
    """One row of what a verification shows."""

    name: str
    stored: str
    found: str
    bound: str
    agrees: bool


class Off(NamedTuple):
    """In what two arrays differ, by how much, and by how much they may."""

    what: str
    off: float
    most: float

    @property
    def agrees(self) -> bool:
        """Whether they differ by no more."""
        return bool(self.off <= self.most)

    def __str__(self) -> str:
        return f"{self.off:.3g} {self.what} (at most {self.most:.3g})"


OVER_TEXTS = re.compile(r"log_loss$|truncated$")
"""Outcomes that are means or sums over all texts."""
OF_A_MACHINE = re.compile(r"(seconds|memory|file|bfloat16)$")
"""Outcomes that another machine, or another moment, has others of."""


def compared(stored: Arrays, found: Arrays, passages: bool = False) -> dict[str, list[Off]]:
    """How each stored array of a part differs from the one that was measured again.

    Args:
        stored, found: on the same texts.
        passages: whether losses are sums over the tokens of passages.

    Returns:
        by name, the outcomes of a machine left out.
    """
    before, now = _absolute(stored), _absolute(found)
    differences = {}
    for name in stored:
        if OF_A_MACHINE.search(name):
            continue
        if name not in found or stored[name].shape != found[name].shape:
            shape = found[name].shape if name in found else "none"
            differences[name] = [Off(f"other shape, {shape} for {stored[name].shape}", 1, 0)]
            continue
        compare = next(rule for named, rule in _RULES if named.search(name))
        slack = np.abs(stored[name]) / 16 if _is_coarse(stored[name]) else 0
        nats = PASSAGE if passages else NATS
        differences[name] = [*compare(before[name], now[name], _Bound(name, slack, nats))]
    return differences


class _Bound(NamedTuple):
    """What a rule needs besides: ``slack`` is how far rounding in the file may have moved a number."""

    name: str
    slack: np.ndarray | int
    nats: float


def _is_coarse(values: np.ndarray) -> bool:
    """Whether a file holds numbers to five binary digits: either neighbour may have been taken."""
    whole = values.dtype.kind == "i" and values.size and np.abs(values).max() > 32
    return bool(whole and np.array_equal(np.rint(coarse(values)), values))


def _absolute(raw: Arrays) -> Arrays:
    """Outcomes of masked models that are kept as changes from the uncut one, as they were."""
    absolute = dict(raw)
    for name in [name for name in raw if name.endswith("_change")]:
        uncut = raw.get(f"{name.removesuffix('_change')}_uncut")
        if uncut is not None:
            uncut = np.expand_dims(uncut, 1) if "updates" in raw else uncut  # by checkpoint
            absolute[name] = uncut.astype(int) + raw[name]
    return absolute


def _few(n: int) -> int:
    """How many of so many translations may differ."""
    return max(1, math.floor(TRANSLATIONS * n))


def _equal(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Iterator[Off]:
    yield Off("numbers", int((stored != found).sum()), 0)


def _answers(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Iterator[Off]:
    """Right or wrong, (..., n)."""
    other = int((stored != found).sum(-1).max())
    yield Off("answers of a mask", other, ANSWERS * math.ceil(stored.shape[-1] / OF))


def _translations(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Iterator[Off]:
    """Packed counts of n-grams, (..., n, 5): see :func:`~headprune_lib.replication.metrics.pack`."""
    n, off = stored.shape[-2], np.abs(stored.astype(int) - found)
    yield Off("translations of a mask", int(off.any(-1).sum(-1).max()), _few(n))
    lost = off.sum((-2, -1)) / np.maximum(stored.astype(int).sum((-2, -1)), 1)
    yield Off("of a mask's n-grams", float(lost.max()), max(NGRAMS, 1 / n))


def _texts(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Iterator[Off]:
    """Translations as text."""
    yield Off("translations", int((stored != found).sum()), _few(len(stored)))


def _losses(stored: np.ndarray, found: np.ndarray, bound: _Bound) -> Iterator[Off]:
    """Thousandths of a nat, (..., n)."""
    off = (np.abs(stored.astype(float) - found) - bound.slack).clip(0) / MILLINAT
    if (
        "draft_loss" in bound.name
    ):  # of another draft, which a flipped rounding gives, it is another
        other = int((off > bound.nats).sum(-1).max())
        yield Off(f"losses of a mask by over {bound.nats} nats", other, _few(off.shape[-1]))
    else:
        yield Off("nats", float(off.max()), bound.nats)


def _numbers(most: float, unit: str) -> Callable[..., Iterator[Off]]:
    """A rule for numbers that differ by no more than ``most`` each."""

    def compare(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Iterator[Off]:
        yield Off(unit, float(np.abs(stored - found).max()), most)

    return compare


def _scores(stored: np.ndarray, computed: np.ndarray, bound: _Bound) -> Iterator[Off]:
    """Numbers that are off by a share of the largest one along the last axis."""
    if stored.dtype.kind != "f" or not stored.size:
        yield from _equal(stored, computed, bound)
        return
    rough = stored.dtype == np.float16  # to five binary digits, which may be either neighbour's
    stored, computed = stored.astype(float), computed.astype(float)
    largest = np.abs(stored) if rough else np.nanmax(np.abs(stored), -1, keepdims=True, initial=0)
    same = (stored == computed) | (np.isnan(stored) & np.isnan(computed))
    off = np.where(same, 0, np.abs(stored - computed) / np.maximum(largest, 1e-12))
    off = np.where(np.isnan(off), np.inf, off)
    yield Off("of the largest", float(off.max()), RELATIVE + rough / 16)
    yield Off("of the numbers", float((off > RELATIVE).mean()), TRANSLATIONS)


def _orders(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Iterator[Off]:
    """The same heads in each run (..., heads, 2 or 3), two of them in another place at most."""
    rows = [values.reshape(-1, *values.shape[-2:]).tolist() for values in (stored, found)]
    others = [sorted(order) != sorted(other) for order, other in zip(*rows, strict=True)]
    yield Off("runs of other heads", sum(others), 0)
    elsewhere = (stored != found).any(-1).sum(-1)
    yield Off("heads of a run elsewhere", int(elsewhere.max(initial=0)), PLACES)


_RULES = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        ("counts", _translations),
        ("^beam ", _texts),
        ("correct", _answers),
        ("log_loss$", _numbers(NATS, "nats")),
        ("loss", _losses),
        ("^gates ", _numbers(GATE, "of a gate")),
        ("^order$", _orders),
        ("", _scores),
    )
)
"""What the name of an array contains -> how it is compared; the first that fits."""


def means_follow(part: str, raw: Arrays) -> Quantity | None:
    """Whether stored mean losses go with the losses of texts beside them; None without either."""
    name = f"{part}: mean losses beside those of texts"
    if "log_loss" not in raw or not {"loss", "loss_area"} & {*raw}:
        return None
    if "loss" in raw:
        means = raw["loss"].mean(-1) / MILLINAT  # of all runs, or of the first alone
        off = np.abs(raw["log_loss"][: len(means)] - means)
        return Quantity(name, "", f"off by {off.max():.1e} nats", "1e-9", bool((off < 1e-9).all()))
    inside = raw["shares"] <= ORDERS_UP_TO + 1e-9
    added = raw["log_loss"][:, inside] - raw["log_loss"][:, :1]
    area = MILLINAT * stats.area_under_curve(raw["shares"][inside], added)
    off, half = np.abs(area - raw["loss_area"].mean(-1)), np.abs(raw["loss_area"]).mean(-1) / 32
    bound = "what rounding moves each text's by"
    agrees = bool((off <= half + 0.5).all())  # and to whole thousandths
    return Quantity(name, "", f"off by {off.max() / MILLINAT:.4f} nats", bound, agrees)
