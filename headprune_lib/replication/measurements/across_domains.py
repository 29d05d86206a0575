"""Does cutting a head have the same effect in another domain (section 3.4: Figures 2a and 2b)?

The translators' other domain is the King James Version of the chapters kept for I_h, none of them
a test or training chapter: the same target language, an archaic source.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.data import TASKS, TRANSLATION_TASKS
from headprune_lib.replication.lazy import setups
from headprune_lib.replication.measurements.base import (
    HALVES,
    Constants,
    Context,
    measurement,
    of_training,
    seed_of,
)
from headprune_lib.replication.measurements.estimates import correlation_record, partial_record
from headprune_lib.replication.measurements.single_heads import (
    TESTS,
    baseline,
    of_cuts,
    one_head,
    scored_cuts,
)
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.store import Arrays, Measured, prefixed, unprefixed
from headprune_lib.replication.store.packing import first_verses, rows_of


@measurement(
    "across_domains",
    version=1,
    parameters={"encoder": ["n_examples", "n_domain", "domains"], "translation": ["n_verses"]},
    # resamples are over heads, and splits halve the examples
    statistics={
        "encoder": Constants(splits=200, resamples=10_000, seed=0),
        "translation": Constants(splits=100, resamples=10_000, seed=0),
    },
    halves=HALVES,
    own=lambda part: replace(of_training(part), needs=(one_head,)),
    texts=lambda profile, half, task: (
        task,
        *(profile.domains if half == "encoder" else [profile.translation_far]),
    ),
)
def across_domains(context: Context, part: str) -> Measured:
    """Outcomes with each head cut, on the test texts and on texts of other domains."""
    profile = context.profile
    if context.half == "translation":
        return _of_translator(context, part)
    if not profile.domains:
        raise ValueError(
            f"{profile.task} has no text of another domain in profile {profile.name}. Use "
            "reviews, sst2, snli or mnli in profile default, or give domains of your own"
        )
    subject = context.subject(seed_of(part))
    raw = prefixed(f"{profile.task}/", context.get("one_head", [part]).parts[part].raw)
    for domain in profile.domains:
        examples = TASKS[domain].split("test", profile.data).first(profile.n_domain)
        examples = setups.measured_on(examples)
        effects = subject.sweep("one head", examples, context.journal, domain)
        raw |= prefixed(f"{domain}/", effects)
    return subject.measured({**raw, "domains": np.array([profile.task, *profile.domains])})


def _of_translator(context: Context, part: str) -> Measured:
    profile = context.profile
    if profile.translation_far == context.task:
        raise ValueError(
            f"{context.task} has no text of another domain. Name its two files as `far` in task.yml"
        )
    subject = context.subject(seed_of(part))
    heads = [head for head in subject.heads if head[0] == "enc-enc"]
    far = subject.far(profile.translation_far)
    raw = subject.sweep("one head", far, context.journal, profile.translation_far, only=heads)
    heads = raw.pop("heads")
    home = first_verses(context.get("one_head", [part]).parts[part].raw, profile.n_verses)
    home = of_cuts(home, rows_of(heads, home["heads"]))
    del home["heads"]
    return subject.measured(
        {"heads": heads, **prefixed("far_", raw), **prefixed("home_", home)},
        n_examples=len(far),
        dataset=f"{profile.translation_far}/{TRANSLATION_TASKS[profile.translation_far].far}",
    )


@across_domains.summary
def _(raw: Arrays, statistics: Constants) -> dict[str, Any]:
    """The effect of each head in each domain, and how these effects correlate.

    ``correlations`` is other domain -> measure -> agreement for a classifier, and measure ->
    agreement for a translator.
    """
    if "domains" not in raw:
        heads = raw["heads"][:, 1:]
        cuts = {side: unprefixed(f"{side}_", raw) for side in ("home", "far")}
        effects = {side: _effects(side_cuts, statistics) for side, side_cuts in cuts.items()}
        return {
            "baselines": {
                side: float(scored_cuts(side_cuts).scores[0]) for side, side_cuts in cuts.items()
            },
            "heads": _records(heads, effects),
            "correlations": _agreements(*effects.values(), heads[:, 0], statistics),
        }
    home, *others = [str(name) for name in raw["domains"]]
    cuts = {domain: unprefixed(f"{domain}/", raw) for domain in (home, *others)}
    heads = cuts[home]["heads"]
    effects = {
        domain: _effects(of_cuts(each, rows_of(heads, each["heads"])), statistics)
        for domain, each in cuts.items()
    }
    return {
        "in_domain": home,
        "baselines": {
            domain: {
                **baseline(each, TESTS["encoder"]),
                "n_examples": len(each["correct_uncut"]),
            }
            for domain, each in cuts.items()
        },
        "heads": [{"kind": "self", **record} for record in _records(heads, effects)],
        "correlations": {
            other: _agreements(effects[home], effects[other], heads[:, 0], statistics)
            for other in others
        },
    }


Effects = dict[str, tuple[np.ndarray, float]]
"""Measure -> the effect of each head in a domain, (heads,), and the reliability of the effects."""


def _effects(cuts: Arrays, statistics: Constants) -> Effects:
    """The change of the score, and of the loss in nats, with each head cut."""
    splits = statistics.splits, statistics.seed

    def mean(changes: np.ndarray) -> tuple[np.ndarray, float]:
        return changes.mean(-1), stats.split_half_reliability(changes, *splits)

    if "correct" in cuts:
        changed = cuts["correct"].astype(np.int8) - cuts["correct_uncut"].astype(np.int8)
        return {"accuracy": mean(changed), "loss": mean(cuts["loss_change"] / MILLINAT)}
    bleu = scored_cuts(cuts)
    reliability = stats.split_half_reliability_of(bleu.of, bleu.counts, *splits)
    change = bleu.scores[1:] - bleu.scores[0]
    return {"bleu": (change, reliability), "loss": mean(cuts["draft_loss_change"] / MILLINAT)}


def _records(heads: np.ndarray, effects: dict[str, Effects]) -> list[dict]:
    return [
        {
            "layer": layer,
            "head": head,
            **{
                f"{measure} {domain}": effect[i]
                for domain, measures in effects.items()
                for measure, (effect, _) in measures.items()
            },
        }
        for i, (layer, head) in enumerate(heads.tolist())
    ]


def _agreements(
    home: Effects, other: Effects, layers: np.ndarray, statistics: Constants
) -> dict[str, Any]:
    """By measure, the correlations of the same cuts' effects in two domains, and their ceiling.

    ``left_out`` has the smallest and largest Spearman correlation with any one head left out,
    ``within`` that of all heads with the layer held fixed.
    """
    agreements = {}
    for measure, (x, reliability) in home.items():
        y, other_reliability = other[measure]
        agreements[measure] = {
            **{
                method: correlation_record(x, y, method, statistics)
                for method in ("pearson", "spearman")
            },
            "within": partial_record(x, y, layers, statistics),
            "left_out": stats.spearman_without_one(x, y),
            "reliability": [reliability, other_reliability],
            "ceiling": stats.correlation_ceiling(reliability, other_reliability),
        }
    return agreements
