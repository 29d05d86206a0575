"""Tables 3 and 6 (section 3.3, appendix A): each layer reduced to its best head.

Table 3 chooses the best head of a layer on the test set that it reports (the paper's way, with
which no p-value is valid); Table 6 chooses on training sentences.
"""

from __future__ import annotations

import numpy as np

from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.one_head import baseline, effect_records, measurement
from headprune_lib.experiments.outcomes import Setting, sweep
from headprune_lib.journal import Arrays, Journal
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement


def _measure_table3(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    setting = Setting.of(profile)
    return measurement(setting, sweep(setting, setting.test, "all but one", journal, profile.task))


def _measure_table6(profile: Profile, journal: Journal, get: Get) -> Measurement:
    setting = Setting.of(profile)
    test = get("table3", profile).raw
    train = sweep(setting, setting.selection, "all but one", journal, f"{profile.task} (train)")
    best = best_of_layers(train)
    rows = {name: test[name][best] for name in ("heads", "correct", "loss_change")}
    raw = {**test, **rows}
    return measurement(setting, {**raw, **{f"train_{name}": train[name] for name in train}})


def best_of_layers(raw: Arrays) -> np.ndarray:
    """For each layer, the row of its best single head: highest accuracy, then lowest loss."""
    layers = raw["heads"][:, 0]
    order = np.lexsort((raw["loss_change"].sum(-1), -raw["correct"].sum(-1)))
    return np.array([next(i for i in order if layers[i] == layer) for layer in np.unique(layers)])


def _summarise_table3(raw: Arrays, _runs: list[dict]) -> dict:
    best = best_of_layers(raw)
    chosen = {**raw, **{name: raw[name][best] for name in ("heads", "correct", "loss_change")}}
    return {
        "baseline": baseline(raw),
        "layers": effect_records(chosen),
        "heads": [{"layer": r["layer"], "head": r["head"], "delta": r["delta"],
                   "interval": r["interval"]} for r in effect_records(raw)],
        "chosen_on": "test",
    }


def _summarise_table6(raw: Arrays, _runs: list[dict]) -> dict:
    train = {name.removeprefix("train_"): raw[name] for name in raw if name.startswith("train_")}
    return {
        "baseline": baseline(raw),
        "layers": effect_records(raw),
        "chosen_on": "train",
        "n_selection": train["correct"].shape[-1],
    }


ARTIFACTS = (
    Artifact("table3", 1, 1, lambda profile: {"n_examples": profile.n_examples},
             _measure_table3, _summarise_table3),
    Artifact("table6", 1, 1,
             lambda profile: {"n_examples": profile.n_examples,
                              "n_selection": profile.n_selection},
             _measure_table6, _summarise_table6, needs=("table3",)),
)
