"""Figure 2a (section 3.4): the encoder's heads on the test verses against another English.

The far text is the King James Version of the chapters kept for I_h, none of them a test or training
chapter: the same target language, an archaic source.
"""

from __future__ import annotations

from headprune_lib import stats
from headprune_lib.ablation import one_head_masks
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.outcomes import MILLINAT
from headprune_lib.experiments.records import correlation_record
from headprune_lib.experiments.translation.outcomes import (
    KINDS,
    TranslationSetting,
    all_counts,
    first_verses,
    sweep_heads,
)
from headprune_lib.journal import Arrays, Journal
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.translation.bleu import corpus_bleu

_RESAMPLES, _SPLITS, _SEED = 10_000, 100, 0
_FAR_SPLIT = "score"


def _measure(profile: Profile, journal: Journal, get: Get) -> Measurement:
    setting = TranslationSetting.of(profile, profile.translation_task)
    masks = {head: mask for head, mask in one_head_masks(setting.model).items()
             if head[0] == "enc-enc"}
    far = setting.pairs(_FAR_SPLIT, profile.translation_far)
    raw = sweep_heads(setting, far, masks, journal, f"one head cut, {profile.translation_far}")
    home = first_verses(get("table1", profile).raw, profile.n_verses)
    rows = home["heads"][:, 0] == KINDS.index("enc-enc")
    kept = {name: values[rows] if name.endswith("_change") else values
            for name, values in home.items() if name != "heads"}
    raw = {"heads": raw.pop("heads"), **{f"far_{name}": values for name, values in raw.items()},
           **{f"home_{name}": values for name, values in kept.items()}}
    return setting.measurement(raw, len(far), f"{profile.translation_far}/{_FAR_SPLIT}")


def _summarise(raw: Arrays, _runs: list[dict]) -> dict:
    effects, reliability, baselines = {}, {}, {}
    for place in ("home", "far"):
        uncut, cuts = all_counts(raw, f"{place}_")
        baselines[place] = float(corpus_bleu(uncut.sum(0)))
        loss = raw[f"{place}_draft_loss_change"] / MILLINAT
        effects[place] = {"bleu": corpus_bleu(cuts.sum(1)) - baselines[place],
                          "loss": loss.mean(-1)}
        reliability[place] = {
            "bleu": stats.split_half_reliability_of(corpus_bleu, uncut, cuts, _SPLITS, _SEED),
            "loss": stats.split_half_reliability(loss, _SPLITS, _SEED)}
    correlations = {}
    for measure in ("bleu", "loss"):
        sides = effects["home"][measure], effects["far"][measure]
        both = [reliability[place][measure] for place in ("home", "far")]
        correlations[measure] = {
            "reliability": both, "ceiling": stats.correlation_ceiling(*both),
            **{method: correlation_record(*sides, method, _RESAMPLES, _SEED)
               for method in ("pearson", "spearman")}}
    heads = [{"layer": int(layer), "head": int(head),
              **{f"{measure} {place}": effects[place][measure][i]
                 for place in effects for measure in ("bleu", "loss")}}
             for i, (_, layer, head) in enumerate(raw["heads"])]
    return {"baselines": baselines, "heads": heads, "correlations": correlations}


ARTIFACTS = (
    Artifact("figure2a", 1, 1, lambda profile: {"n_verses": profile.n_verses}, _measure,
             _summarise, needs=("table1",),
             translates=lambda profile: (profile.translation_task, profile.translation_far)),
)
