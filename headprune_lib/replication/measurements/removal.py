"""Masks, or gates, along orders of removal, and what becomes of every text under them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.engine import side_by_side
from headprune_lib.replication.lazy import mask_tuning, masking, selection, setups, torch
from headprune_lib.replication.measurements.base import Context
from headprune_lib.replication.metrics import MILLINAT, SCORES, millinats
from headprune_lib.replication.order_names import mask_key
from headprune_lib.replication.store import Arrays, Journal, Measured
from headprune_lib.replication.store.heads import heads_array
from headprune_lib.replication.store.verses import coarse_losses

Subject: TypeAlias = "setups.EncoderSubject | setups.TranslationSubject"
Run: TypeAlias = "tuple[str, Subject, list[selection.Head]]"
"""Its name (a seed, or the number of a draw), the model, and the heads in order."""


def n_cut(n_heads: int, share: float) -> int:
    """How many heads are removed at a share: rounded up, as in the paper's schedule.

    >>> n_cut(72, 0.05), n_cut(72, 0.5), n_cut(72, 1.0)
    (4, 36, 72)
    """
    return int(np.ceil(n_heads * share - 1e-9))


def masks_along(
    subject: Subject, order: list[selection.Head], shares: tuple[float, ...]
) -> list[masking.HeadTensors]:
    """The mask at each share removed."""
    return selection.order_masks(
        subject.model, order, [n_cut(len(order), share) for share in shares]
    )


def along(
    context: Context, runs: Sequence[Run], title: str, pairs: Texts | None = None
) -> Measured:
    """Every run of an order: which heads it removes, and what becomes of the score.

    Args:
        pairs: of the translation half, the verses to translate: by the unmasked model once, then
            after each step of each run.
    """
    profile, journal = context.profile, context.journal
    main, steps = runs[0][1], profile.steps
    masks = [
        selection.order_masks(subject.model, order, selection.prune_schedule(len(order), steps))
        for _, subject, order in runs
    ]
    raw = {
        "names": np.array([name for name, *_ in runs]),
        "order": np.stack([heads_array(order) for *_, order in runs]),
        "shares": np.arange(steps + 1) / steps,
    }
    if pairs is not None:
        cut = dict(enumerate(mask for of_run in masks for mask in of_run[1:]))
        swept = main.outcomes(cut, pairs, journal, f"pruning curve, {title}")
        return main.measured({**coarse_losses(swept), **raw}, len(pairs))
    curves = side_by_side(
        [
            partial(subject.curve, of_run, subject.test, journal, f"{title}/{name}")
            for (name, subject, _), of_run in zip(runs, masks, strict=True)
        ]
    )
    loss = np.stack([millinats(curve["loss"]) for curve in curves])
    raw |= {
        "correct": np.stack([curve["correct"] for curve in curves]),
        "loss": loss,
        "log_loss": loss.mean(-1) / MILLINAT,
    }
    subjects = {subject.seed: subject for _, subject, _ in runs}
    measured = measured_answers(main, raw, main.test)
    if measured.metric == "accuracy":  # the usual, which these results do not name
        del measured.raw["metric"]
    return dataclasses.replace(measured, runs=[subject.run for subject in subjects.values()])


def measured_answers(subject: setups.EncoderSubject, raw: Arrays, texts: Texts) -> Measured:
    """Outcomes as the store takes them, with the labels and the metric that a score asks for."""
    metric = TASKS[subject.profile.task].metric
    labels = np.array(texts.labels, np.int8)
    return subject.measured(
        raw | {"labels": labels, "metric": np.array(metric)},
        n_examples=len(texts),
        metric=metric,
        unit=SCORES[metric].unit,
    )


# --- masks that several orders share --------------------------------------------------------------


def losses_under(
    subject: Subject, masks: Sequence[masking.HeadTensors], texts: Texts, journal: Journal
) -> np.ndarray:
    """(M, n) in nats: of the right answer, or of the reference, in the mean over its pieces."""
    named, rows = _distinct(masks, texts)
    if isinstance(subject, setups.EncoderSubject):
        return subject.outcomes(named, texts, journal, f"masks, seed {subject.seed}")["loss"][rows]
    references = subject.reference_losses(texts, named, journal)
    return (references["loss"] / references["pieces"])[rows]


def outcomes_under(
    subject: Subject, masks: Sequence[masking.HeadTensors], texts: Texts, journal: Journal
) -> Arrays:
    """The loss as in :func:`losses_under`, and what the score is made of.

    A mask is evaluated once, whichever order of removal cut its heads.

    Returns:
        ``loss`` (M, n), and ``correct`` (M, n) of an encoder, or of a translator ``counts``
        (M, n, 5), packed, with ``reference_lengths`` (n,).
    """
    named, rows = _distinct(masks, texts)
    if isinstance(subject, setups.EncoderSubject):
        outcomes = subject.outcomes(named, texts, journal, f"masks, seed {subject.seed}")
        return {name: values[rows] for name, values in outcomes.items()}
    loss = losses_under(subject, masks, texts, journal)
    outcomes = _translations(subject, named, texts, journal)
    return {**outcomes, "loss": loss, "counts": outcomes["counts"][rows]}


def _distinct(
    masks: Sequence[masking.HeadTensors], texts: Texts
) -> tuple[dict[str, masking.HeadTensors], list[int]]:
    """The masks that differ, by what the journal knows them and the texts by, and each one's place."""
    names = [f"{texts.sha256[:8]} {mask_key(mask)}" for mask in masks]
    named = dict(zip(names, masks, strict=True))
    return named, [list(named).index(name) for name in names]


