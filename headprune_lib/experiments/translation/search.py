"""Whether greedy search and beam 5 rank heads alike: every other artifact translates greedily.

No table of the paper, which searches with a beam of 5 throughout.
"""

from __future__ import annotations

import numpy as np

from headprune_lib.ablation import one_head_masks
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.outcomes import resumed
from headprune_lib.experiments.records import correlation_record
from headprune_lib.experiments.translation.outcomes import (
    KINDS,
    TranslationSetting,
    heads_array,
)
from headprune_lib.heads import HeadTensors, full_mask
from headprune_lib.journal import Arrays, Journal
from headprune_lib.kernels import fast_linears
from headprune_lib.masking import masked_heads
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.translation.bleu import corpus_bleu, pack, sentence_counts, unpack

BEAMS = (1, 5)
_EVERY, _VERSES = 12, 300  # one head in twelve, on the first test verses
_RESAMPLES, _SEED = 10_000, 0


def _measure(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    setting = TranslationSetting.of(profile, profile.translation_task)
    masks = dict(list(one_head_masks(setting.model).items())[::_EVERY])
    pairs = setting.split("test").first(_VERSES)

    def counted(mask: HeadTensors, beams: int) -> Arrays:
        with masked_heads(setting.model, mask), fast_linears(setting.model):
            made = setting.translator.translate(pairs.sources, beams=beams)
        return {"counts": pack(sentence_counts(made, pairs.targets))}

    asked = [(head, mask, beams) for head, mask in (("none", full_mask(setting.model)),
                                                    *masks.items()) for beams in BEAMS]
    units = resumed(journal, [f"{setting.key} beam {beams} {head}" for head, _, beams in asked],
                    [lambda mask=mask, beams=beams: counted(mask, beams)
                     for _, mask, beams in asked], "greedy and beam search")
    counts = np.stack([unit["counts"] for unit in units])
    lengths = sentence_counts(pairs.targets, pairs.targets)[:, -1]
    raw = {"heads": heads_array(masks), "reference_lengths": lengths,
           "counts": counts.reshape(1 + len(masks), len(BEAMS), *counts.shape[1:])}
    return setting.measurement(raw, len(pairs))


def _summarise(raw: Arrays, _runs: list[dict]) -> dict:
    bleu = corpus_bleu(unpack(raw["counts"], raw["reference_lengths"]).sum(-2))  # (1 + M, beams)
    change = bleu[1:] - bleu[:1]
    values = {
        "bleu": {f"beam {beams}": bleu[0, i] for i, beams in enumerate(BEAMS)},
        "heads": [{"kind": KINDS[kind], "layer": int(layer), "head": int(head),
                   **{f"beam {beams}": change[row, i] for i, beams in enumerate(BEAMS)}}
                  for row, (kind, layer, head) in enumerate(raw["heads"])],
    }
    values["spearman"] = correlation_record(*change.T, "spearman", _RESAMPLES, _SEED)
    return values


ARTIFACTS = (
    Artifact("search", 1, 1, lambda _profile: {"every": _EVERY, "n_verses": _VERSES}, _measure,
             _summarise, translates=lambda profile: (profile.translation_task,)),
)
