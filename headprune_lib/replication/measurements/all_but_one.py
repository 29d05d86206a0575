"""Each layer reduced to one head (section 3.3, appendix A: Tables 2, 3, 5 and 6).

``all_but_one`` keeps every head alone in turn and chooses the best of a layer on the very test set
that it reports (the paper's way in Tables 2 and 3, with which no p-value is valid). ``best_heads``
chooses on training sentences, or on the validation chapters, as the paper's Tables 5 and 6 do.
"""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np

from headprune_lib.ablation import all_but_one_masks
from headprune_lib.masking import ones_mask
from headprune_lib.replication.data import TRANSLATION_TASKS
from headprune_lib.replication.measurements import accuracy, bleu
from headprune_lib.replication.measurements.measurement import (
    HALVES,
    Context,
    Half,
    Measurement,
    Own,
    Runs,
)
from headprune_lib.replication.metrics import corpus_bleu
from headprune_lib.replication.models.encoders import compact
from headprune_lib.replication.order_names import seed_in
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import UNCUT, EncoderSubject, TranslationSubject
from headprune_lib.replication.store import OUTCOMES, Arrays, Journal, Measured, Outcomes
from headprune_lib.replication.store.heads import heads_in, rows_of
from headprune_lib.replication.store.verses import BESIDE, all_counts, mean_losses

_ROWS = {
    "encoder": ("heads", "correct", "loss_change"),
    "translation": ("heads", "counts_change", f"{BESIDE}counts_change", "draft_loss_change"),
}


class Values(TypedDict, total=False):
    """``layers`` has the best head of each; ``heads`` every head, where all were kept in turn.

    ``further`` has the same of a translator's further trainings, by the names of their parts; no page
    wants these, for each takes an hour: ``"training 2"`` is measured when asked for by name.
    """

    baseline: dict[str, Any]
    layers: list[accuracy.Effect] | list[bleu.Effect]
    heads: list[dict[str, Any]]
    chosen_on: str
    n_selection: int
    further: dict[str, Any]


def best_of_layers(raw: Arrays) -> np.ndarray:
    """For each layer (of each kind) the row of its best single head: highest score, lowest loss."""
    if "correct" in raw:
        layers = raw["heads"][:, :1]
        order = np.lexsort((raw["loss_change"].sum(-1), -raw["correct"].sum(-1)))
    else:
        layers, (_, cuts) = raw["heads"][:, :2], all_counts(raw)
        order = np.lexsort((raw["draft_log_loss"][1:], -corpus_bleu(cuts.sum(1))))
    return np.array(
        [
            next(i for i in order if (layers[i] == layer).all())
            for layer in np.unique(layers, axis=0)
        ]
    )


def _measure_all(context: Context, _part: str) -> Measured:
    profile = context.profile
    if context.half == "encoder":
        subject = EncoderSubject.of(profile)
        return subject.measured(
            subject.sweep("all but one", subject.test, context.journal, profile.task)
        )
    subject = TranslationSubject.of(profile, context.task)
    masks, pairs = all_but_one_masks(subject.model), subject.pairs("test")
    return subject.measured(
        subject.sweep_heads(pairs, masks, context.journal, "all but one"), len(pairs)
    )


def _measure_best(context: Context, part: str) -> Measured:
    profile, journal = context.profile, context.journal
    if context.half == "encoder":
        subject = EncoderSubject.of(profile)
        train = subject.sweep("all but one", subject.selection, journal, f"{profile.task} (train)")
        best = best_of_layers(train)
        if _chosen_on_test_too(profile):
            test = context.get("all_but_one").raw
            rows = rows_of(train["heads"][best], test["heads"])
            test = {**test, **{name: test[name][rows] for name in _ROWS["encoder"]}}
        else:
            test = _alone(subject, train["heads"][best], journal)
        return subject.measured({**test, **{f"train_{name}": train[name] for name in train}})
    seed = None if part == OUTCOMES else seed_in(part)
    subject = TranslationSubject.of_listed(profile, context.task, seed)
    masks, (choice, reported) = all_but_one_masks(subject.model), subject.chosen
    valid = mean_losses(subject.sweep_heads(choice, masks, journal, "all but one (valid)"))
    heads = heads_in(valid["heads"])
    best = {heads[row]: masks[heads[row]] for row in best_of_layers(valid)}
    raw = subject.sweep_heads(reported, best, journal, "the best of each layer")
    raw |= {f"valid_{name}": values for name, values in valid.items()}
    dataset = f"{subject.task}/{TRANSLATION_TASKS[subject.task].chosen[1]}"
    return subject.measured(raw, len(reported), dataset=dataset)


