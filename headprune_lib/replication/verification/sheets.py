"""What a result holds of masks on texts: one sheet for every set of texts that masks were tried on.

A measurement's module says how outcomes are made; here stands how to read them back, so that any
row can be made again by plain masked passes, without the sweeps that measured it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from headprune_lib.replication.data import TASKS
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.measurements.along_training import outcomes_of
from headprune_lib.replication.measurements.precision import EXAMPLES
from headprune_lib.replication.measurements.removal import factors_along, masks_along
from headprune_lib.replication.measurements.translators import BEAMS
from headprune_lib.replication.measurements.which_first import tested
from headprune_lib.replication.metrics import MILLINAT, sentence_counts, unpack
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import Result
from headprune_lib.replication.store.heads import heads_in
from headprune_lib.replication.verification.orders import Subject, order_of, own_outcomes, own_parts
from headprune_lib.replication.verification.tried import (
    Sheet,
    all_but_one_rows,
    answers,
    answers_along,
    nothing_kept,
    one_head_rows,
    rows_along,
    run_by_run,
    translations,
    uncut_row,
)
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import order_mask, rank_heads


def sheets(result: Result, subject: Subject) -> list[Sheet]:
    """The sheets of a result; none where nothing in it is the outcome of a mask on texts.

    Args:
        subject: the model it was measured on, or another training of it.
    """
    read = _READERS.get((result.measurement, half_of(result.key)))
    return list(read(result, subject)) if read else []


def _one_head_sheets(result: Result, subject: Subject) -> Iterator[Sheet]:
    raw = own_outcomes(result, subject)
    rows = one_head_rows(subject.model, heads_in(raw["heads"]))
    if isinstance(subject, EncoderSubject):
        yield Sheet(subject.test, rows, answers(raw))
    else:
        yield Sheet(subject.headline, rows, translations(raw))


def _all_but_one_sheets(result: Result, subject: Subject) -> Iterator[Sheet]:
    raw = own_outcomes(result, subject)
    rows = all_but_one_rows(subject.model, heads_in(raw["heads"]))
    if isinstance(subject, EncoderSubject):
        yield Sheet(subject.test, rows, answers(raw))
    else:
        yield Sheet(subject.pairs("test"), rows, translations(raw))


def _best_heads_sheets(result: Result, subject: Subject) -> Iterator[Sheet]:
    """What the choice was made on, and what is reported of the chosen heads."""
    raw, encoder = own_outcomes(result, subject), isinstance(subject, EncoderSubject)
    split = "train" if encoder else "valid"
    tested = all_but_one_rows(subject.model, heads_in(raw["heads"]))
    tried = all_but_one_rows(subject.model, heads_in(raw[f"{split}_heads"]))
    if encoder:
        yield Sheet(subject.test, tested, answers(raw))
        yield Sheet(subject.selection, tried, answers(raw, "train_"))
    else:
        choice, reported = subject.chosen
        yield Sheet(reported, tested, translations(raw))
        yield Sheet(choice, tried, translations(raw, "valid_"))


def _across_domains_sheets(result: Result, subject: Subject) -> Iterator[Sheet]:
    raw = own_outcomes(result, subject)
    if isinstance(subject, EncoderSubject):
        home, *others = map(str, raw["domains"])
        for name in (home, *others):
            elsewhere = TASKS[name].split("test", subject.profile.data)
            texts = subject.test if name == home else elsewhere.first(subject.profile.n_domain)
            rows = one_head_rows(subject.model, heads_in(raw[f"{name}/heads"]))
            yield Sheet(texts, rows, answers(raw, f"{name}/"))
    else:
        rows = one_head_rows(subject.model, heads_in(raw["heads"]))
        far = subject.far(subject.profile.translation_far)
        yield Sheet(far, rows, translations(raw, "far_"))
        yield Sheet(subject.pairs("test"), rows, translations(raw, "home_"))


def _curve_sheets(result: Result, subject: Subject) -> Iterator[Sheet]:
    """A sheet an order that was measured on the subject's training.

    Where an order was not kept and does not follow from what was, the ends of its curve are left.
    """
    for part, one in own_parts(result, subject).items():
        raw, names = one.raw, [str(name) for name in one.raw["names"]]
        seeds = [run["seed"] for run in one.runs]
        # several draws on one training, or one run a training
        runs = range(len(names)) if len(seeds) == 1 else [seeds.index(subject.seed)]
        rows, kept, steps = [uncut_row(subject.model)], [0], len(raw["shares"]) - 1
        for place, run in enumerate(runs):
            order, name = order_of(result, subject, part, run), f"{part} {names[run]}"
            after = (
                [(f"{name}, all heads cut", nothing_kept(subject.model))]
                if order is None
                else list(rows_along(subject.model, order, steps, name))
            )
            last = (place + 1) * steps
            kept += range(last + 1 - len(after), last + 1)
            rows += after
        if isinstance(subject, EncoderSubject):
            texts, outcomes = subject.test, answers_along(raw, runs)
        else:
            both = {len(each): each for each in (subject.pairs("test"), subject.headline)}
            texts, outcomes = both[result.n_examples], translations(raw, coarse=True)
        yield Sheet(texts, rows, {name: values[kept] for name, values in outcomes.items()})
        if "train_heads" in raw:  # what the one-by-one order was chosen by
            tried = one_head_rows(subject.model, heads_in(raw["train_heads"]))
            yield Sheet(subject.selection, tried, answers(raw, "train_"))


def _precision_sheets(result: Result, subject: Subject) -> Iterator[Sheet]:
    """What was measured in float32: bfloat16 is rounded otherwise on another processor."""
    raw = own_outcomes(result, subject)
    shares = tuple(raw["shares"])
    order = rank_heads(normalize_l2({"self": torch.from_numpy(raw["scores"])}))
    names = [f"{share:.0%} masked" for share in shares]
    rows = list(zip(names, masks_along(subject, order, shares), strict=True))
    outcomes = {"correct": raw["correct float32"], "loss": raw["loss float32"] / MILLINAT}
    yield Sheet(subject.test.first(EXAMPLES), rows, outcomes)


def _search_sheets(result: Result, subject: TranslationSubject) -> Iterator[Sheet]:
    raw = own_outcomes(result, subject)
    heads, alone = heads_in(raw["heads"]), raw["alone"]
    cut = one_head_rows(subject.model, [h for h, one in zip(heads, alone, strict=True) if not one])
    left = all_but_one_rows(subject.model, [h for h, one in zip(heads, alone, strict=True) if one])
    counts = unpack(raw["counts"], raw["reference_lengths"])  # (1 + M, beams, verses, 10)
    for i, beams in enumerate(BEAMS):
        texts = subject.split("test").first(counts.shape[2])
        yield Sheet(texts, [*cut, *left[1:]], {"counts": counts[:, i]}, beams)


def _quality_sheets(result: Result, subject: TranslationSubject) -> Iterator[Sheet]:
    raw = own_outcomes(result, subject)
    for beams in BEAMS:
        counts = sentence_counts(raw[f"beam {beams}"].tolist(), raw["references"].tolist())
        yield Sheet(subject.headline, [uncut_row(subject.model)], {"counts": counts[None]}, beams)


def _along_training_sheets(result: Result, subject: TranslationSubject) -> Iterator[Sheet]:
    """The last checkpoint of a training: in the order of importance where it was kept."""
    raw = outcomes_of(result.parts[f"training {subject.seed}"].raw, -1)
    rows, steps = [uncut_row(subject.model)], len(raw["shares"]) - 1
    if "order" in raw:
        rows += rows_along(subject.model, raw["order"], steps, "last checkpoint, importance")
    outcomes = translations(raw, coarse=True)
    kept = {name: values[: len(rows)] for name, values in outcomes.items()}
    texts = subject.pairs("test").first(len(raw["reference_lengths"]))
    yield Sheet(texts, rows, kept)


def _followed_sheets(result: Result, subject: Subject) -> Iterator[Sheet]:
    """A sheet an order that was followed on the subject's training."""
    for part, one in own_parts(result, subject).items():
        raw, rows = one.raw, [uncut_row(subject.model)]
        for run, order in enumerate(raw["order"]):
            shares = tuple(raw["shares"])
            factors = factors_along(subject, raw, run, heads_in(order), shares)
            rows += [
                (f"{part}, run {run + 1}, {share:.0%} removed", mask)
                for share, mask in zip(shares[1:], factors[1:], strict=True)
            ]
        if isinstance(subject, EncoderSubject):
            found = {"correct": run_by_run(raw["correct"])}
        else:
            packed = raw["counts_uncut"] + run_by_run(raw["counts_change"])
            found = {"counts": unpack(packed, raw["reference_lengths"])}
        yield Sheet(tested(subject), rows, found)


