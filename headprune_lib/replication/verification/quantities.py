"""Something stored beside the same found again, and the bound within which the two agree.

Three bounds hold for the very weights that a result was measured on. Another processor flips a
rounding now and then: two answers of a cut, or one translation in a hundred, may differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headprune_lib.masking import Head, HeadTensors
from headprune_lib.replication.metrics import corpus_bleu
from headprune_lib.replication.store import Arrays

ANSWERS, NATS = 2, 0.01
"""Answers of a cut that may differ, and how far a loss may be off."""
PASSAGE = 0.02
"""How far the loss of a passage of hundreds of tokens may be off, in nats."""
TRANSLATIONS, BLEU = 0.01, 0.1
"""The share of the translations that may differ (one in any case), and BLEU on all of a result."""
RELATIVE = 1e-3
"""How far importance may be off, as a share of the largest one of the layer (of the model, in an order)."""


@dataclass(frozen=True)
class Quantity:
    """One row of what a verification shows."""

    name: str
    stored: str
    found: str
    bound: str
    agrees: bool


def equal(name: str, stored: object, found: object) -> Quantity:
    """Two things that are alike or not, such as lists of heads."""
    agrees = np.array_equal(stored, found)
    return Quantity(name, "", "the same" if agrees else "another", "equal", agrees)


def within(
    name: str, stored: np.ndarray, found: np.ndarray, bound: str, most: object, unit: str = "nats"
) -> Quantity:
    """Numbers that differ by no more than ``most`` each, which ``bound`` says in words."""
    off = np.abs(stored - found)
    return Quantity(
        name,
        f"mean {np.mean(stored):.3f} {unit}",
        f"mean {np.mean(found):.3f} {unit}; off by up to {off.max():.4f}",
        bound,
        bool((off <= most).all()),
    )


def same_draws(
    name: str,
    stored: Sequence[Sequence[Head]],
    found: Sequence[Sequence[Head]],
    scores: HeadTensors,
) -> Quantity:
    """Drawn orders, which permute the order of the scores as some machine had them.

    Another machine rounds them otherwise, and two heads whose scores are all but equal change places.
    """
    agrees = [sorted(one) for one in stored] == [sorted(one) for one in found]
    moved = [
        abs(float(scores[head[0]][head[1:]] - scores[other[0]][other[1:]]))
        for one, another in zip(stored, found, strict=agrees)
        for head, other in zip(one, another, strict=agrees)
        if head != other
    ]
    if not (agrees and moved):
        return Quantity(name, "", "the same" if agrees else "others", "equal", agrees)
    off = max(moved) / max(float(values.max()) for values in scores.values())
    said = f"{len(moved)} heads elsewhere, whose scores differ by up to {off:.1e} of the largest"
    return Quantity(name, "", said, f"{RELATIVE}", off <= RELATIVE)


def same_scores(name: str, stored: np.ndarray, found: np.ndarray) -> Quantity:
    """Scores (layer, head) that differ by rounding alone."""
    off = float((np.abs(stored - found) / stored.max(-1, keepdims=True)).max())
    return Quantity(
        name,
        f"mean {stored.mean():.4g}",
        f"mean {found.mean():.4g}; off by {off:.1e}",
        f"{RELATIVE} of the layer's largest",
        off <= RELATIVE,
    )


def same_outcomes(
    name: str, stored: Arrays, slack: Arrays, found: Arrays, n_all: int
) -> list[Quantity]:
    """Outcomes (n, ...) of a mask, as :class:`~.outcomes.Rows` has them.

    Args:
        slack: how far rounding in the file may have moved each loss.
        n_all: texts of the whole result. BLEU on some of them may be off by more: by the square
            root of how many times fewer they are.
    """
    n, quantities = len(next(iter(stored.values()))), []
    if "correct" in stored:
        other = int((stored["correct"] != found["correct"]).sum())
        off = float(np.abs(stored["loss"] - found["loss"]).max()) if "loss" in stored else 0.0
        right = [f"{int(side['correct'].sum())} right" for side in (stored, found)]
        quantities.append(
            Quantity(
                f"{name}, {n} examples",
                right[0],
                f"{right[1]}; {other} answers differ, loss by {off:.3f}",
                f"{ANSWERS} answers, {NATS} nats",
                other <= ANSWERS and off <= NATS,
            )
        )
    elif "loss" in stored:
        bound = f"{PASSAGE} nats each"
        quantities.append(
            within(f"{name}, {n} passages", stored["loss"], found["loss"], bound, PASSAGE)
        )
    if "counts" in stored:
        allowed, points = max(1, math.floor(TRANSLATIONS * n)), BLEU * math.sqrt(n_all / n)
        other, off = int((stored["counts"] != found["counts"]).any(-1).sum()), 0
        if "draft_loss" in stored:
            apart = np.abs(stored["draft_loss"] - found["draft_loss"])
            off = int((apart > NATS + slack.get("draft_loss", 0)).sum())
        bleu, again = (float(corpus_bleu(side["counts"].sum(0))) for side in (stored, found))
        quantities.append(
            Quantity(
                f"{name}, {n} verses",
                f"BLEU {bleu:.2f}",
                f"BLEU {again:.2f}; {other} translations differ, {off} losses",
                f"{allowed} of each, {points:.2f} BLEU",
                max(other, off) <= allowed and abs(bleu - again) <= points,
            )
        )
    if "reference_loss" in stored:
        quantities.append(
            within(
                f"{name}, {n} references",
                stored["reference_loss"],
                found["reference_loss"] * stored["pieces"],
                f"{NATS} nats each, and rounding in the file",
                NATS + slack.get("reference_loss", 0),
            )
        )
    return quantities
