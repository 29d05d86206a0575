"""Whether a result holds of another training of the same model: the statistical rule.

Another machine, or another version of a library, ends the same training with other weights, whose
numbers cannot be the same. Compared with the stored training of the same seed are

- the **score of the unpruned model** on all test text: within 2 points of accuracy or F1, 0.12 of
  Matthews' correlation, 2 BLEU;
- of curves, the **mean score along the curve** in the order of the new model's own importance:
  within 4 points, 0.12, 3 BLEU; and the **share that goes at 2% loss**: within 0.4;
- of other outcomes, the **mean change under twelve drawn masks** (all, where there are fewer): as
  the unpruned score;
- where importance is stored, its **rank correlation** with the new one over all heads, both
  normalised by layer: at least 0.5.

A result is found again if all of them are. The bounds were written on 22 November 2026, before any
model was trained again to be held against them. They rest on the trainings that are stored, three
to five seeds of MiniLM on each of five tasks, of which s is the pooled standard deviation; the
difference of two trainings has s times the root of 2. Unpruned, s is 0.0035 of accuracy or F1 (the
bound is four times the difference's deviation: MPNet has one training a task, and may spread more)
and 0.042 of Matthews (twice). Along the curve s is 0.010 (three times) and 0.021 (four times). Of
the share s is 0.16 (not quite twice). Two seeds' importance correlates at 0.56 or more. Translators
have one training of a kind, and for drawn masks no spread over trainings is stored at all: the
bounds for BLEU and for masks are a choice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import scipy.stats

from headprune_lib.discovery import KINDS
from headprune_lib.replication import stats
from headprune_lib.replication.bounds import SHOWN_TOLERANCE
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.measurements.curves import Curves, Statistics, read_curves
from headprune_lib.replication.measurements.measurement import Context
from headprune_lib.replication.measurements.removal import along
from headprune_lib.replication.metrics import SCORES, corpus_bleu
from headprune_lib.replication.models.encoders import evaluate
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store import Arrays, Journal, Result
from headprune_lib.replication.store.verses import all_counts
from headprune_lib.replication.verification.orders import Subject, stored_importance
from headprune_lib.replication.verification.quantities import Quantity
from headprune_lib.replication.verification.sheets import sheets
from headprune_lib.replication.verification.tried import Sheet
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import Head, rank_heads

UNPRUNED = {"accuracy": 0.02, "f1": 0.02, "matthews": 0.12, "BLEU": 2.0}
ALONG = {"accuracy": 0.04, "f1": 0.04, "matthews": 0.12, "BLEU": 3.0}
SHARE, RANK, MASKS = 0.4, 0.5, 12

_CURVES = ("pruning_curve", "pruning_by_kind")
COMPARABLE = {
    "agreement",
    "all_but_one",
    "across_domains",
    "best_heads",
    "one_head",
    "quality",
    "search",
    *_CURVES,
}
"""Measurements of scores or importance; not of times, nor of a whole training."""


def compare(
    result: Result, subject: Subject, journal: Journal, generator: random.Random
) -> Iterator[Quantity]:
    """What another training gives, beside what is stored of the one that was measured.

    Args:
        subject: the other training, of the same recipe and seed.
        journal: keeps what is measured of it.
    """
    scores, found = stored_importance(result, subject.seed), sheets(result, subject)
    if found:
        yield from _under_masks(result, subject, found[0], journal, generator)
    if not scores:
        return
    again = subject.importance(journal)
    if result.measurement in _CURVES:
        yield from _along(result, subject, rank_heads(again), journal)
    plain = np.concatenate([normalize_l2(scores)[kind].numpy().ravel() for kind in scores])
    new = np.concatenate([again[kind].numpy().ravel() for kind in scores])
    rank = float(scipy.stats.spearmanr(plain, new).statistic)
    yield Quantity("rank of importance", "1", f"{rank:.2f}", f"at least {RANK}", rank >= RANK)


def check_comparable(result: Result) -> None:
    """Raises ValueError where a result holds nothing that another training must have alike."""
    if result.measurement not in COMPARABLE:
        raise ValueError(
            f"{result.measurement} holds nothing that another training must have alike; what can "
            f"be verified: {', '.join(sorted(COMPARABLE))}"
        )


def _near(name: str, stored: float, found: float, bound: float, form: str) -> Quantity:
    return Quantity(
        name,
        f"{stored:{form}}",
        f"{found:{form}}",
        f"within {bound:g}",
        abs(stored - found) <= bound,
    )


# --- masks ----------------------------------------------------------------------------------------


def _under_masks(
    result: Result, subject: Subject, sheet: Sheet, journal: Journal, generator: random.Random
) -> Iterator[Quantity]:
    """Unpruned and, of what is no curve, under drawn masks, on all texts."""
    metric = result.metric if result.metric in UNPRUNED else "accuracy"
    form, masks = ".2f" if metric == "BLEU" else ".4f", range(1, len(sheet.rows))
    drawn = (
        []
        if result.measurement in _CURVES
        else sorted(generator.sample(masks, min(MASKS, len(masks))))
    )
    rows = [0, *drawn]
    stored = _scores(sheet, {name: all_[rows] for name, all_ in sheet.outcomes.items()}, metric)
    found = _scores(sheet, _measured(subject, sheet, rows, journal), metric)
    yield _near(f"{metric}, no head cut", stored[0], found[0], UNPRUNED[metric], form)
    if drawn:
        changes = [float((side[1:] - side[0]).mean()) for side in (stored, found)]
        name = f"change of {metric}, mean of {len(drawn)} masks"
        yield _near(name, *changes, UNPRUNED[metric], f"+{form}")


def _measured(subject: Subject, sheet: Sheet, rows: list[int], journal: Journal) -> Arrays:
    """Outcomes (row, text, ...) of a sheet's masks on all of its texts; the first row is uncut."""
    if isinstance(subject, EncoderSubject):
        prepared = subject.batches(sheet.texts)
        units = run_units(
            {
                f"{subject.key} {sheet.rows[row][0]}": lambda mask=sheet.rows[row][1]: evaluate(
                    subject.model, prepared, mask
                )
                for row in rows
            },
            journal,
            f"drawn masks on {len(sheet.texts)} examples",
        )
        return {"correct": np.stack([one["correct"] for one in units.values()])}
    masks = [sheet.rows[row][1] for row in rows[1:]]
    raw = subject.sweep(sheet.texts, masks, journal, f"drawn masks {rows}")
    uncut, cuts = all_counts(raw)
    return {"counts": np.concatenate([uncut[None], cuts])}