def _recovery_sheets(result: Result, subject: Subject) -> Iterator[Sheet]:
    """Before training again: the weights that it ended with are not kept."""
    for part, one in own_parts(result, subject).items():
        raw, rows = one.raw, [uncut_row(subject.model)]
        for run, heads in enumerate(map(heads_in, raw["heads"]), 1):
            rows.append((f"{part}, run {run}", order_mask(subject.model, heads, len(heads))))
        if isinstance(subject, EncoderSubject):
            loss = np.vstack([raw["loss_uncut"], raw["loss_before"]]) / MILLINAT
            correct = np.vstack([raw["correct_uncut"], raw["correct_before"]])
            yield Sheet(subject.test, rows, {"correct": correct, "loss": loss})
        else:
            packed = np.concatenate([raw["counts_uncut"][None], raw["counts_before"]])
            counts = unpack(packed, raw["reference_lengths"])
            yield Sheet(subject.headline, rows, {"counts": counts})


_READERS: dict[tuple[str, str], Callable[[Result, Subject], Iterator[Sheet]]] = {
    ("one_head", "encoder"): _one_head_sheets,
    ("one_head", "translation"): _one_head_sheets,
    ("all_but_one", "encoder"): _all_but_one_sheets,
    ("all_but_one", "translation"): _all_but_one_sheets,
    ("best_heads", "encoder"): _best_heads_sheets,
    ("best_heads", "translation"): _best_heads_sheets,
    ("across_domains", "encoder"): _across_domains_sheets,
    ("across_domains", "translation"): _across_domains_sheets,
    ("pruning_curve", "encoder"): _curve_sheets,
    ("pruning_curve", "translation"): _curve_sheets,
    ("pruning_by_kind", "translation"): _curve_sheets,
    ("which_first", "encoder"): _followed_sheets,
    ("recovery", "encoder"): _recovery_sheets,
    ("recovery", "translation"): _recovery_sheets,
    ("which_first", "translation"): _followed_sheets,
    ("scoring_examples", "encoder"): _followed_sheets,
    ("along_training", "translation"): _along_training_sheets,
    ("precision", "encoder"): _precision_sheets,
    ("search", "translation"): _search_sheets,
    ("quality", "translation"): _quality_sheets,
}
