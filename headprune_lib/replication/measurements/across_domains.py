"""Does cutting a head have the same effect in another domain (section 3.4: Figures 2a and 2b)?

The translators' other domain is the King James Version of the chapters kept for I_h, none of them
a test or training chapter: the same target language, an archaic source.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    Half,
    measurement,
    of_training,
    seed_of,
)
from headprune_lib.replication.measurements.estimates import correlation_record, partial_record
from headprune_lib.replication.measurements.single_heads import Accuracy, of_cuts, one_head
from headprune_lib.replication.metrics import MILLINAT, corpus_bleu
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Measured, prefixed, unprefixed
from headprune_lib.replication.store.packing import all_counts, first_verses, rows_of

# resamples are over heads, and splits halve the examples
_STATISTICS: dict[Half, Constants] = {
    "encoder": Constants(splits=200, resamples=10_000, seed=0),
    "translation": Constants(splits=100, resamples=10_000, seed=0),
}


def _texts(profile: Profile, half: Half, task: str) -> tuple[str, ...]:
    return (task, *(profile.domains if half == "encoder" else (profile.translation_far,)))


@measurement(
    "across_domains",
    version=1,
    parameters={"encoder": ["n_examples", "n_domain", "domains"], "translation": ["n_verses"]},
    statistics=_STATISTICS,
    halves=HALVES,
    own=lambda part: replace(of_training(part), needs=(one_head,)),
    texts=_texts,
)
def across_domains(context: Context, part: str) -> Measured:
    """Outcomes with each head cut, on the test texts and on texts of other domains."""
    return (_of_classifier if context.half == "encoder" else _of_translator)(context, part)


def _home(context: Context, part: str) -> Arrays:
    """The outcomes on the test texts, with the same training."""
    return context.get("one_head", [part]).parts[part].raw


def _of_classifier(context: Context, part: str) -> Measured:
    profile = context.profile
    if not profile.domains:
        raise ValueError(
            f"{profile.task} has no text of another domain in profile {profile.name}. Use "
            "reviews, sst2, snli or mnli in profile default, or give domains of your own"
        )
    subject = context.subject(seed_of(part))
    raw = prefixed(f"{profile.task}/", _home(context, part))
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
    home = first_verses(_home(context, part), profile.n_verses)
    heads = raw.pop("heads")
    home = of_cuts(home, rows_of(heads, home["heads"]))
    del home["heads"]
    return subject.measured(
        {"heads": heads, **prefixed("far_", raw), **prefixed("home_", home)},
        n_examples=len(far),
        dataset=f"{profile.translation_far}/{TRANSLATION_TASKS[profile.translation_far].far}",
    )


@across_domains.summary
def _(half: Half, raw: Arrays, statistics: Constants) -> dict[str, Any]:
    """The effect of each head in each domain, and how these effects correlate.

    ``correlations`` is other domain -> measure -> agreement for a classifier, and measure ->
    agreement for a translator.
    """
    summarise = _summarise_classifier if half == "encoder" else _summarise_translator
    return summarise(raw, statistics)


def _summarise_classifier(raw: Arrays, statistics: Constants) -> dict[str, Any]:
    home, *others = [str(name) for name in raw["domains"]]
    parts = {domain: unprefixed(f"{domain}/", raw) for domain in (home, *others)}
    heads, effects, reliability = parts[home]["heads"], {}, {}
    for domain, part in parts.items():
        rows = rows_of(heads, part["heads"])
        # (heads, examples): change of accuracy, and of loss in nats
        changed = part["correct"][rows].astype(np.int8) - part["correct_uncut"].astype(np.int8)
        each = {"accuracy": changed, "loss": part["loss_change"][rows] / MILLINAT}
        effects[domain] = {measure: values.mean(-1) for measure, values in each.items()}
        reliability[domain] = {
            measure: stats.split_half_reliability(values, statistics.splits, statistics.seed)
            for measure, values in each.items()
        }
    return {
        "in_domain": home,
        "baselines": {
            domain: {**Accuracy().baseline(part), "n_examples": len(part["correct_uncut"])}
            for domain, part in parts.items()
        },
        "heads": [
            {"kind": "self", **record} for record in _records(heads, effects, ("accuracy", "loss"))
        ],
        "correlations": {
            other: _agreements((home, other), effects, reliability, heads[:, 0], statistics)
            for other in others
        },
    }


def _summarise_translator(raw: Arrays, statistics: Constants) -> dict[str, Any]:
    effects, reliability, baselines = {}, {}, {}
    for side in ("home", "far"):
        uncut, cuts = all_counts(raw, f"{side}_")
        baselines[side] = float(corpus_bleu(uncut.sum(0)))
        loss = raw[f"{side}_draft_loss_change"] / MILLINAT
        effects[side] = {
            "bleu": corpus_bleu(cuts.sum(1)) - baselines[side],
            "loss": loss.mean(-1),
        }
        reliability[side] = {
            "bleu": stats.split_half_reliability_of(
                corpus_bleu, uncut, cuts, statistics.splits, statistics.seed
            ),
            "loss": stats.split_half_reliability(loss, statistics.splits, statistics.seed),
        }
    heads = raw["heads"][:, 1:]
    return {
        "baselines": baselines,
        "heads": _records(heads, effects, ("bleu", "loss")),
        "correlations": _agreements(("home", "far"), effects, reliability, heads[:, 0], statistics),
    }


Effects = dict[str, dict[str, Any]]
"""Domain -> measure -> the effect of each head, (heads,), or the reliability of the effects."""


def _records(heads: np.ndarray, effects: Effects, measures: Sequence[str]) -> list[dict]:
    return [
        {
            "layer": int(layer),
            "head": int(head),
            **{
                f"{measure} {side}": effects[side][measure][i]
                for side in effects
                for measure in measures
            },
        }
        for i, (layer, head) in enumerate(heads)
    ]


def _agreements(
    places: tuple[str, str],
    effects: Effects,
    reliability: Effects,
    layers: np.ndarray,
    statistics: Constants,
) -> dict[str, Any]:
    """By measure, the correlations of the same cuts' effects in two domains, and their ceiling.

    ``left_out`` has the smallest and largest Spearman correlation with any one head left out,
    ``within`` that of all heads with the layer held fixed.
    """
    agreements = {}
    for measure in effects[places[0]]:
        x, y = (effects[side][measure] for side in places)
        both = [reliability[side][measure] for side in places]
        agreements[measure] = {
            **{method: correlation_record(x, y, method, statistics) for method in _METHODS},
            "within": partial_record(x, y, layers, statistics),
            "left_out": stats.spearman_without_one(x, y),
            "reliability": both,
            "ceiling": stats.correlation_ceiling(*both),
        }
    return agreements


_METHODS = ("pearson", "spearman")
