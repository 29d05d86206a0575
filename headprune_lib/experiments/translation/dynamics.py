"""Figure 5 (section 6): what pruning costs, and how uneven importance is, along training.

Checkpoints are matched to the paper's by the share of the final BLEU that they have reached, not
by their epoch: two models learn at different speeds. Ratios of BLEU mean little near 0, so the
teacher-forced loss of the references stands beside them.
"""

from __future__ import annotations

import numpy as np
import torch

from headprune_lib import stats
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.outcomes import resumed
from headprune_lib.experiments.translation.outcomes import (
    KINDS,
    TranslationSetting,
    all_counts,
    forced_batches,
    sweep,
)
from headprune_lib.heads import HeadTensors, full_mask
from headprune_lib.journal import Arrays, Journal
from headprune_lib.kernels import fast_linears
from headprune_lib.masking import masked_heads
from headprune_lib.profiles import Profile
from headprune_lib.pruning import order_mask, prune_order, prune_schedule
from headprune_lib.results import Measurement
from headprune_lib.scoring import cross_entropy, example_importance, normalize_l2
from headprune_lib.translation.bleu import corpus_bleu
from headprune_lib.translation.training import read_curve, train
from headprune_lib.verdicts import C5_REMOVED

# The shares of the final BLEU that the paper's epochs 1, 2, 3, 5, 10, 20 and 40 have reached,
# read off its Figure 5.
PAPERS_SHARES = (0.09, 0.18, 0.52, 0.77, 0.88, 0.99, 1.0)
_RESAMPLES, _SEED = 5_000, 0


def matched_epochs(curve: list[dict]) -> list[int]:
    """For each of the paper's checkpoints the epoch of the nearest share of the best BLEU."""
    best = max(record["bleu"] for record in curve)
    nearest = [min(curve, key=lambda record: abs(record["bleu"] / best - share))["epoch"]
               for share in PAPERS_SHARES]
    return sorted(set(nearest))


def _measure(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    task = profile.training_task
    curve = read_curve(train(profile, task, profile.seed))
    epochs = matched_epochs(curve)
    raw: Arrays = {"epochs": np.array(epochs), "shares": np.arange(profile.steps + 1) / profile.steps,
                   "updates": np.array([curve[epoch - 1]["updates"] for epoch in epochs])}
    for epoch in epochs:
        setting = TranslationSetting.of(profile, task, epoch=epoch)
        part = _checkpoint(setting, epoch, journal)
        raw |= {f"{epoch}/{name}": values for name, values in part.items()}
    return setting.measurement(raw, len(setting.pairs("test")))


def _checkpoint(setting: TranslationSetting, epoch: int, journal: Journal) -> Arrays:
    each, = resumed(journal, [f"{setting.key} I_h"], [lambda: _importance(setting)],
                    f"importance, epoch {epoch}")
    scores = {kind: torch.from_numpy(each[kind].astype(float).mean(0)) for kind in KINDS}
    order = prune_order(normalize_l2(scores))
    schedule = prune_schedule(len(order), setting.profile.steps)
    masks = [order_mask(setting.model, order, n_cut) for n_cut in schedule[1:]]
    raw = sweep(setting, setting.pairs("test"), masks, journal, f"pruned, epoch {epoch}")
    losses = resumed(
        journal, [f"{setting.key} loss {step}" for step in range(len(masks) + 1)],
        [lambda mask=mask: reference_loss(setting, mask)
         for mask in (full_mask(setting.model), *masks)], f"loss, epoch {epoch}")
    return {**raw, "reference_loss": np.stack([unit["loss"] for unit in losses]),
            **{f"each {kind}": each[kind] for kind in KINDS}}


def _importance(setting: TranslationSetting) -> Arrays:
    each = example_importance(setting.eager().model, forced_batches(setting, "score"))
    return {kind: values.numpy().astype(np.float16) for kind, values in each.items()}


def reference_loss(setting: TranslationSetting, mask: HeadTensors) -> Arrays:
    """Nats of every test reference under a mask (n,), and its number of pieces; shortest first."""
    losses, pieces = [], []
    with torch.inference_mode(), masked_heads(setting.model, mask), fast_linears(setting.model):
        for batch in forced_batches(setting, "test"):
            outputs = setting.model(**{k: v for k, v in batch.items() if k != "labels"})
            losses.append(cross_entropy(outputs, batch).numpy())
            pieces.append((batch["labels"] != -100).sum(1).numpy())
    return {"loss": np.stack([np.concatenate(losses), np.concatenate(pieces)]).astype(np.float32)}


def _summarise(raw: Arrays, _runs: list[dict]) -> dict:
    shares, epochs = raw["shares"], [int(epoch) for epoch in raw["epochs"]]
    at = int(np.flatnonzero(np.isclose(shares, C5_REMOVED))[0])
    checkpoints, kept, gini = [], {}, {}
    for epoch, updates in zip(epochs, raw["updates"], strict=True):
        part = {name.removeprefix(f"{epoch}/"): values for name, values in raw.items()
                if name.startswith(f"{epoch}/")}
        uncut, cuts = all_counts(part)
        systems = np.concatenate([uncut[None], cuts])
        bleu = corpus_bleu(systems.sum(1))
        drawn = stats.bootstrap_scores(corpus_bleu, systems[[0, at]], _RESAMPLES, _SEED)
        with np.errstate(divide="ignore", invalid="ignore"):
            kept[epoch] = np.nan_to_num(drawn[:, 1] / drawn[:, 0])
        each = np.concatenate([part[f"each {kind}"].reshape(len(part[f"each {kind}"]), -1)
                               for kind in KINDS], axis=1).astype(float)
        gini[epoch] = _resampled_gini(each)
        losses, pieces = part["reference_loss"][:, 0], part["reference_loss"][0, 1]
        checkpoints.append({
            "epoch": epoch, "updates": int(updates), "bleu": bleu,
            "kept": bleu / bleu[0] if bleu[0] else np.zeros_like(bleu),
            "kept_at_interval": np.quantile(kept[epoch], [0.025, 0.975]),
            "loss": losses.sum(1) / pieces.sum(),
            "gini": float(stats.gini(each.mean(0))),
            "gini_interval": np.quantile(gini[epoch], [0.025, 0.975]),
        })
    first, last = checkpoints[0], checkpoints[-1]
    return {
        "shares": shares, "kept_at": C5_REMOVED, "checkpoints": checkpoints,
        "differences": {
            "kept": _difference(last["kept"][at] - first["kept"][at],
                                kept[epochs[-1]] - kept[epochs[0]]),
            "gini": _difference(last["gini"] - first["gini"], gini[epochs[-1]] - gini[epochs[0]])},
    }


def _resampled_gini(each: np.ndarray) -> np.ndarray:
    """Gini coefficients (resamples,) of mean importance, verses drawn again; all epochs alike."""
    return stats.bootstrap_scores(stats.gini, each[None], _RESAMPLES, _SEED)[:, 0]


def _difference(value: float, drawn: np.ndarray) -> dict:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {"difference": value, "low": low, "high": high}


ARTIFACTS = (
    Artifact("figure5", 1, 1,
             lambda profile: {"n_verses": profile.n_verses, "steps": profile.steps},
             _measure, _summarise, translates=lambda profile: (profile.training_task,)),
)
