"""Retrain a model and look for the stored numbers: the same ones, or within statistical bounds.

On another machine, or with another version of a library, the same training ends with other weights
and so with other numbers. The following are compared with the stored training of the same seed:

- the **score of the unpruned model** on all test text: within 2 points of accuracy or F1, 0.12 of
  Matthews' correlation, 2 BLEU;
- for curves, the **mean score along the curve** in the order of the new model's own importance:
  within 4 points, 0.12, 3 BLEU; and the **share of heads pruned at 2% loss**: within 0.4;
- for other outcomes, the **mean change under all masks**: within the unpruned score's bounds;
- where importance is stored, its **rank correlation** with the new one over all heads, both
  normalised by layer: at least 0.5.

A result is found again if all of them hold. The bounds were written on 22 November 2026, before any
model was retrained for such a comparison. They rest on the stored trainings, three to five seeds of
MiniLM on each of five tasks, whose pooled standard deviation is s; the difference of two trainings
has s times the square root of 2. Unpruned, s is 0.0035 for accuracy or F1 (the bound is four times
the difference's deviation: MPNet has one training per task, and may spread more) and 0.042 for
Matthews (twice). Along the curve, s is 0.010 (three times) and 0.021 (four times). For the share, s
is 0.16 (not quite twice). Two seeds' importance correlates at 0.56 or more. Translators have one
training of each kind, and for masks no spread over trainings is stored at all: the bounds for BLEU
and for masks are a choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from headprune_lib.replication import stats, store
from headprune_lib.replication.bounds import SHOWN_TOLERANCE
from headprune_lib.replication.lazy import scoring, setups, torch
from headprune_lib.replication.measurements import find_artifact
from headprune_lib.replication.measurements.base import Constants
from headprune_lib.replication.measurements.curves import read_curves
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.metrics import corpus_bleu
from headprune_lib.replication.order_names import IMPORTANCE
from headprune_lib.replication.paths import cache_root, trained_apart
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import OUTCOMES, Arrays, Journal, Key, Result
from headprune_lib.replication.store.packing import all_counts
from headprune_lib.replication.verification.again import (
    Quantity,
    found_again,
    measured_again,
    own_rows,
)

UNPRUNED = {"accuracy": 0.02, "f1": 0.02, "matthews": 0.12, "BLEU": 2.0}
ALONG = {"accuracy": 0.04, "f1": 0.04, "matthews": 0.12, "BLEU": 3.0}
SHARE, RANK = 0.4, 0.5

COMPARABLE = {
    *("across_domains", "agreement", "all_but_one", "best_heads", "one_head"),
    *("pruning_by_kind", "pruning_curve"),
}
"""Measurements of scores or importance, but not of time or of a whole training."""


@dataclass(frozen=True)
class Verification:
    """The comparison of a stored result with a training that was repeated.

    Attributes:
        measured, trained: SHA-256 of the weights then and now.
        quantities: one row each, with the bounds for the same weights or for another training.
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
    """Retrain a result's model, and compare its outcomes with the stored ones.

    The training has a folder of its own in the cache, where the next verification of the same model
    finds it. It resumes if interrupted, and neither reads nor changes the weights that were
    measured. If it ends with the same weights, outcomes on drawn texts must be found again up to
    rounding (:mod:`~headprune_lib.replication.verification.again`); if not, the statistical bounds
    of this module apply.

    Args:
        name: of a table or figure of the paper, or of a measurement.
        profile: with the task and the model of the stored result.
        task: the pair of languages of a translation measurement; the main one if not given.
        drawn_seed: the seed for drawing texts.

    Raises:
        FileNotFoundError: there is no such stored result; the message says how to measure it.
        ValueError: an unknown name, a stored result with other text, parameters or recipe than
            those at hand, or one with nothing to compare.
    """
    request = find_artifact(name, profile, task)
    _, half, profile, task, _ = request
    key, command = request.key, request.command()
    result = store.load(key, results_folder(profile), command)
    if result.measurement not in COMPARABLE:
        raise ValueError(
            f"{result.measurement} cannot be verified: another training need not repeat any of it. "
            f"Use one of {', '.join(sorted(COMPARABLE))}"
        )
    for part_name, part in result.parts.items():
        wanted = request.signature(part_name)
        other = sorted(what for what in wanted if part.signature.get(what) != wanted[what])
        if part.signature != wanted:
            raise ValueError(
                f"part {part_name} of {'/'.join(key)} was measured with another "
                f"{' and '.join({*other} - {'digest'})} than would be used now. Measure it "
                f"again with: {command}"
            )
    run = next(iter(result.parts.values())).runs[0]
    folder = cache_root() / "verify"
    journals = folder / "journals" / "-".join(key)
    with trained_apart(folder):
        subject = (
            setups.EncoderSubject.of(profile, run["seed"])
            if half == "encoder"
            else setups.TranslationSubject.of(profile, task, run["seed"])
        )
        trained = subject.weights_sha256
        if trained == run["weights_sha256"]:
            quantities = found_again(result, profile, journals, drawn_seed=drawn_seed)
        else:
            quantities = [*compare(result, profile, journal := Journal(journals))]
            journal.finish()
    return Verification(key, run["weights_sha256"], trained, quantities)


