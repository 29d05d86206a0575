"""The score without each head, and with one head alone in a layer (sections 3.2, 3.3, appendix A).

``one_head`` is Table 1 and Figure 1; the paper shows the encoder's own heads of a translator, those
of the other two kinds are measured too. ``all_but_one`` keeps every head alone in turn and chooses
the best of a layer on the very test set that it reports (the paper's way in Tables 2 and 3, with
which no p-value is valid). ``best_heads`` chooses on training sentences, or on the validation
chapters, as the paper's Tables 5 and 6 do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from headprune_lib.replication.data import TRANSLATION_TASKS
from headprune_lib.replication.measurements.base import (
    HALVES,
    Context,
    Half,
    Own,
    measurement,
    of_training,
    seed_of,
    with_further,
)
from headprune_lib.replication.measurements.effects import (
    METRICS,
    Draws,
    Metric,
    counts,
    effect_records,
    removable_record,
)
from headprune_lib.replication.metrics import corpus_bleu
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import OUTCOMES, Arrays, Measured, Outcomes, prefixed
from headprune_lib.replication.store.heads import heads_array, rows_of
from headprune_lib.replication.store.verses import BESIDE, all_counts, mean_losses

_OF_CUTS = (
    *("heads", "correct", "loss_change"),
    *("counts_change", f"{BESIDE}counts_change", "draft_loss_change"),
)
"""Outcomes that have a row a cut."""


# --- one head cut -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneHeadStatistics:
    """Constants of the tests of every head, and of the share of heads that is removable."""

    tests: Metric
    draws: Draws = field(default_factory=Draws)


@measurement(
    "one_head",
    version=1,
    parameters={"encoder": ["n_examples"], "translation": ["n_headline"]},
    statistics={half: OneHeadStatistics(metric) for half, metric in METRICS.items()},
    halves=HALVES,
    own=of_training,
)
def one_head(context: Context, part: str) -> Measured:
    """Outcomes of all test texts with each head cut in turn."""
    subject = context.subject(seed_of(part))
    texts = subject.headline
    swept = subject.sweep("one head", texts, context.journal, context.task)
    return subject.measured(swept, n_examples=len(texts))


@one_head.summary
def _(half: Half, outcomes: Outcomes, statistics: OneHeadStatistics) -> dict[str, Any]:
    """``counts`` and ``removable`` are of all heads, for a translator by kind; ``truncated`` counts
    long sentences.
    """
    return with_further(outcomes, partial(_without_each, half, statistics))


def _without_each(half: Half, statistics: OneHeadStatistics, raw: Arrays) -> dict[str, Any]:
    metric, draws = statistics.tests, statistics.draws
    records = effect_records(raw, metric)
    drawn = metric.resampled(raw, draws.resamples, draws.seed)
    removable = {}
    for kind in dict.fromkeys(record["kind"] for record in records):
        of_kind = [record for record in records if record["kind"] == kind]
        change = np.array([record["delta"] for record in of_kind])
        low, high = np.array([record["interval"] for record in of_kind]).T
        # records are grouped by kind, outcomes as the model has its layers
        heads = heads_array((kind, record["layer"], record["head"]) for record in of_kind)
        rows = rows_of(heads, raw["heads"])
        removable[kind] = removable_record(change, low, high, drawn[:, rows], metric.delta, draws)
    return {
        "baseline": metric.baseline(raw),
        "heads": records,
        "counts": counts(records, metric),
        "removable": removable["self"] if half == "encoder" else removable,
        "delta_tolerated": metric.delta,
        **({"truncated": int(raw["truncated"])} if "truncated" in raw else {}),
    }


# --- one head left in a layer -----------------------------------------------------------------------


@measurement(
    "all_but_one",
    version=1,
    parameters={"encoder": ["n_examples"], "translation": ["n_verses", "n_headline"]},
    statistics=METRICS,
    halves=HALVES,
)
def all_but_one(context: Context) -> Measured:
    """Outcomes of all test texts with each head kept as the only one of its layer."""
    subject = context.subject()
    texts = subject.tested()
    swept = subject.sweep("all but one", texts, context.journal, context.task)
    return subject.measured(swept, n_examples=len(texts))


@all_but_one.summary
def _(half: Half, outcomes: Outcomes, statistics: Metric) -> dict[str, Any]:
    """``layers`` has the best head of each, ``heads`` every head of an encoder."""
    raw = outcomes[OUTCOMES]
    summary = {
        "baseline": statistics.baseline(raw),
        "layers": effect_records(_rows(raw, best_of_layers(raw)), statistics),
        "chosen_on": "test",
    }
    if half == "encoder":
        shown = ("layer", "head", "delta", "interval")
        records = effect_records(raw, statistics)
        summary["heads"] = [{name: record[name] for name in shown} for record in records]
    return summary


def best_of_layers(raw: Arrays) -> np.ndarray:
    """For each layer (of each kind) the row of its best single head: highest score, lowest loss."""
    layers = raw["heads"][:, :-1]
    if "correct" in raw:
        order = np.lexsort((raw["loss_change"].sum(-1), -raw["correct"].sum(-1)))
    else:
        _, cuts = all_counts(raw)
        loss = mean_losses(raw)["draft_log_loss"][1:]
        order = np.lexsort((loss, -corpus_bleu(cuts.sum(1))))
    return np.array(
        [
            next(i for i in order if (layers[i] == layer).all())
            for layer in np.unique(layers, axis=0)
        ]
    )


def _rows(raw: Arrays, rows: np.ndarray) -> Arrays:
    """The outcomes of some cuts alone."""
    return {name: values[rows] if name in _OF_CUTS else values for name, values in raw.items()}


_CHOSEN_ON: dict[Half, str] = {"encoder": "train", "translation": "valid"}
"""The split that begins the names of outcomes that the best heads were chosen by."""


def _own_of_best(profile: Profile, half: Half, part: str) -> Own:
    # all heads are kept alone on the test set, too, so that the best ones' outcomes are there
    built_on = half == "encoder" and part == OUTCOMES and profile.orders == "every"
    return replace(of_training(part), needs=(all_but_one,) if built_on else ())


@measurement(
    "best_heads",
    version=1,
    parameters={
        "encoder": ["n_examples", "n_selection"],
        "translation": ["n_verses", "n_headline"],
    },
    statistics=METRICS,
    halves=HALVES,
    own=_own_of_best,
)
def best_heads(context: Context, part: str) -> Measured:
    """Outcomes with each layer's best head alone, and those of all heads that it was chosen by.

    No page wants further trainings, for each takes an hour: ``"training 2"`` is measured when asked
    for by name.
    """
    seed, task, journal = seed_of(part), context.task, context.journal
    subject, split = context.subject(seed), _CHOSEN_ON[context.half]
    choice, reported = subject.chosen
    tried = context.settled_under(
        f"{split}_",
        lambda: mean_losses(subject.sweep("all but one", choice, journal, f"{task} ({split})")),
    )
    best = tried["heads"][best_of_layers(tried)]
    if all_but_one in _own_of_best(context.profile, context.half, part).needs:
        raw = context.get("all_but_one").raw
        raw = _rows(raw, rows_of(best, raw["heads"]))
    else:
        raw = subject.alone(best, reported, journal)
    raw |= prefixed(f"{split}_", tried)
    shown = "test" if context.half == "encoder" else TRANSLATION_TASKS[task].chosen[1]
    return subject.measured(raw, n_examples=len(reported), dataset=f"{task}/{shown}")


@best_heads.summary
def _(half: Half, outcomes: Outcomes, statistics: Metric) -> dict[str, Any]:
    """As of ``all_but_one``."""

    def summarise(raw: Arrays) -> dict[str, Any]:
        return {
            "baseline": statistics.baseline(raw),
            "layers": effect_records(raw, statistics),
            "chosen_on": _CHOSEN_ON[half],
            "n_selection": raw["train_correct"].shape[-1]
            if half == "encoder"
            else len(raw["valid_reference_lengths"]),
        }

    return with_further(outcomes, summarise)
