"""Figure 1b (section 3.2): what each head's absence does to the score."""

from __future__ import annotations

import numpy as np
from statsmodels.stats.proportion import proportion_confint

from headprune_lib import stats
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.outcomes import MILLINAT, Setting, runs_of, sweep
from headprune_lib.journal import Arrays, Journal
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.verdicts import ALPHA, DELTA


def _measure(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    setting = Setting.of(profile)
    raw = sweep(setting, setting.test, "one head", journal, profile.task)
    return measurement(setting, raw)


def measurement(setting: Setting, raw: Arrays, n_examples: int | None = None) -> Measurement:
    """A measurement of accuracy on the test set of one fine-tuning."""
    return Measurement(
        raw, runs_of([setting]), setting.profile.model, f"{setting.profile.task}/test",
        len(setting.test) if n_examples is None else n_examples, "accuracy",
        "share of examples", {f"seed {setting.seed}": setting.weights_sha256},
    )


def _summarise(raw: Arrays, _runs: list[dict]) -> dict:
    records = effect_records(raw)
    return {
        "baseline": baseline(raw),
        "heads": records,
        "counts": counts(records),
        "delta_tolerated": DELTA,
        "truncated": int(raw["truncated"]),
    }


def baseline(raw: Arrays) -> dict:
    """Accuracy (with its 95% Wilson interval) and log-loss of the uncut model."""
    correct = raw["correct_uncut"]
    low, high = proportion_confint(int(correct.sum()), len(correct), method="wilson")
    return {
        "accuracy": correct.mean(),
        "accuracy_interval": [low, high],
        "log_loss": raw["loss_uncut"].mean() / MILLINAT,
    }


def effect_records(raw: Arrays) -> list[dict]:
    """One record a cut, with Holm's correction over all of them as one family.

    ``delta`` and its interval are changes of accuracy (cut minus uncut, as a fraction);
    ``delta_loss`` of log-loss in nats; ``smallest_detectable`` is what McNemar's test at the
    family's first Holm step would find with power 0.8.
    """
    correct, uncut = raw["correct"], raw["correct_uncut"]
    n = len(uncut)
    lost = (uncut & ~correct).sum(-1)
    gained = (~uncut & correct).sum(-1)
    p = stats.mcnemar_exact(lost, gained)
    low, high = stats.paired_proportion_interval(lost, gained, n)
    detectable = stats.smallest_detectable((lost + gained) / n, n, ALPHA / len(correct))
    loss = stats.paired_t(raw["loss_change"] / MILLINAT)
    adjusted, loss_adjusted = stats.holm(p), stats.holm(loss.p)
    removable = stats.equivalence(low, DELTA)
    return [
        {
            "kind": "self",
            "layer": int(layer),
            "head": int(head),
            "delta": (gained[i] - lost[i]) / n,
            "interval": [low[i], high[i]],
            "p": p[i],
            "p_holm": adjusted[i],
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


def counts(records: list[dict]) -> dict:
    """How many cuts lose or gain significantly (at 0.01), and how many are removable."""
    def number(p: str, effect: str, sign: int) -> int:
        return int(sum(r[p] < ALPHA and np.sign(r[effect]) == sign for r in records))

    return {
        "heads": len(records),
        "removable": sum(r["removable"] for r in records),
        "significant_losses": number("p_holm", "delta", -1),
        "significant_gains": number("p_holm", "delta", 1),
        "raw_losses": number("p", "delta", -1),
        "raw_gains": number("p", "delta", 1),
        "loss_losses": number("delta_loss_p_holm", "delta_loss", 1),
        "loss_gains": number("delta_loss_p_holm", "delta_loss", -1),
    }


ARTIFACTS = (
    Artifact("figure1b", 1, 1, lambda profile: {"n_examples": profile.n_examples}, _measure,
             _summarise),
)
