"""Whether greedy search and beam 5 rank cuts alike: every other artifact translates greedily.

No table of the paper, which searches with a beam of 5 throughout. Most single heads change BLEU by
less than 300 verses can tell, in either search, so that a sample of all heads would rank noise.
Compared are cuts that do something: of each kind the heads without which the loss rises most, and
each layer reduced to its best head.
"""

from __future__ import annotations

import numpy as np

from headprune_lib import stats
from headprune_lib.ablation import all_but_one_masks, one_head_masks
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.outcomes import resumed
from headprune_lib.experiments.records import correlation_record
from headprune_lib.experiments.translation.outcomes import (
    KINDS,
    TranslationSetting,
    first_verses,
    heads_array,
)
from headprune_lib.heads import HeadTensors, full_mask
from headprune_lib.journal import Arrays, Journal
from headprune_lib.kernels import fast_linears
from headprune_lib.masking import masked_heads
from headprune_lib.orders import Head
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.translation.bleu import corpus_bleu, pack, sentence_counts, unpack

BEAMS = (1, 5)
_HEADS, _VERSES = 6, 300  # heads of each kind, and test verses
_RESAMPLES, _SPLITS, _SEED = 10_000, 200, 0


def _measure(profile: Profile, journal: Journal, get: Get) -> Measurement:
    setting = TranslationSetting.of(profile, profile.translation_task)
    found = first_verses(get("table1", profile).raw, profile.n_verses)
    cut, alone = _costly(found), _heads(get("table5", profile).raw)
    one, but_one = one_head_masks(setting.model), all_but_one_masks(setting.model)
    masks = {"none": full_mask(setting.model), **{f"without {head}": one[head] for head in cut},
             **{f"only {head}": but_one[head] for head in alone}}
    pairs = setting.split("test").first(_VERSES)

    def counted(mask: HeadTensors, beams: int) -> Arrays:
        with masked_heads(setting.model, mask), fast_linears(setting.model):
            made = setting.translator.translate(pairs.sources, beams=beams)
        return {"counts": pack(sentence_counts(made, pairs.targets))}

    asked = [(name, mask, beams) for name, mask in masks.items() for beams in BEAMS]
    units = resumed(journal, [f"{setting.key} beam {beams} {name}" for name, _, beams in asked],
                    [lambda mask=mask, beams=beams: counted(mask, beams)
                     for _, mask, beams in asked], "greedy and beam search")
    counts = np.stack([unit["counts"] for unit in units])
    lengths = sentence_counts(pairs.targets, pairs.targets)[:, -1]
    raw = {"heads": heads_array([*cut, *alone]), "reference_lengths": lengths,
           "alone": np.arange(len(cut) + len(alone)) >= len(cut),
           "counts": counts.reshape(len(masks), len(BEAMS), *counts.shape[1:])}
    return setting.measurement(raw, len(pairs))


def _heads(raw: Arrays) -> list[Head]:
    return [(KINDS[kind], int(layer), int(head)) for kind, layer, head in raw["heads"]]


def _costly(raw: Arrays) -> list[Head]:
    """Of each kind the heads without which the uncut model's translation is least likely."""
    order = np.argsort(-raw["draft_loss_change"].sum(-1), kind="stable")
    heads = [_heads(raw)[row] for row in order]
    return [head for kind in KINDS for head in [h for h in heads if h[0] == kind][:_HEADS]]


def _summarise(raw: Arrays, _runs: list[dict]) -> dict:
    counts = unpack(raw["counts"], raw["reference_lengths"])  # (1 + M, beams, verses, 10)
    bleu = corpus_bleu(counts.sum(-2))
    change, names = bleu[1:] - bleu[:1], [f"beam {beams}" for beams in BEAMS]
    reliability = [stats.split_half_reliability_of(corpus_bleu, counts[0, i], counts[1:, i],
                                                   _SPLITS, _SEED) for i in range(len(BEAMS))]
    groups = {"all": np.full(len(change), True), "one head cut": ~raw["alone"],
              "one head left in a layer": raw["alone"]}
    return {
        "bleu": dict(zip(names, bleu[0], strict=True)),
        "cuts": [{"kind": kind, "layer": layer, "head": head, "alone": bool(alone),
                  **dict(zip(names, row, strict=True))}
                 for (kind, layer, head), alone, row in zip(
                     _heads(raw), raw["alone"], change, strict=True)],
        "spearman": {name: correlation_record(*change[rows].T, "spearman", _RESAMPLES, _SEED)
                     for name, rows in groups.items()},
        "pearson": {name: correlation_record(*change[rows].T, "pearson", _RESAMPLES, _SEED)
                    for name, rows in groups.items()},
        "reliability": dict(zip(names, reliability, strict=True)),
    }


ARTIFACTS = (
    Artifact("search", 2, 1, lambda profile: {"heads": _HEADS, "n_search": _VERSES,
                                              "n_verses": profile.n_verses}, _measure,
             _summarise, needs=("table1", "table5"), translates=lambda profile: (profile.translation_task,)),
)
