"""Does the order of removal still matter once a model is trained again? Not in the paper.

A part is an order, a share of the heads and a way of training: ``"random 40% all weights"``. The
uncut model, order ``"uncut"``, is trained in the same ways: what it gains is not recovery.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.lazy import (
    generation,
    masking,
    selection,
    setups,
    torch,
    utils,
)
from headprune_lib.replication.measurements.base import (
    HALVES,
    Constants,
    Context,
    Half,
    Own,
    measurement,
)
from headprune_lib.replication.measurements.estimates import (
    Drawn,
    Scored,
    of_answers,
    of_losses,
    of_translations,
)
from headprune_lib.replication.measurements.orders import Subject, measured_answers, n_cut
from headprune_lib.replication.measurements.which_first import which_first
from headprune_lib.replication.metrics import MILLINAT, corpus_bleu, millinats, pack
from headprune_lib.replication.models import encoders as of_encoders
from headprune_lib.replication.models import translators as of_translators
from headprune_lib.replication.models.encoders import WAYS, Way, evaluate
from headprune_lib.replication.order_names import RANDOM, mask_key, parse_part, read_name
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Measured, Outcomes
from headprune_lib.replication.store.packing import heads_array, heads_in

NO_ORDER = "uncut"


class Asked(NamedTuple):
    """What a part's name says: an order, the share of heads removed, and a way of training."""

    order: str
    share: float
    way: Way


def name_of(order: str, share: float, way: Way) -> str:
    """The name of a part.

    >>> name_of("random", 0.4, "LoRA")
    'random 40% LoRA'
    """
    return f"{order} {share:.0%} {way}"


def read_part(name: str) -> Asked:
    """The order, share and way of training in a part's name.

    >>> read_part("importance rescored 40% all weights")
    Asked(order='importance rescored', share=0.4, way='all weights')

    Raises:
        ValueError: not the name of a part.
    """
    named = parse_part(name, "share")
    if named.share is None or named.share > 1 or named.way not in WAYS or not named.order:
        raise ValueError(
            f"{name!r} is not a part of recovery. Give an order, a share and a way of training: "
            f"{name_of('importance', 0.4, WAYS[0])!r} or {name_of('random', 0.2, WAYS[1])!r}"
        )
    return Asked(named.order, named.share, named.way)


def _without(subject: Subject, mask: masking.HeadTensors) -> Arrays:
    """Answers without the heads that a mask cuts, before training again."""
    model = subject.pruned(mask)
    sizes = [utils.n_parameters(sized) for sized in (subject.model, model)]
    return {**_stored("before", _answers(subject, model)), "parameters": np.array(sizes)}


def _trained_without(subject: Subject, mask: masking.HeadTensors, way: Way) -> Arrays:
    """Answers without these heads after training again, and its duration in seconds."""
    model = subject.pruned(mask)
    models = of_encoders if isinstance(subject, setups.EncoderSubject) else of_translators
    started = time.perf_counter()
    model = models.retrained(subject, model, way, mask_key(mask))
    seconds = time.perf_counter() - started
    return {**_stored("after", _answers(subject, model)), "seconds": np.array(seconds)}


def _stored(when: str, answers: Arrays) -> Arrays:
    """Answers under their names in a result; losses in thousandths of a nat."""
    return {
        f"{name}_{when}": millinats(values) if name == "loss" else values
        for name, values in answers.items()
    }


def _answers(subject: Subject, model: torch.nn.Module) -> Arrays:
    """Outcomes that a score is computed from, one per test text, and the ``loss`` (n,) in nats.

    For a translator, counts of greedy translations, and the mean loss of a reference's pieces.

    Args:
        model: the subject's model, as it is, pruned, or pruned and trained again.
    """
    if isinstance(subject, setups.EncoderSubject):
        return evaluate(model, subject.batches(subject.test), None)
    pairs, translator = subject.headline, dataclasses.replace(subject.translator, model=model)
    rows = generation.generate(model, translator.encode(pairs.sources))
    counts = translator.pieces.counts(rows, pairs.targets)[""]
    loss = dataclasses.replace(subject, translator=translator).piece_losses(pairs)
    return {"counts": pack(counts), "loss": loss}


# --- what training again brings back --------------------------------------------------------------


@dataclass(frozen=True)
class _Runs:
    """An order's runs at one stage: scores (runs,), the means of scores and losses, and chance."""

    scores: np.ndarray
    score: Drawn
    loss: Drawn
    chance: float


def _at(raw: Arrays, when: str, statistics: Constants) -> _Runs:
    """A part's runs: ``"uncut"``, or without heads ``"before"`` or ``"after"`` training again."""
    loss = of_losses(np.atleast_2d(raw[f"loss_{when}"]) / MILLINAT)
    if "labels" in raw:
        score = of_answers(np.atleast_2d(raw[f"correct_{when}"]), raw)
    else:
        counts = raw[f"counts_{when}"]
        bleu = of_translations(counts.reshape(-1, *counts.shape[-2:]), raw["reference_lengths"])
        score = Scored(bleu.counts, lambda sums: corpus_bleu(sums) / 100)
    means = (of.drawn(statistics).map(lambda runs: runs.mean(-1)) for of in (score, loss))
    return _Runs(score.scores, *means, score.chance)


