"""Does cutting a head do the same on text of another domain (section 3.4: Figures 2a and 2b)?

The translators' far text is the King James Version of the chapters kept for I_h, none of them a test
or training chapter: the same target language, an archaic source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from headprune_lib.ablation import one_head_masks
from headprune_lib.replication import stats
from headprune_lib.replication.data import TASKS, TRANSLATION_TASKS
from headprune_lib.replication.measurements.accuracy import Tests, baseline
from headprune_lib.replication.measurements.measurement import (
    HALVES,
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.measurements.one_head import ONE_HEAD
from headprune_lib.replication.measurements.records import (
    Correlation,
    correlation_record,
    partial_record,
)
from headprune_lib.replication.metrics import MILLINAT, corpus_bleu
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import OUTCOMES, Arrays, Measured, Outcomes
from headprune_lib.replication.store.heads import rows_of
from headprune_lib.replication.store.verses import all_counts, first_verses


@dataclass(frozen=True)
class Statistics:
    """Resamples of the intervals over heads, and random halves of the examples."""

    splits: int
    resamples: int = 10_000
    seed: int = 0


class Agreement(TypedDict):
    """How the effects of the same cuts on two texts correlate, and what noise allows.

    ``left_out`` has the least and the largest Spearman correlation with any one head left out,
    ``within`` that of all heads with the layer held fixed.
    """

    pearson: Correlation
    spearman: Correlation
    within: Correlation
    left_out: list[float]
    reliability: list[float]
    ceiling: float


class Values(TypedDict, total=False):
    """``correlations``: of the encoder half, other domain -> measure -> agreement."""

    in_domain: str
    baselines: dict[str, Any]
    heads: list[dict[str, Any]]
    correlations: dict[str, Any]


# --- a classifier ---------------------------------------------------------------------------------


def _measure_encoder(context: Context) -> Measured:
    profile = context.profile
    if not profile.domains:
        raise ValueError(
            f"{profile.task} has no text of another domain here; figure2b is for "
            "reviews, sst2, snli and mnli, or give domains of your own"
        )
    subject = EncoderSubject.of(profile)
    raw = {f"{profile.task}/{name}": array for name, array in context.get("one_head").raw.items()}
    for domain in profile.domains:
        examples = TASKS[domain].split("test", profile.data).first(profile.n_domain)
        found = subject.sweep("one head", examples, context.journal, domain)
        raw |= {f"{domain}/{name}": array for name, array in found.items()}
    return subject.measured({**raw, "domains": np.array([profile.task, *profile.domains])})


def _summarise_encoder(raw: Arrays, statistics: Statistics) -> Values:
    home, *others = [str(name) for name in raw["domains"]]
    parts = {name: _domain(raw, name) for name in (home, *others)}
    heads = parts[home]["heads"]
    effects = {name: _effects(part, heads) for name, part in parts.items()}
    records = [
        {
            "kind": "self",
            "layer": int(layer),
            "head": int(head),
            **{
                f"{measure} {name}": effects[name][measure][i].mean()
                for name in parts
                for measure in ("accuracy", "loss")
            },
        }
        for i, (layer, head) in enumerate(heads)
    ]
    return {
        "in_domain": home,
        "baselines": {
            name: {**baseline(part, Tests()), "n_examples": len(part["correct_uncut"])}
            for name, part in parts.items()
        },
        "heads": records,
        "correlations": {
            name: {
                measure: _correlation(
                    effects[home][measure], effects[name][measure], heads[:, 0], statistics
                )
                for measure in ("accuracy", "loss")
            }
            for name in others
        },
    }


def _domain(raw: Arrays, name: str) -> Arrays:
    return {key.split("/", 1)[1]: raw[key] for key in raw if key.startswith(f"{name}/")}


def _effects(part: Arrays, heads: np.ndarray) -> dict[str, np.ndarray]:
    """Per-example effects (heads, examples): change of accuracy, and of loss in nats."""
    rows = rows_of(heads, part["heads"])
    return {
        "accuracy": part["correct"][rows].astype(np.int8) - part["correct_uncut"].astype(np.int8),
        "loss": part["loss_change"][rows] / MILLINAT,
    }


def _correlation(
    inside: np.ndarray, outside: np.ndarray, layers: np.ndarray, statistics: Statistics
) -> Agreement:
    """Pearson and Spearman of the heads' mean effects, with the ceiling that noise sets."""
    x, y = inside.mean(-1), outside.mean(-1)
    reliability = [
        stats.split_half_reliability(side, statistics.splits, statistics.seed)
        for side in (inside, outside)
    ]
    return _agreement(x, y, layers, reliability, statistics)


