"""Stored outcomes beside the same measured again, and how far the two may differ.

The bounds hold for the very weights that a result was measured on. Another processor flips a
rounding now and then: a few answers of a mask, or one translation in a hundred, may differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
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


class Difference(NamedTuple):
    """How two arrays differ, in words, and how far they may; the first is empty where they do not."""

    said: str
    bound: str
    agrees: bool


OVER_TEXTS = re.compile(r"log_loss$|truncated$")
"""Outcomes that are means or sums over all texts."""
OF_A_MACHINE = re.compile(r"(seconds|memory|file|bfloat16)$")
"""Outcomes that another machine, or another moment, has others of."""


def compared(stored: Arrays, found: Arrays, passages: bool = False) -> dict[str, Difference]:
    """How each stored array of a part differs from the one that was measured again.

    Args:
        stored, found: on the same texts.
        passages: whether losses are sums over the tokens of passages.

    Returns:
        by name, the outcomes of a machine left out.
    """
    both = (_absolute(stored), _absolute(found))
    differences = {}
    for name in stored:
        if OF_A_MACHINE.search(name):
            continue
        if name not in found or stored[name].shape != found[name].shape:
            shapes = (raw[name].shape if name in raw else "none" for raw in (stored, found))
            differences[name] = Difference("shape {} and now {}".format(*shapes), "equal", False)
            continue
        compare = next(rule for named, rule in _RULES if named.search(name))
        slack = np.abs(stored[name]) / 16 if _is_coarse(stored[name]) else 0
        nats = PASSAGE if passages else NATS
        differences[name] = compare(*(raw[name] for raw in both), _Bound(name, slack, nats))
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
    found = dict(raw)
    for name in [name for name in raw if name.endswith("_change")]:
        uncut = raw.get(f"{name.removesuffix('_change')}_uncut")
        if uncut is not None:
            uncut = np.expand_dims(uncut, 1) if "updates" in raw else uncut  # by checkpoint
            found[name] = uncut.astype(int) + raw[name]
    return found


def _equal(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Difference:
    agrees = np.array_equal(stored, found)
    return Difference("" if agrees else "differs", "equal", agrees)


def _answers(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Difference:
    """Right or wrong, (..., n)."""
    allowed = ANSWERS * math.ceil(stored.shape[-1] / OF)
    other = int((stored != found).sum(-1).max())
    said = f"{other} answers of a mask differ" if other else ""
    return Difference(said, f"{allowed} answers", other <= allowed)


def _translations(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Difference:
    """Packed counts of n-grams, (..., n, 5): see :func:`~headprune_lib.replication.metrics.pack`."""
    n = stored.shape[-2]
    allowed, off = max(1, math.floor(TRANSLATIONS * n)), np.abs(stored.astype(int) - found)
    other = int(off.any(-1).sum(-1).max())
    share = max(NGRAMS, 1 / n)
    lost = off.sum((-2, -1)) / np.maximum(stored.astype(int).sum((-2, -1)), 1)
    said = f"{other} translations of a mask differ, {lost.max():.2%} of n-grams" if other else ""
    bound = f"{allowed} translations, {share:.2%} of n-grams"
    return Difference(said, bound, other <= allowed and bool((lost <= share).all()))


def _texts(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Difference:
    """Translations as text."""
    allowed, other = max(1, math.floor(TRANSLATIONS * len(stored))), int((stored != found).sum())
    said = f"{other} translations differ" if other else ""
    return Difference(said, f"{allowed} translations", other <= allowed)


def _losses(stored: np.ndarray, found: np.ndarray, bound: _Bound) -> Difference:
    """Thousandths of a nat, (..., n)."""
    off, few = np.abs(stored.astype(float) - found), "draft_loss" in bound.name
    # of another draft, which a flipped rounding gives, the loss is another one
    allowed = max(1, math.floor(TRANSLATIONS * stored.shape[-1])) if few else 0
    other = int((off > MILLINAT * bound.nats + bound.slack).sum(-1).max())
    said = f"off by {off.max() / MILLINAT:.3f} nats" if off.max() else ""
    least = f"{bound.nats} nats, and rounding in the file" + (f"; but {allowed}" if few else "")
    return Difference(said, least, other <= allowed)


def _numbers(most: float, unit: str) -> Callable[..., Difference]:
    """A rule for numbers that differ by no more than ``most`` each."""

    def compare(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Difference:
        off = float(np.abs(stored - found).max())
        return Difference(f"off by {off:.1e}{unit}" if off else "", f"{most}{unit}", off <= most)

    return compare


def _scores(stored: np.ndarray, found: np.ndarray, bound: _Bound) -> Difference:
    """Numbers that are off by a share of the largest one along the last axis."""
    if stored.dtype.kind != "f" or not stored.size:
        return _equal(stored, found, bound)
    rough = stored.dtype == np.float16  # to five binary digits, which may be either neighbour's
    stored, found = stored.astype(float), found.astype(float)
    largest = np.abs(stored) if rough else np.nanmax(np.abs(stored), -1, keepdims=True, initial=0)
    gone = np.isnan(stored)
    same = (stored == found) | (gone & np.isnan(found))
    off = np.where(same, 0, np.abs(stored - found) / np.maximum(largest, 1e-12))
    most = 1 / 16 + RELATIVE if rough else RELATIVE
    other = float((off > RELATIVE).mean())
    agrees = bool((off <= most).all()) and (other <= TRANSLATIONS)
    words = f"off by {np.max(off):.1e} of the largest" if np.max(off) else ""
    return Difference(words, f"{most:.2g}", agrees)


def _orders(stored: np.ndarray, found: np.ndarray, _bound: _Bound) -> Difference:
    """The same heads in each run (..., heads, 2 or 3), two of them in another place at most."""
    rows = [values.reshape(-1, *values.shape[-2:]).tolist() for values in (stored, found)]
    alike = all(sorted(one) == sorted(other) for one, other in zip(*rows, strict=True))
    other = int((stored != found).any(-1).sum(-1).max()) if stored.size else 0
    said = f"{other} heads of a run elsewhere" if other else ""
    return Difference(said, f"{PLACES} heads elsewhere", alike and other <= PLACES)


_RULES = tuple(
    (re.compile(pattern), rule)
    for pattern, rule in (
        ("counts", _translations),
        ("^beam ", _texts),
        ("correct", _answers),
        ("log_loss$", _numbers(NATS, " nats")),
        ("loss", _losses),
        ("^gates ", _numbers(GATE, "")),
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
