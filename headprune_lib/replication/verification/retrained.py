"""Train a model again, and look for the stored numbers: the same ones, or by a statistical rule.

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
from dataclasses import dataclass

import numpy as np
import scipy.stats

from headprune_lib.discovery import KINDS
from headprune_lib.replication import stats, store
from headprune_lib.replication.bounds import SHOWN_TOLERANCE
from headprune_lib.replication.measurements import find_artifact, half_of
from headprune_lib.replication.measurements.curves import Curves, Statistics, read_curves
from headprune_lib.replication.measurements.measurement import Context, Half
from headprune_lib.replication.measurements.obtaining import Request, results_folder
from headprune_lib.replication.measurements.removal import along
from headprune_lib.replication.metrics import SCORES, corpus_bleu
from headprune_lib.replication.paths import cache_root, trained_apart
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import Arrays, Journal, Key, Result
from headprune_lib.replication.store.verses import all_counts
from headprune_lib.replication.verification.again import find_again
from headprune_lib.replication.verification.outcomes import (
    Rows,
    Subject,
    rows_in,
    stored_importance,
)
from headprune_lib.replication.verification.quantities import Quantity
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


@dataclass(frozen=True)
class Verification:
    """What a training that was made again says of a stored result.

    Attributes:
        measured, trained: SHA-256 of the weights then and now.
        quantities: a row each; the bounds are those of the same weights, or of another training.
    """

    key: Key
    measured: str
    trained: str
    quantities: list[Quantity]

    @property
    def agrees(self) -> bool:
        """Whether everything was found again within its bound."""
        return all(quantity.agrees for quantity in self.quantities)


def verify(
    name: str, profile: Profile, *, task: str | None = None, drawn_seed: int = 0
) -> Verification:
    """Train a result's model again and compare the two.

    The training lies in a folder of its own in the cache, where the next verification of the same
    model finds it; it resumes after a kill, and neither reads nor changes the weights that were
    measured. If it ends with those very weights, drawn cells must be found again to a rounding
    (:mod:`~headprune_lib.replication.verification.quantities`); if not, the statistical rule of
    this module holds.

    Args:
        name: of a table or figure of the paper, or of a measurement.
        profile: with the task and the model of the stored result.
        task: of a translation measurement, the pair of languages; the main one if not given.
        drawn_seed: what masks and texts are drawn with.

    Raises:
        FileNotFoundError: there is no such stored result; the message names what measures it.
        ValueError: an unknown name, a stored result of other text, parameters or another recipe
            than those at hand, or one that holds nothing to compare.
    """
    request = find_artifact(name, profile, task)
    _, half, profile, task = request
    key, command = request.key, request.command()
    result = store.load(key, results_folder(profile), command)
    if result.measurement not in COMPARABLE:
        raise ValueError(
            f"{result.measurement} holds nothing that another training must have alike; what can "
            f"be verified: {', '.join(sorted(COMPARABLE))}"
        )
    _check_signature(result, request, command)
    run = next(iter(result.parts.values())).runs[0]
    folder = cache_root() / "verify"
    journal = Journal(folder / "journals" / "-".join(key))
    with trained_apart(folder):
        subject = (
            EncoderSubject.of(profile, run["seed"])
            if half == "encoder"
            else TranslationSubject.of(profile, task, run["seed"])
        )
        trained = subject.run["weights_sha256"]
        same = trained == run["weights_sha256"]
        quantities = [*(find_again if same else compare)(result, subject, journal, drawn_seed)]
    journal.finish()
    return Verification(key, run["weights_sha256"], trained, quantities)


def _check_signature(result: Result, request: Request, command: str) -> None:
    """Raises ValueError where the result is of something else than what would be trained now."""
    for name, part in result.parts.items():
        wanted = request.signature(name)
        if part.signature != wanted:
            other = sorted(what for what in wanted if part.signature.get(what) != wanted[what])
            raise ValueError(
                f"part {name} of {'/'.join(result.key)} was measured with another "
                f"{' and '.join(set(other) - {'digest'})} than would be used now; measure it "
                f"again with: {command}"
            )


def compare(
    result: Result, subject: Subject, journal: Journal, drawn_seed: int
) -> Iterator[Quantity]:
    """What another training gives, beside what is stored of the one that was measured.

    Args:
        subject: the other training, of the same recipe and seed.
        journal: keeps what is measured of it.
        drawn_seed: what masks are drawn with.
    """
    scores, found = stored_importance(result, subject.seed), rows_in(result, subject)
    if found:
        yield from _under_masks(result, subject, found[0], journal, drawn_seed)
    if not scores:
        return
    again = subject.importance(journal)
    if result.measurement in _CURVES:
        yield from _along(result, subject, rank_heads(again), journal)
    plain = np.concatenate([normalize_l2(scores)[kind].numpy().ravel() for kind in scores])
    new = np.concatenate([again[kind].numpy().ravel() for kind in scores])
    rank = float(scipy.stats.spearmanr(plain, new).statistic)
    yield Quantity("rank of importance", "1", f"{rank:.2f}", f"at least {RANK}", rank >= RANK)


def _near(name: str, stored: float, found: float, bound: float, form: str) -> Quantity:
    agrees = abs(stored - found) <= bound
    return Quantity(name, f"{stored:{form}}", f"{found:{form}}", f"within {bound:g}", agrees)


# --- masks ----------------------------------------------------------------------------------------


def _under_masks(
    result: Result, subject: Subject, rows: Rows, journal: Journal, drawn_seed: int
) -> Iterator[Quantity]:
    """Unpruned and, of what is no curve, under drawn masks, on all texts."""
    metric = result.metric if result.metric in UNPRUNED else "accuracy"
    form, others = ".2f" if metric == "BLEU" else ".4f", range(1, len(rows.masks))
    n_drawn = 0 if result.measurement in _CURVES else min(MASKS, len(others))
    chosen = [0, *sorted(random.Random(drawn_seed).sample(others, n_drawn))]
    stored = {what: cells[chosen] for what, cells in rows.outcomes.items()}
    sides = [stored, _measured(subject, rows, chosen, journal)]
    before, after = (_scores(rows, side, metric) for side in sides)
    yield _near(f"{metric}, no head cut", before[0], after[0], UNPRUNED[metric], form)
    if n_drawn:
        changes = [float((side[1:] - side[0]).mean()) for side in (before, after)]
        name = f"change of {metric}, mean of {n_drawn} masks"
        yield _near(name, *changes, UNPRUNED[metric], f"+{form}")


def _measured(subject: Subject, rows: Rows, chosen: list[int], journal: Journal) -> Arrays:
    """Outcomes (row, text, ...) of masks on all of their texts; the first is uncut."""
    masks = dict(rows.masks[row] for row in chosen)
    if isinstance(subject, EncoderSubject):
        title = f"drawn masks on {len(rows.texts)} examples"
        return subject.under(masks, rows.texts, journal, title)
    raw = subject.sweep(rows.texts, [*masks.values()][1:], journal, f"drawn masks {chosen}")
    uncut, cuts = all_counts(raw)
    return {"counts": np.concatenate([uncut[None], cuts])}


def _scores(rows: Rows, outcomes: Arrays, metric: str) -> np.ndarray:
    """The score of each row."""
    if metric == "BLEU":
        return corpus_bleu(outcomes["counts"].sum(1))
    return SCORES[metric](outcomes["correct"], np.array(rows.texts.labels))


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
            pairs = subject.split("test").first(result.n_examples)
        raw = along(context, [(str(subject.seed), subject, heads)], part, pairs).raw
        curves = [_one(half, side) for side in (result.parts[part].raw, raw)]
        form = ".2f" if metric == "BLEU" else ".4f"
        scores = [curve.runs["importance"][0] for curve in curves]
        areas = [float(c.area(each)) for c, each in zip(curves, scores, strict=True)]
        yield _near(f"mean {metric} along the curve, {part}", *areas, ALONG[metric], form)
        shares = [
            float(stats.prunable_share(curve.shares, each, curve.chance, SHOWN_TOLERANCE))
            for curve, each in zip(curves, scores, strict=True)
        ]
        yield _near(f"share that goes at {SHOWN_TOLERANCE:.0%}, {part}", *shares, SHARE, ".1f")


def _one(half: Half, raw: Arrays) -> Curves:
    """The curve of the first training in a part; the interval that nobody asks for is not drawn."""
    first = {
        name: values[:1] if name in ("names", "correct") else values for name, values in raw.items()
    }
    return read_curves({"importance": first}, Statistics(resamples=1))