def _agreement(
    x: np.ndarray,
    y: np.ndarray,
    layers: np.ndarray,
    reliability: list[float],
    statistics: Statistics,
) -> Agreement:
    return {
        **{
            method: correlation_record(x, y, method, statistics.resamples, statistics.seed)
            for method in ("pearson", "spearman")
        },
        "within": partial_record(x, y, layers, statistics.resamples, statistics.seed),
        "left_out": stats.spearman_without_one(x, y),
        "reliability": reliability,
        "ceiling": stats.correlation_ceiling(*reliability),
    }


# --- a translator ---------------------------------------------------------------------------------


def _measure_translation(context: Context) -> Measured:
    profile = context.profile
    subject = TranslationSubject.of(profile, context.task)
    masks = {
        head: mask for head, mask in one_head_masks(subject.model).items() if head[0] == "enc-enc"
    }
    far = subject.far(profile.translation_far)
    raw = subject.sweep_heads(
        far, masks, context.journal, f"one head cut, {profile.translation_far}"
    )
    home = first_verses(context.get("one_head").raw, profile.n_verses)
    rows = rows_of(raw["heads"], home["heads"])
    kept = {
        name: values[rows] if name.endswith("_change") else values
        for name, values in home.items()
        if name != "heads"
    }
    raw = {
        "heads": raw.pop("heads"),
        **{f"far_{name}": values for name, values in raw.items()},
        **{f"home_{name}": values for name, values in kept.items()},
    }
    return subject.measured(
        raw,
        len(far),
        dataset=f"{profile.translation_far}/{TRANSLATION_TASKS[profile.translation_far].far}",
    )


def _summarise_translation(raw: Arrays, statistics: Statistics) -> Values:
    effects, reliability, baselines = {}, {}, {}
    for place in ("home", "far"):
        uncut, cuts = all_counts(raw, f"{place}_")
        baselines[place] = float(corpus_bleu(uncut.sum(0)))
        loss = raw[f"{place}_draft_loss_change"] / MILLINAT
        effects[place] = {
            "bleu": corpus_bleu(cuts.sum(1)) - baselines[place],
            "loss": loss.mean(-1),
        }
        reliability[place] = {
            "bleu": stats.split_half_reliability_of(
                corpus_bleu, uncut, cuts, statistics.splits, statistics.seed
            ),
            "loss": stats.split_half_reliability(loss, statistics.splits, statistics.seed),
        }
    correlations = {}
    for measure in ("bleu", "loss"):
        sides = effects["home"][measure], effects["far"][measure]
        both = [reliability[place][measure] for place in ("home", "far")]
        correlations[measure] = _agreement(*sides, raw["heads"][:, 1], both, statistics)
    heads = [
        {
            "layer": int(layer),
            "head": int(head),
            **{
                f"{measure} {place}": effects[place][measure][i]
                for place in effects
                for measure in ("bleu", "loss")
            },
        }
        for i, (_, layer, head) in enumerate(raw["heads"])
    ]
    return {"baselines": baselines, "heads": heads, "correlations": correlations}


# --- both -----------------------------------------------------------------------------------------


def _measure(context: Context, _part: str) -> Measured:
    return (_measure_encoder if context.half == "encoder" else _measure_translation)(context)


def _summarise(half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    summarise = _summarise_encoder if half == "encoder" else _summarise_translation
    return summarise(outcomes[OUTCOMES], statistics)


def _parameters(profile: Profile, half: Half) -> dict[str, Any]:
    if half == "translation":
        return {"n_verses": profile.n_verses}
    return {
        "n_examples": profile.n_examples,
        "n_domain": profile.n_domain,
        "domains": profile.domains,
    }


def _texts(profile: Profile, half: Half, task: str) -> tuple[str, ...]:
    return (task, *(profile.domains if half == "encoder" else (profile.translation_far,)))


def _own(_profile: Profile, _half: Half, _part: str) -> Own:
    return Own(needs=(ONE_HEAD,))


MEASUREMENTS = (
    Measurement(
        "across_domains",
        1,
        {"encoder": Statistics(splits=200), "translation": Statistics(splits=100)},
        _parameters,
        _measure,
        _summarise,
        HALVES,
        own=_own,
        texts=_texts,
    ),
)