def _state(runs: _Runs, whole: _Runs) -> dict[str, Any]:
    """Means over an order's runs, with 95% intervals over test examples; ``runs`` has each score.

    ``kept`` is the share that is kept of the uncut model's score above chance before it is trained
    again; ``loss`` is in nats, for a translator the mean over a reference's pieces.
    """
    kept = runs.score.map(
        lambda score, uncut: stats.kept_above_chance(score, uncut, whole.chance), whole.score
    )
    return {
        "score": runs.score.value,
        "interval": runs.score.interval,
        "runs": runs.scores,
        "kept": kept.value,
        "kept_interval": kept.interval,
        "loss": runs.loss.value,
        "loss_interval": runs.loss.interval,
    }


# --- the measurement ------------------------------------------------------------------------------


def _parts(profile: Profile, half: Half) -> tuple[str, ...]:
    recovery = profile.recovery
    ways = recovery.ways if half == "encoder" else WAYS[:1]
    wanted = [(NO_ORDER, 0.0)]
    wanted += [(order, share) for share in recovery.shares for order in (*recovery.orders, RANDOM)]
    return tuple(name_of(order, share, way) for way in ways for order, share in wanted)


def _own(profile: Profile, half: Half, part: str) -> Own:
    order, _, way = read_part(part)
    encoder = half == "encoder"
    trained = of_encoders.recipe_of(profile, way) if encoder else of_translators.recipe_of(profile)
    values: dict[str, Any] = {"part": part, "trained": trained}
    if order == RANDOM:
        values["draws"] = profile.recovery.random_orders
    elif order != NO_ORDER:
        values |= {"n_scoring": profile.n_scoring} if encoder else {}
        values["criterion"] = read_name(order).criterion.version
    return Own(values, needs=() if order == NO_ORDER else (which_first,))


@measurement(
    "recovery",
    version=1,
    parameters={"encoder": ["n_examples"], "translation": ["n_headline"]},
    statistics=Constants(resamples=10_000, seed=0),
    halves=HALVES,
    parts=_parts,
    own=_own,
)
def recovery(context: Context, part: str) -> Measured:
    """Answers without the removed heads of every run, before and after training again."""
    order, share, way = read_part(part)
    subject = context.subject(kernel="eager")  # which is faster to train
    if order == NO_ORDER:
        cuts: list[list[selection.Head]] = [[]]
    else:
        followed = context.get(which_first.name, [order]).parts[order].raw["order"]
        followed = followed[: context.profile.recovery.random_orders]
        cuts = [heads_in(heads[: n_cut(len(heads), share)]) for heads in followed]
    masks = [selection.order_mask(subject.model, cut, len(cut)) for cut in cuts]

    def of_every_run(name: str, measure: Callable[[masking.HeadTensors], Arrays]) -> Arrays:
        keys = [f"{subject.key} {mask_key(mask)} {name}" for mask in masks]
        # two draws may cut the same heads, which are then trained once
        units = {key: partial(measure, mask) for key, mask in zip(keys, masks, strict=True)}
        done = run_units(units, context.journal, part, here=True)
        return {what: np.stack([done[key][what] for key in keys]) for what in done[keys[0]]}

    raw = of_every_run("before", lambda mask: _without(subject, mask))
    raw |= context.settled(
        ["*_after", "seconds"],
        lambda: of_every_run(way, lambda mask: _trained_without(subject, mask, way)),
        costly=True,
    )
    raw |= _stored("uncut", _answers(subject, subject.model))
    columns = heads_array([(kind, 0, 0) for kind in masking.ones_mask(subject.model)]).shape[1]
    raw["heads"] = np.stack([heads_array(cut).reshape(len(cut), columns) for cut in cuts])
    if context.half == "translation":
        empty = [[] for _ in subject.headline.targets]
        counts = subject.translator.pieces.counts(empty, subject.headline.targets)
        raw["reference_lengths"] = counts[""][:, -1]
    return measured_answers(subject, raw, subject.headline)


@recovery.summary
def _(outcomes: Outcomes, statistics: Constants) -> dict[str, Any]:
    """Values of all parts, on the same resamples of test examples.

    Rows are sorted by way of training, share and order, whichever part was measured first.

    Returns:
        ``chance`` (the best score of a constant answer), ``whole`` (the uncut model's score),
        ``recovered`` (a row per part: how many heads are ``removed``, ``parameters`` before and
        ``left`` after, ``seconds`` per training, and :func:`_state` before and after it) and
        ``leads`` (an order's score and loss minus the mean of the random orders', before and after
        training). BLEU is a fraction: 0.25 is printed as 25.
    """
    parts = {read_part(part): raw for part, raw in outcomes.items()}
    asked_for = sorted(parts, key=lambda asked: (asked.way == "LoRA", asked.share, asked.order))
    whole = _at(parts[asked_for[0]], "uncut", statistics)
    states = {
        asked: {when: _at(parts[asked], when, statistics) for when in ("before", "after")}
        for asked in asked_for
    }
    recovered, leads = [], []
    for asked, state in states.items():
        raw, others = parts[asked], states.get(asked._replace(order=RANDOM))
        parameters, left = raw["parameters"].mean(0)  # every run removes equally many heads
        recovered.append(
            {
                **asked._asdict(),
                "removed": raw["heads"].shape[1],
                "parameters": round(parameters),
                "left": round(left),
                "seconds": float(raw["seconds"].mean()),
                **{when: _state(runs, whole) for when, runs in state.items()},
            }
        )
        if others and asked.order not in (NO_ORDER, RANDOM):
            lead = {
                f"{what}{when}": (getattr(runs, of) - getattr(others[when], of)).difference
                for what, of in (("", "score"), ("loss_", "loss"))
                for when, runs in state.items()
            }
            leads.append({**asked._asdict(), **lead})
    return {
        "chance": whole.chance,
        "whole": whole.score.value,
        "recovered": recovered,
        "leads": leads,
    }
