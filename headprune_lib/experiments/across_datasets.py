"""Figure 2b (section 3.4): does cutting a head do the same on text of another domain?"""

from __future__ import annotations

import numpy as np

from headprune_lib import stats
from headprune_lib.data import TASKS
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.one_head import baseline, measurement
from headprune_lib.experiments.outcomes import MILLINAT, Setting, sweep
from headprune_lib.experiments.records import correlation_record
from headprune_lib.journal import Arrays, Journal
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement

_RESAMPLES, _SPLITS, _SEED = 10_000, 200, 0


def _measure(profile: Profile, journal: Journal, get: Get) -> Measurement:
    if not profile.domains:
        raise ValueError(f"{profile.task} has no text of another domain here; figure2b is for "
                         "reviews, sst2, snli and mnli, or give domains of your own")
    setting = Setting.of(profile)
    raw = {f"{profile.task}/{name}": array for name, array in get("figure1b", profile).raw.items()}
    for domain in profile.domains:
        examples = TASKS[domain].split("test", profile.data).first(profile.n_domain)
        found = sweep(setting, examples, "one head", journal, domain)
        raw |= {f"{domain}/{name}": array for name, array in found.items()}
    return measurement(setting, {**raw, "domains": np.array([profile.task, *profile.domains])})


def _summarise(raw: Arrays, _runs: list[dict]) -> dict:
    home, *others = [str(name) for name in raw["domains"]]
    parts = {name: _domain(raw, name) for name in (home, *others)}
    effects = {name: _effects(part) for name, part in parts.items()}
    records = [
        {"kind": "self", "layer": int(layer), "head": int(head),
         **{f"{measure} {name}": effects[name][measure][i].mean()
            for name in parts for measure in ("accuracy", "loss")}}
        for i, (layer, head) in enumerate(parts[home]["heads"])
    ]
    return {
        "in_domain": home,
        "baselines": {name: {**baseline(part), "n_examples": len(part["correct_uncut"])}
                      for name, part in parts.items()},
        "heads": records,
        "correlations": {
            name: {measure: _correlation(effects[home][measure], effects[name][measure])
                   for measure in ("accuracy", "loss")}
            for name in others
        },
    }


def _domain(raw: Arrays, name: str) -> Arrays:
    return {key.split("/", 1)[1]: raw[key] for key in raw if key.startswith(f"{name}/")}


def _effects(part: Arrays) -> dict[str, np.ndarray]:
    """Per-example effects (heads, examples): change of accuracy, and of loss in nats."""
    return {
        "accuracy": part["correct"].astype(np.int8) - part["correct_uncut"].astype(np.int8),
        "loss": part["loss_change"] / MILLINAT,
    }


def _correlation(inside: np.ndarray, outside: np.ndarray) -> dict:
    """Pearson and Spearman of the heads' mean effects, with the ceiling that noise sets."""
    x, y = inside.mean(-1), outside.mean(-1)
    reliability = [stats.split_half_reliability(side, _SPLITS, _SEED) for side in (inside, outside)]
    return {
        **{method: correlation_record(x, y, method, _RESAMPLES, _SEED)
           for method in ("pearson", "spearman")},
        "reliability": reliability,
        "ceiling": stats.correlation_ceiling(*reliability),
    }


ARTIFACTS = (
    Artifact("figure2b", 1, 1,
             lambda profile: {"n_examples": profile.n_examples, "n_domain": profile.n_domain,
                              "domains": profile.domains},
             _measure, _summarise, lambda profile: [profile.task, *profile.domains],
             needs=("figure1b",)),
)
