"""Recomputing finds what is stored, and notices every stored outcome that is changed."""

import dataclasses

import numpy as np
import pytest
import torch

from headprune_lib.replication import measurements
from headprune_lib.replication.measurements.orders import random_order
from headprune_lib.replication.verification import again
from headprune_lib.replication.verification.again import find_again
from headprune_lib.replication.verification.outcomes import rows_in
from headprune_lib.replication.verification.quantities import same_draws, same_outcomes, same_scores
from headprune_lib.replication.verification.records import subjects_of
from headprune_lib.selection import rank_heads

ENCODER = (
    *("figure1b", "table3", "table6", "figure2b", "figure3b", "agreement", "table4"),
    *("which_first", "precision", "scoring_examples", "head_roles", "recovery"),
)
TRANSLATION = (
    *("table1", "table2", "table5", "figure2a", "figure3a", "figure4", "figure5"),
    *("quality", "search", "which_first toy", "recovery toy"),
)
LANGUAGE = ("language_curve", "language_heads", "language_recovery")
# Asked in every run: single heads, a curve, translations, checkpoints; the others nightly.
ALWAYS = {"figure1b", "figure3b", "table1", "figure5"}
# Of many orders, those by which the others are made; of many trainings, two.
ORDERS = {
    "which_first": (
        *("importance unnormalised", "entropy", "random", "importance-entropy chosen"),
        *("importance-entropy shuffled", "importance tuned"),
    ),
    "scoring_examples": ("importance",),
    "recovery": ("importance 40% all weights", "uncut 0% LoRA"),
    "recovery toy": ("importance 40% all weights", "uncut 0% all weights"),
    "language_recovery": ("removed 0%",),  # of others it is not stored which heads went
}
# Arrays whose change need not be noticed, by the end of their name.
NAMED = (
    *("names", "further"),  # what runs and masks are called
    *("shares", "batch_sizes", "n_sentences", "reference_pieces", "metric"),  # of profile and text
    *("seconds", "memory", "file", "bfloat16"),  # of a machine and a moment
    *("updates", "epochs", "validation_bleu"),  # of the learning curve
    *("truncated", "valid_draft_log_loss"),  # over what was not kept
    *("_after", "loss_tuned"),  # of weights that were trained again and not kept
)


@pytest.fixture
def once(monkeypatch):
    """Outcomes of a mask on texts are computed once in a test: the model stays as it is."""
    known, compute = {}, again.computed_again

    def remembered(subject, rows, chosen, members, journal):
        texts = getattr(rows.texts, "sha256", None)  # passages are always the same
        for row in chosen:
            mask = [values.numpy().tobytes() for values in rows.masks[row][1].values()]
            key = (subject.key, texts, rows.beams, *rows.outcomes, *members, *mask)
            if key not in known:
                (known[key],) = compute(subject, rows, [row], members, journal)
            yield known[key]

    monkeypatch.setattr(again, "computed_again", remembered)


def changed(name, array):
    """The array with every one of its values another, by more than a rounding."""
    if "loss" in name:
        return array + 20 + abs(array) // 4 if array.dtype.kind == "i" else array + 0.02
    if array.dtype.kind in "US":
        return np.roll(array, 1) if array.size > 1 else np.char.add(array, "x")
    return ~array if array.dtype == bool else array + 1


def with_array(result, part, name, array):
    of = result.parts[part]
    other = dataclasses.replace(of, raw={**of.raw, name: array})
    return dataclasses.replace(result, parts={**result.parts, part: other})


def compared(result, subjects, journal, rows):
    """What is found again on every training, with so many masks on each set of texts."""
    return [
        quantity
        for subject in subjects
        for quantity in find_again(
            result, subject, journal, 0, rows * len(rows_in(result, subject))
        )
    ]


def noticed(result, subjects, journal, rows):
    try:
        quantities = compared(result, subjects, journal, rows)
    except (KeyError, IndexError, ValueError):  # no such head, lists of unequal length
        return True
    return not all(quantity.agrees for quantity in quantities)


def everything_is_noticed(result, journal, rows):
    """A result is found again, and no array of any part can be another one."""
    subjects = subjects_of(result)
    quantities = compared(result, subjects, journal, rows)
    assert quantities and [quantity for quantity in quantities if not quantity.agrees] == []
    unnoticed = {
        name
        for part in result.parts
        for name, array in result.parts[part].raw.items()
        if array.size and not name.endswith(NAMED)  # no head is gone of an uncut model
        if not noticed(
            with_array(result, part, name, changed(name, array)), subjects, journal, rows
        )
    }
    assert unnoticed == set()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ALWAYS else [pytest.mark.nightly])
        for name in (*ENCODER, *TRANSLATION, *LANGUAGE)
    ],
)
def test_whatever_is_changed_is_noticed(name, smoke, journal, once):
    # all of an encoder's sweep; two of a translator's masks, one of which cuts something
    rows = 9 if name in ENCODER and name not in ORDERS else 2
    measurement, _, task = name.partition(" ")
    parts = ORDERS.get(name) or ORDERS.get(measurement)
    result = measurements.get(measurement, smoke, task=task or None, parts=parts)
    everything_is_noticed(result, journal, rows)


