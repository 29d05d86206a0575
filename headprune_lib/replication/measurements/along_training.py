"""Figure 5 (section 6): what pruning costs, and how uneven importance is, along training.

Checkpoints are matched to the paper's by the share of the final BLEU that they have reached, not
by their epoch: two models learn at different speeds. Ratios of BLEU mean little near 0, so the
teacher-forced loss of the references stands beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import torch
from torch import nn

from headprune_lib.batching import NO_LABEL, Batch, without_labels
from headprune_lib.heads import KINDS, HeadTensors, full_mask
from headprune_lib.kernels import fast_linears
from headprune_lib.losses import cross_entropy
from headprune_lib.masking import masked_heads
from headprune_lib.orders import order_mask, prune_order, prune_schedule
from headprune_lib.replication import stats
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.measurements.measurement import Context, Half, Measurement, Runs
from headprune_lib.replication.measurements.records import (
    Difference,
    difference_record,
    interval_record,
)
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.stats.bleu import corpus_bleu
from headprune_lib.replication.stats.bounds import C5_REMOVED
from headprune_lib.replication.store import OUTCOMES, Arrays, Journal, Measured, Outcomes
from headprune_lib.replication.translation.subject import (
    TranslationSubject,
    all_counts,
    forced_batches,
    mean_losses,
)
from headprune_lib.replication.translation.training import read_curve, train

# The shares of the final BLEU that the paper's epochs 1, 2, 3, 5, 10, 20 and 40 have reached,
# read off its Figure 5.
PAPERS_SHARES = (0.09, 0.18, 0.52, 0.77, 0.88, 0.99, 1.0)


@dataclass(frozen=True)
class Statistics:
    """``removed`` is the share of the heads at which checkpoints are compared."""

    removed: float = C5_REMOVED
    resamples: int = 5_000
    seed: int = 0


class Values(TypedDict):
    """``checkpoints`` in order of epochs; ``differences`` of the last minus the first."""

    shares: np.ndarray
    kept_at: float
    checkpoints: list[dict[str, Any]]
    differences: dict[str, Difference]


def matched_epochs(curve: list[dict]) -> list[int]:
    """For each of the paper's checkpoints the epoch of the nearest share of the best BLEU."""
    best = max(record["bleu"] for record in curve)
    nearest = [
        min(curve, key=lambda record: abs(record["bleu"] / best - share))["epoch"]
        for share in PAPERS_SHARES
    ]
    return sorted(set(nearest))


def _measure(context: Context, _part: str) -> Measured:
    profile, task = context.profile, context.task
    curve = read_curve(
        train(profile, task, profile.translation_seed, model=profile.translation_model)
    )
    epochs = matched_epochs(curve)
    raw: Arrays = {
        "epochs": np.array(epochs),
        "shares": np.arange(profile.steps + 1) / profile.steps,
        "updates": np.array([curve[epoch - 1]["updates"] for epoch in epochs]),
    }
    for epoch in epochs:
        subject = TranslationSubject.of(profile, task, epoch=epoch)
        part = _checkpoint(subject, epoch, context.journal)
        raw |= {f"{epoch}/{name}": values for name, values in part.items()}
    return subject.measured(raw, len(subject.pairs("test")))


def _checkpoint(subject: TranslationSubject, epoch: int, journal: Journal) -> Arrays:
    order = prune_order(subject.importance(journal))
    schedule = prune_schedule(len(order), subject.profile.steps)
    masks = [order_mask(subject.model, order, n_cut) for n_cut in schedule[1:]]
    raw = subject.sweep(subject.pairs("test"), masks, journal, f"pruned, epoch {epoch}")
    batches = forced_batches(subject, subject.pairs("test"))
    losses = run_units(
        {
            f"{subject.key} loss {step}": lambda mask=mask: {
                "loss": reference_loss(subject.model, batches, mask)
            }
            for step, mask in enumerate((full_mask(subject.model), *masks))
        },
        journal,
        f"loss, epoch {epoch}",
    ).values()
    pieces = [(batch["labels"] != NO_LABEL).sum(1).numpy() for batch in batches]
    each = {
        f"each {kind}": coarse(values) for kind, values in subject.verse_importance(journal).items()
    }
    return {
        **mean_losses(raw),
        **each,
        "reference_loss": np.stack([unit["loss"] for unit in losses]),
        "reference_pieces": np.concatenate(pieces),
    }


def coarse(values: np.ndarray) -> np.ndarray:
    """To five binary digits, which a file holds in half the space.

    Each value is off by at most one part in 32, a mean over a thousand by one in ten thousand.
    """
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(32 * mantissa) / 32, exponent).astype(np.float16)


def reference_loss(model: nn.Module, batches: list[Batch], mask: HeadTensors) -> np.ndarray:
    """Nats of every reference under a mask (n,), in the batches' order."""
    with torch.inference_mode(), masked_heads(model, mask), fast_linears(model):
        losses = [cross_entropy(model(**without_labels(batch)), batch) for batch in batches]
    return torch.cat(losses).numpy().astype(np.float32)


def _summarise(_half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    raw = outcomes[OUTCOMES]
    shares, epochs = raw["shares"], [int(epoch) for epoch in raw["epochs"]]
    at = int(np.flatnonzero(np.isclose(shares, statistics.removed))[0])
    checkpoints, kept, gini = [], {}, {}
    for epoch, updates in zip(epochs, raw["updates"], strict=True):
        part = {
            name.removeprefix(f"{epoch}/"): values
            for name, values in raw.items()
            if name.startswith(f"{epoch}/")
        }
        uncut, cuts = all_counts(part)
        systems = np.concatenate([uncut[None], cuts])
        bleu = corpus_bleu(systems.sum(1))
        drawn = stats.bootstrap_scores(
            corpus_bleu, systems[[0, at]], statistics.resamples, statistics.seed
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            kept[epoch] = np.nan_to_num(drawn[:, 1] / drawn[:, 0])
        each = np.concatenate(
            [part[f"each {kind}"].reshape(len(part[f"each {kind}"]), -1) for kind in KINDS], axis=1
        ).astype(float)
        gini[epoch] = _resampled_gini(each, statistics)
        checkpoints.append(
            {
                "epoch": epoch,
                "updates": int(updates),
                "bleu": bleu,
                "kept": bleu / bleu[0] if bleu[0] else np.zeros_like(bleu),
                "kept_at_interval": interval_record(kept[epoch]),
                "loss": part["reference_loss"].sum(1) / part["reference_pieces"].sum(),
                "gini": float(stats.gini(each.mean(0))),
                "gini_interval": interval_record(gini[epoch]),
            }
        )
    first, last = checkpoints[0], checkpoints[-1]
    return {
        "shares": shares,
        "kept_at": statistics.removed,
        "checkpoints": checkpoints,
        "differences": {
            "kept": difference_record(
                last["kept"][at] - first["kept"][at], kept[epochs[-1]] - kept[epochs[0]]
            ),
            "gini": difference_record(
                last["gini"] - first["gini"], gini[epochs[-1]] - gini[epochs[0]]
            ),
        },
    }


def _resampled_gini(each: np.ndarray, statistics: Statistics) -> np.ndarray:
    """Gini coefficients (resamples,) of mean importance, verses drawn again; all epochs alike."""
    return stats.bootstrap_scores(stats.gini, each[None], statistics.resamples, statistics.seed)[
        :, 0
    ]


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"n_verses": profile.n_verses, "steps": profile.steps}


MEASUREMENTS = (
    Measurement(
        "along_training",
        2,
        {"translation": Statistics()},
        _parameters,
        _measure,
        _summarise,
        ("translation",),
    ),
)