def _scores(sheet: Sheet, outcomes: Arrays, metric: str) -> np.ndarray:
    """The score of each row."""
    if metric == "BLEU":
        return corpus_bleu(outcomes["counts"].sum(1))
    return SCORES[metric](outcomes["correct"], np.array(sheet.texts.labels))


# --- curves ---------------------------------------------------------------------------------------


def _along(
    result: Result, subject: Subject, order: list[Head], journal: Journal
) -> Iterator[Quantity]:
    """The curve in the order of the new importance, beside that of the stored training."""
    half, metric = half_of(result.key), result.metric
    context = Context(half, subject.profile, result.task, journal, get=None)
    by_kind = result.measurement == "pruning_by_kind"
    for kind in KINDS if by_kind else (None,):
        part = f"{kind} importance" if kind else "importance"
        if part not in result.parts:  # another order was measured by itself
            continue
        heads = [head for head in order if kind in (None, head[0])]
        pairs = None
        if half == "translation":
            both = {len(each): each for each in (subject.pairs("test"), subject.headline)}
            pairs = both[result.n_examples]
        raw = along(context, [(str(subject.seed), subject, heads)], part, pairs).raw
        curves = [_one(half, side) for side in (result.parts[part].raw, raw)]
        form = ".2f" if metric == "BLEU" else ".4f"
        areas = [float(curve.area(curve.runs["importance"][0])) for curve in curves]
        yield _near(f"mean {metric} along the curve, {part}", *areas, ALONG[metric], form)
        shares = [
            float(
                stats.prunable_share(
                    curve.shares, curve.runs["importance"][0], curve.chance, SHOWN_TOLERANCE
                )
            )
            for curve in curves
        ]
        yield _near(f"share that goes at {SHOWN_TOLERANCE:.0%}, {part}", *shares, SHARE, ".1f")


def _one(half: str, raw: Arrays) -> Curves:
    """The curve of the first training in a part; the interval that nobody asks for is not drawn."""
    first = {
        name: values[:1] if name in ("names", "correct") else values for name, values in raw.items()
    }
    return read_curves({"importance": first}, Statistics(resamples=1))