def _translations(
    subject: setups.TranslationSubject,
    named: Mapping[str, masking.HeadTensors],
    pairs: Texts,
    journal: Journal,
) -> Arrays:
    """A mask is a unit; those that are missing share the passes of one sweep."""
    keys = {name: f"{subject.key} translated {name}" for name in named}
    missing = {name: mask for name, mask in named.items() if not journal.done(keys[name])}
    new: dict[str, Arrays] = {}
    if missing:
        digest = hashlib.sha256(" ".join(missing).encode()).hexdigest()[:8]
        raw = subject.outcomes(missing, pairs, journal, f"masks {digest}")
        for name, change in zip(missing, raw["counts_change"], strict=True):
            new[name] = {
                "counts": raw["counts_uncut"] + change,
                "reference_lengths": raw["reference_lengths"],
            }
    units = [journal.unit(keys[name], lambda name=name: new[name]) for name in named]
    return {
        "counts": np.stack([unit["counts"] for unit in units]),
        "reference_lengths": units[0]["reference_lengths"],
    }


# --- gates in place of masks: remaining heads compensate for removed ones --------------------------------

TUNING = 1
"""Bumped by hand when what gates are fitted to changes; tuned orders are then measured anew."""


def tuned(
    subject: Subject, masks: Sequence[masking.HeadTensors], journal: Journal
) -> list[masking.HeadTensors]:
    """Gates for each mask, fitted on the text that heads are scored on; float32, as masks act.

    A mask that occurs twice is fitted once.
    """
    named = {f"gates {TUNING} {mask_key(mask)}": mask for mask in masks}

    def measure(mask: masking.HeadTensors) -> Arrays:
        if isinstance(subject, setups.TranslationSubject):
            batches = subject.forced(subject.split("score")).batches
        else:
            batches = subject.batches(subject.scoring).batches
        gates = mask_tuning.tune_mask(subject.model, mask, batches)
        return {kind: values.float().numpy() for kind, values in gates.items()}

    units = {name: partial(measure, mask) for name, mask in named.items()}
    done = subject.compute(units, journal, f"gates, seed {subject.seed}")
    fitted = dict(zip(named, done, strict=True))
    gates = [fitted[f"gates {TUNING} {mask_key(mask)}"] for mask in masks]
    return [{kind: torch.from_numpy(unit[kind]) for kind in unit} for unit in gates]


def stored_gates(runs: Sequence[Sequence[masking.HeadTensors]]) -> Arrays:
    """Gates of every step of every run, as a result holds them: (run, step, layer, head) a kind."""
    return {
        f"gates {kind}": np.stack(
            [np.stack([gates[kind].numpy() for gates in run]) for run in runs]
        )
        for kind in runs[0][0]
    }


def factors_along(
    subject: Subject, raw: Arrays, run: int, heads: list[selection.Head], shares: tuple[float, ...]
) -> list[masking.HeadTensors]:
    """What heads were multiplied by at the first shares of a run of a result: masks, or gates."""
    masks = masks_along(subject, heads, shares)
    if f"gates {next(iter(masks[0]))}" not in raw:
        return masks
    return [
        {kind: torch.from_numpy(raw[f"gates {kind}"][run, step]) for kind in mask}
        for step, mask in enumerate(masks)
    ]
