"""What cuts do to right and wrong answers: one record a cut, and what an order is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import torch
from statsmodels.stats.proportion import proportion_confint

from headprune_lib.masking import HeadTensors
from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ALPHA, DELTA
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.store import Arrays


@dataclass(frozen=True)
class Tests:
    """Level of the tests, the largest loss that counts as none, and the power of what is detectable."""

    alpha: float = ALPHA
    delta: float = DELTA
    power: float = 0.8


class Effect(TypedDict):
    """A cut: changes of accuracy (cut minus uncut, as fractions) and of log-loss (nats)."""

    kind: str
    layer: int
    head: int
    delta: float
    interval: list[float]
    p: float
    p_holm: float
    p_paper: float
    discordant: list[int]
    smallest_detectable: float
    removable: bool
    delta_loss: float
    delta_loss_interval: list[float]
    delta_loss_p: float
    delta_loss_p_holm: float


class Counts(TypedDict):
    """How many of a set of cuts lose, gain, or can be made."""

    heads: int
    removable: int
    significant_losses: int
    significant_gains: int
    raw_losses: int
    raw_gains: int
    paper_losses: int
    paper_gains: int
    loss_losses: int
    loss_gains: int


def baseline(raw: Arrays, _tests: Tests) -> dict:
    """Accuracy (with its 95% Wilson interval) and log-loss of the uncut model."""
    correct = raw["correct_uncut"]
    low, high = proportion_confint(int(correct.sum()), len(correct), method="wilson")
    return {
        "accuracy": correct.mean(),
        "accuracy_interval": [low, high],
        "log_loss": raw["loss_uncut"].mean() / MILLINAT,
    }


def effect_records(raw: Arrays, tests: Tests) -> list[Effect]:
    """One record a cut, with Holm's correction over all of them as one family.

    ``delta`` and its interval are changes of accuracy (cut minus uncut, as a fraction);
    ``delta_loss`` of log-loss in nats; ``p`` is McNemar's,
    ``p_paper`` that of the paper's unpaired test; ``smallest_detectable`` is what McNemar's test at the
    family's first Holm step would find with power 0.8.
    """
    correct, uncut = raw["correct"], raw["correct_uncut"]
    n = len(uncut)
    lost = (uncut & ~correct).sum(-1)
    gained = (~uncut & correct).sum(-1)
    p, unpaired = stats.mcnemar_exact(lost, gained), stats.unpaired_t(uncut, correct)
    low, high = stats.paired_proportion_interval(lost, gained, n)
    detectable = stats.smallest_detectable(
        (lost + gained) / n, n, tests.alpha / len(correct), tests.power
    )
    loss = stats.paired_t(raw["loss_change"] / MILLINAT)
    adjusted, loss_adjusted = stats.holm(p), stats.holm(loss.p)
    removable = stats.equivalence(low, tests.delta)
    return [
        {
            "kind": "self",
            "layer": int(layer),
            "head": int(head),
            "delta": (gained[i] - lost[i]) / n,
            "interval": [low[i], high[i]],
            "p": p[i],
            "p_holm": adjusted[i],
            "p_paper": unpaired[i],
            "discordant": [int(lost[i]), int(gained[i])],
            "smallest_detectable": detectable[i],
            "removable": bool(removable[i]),
            "delta_loss": loss.value[i],
            "delta_loss_interval": [loss.low[i], loss.high[i]],
            "delta_loss_p": loss.p[i],
            "delta_loss_p_holm": loss_adjusted[i],
        }
        for i, (layer, head) in enumerate(raw["heads"])
    ]


def counts(records: list[Effect], tests: Tests) -> Counts:
    """How many cuts lose or gain significantly, and how many are removable."""

    def number(p: str, effect: str, sign: int) -> int:
        return int(sum(r[p] < tests.alpha and np.sign(r[effect]) == sign for r in records))

    return {
        "heads": len(records),
        "removable": sum(r["removable"] for r in records),
        "significant_losses": number("p_holm", "delta", -1),
        "significant_gains": number("p_holm", "delta", 1),
        "raw_losses": number("p", "delta", -1),
        "raw_gains": number("p", "delta", 1),
        "paper_losses": number("p_paper", "delta", -1),
        "paper_gains": number("p_paper", "delta", 1),
        "loss_losses": number("delta_loss_p_holm", "delta_loss", 1),
        "loss_gains": number("delta_loss_p_holm", "delta_loss", -1),
    }


def resampled(raw: Arrays, resamples: int, seed: int) -> np.ndarray:
    """Changes of accuracy (resamples, cuts) on resampled examples, the same for all cuts."""
    changed = raw["correct"].astype(np.int8) - raw["correct_uncut"].astype(np.int8)
    n = changed.shape[1]
    return stats.bootstrap_scores(
        lambda sums: sums[..., 0] / n, changed[..., None], resamples, seed
    )


def one_by_one_scores(raw: Arrays) -> HeadTensors:
    """What cutting a head alone costs: accuracy lost, ties broken by log-loss (section 4.2)."""
    layers, heads = raw["heads"].max(0) + 1
    lost = raw["correct_uncut"].sum() - raw["correct"].sum(-1).astype(float)
    tie = raw["loss_change"].mean(-1) / MILLINAT
    # an example is worth more than any difference of mean loss
    values = lost + 0.5 * np.tanh(tie)
    scores = torch.full((int(layers), int(heads)), torch.nan, dtype=torch.float64)
    scores[raw["heads"][:, 0], raw["heads"][:, 1]] = torch.from_numpy(values)
    return {"self": scores}