def _chosen_on_test_too(profile: Profile) -> bool:
    """Whether all heads are kept alone on the test set, so that the best ones' outcomes are there."""
    return profile.orders == "every"


def _alone(subject: EncoderSubject, heads: np.ndarray, journal: Journal) -> Arrays:
    """As a sweep, of these heads (layer, head) alone: each is kept as the only one of its layer."""
    masks = all_but_one_masks(subject.model)
    named = {f"only {layer} {head}": masks["self", layer, head] for layer, head in heads.tolist()}
    found = subject.under(
        {UNCUT: ones_mask(subject.model), **named},
        subject.test,
        journal,
        f"the best of each layer, {len(subject.test)} sentences",
    )
    correct, loss = found["correct"], found["loss"]
    return {
        "heads": heads,
        **compact(correct[0], correct[1:], loss[0], loss[1:]),
        "truncated": np.array(subject.batches(subject.test).n_truncated),
    }


def _summarise_all(half: Half, outcomes: Outcomes, _runs: Runs, statistics: Any) -> Values:
    raw, effects = outcomes[OUTCOMES], bleu if half == "translation" else accuracy
    best = best_of_layers(mean_losses(raw) if half == "translation" else raw)
    chosen = {**raw, **{name: raw[name][best] for name in _ROWS[half] if name in raw}}
    found = {
        "baseline": effects.baseline(raw, statistics),
        "layers": effects.effect_records(chosen, statistics),
        "chosen_on": "test",
    }
    if half == "encoder":
        found["heads"] = [
            {"layer": r["layer"], "head": r["head"], "delta": r["delta"], "interval": r["interval"]}
            for r in effects.effect_records(raw, statistics)
        ]
    return found


def _summarise_best(half: Half, outcomes: Outcomes, _runs: Runs, statistics: Any) -> Values:
    found = {name: _of_training(half, raw, statistics) for name, raw in outcomes.items()}
    first = found.pop(OUTCOMES, {})  # absent where a further training was asked for by itself
    return {**first, "further": found} if found else first


def _of_training(half: Half, raw: Arrays, statistics: Any) -> Values:
    effects = bleu if half == "translation" else accuracy
    chosen_on, n_selection = (
        ("train", raw["train_correct"].shape[-1])
        if half == "encoder"
        else ("valid", len(raw["valid_reference_lengths"]))
    )
    return {
        "baseline": effects.baseline(raw, statistics),
        "layers": effects.effect_records(raw, statistics),
        "chosen_on": chosen_on,
        "n_selection": n_selection,
    }


def _parameters(profile: Profile, half: Half) -> dict[str, Any]:
    return (
        {"n_examples": profile.n_examples}
        if half == "encoder"
        else {"n_verses": profile.n_verses, "n_headline": profile.n_headline}
    )


def _parameters_best(profile: Profile, half: Half) -> dict[str, Any]:
    own = {"n_selection": profile.n_selection} if half == "encoder" else {}
    return {**_parameters(profile, half), **own}


def _own_best(profile: Profile, half: Half, part: str) -> Own:
    built_on = half == "encoder" and _chosen_on_test_too(profile)
    seeds = None if part == OUTCOMES else (seed_in(part),)
    return Own(seeds=seeds, needs=(ALL_BUT_ONE,) if built_on else ())


_STATISTICS = {"encoder": accuracy.Tests(), "translation": bleu.Tests()}
ALL_BUT_ONE = Measurement(
    "all_but_one", 1, _STATISTICS, _parameters, _measure_all, _summarise_all, HALVES
)
BEST_HEADS = Measurement(
    "best_heads",
    1,
    _STATISTICS,
    _parameters_best,
    _measure_best,
    _summarise_best,
    HALVES,
    own=_own_best,
)
MEASUREMENTS = (ALL_BUT_ONE, BEST_HEADS)