def test_each_training_is_held_against_its_own_part(smoke, journal, once):
    pre = dataclasses.replace(smoke, translation_model="pre-norm")
    result = measurements.get("table5", pre, parts=["outcomes", "training 6"])
    subjects = subjects_of(result)
    assert [subject.seed for subject in subjects] == [1, 6]
    assert all(quantity.agrees for quantity in compared(result, subjects, journal, 2))
    raws = [part.raw for part in result.parts.values()][::-1]
    each = zip(result.parts.items(), raws, strict=True)
    exchanged = {name: dataclasses.replace(part, raw=raw) for (name, part), raw in each}
    assert noticed(dataclasses.replace(result, parts=exchanged), subjects, journal, 2)
    alone = dataclasses.replace(result, parts={"outcomes": result.parts["outcomes"]})
    with pytest.raises(ValueError, match="toy/pre-norm holds nothing of training 6"):
        rows_in(alone, subjects_of(result)[1])


def test_the_bounds():
    def agree(stored, other, slack=None):
        return [one.agrees for one in same_outcomes("", stored, slack or {}, other, len(counts))]

    counts = np.tile(np.array([9, 7, 5, 3, 10, 9, 8, 7, 10, 10]), (300, 1))
    answers = {"correct": np.ones(300, bool), "loss": np.ones(300)}
    for n, nats, agrees in ((2, 0.009, True), (3, 0.0, False), (0, 0.011, False)):
        other = {"correct": np.arange(300) >= n, "loss": answers["loss"] - nats}
        assert agree(answers, other) == [agrees]
    drafts = {"counts": counts, "draft_loss": np.ones(300)}
    for n, agrees in ((3, True), (4, False)):  # 1 in 100
        other, lost = counts.copy(), np.ones(300)
        other[:n, 3] -= 1
        lost[:n] += 0.02
        assert agree(drafts, {**drafts, "counts": other}) == [agrees]
        assert agree(drafts, {**drafts, "draft_loss": lost}) == [agrees]
        assert agree(drafts, {**drafts, "draft_loss": lost}, {"draft_loss": 0.011}) == [True]
    lost_all = counts.copy()
    lost_all[:3, :4] = 0  # three translations that are wrong altogether
    assert agree(drafts, {**drafts, "counts": lost_all}) == [False]
    sums = {"counts": counts, "reference_loss": np.full(300, 5.0), "pieces": np.full(300, 5)}
    for nats, slack, agrees in ((0.001, 0, True), (0.003, 0, False), (0.003, 0.006, True)):
        other = {"counts": counts, "reference_loss": np.append(np.ones(299), 1 + nats)}
        assert agree(sums, other, {"reference_loss": slack}) == [True, agrees]
    assert agree({"loss": np.ones(9)}, {"loss": np.append(np.ones(8), 1.019)}) == [True]
    assert agree({"loss": np.ones(9)}, {"loss": np.append(np.ones(8), 1.021)}) == [False]
    scores = np.array([[4.0, 1.0], [0.1, 0.2]])
    assert same_scores("", scores, scores + np.array([[0.003, 0], [0, 0.0001]])).agrees
    assert not same_scores("", scores, scores + np.array([[0, 0], [0.003, 0]])).agrees


def test_an_order_is_drawn_again_where_another_machine_rounds_scores_otherwise():
    scores = {"self": torch.tensor([[0.2, 0.5000], [0.5004, 0.9]])}
    heads = rank_heads(scores)
    elsewhere = [heads[0], heads[2], heads[1], heads[3]]  # 0.5004 before 0.5000
    for draw in range(20):
        here, there = random_order(heads, draw), random_order(elsewhere, draw)
        assert here != there
        quantity = same_draws("", [there], [here], scores)
        assert quantity.agrees and "2 heads" in quantity.found
    assert same_draws("", [heads], [heads], scores).found == "the same"
    turned, twice = [heads[i] for i in (1, 0, 2, 3)], [heads[i] for i in (0, 1, 1, 3)]
    for other in ([turned], [twice], [heads[:3]], [heads, heads]):  # turned: 0.5 before 0.2
        assert not same_draws("", other, [heads], scores).agrees
