"""Tables 2 and 5 (section 3.3, appendix A): each layer of each kind reduced to its best head.

Table 2 chooses the best head of a layer on the test verses that it reports (the paper's way, with
which no p-value is valid); Table 5 chooses on the validation chapters and reports on all test verses.
"""

from __future__ import annotations

import numpy as np

from headprune_lib.ablation import all_but_one_masks
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.translation.effects import baseline, effect_records
from headprune_lib.experiments.translation.outcomes import (
    TranslationSetting,
    all_counts,
    mean_losses,
    sweep_heads,
)
from headprune_lib.journal import Arrays, Journal
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.translation.bleu import corpus_bleu

_ROWS = ("heads", "counts_change", "draft_loss_change")


def _measure_table2(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    setting = TranslationSetting.of(profile, profile.translation_task)
    masks, pairs = all_but_one_masks(setting.model), setting.pairs("test")
    return setting.measurement(sweep_heads(setting, pairs, masks, journal, "all but one"),
                               len(pairs))


def _measure_table5(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    setting = TranslationSetting.of(profile, profile.translation_task)
    masks = all_but_one_masks(setting.model)
    valid = mean_losses(
        sweep_heads(setting, setting.pairs("valid"), masks, journal, "all but one (valid)"))
    heads = list(masks)
    best = {heads[row]: masks[heads[row]] for row in best_of_layers(valid)}
    raw = sweep_heads(setting, setting.headline, best, journal, "the best of each layer")
    raw |= {f"valid_{name}": values for name, values in valid.items()}
    return setting.measurement(raw, len(setting.headline))


def best_of_layers(raw: Arrays) -> np.ndarray:
    """For each layer of each kind, the row of its best single head: highest BLEU, lowest loss."""
    _, cuts = all_counts(raw)
    order = np.lexsort((raw["draft_log_loss"][1:], -corpus_bleu(cuts.sum(1))))
    layers = raw["heads"][:, :2]
    return np.array([next(i for i in order if (layers[i] == layer).all())
                     for layer in np.unique(layers, axis=0)])


def _summarise_table2(raw: Arrays, _runs: list[dict]) -> dict:
    best = best_of_layers(mean_losses(raw))
    chosen = {**raw, **{name: raw[name][best] for name in _ROWS}}
    return {"baseline": baseline(raw), "layers": effect_records(chosen), "chosen_on": "test"}


def _summarise_table5(raw: Arrays, _runs: list[dict]) -> dict:
    return {"baseline": baseline(raw), "layers": effect_records(raw), "chosen_on": "valid",
            "n_selection": len(raw["valid_reference_lengths"])}


ARTIFACTS = tuple(
    Artifact(name, version, 1,
             lambda profile: {"n_verses": profile.n_verses, "n_headline": profile.n_headline},
             measure, summarise,
             translates=lambda profile: (profile.translation_task,))
    for name, version, measure, summarise in (
        ("table2", 1, _measure_table2, _summarise_table2),
        ("table5", 2, _measure_table5, _summarise_table5))
)
