"""Tables 2 and 5 (section 3.3, appendix A): each layer of each kind reduced to its best head.

Table 2 chooses the best head of a layer on the test set that it reports (the paper's way, with
which no p-value is valid); Table 5 chooses on the validation chapters.
"""

from __future__ import annotations

import numpy as np

from headprune_lib.ablation import all_but_one_masks
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.translation.effects import baseline, effect_records
from headprune_lib.experiments.translation.outcomes import (
    TranslationSetting,
    all_counts,
    sweep_heads,
)
from headprune_lib.journal import Arrays, Journal
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.translation.bleu import corpus_bleu

_ROWS = ("heads", "counts_change", "draft_loss_change")


def _swept(setting: TranslationSetting, split: str, journal: Journal) -> Arrays:
    return sweep_heads(setting, setting.pairs(split), all_but_one_masks(setting.model), journal,
                       f"all but one ({split})")


def _measure_table2(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    setting = TranslationSetting.of(profile, profile.translation_task)
    raw = _swept(setting, "test", journal)
    return setting.measurement(raw, len(raw["reference_lengths"]))


def _measure_table5(profile: Profile, journal: Journal, get: Get) -> Measurement:
    setting = TranslationSetting.of(profile, profile.translation_task)
    test, valid = get("table2", profile).raw, _swept(setting, "valid", journal)
    best = best_of_layers(valid)
    raw = {**test, **{name: test[name][best] for name in _ROWS},
           **{f"valid_{name}": values for name, values in valid.items()}}
    return setting.measurement(raw, len(test["reference_lengths"]))


def best_of_layers(raw: Arrays) -> np.ndarray:
    """For each layer of each kind, the row of its best single head: highest BLEU, lowest loss."""
    _, cuts = all_counts(raw)
    order = np.lexsort((raw["draft_loss_change"].sum(-1), -corpus_bleu(cuts.sum(1))))
    layers = raw["heads"][:, :2]
    return np.array([next(i for i in order if (layers[i] == layer).all())
                     for layer in np.unique(layers, axis=0)])


def _summarise_table2(raw: Arrays, _runs: list[dict]) -> dict:
    best = best_of_layers(raw)
    chosen = {**raw, **{name: raw[name][best] for name in _ROWS}}
    return {"baseline": baseline(raw), "layers": effect_records(chosen), "chosen_on": "test"}


def _summarise_table5(raw: Arrays, _runs: list[dict]) -> dict:
    return {"baseline": baseline(raw), "layers": effect_records(raw), "chosen_on": "valid",
            "n_selection": len(raw["valid_reference_lengths"])}


ARTIFACTS = tuple(
    Artifact(name, 1, 1, lambda profile: {"n_verses": profile.n_verses}, measure, summarise,
             translates=lambda profile: (profile.translation_task,))
    for name, measure, summarise in (("table2", _measure_table2, _summarise_table2),
                                     ("table5", _measure_table5, _summarise_table5))
)
