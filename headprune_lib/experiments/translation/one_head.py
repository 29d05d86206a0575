"""Table 1 and Figure 1a (section 3.2): BLEU without each single head, of every kind.

The paper shows the encoder's own heads; the grids of the other two kinds are measured too.
"""

from __future__ import annotations

from headprune_lib.ablation import one_head_masks
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.translation.effects import (
    baseline,
    counts_by_kind,
    effect_records,
)
from headprune_lib.experiments.translation.outcomes import (
    TranslationSetting,
    sweep_heads,
)
from headprune_lib.journal import Arrays, Journal
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.verdicts import DELTA_BLEU


def _measure(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    setting = TranslationSetting.of(profile, profile.translation_task)
    masks, pairs = one_head_masks(setting.model), setting.headline
    return setting.measurement(sweep_heads(setting, pairs, masks, journal, "one head cut"),
                               len(pairs))


def _summarise(raw: Arrays, _runs: list[dict]) -> dict:
    records = effect_records(raw)
    return {"baseline": baseline(raw), "heads": records,
            "counts": counts_by_kind(records), "delta_tolerated": DELTA_BLEU}


ARTIFACTS = (
    Artifact("table1", 1, 1,
             lambda profile: {"n_headline": profile.n_headline}, _measure,
             _summarise, translates=lambda profile: (profile.translation_task,)),
)
