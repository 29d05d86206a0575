"""Whether greedy search and beam 5 rank cuts alike: every other artifact translates greedily.

No table of the paper, which searches with a beam of 5 throughout. Most single heads change BLEU by
less than 300 verses can tell, in either search, so that a sample of all heads would rank noise.
Compared are cuts that do something: of each kind the heads without which the loss rises most, and
each layer reduced to its best head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from headprune_lib.ablation import all_but_one_masks, one_head_masks
from headprune_lib.discovery import KINDS
from headprune_lib.masking import HeadTensors, masked_heads, ones_mask
from headprune_lib.replication import stats
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.measurements.measurement import (
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.measurements.records import Correlation, correlation_record
from headprune_lib.replication.measurements.single_heads import best_heads, one_head
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.stats.bleu import corpus_bleu, pack, sentence_counts, unpack
from headprune_lib.replication.store import OUTCOMES, Arrays, Measured, Outcomes
from headprune_lib.replication.store.heads import heads_array, heads_in
from headprune_lib.replication.translation.outcomes import first_verses
from headprune_lib.replication.translation.subject import TranslationSubject
from headprune_lib.selection import Head

BEAMS = (1, 5)
_HEADS, _VERSES = 6, 300  # heads of each kind, and test verses


def _measure(context: Context, _part: str) -> Measured:
    subject = TranslationSubject.of(context.profile, context.task)
    found = first_verses(context.get("one_head").raw, context.profile.n_verses)
    cut, alone = costly_heads(found), heads_in(context.get("best_heads").raw["heads"])
    one, but_one = one_head_masks(subject.model), all_but_one_masks(subject.model)
    masks = {
        "none": ones_mask(subject.model),
        **{f"without {head}": one[head] for head in cut},
        **{f"only {head}": but_one[head] for head in alone},
    }
    pairs = subject.split("test").first(_VERSES)

    def counted(mask: HeadTensors, beams: int) -> Arrays:
        with masked_heads(subject.model, mask):
            made = subject.translator.translate(pairs.sources, beams=beams)
        return {"counts": pack(sentence_counts(made, pairs.targets))}

    units = run_units(
        {
            f"{subject.key} beam {beams} {name}": lambda mask=mask, beams=beams: counted(
                mask, beams
            )
            for name, mask in masks.items()
            for beams in BEAMS
        },
        context.journal,
        "greedy and beam search",
    )
    counts = np.stack([unit["counts"] for unit in units.values()])
    lengths = sentence_counts(pairs.targets, pairs.targets)[:, -1]
    raw = {
        "heads": heads_array([*cut, *alone]),
        "reference_lengths": lengths,
        "alone": np.arange(len(cut) + len(alone)) >= len(cut),
        "counts": counts.reshape(len(masks), len(BEAMS), *counts.shape[1:]),
    }
    return subject.measured(raw, len(pairs))


def costly_heads(raw: Arrays) -> list[Head]:
    """Of each kind the heads without which the uncut model's translation is least likely."""
    order = np.argsort(-raw["draft_loss_change"].sum(-1), kind="stable")
    heads = [heads_in(raw["heads"])[row] for row in order]
    return [head for kind in KINDS for head in [h for h in heads if h[0] == kind][:_HEADS]]


@dataclass(frozen=True)
class Statistics:
    """Resamples of the intervals over cuts, and random halves of the verses."""

    resamples: int = 10_000
    splits: int = 200
    seed: int = 0


class Values(TypedDict):
    """By way of search: BLEU uncut, and how its changes rank cuts beside the other's."""

    bleu: dict[str, float]
    cuts: list[dict[str, Any]]
    spearman: dict[str, Correlation]
    pearson: dict[str, Correlation]
    reliability: dict[str, float]


def _summarise(_half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    raw = outcomes[OUTCOMES]
    counts = unpack(raw["counts"], raw["reference_lengths"])  # (1 + M, beams, verses, 10)
    bleu = corpus_bleu(counts.sum(-2))
    change, names = bleu[1:] - bleu[:1], [f"beam {beams}" for beams in BEAMS]
    reliability = [
        stats.split_half_reliability_of(
            corpus_bleu, counts[0, i], counts[1:, i], statistics.splits, statistics.seed
        )
        for i in range(len(BEAMS))
    ]
    groups = {
        "all": np.full(len(change), True),
        "one head cut": ~raw["alone"],
        "one head left in a layer": raw["alone"],
    }
    return {
        "bleu": dict(zip(names, bleu[0], strict=True)),
        "cuts": [
            {
                "kind": kind,
                "layer": layer,
                "head": head,
                "alone": bool(alone),
                **dict(zip(names, row, strict=True)),
            }
            for (kind, layer, head), alone, row in zip(
                heads_in(raw["heads"]), raw["alone"], change, strict=True
            )
        ],
        "spearman": {
            name: correlation_record(
                *change[rows].T, "spearman", statistics.resamples, statistics.seed
            )
            for name, rows in groups.items()
        },
        "pearson": {
            name: correlation_record(
                *change[rows].T, "pearson", statistics.resamples, statistics.seed
            )
            for name, rows in groups.items()
        },
        "reliability": dict(zip(names, reliability, strict=True)),
    }


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"heads": _HEADS, "n_search": _VERSES, "n_verses": profile.n_verses}


def _own(_profile: Profile, _half: Half, _part: str) -> Own:
    return Own(needs=(one_head, best_heads))


MEASUREMENTS = (
    Measurement(
        "search",
        2,
        {"translation": Statistics()},
        _parameters,
        _measure,
        _summarise,
        ("translation",),
        own=_own,
    ),
)