def compare(result: Result, profile: Profile, journal: Journal) -> Iterator[Quantity]:
    """Compare another training's outcomes with the stored ones.

    Only the order by importance is compared; each training has its own.

    Args:
        profile: of the other training, which has the stored one's recipe and seed.
        journal: of the other training's measurements.
    """
    seed = next(iter(result.parts.values())).runs[0]["seed"]
    for name, part in result.parts.items():
        if part.runs[0]["seed"] != seed or not (name == OUTCOMES or name.endswith(IMPORTANCE)):
            continue
        _, measured = measured_again(result, name, [0], profile, journal, stored={})
        suffix = "" if name in (OUTCOMES, IMPORTANCE) else f", {name}"
        yield from _alike(result.metric, suffix, own_rows(part, [0]), measured.raw)


def _alike(metric: str, said: str, stored: Arrays, found: Arrays) -> Iterator[Quantity]:
    """Compare the outcomes of two trainings, by the rules at the top of this module."""
    sides = [_numbers(metric, raw, [*stored]) for raw in (stored, found)]
    for (name, before, what, bounds), (_, after, *_) in zip(*sides, strict=True):
        form, bound = {"BLEU": ".2f", "share": ".1f"}.get(what, ".4f"), bounds[what]
        agrees = bool(abs(before - after) <= bound)
        yield Quantity(
            f"{name}{said}", f"{before:{form}}", f"{after:{form}}", f"within {bound:g}", agrees
        )
    scores = [name for name in stored if name.startswith("scores")]
    if scores:
        flat = ([_normalised(side[name]).ravel() for name in scores] for side in (stored, found))
        rank = float(scipy.stats.spearmanr(*map(np.concatenate, flat)).statistic)
        name, bound = f"rank of importance{said}", f"at least {RANK}"
        yield Quantity(name, "1", f"{rank:.2f}", bound, rank >= RANK)


def _normalised(scores: np.ndarray) -> np.ndarray:
    """Scores (..., layer, head), l2-normalised by layer as in the paper."""
    layers = torch.from_numpy(scores.reshape(-1, scores.shape[-1]))
    return scoring.normalize_l2({"": layers})[""].numpy()


def _numbers(
    metric: str, raw: Arrays, names: Sequence[str]
) -> Iterator[tuple[str, float, str, Mapping[str, float]]]:
    """The numbers of one training that are compared: name, value, its metric, bounds by metric.

    Args:
        names: of the stored outcomes.
    """
    if "shares" in raw:  # a curve, in the order of the training's own importance
        # that of the first training; one resample, since its interval is not used
        first = {
            name: values[:1] if name in ("names", "correct") else values
            for name, values in raw.items()
        }
        curve = read_curves({"importance": first}, Constants(resamples=1, seed=0))
        scores = curve.runs["importance"][0]
        share = stats.prunable_share(curve.shares, scores, curve.chance, SHOWN_TOLERANCE)
        yield f"{metric}, no head cut", scores[0], metric, UNPRUNED
        yield f"mean {metric} along the curve", float(curve.area(scores)), metric, ALONG
        yield f"share that goes at {SHOWN_TOLERANCE:.0%}", float(share), "share", {"share": SHARE}
        return
    metric = metric if metric in UNPRUNED else "accuracy"
    for what in ("correct_uncut", "counts_uncut"):
        for prefix in [name.removesuffix(what) for name in names if name.endswith(what)]:
            uncut, cut = _uncut_and_cut(prefix, raw)
            of, change = prefix and f", {prefix}", float((cut - uncut).mean())
            yield f"{metric}, no head cut{of}", uncut, metric, UNPRUNED
            yield f"change of {metric}, mean of {len(cut)} masks{of}", change, metric, UNPRUNED


def _uncut_and_cut(prefix: str, raw: Arrays) -> tuple[float, np.ndarray]:
    """The score of the unmasked model, and the score under each mask (M,)."""
    if f"{prefix}correct" in raw:
        return float(raw[f"{prefix}correct_uncut"].mean()), raw[f"{prefix}correct"].mean(-1)
    uncut, cut = all_counts(raw, prefix)
    return float(corpus_bleu(uncut.sum(0))), corpus_bleu(cut.sum(1))
