"""Recomputing finds what is stored, and notices every stored outcome that is changed."""

import dataclasses
import random

import numpy as np
import pytest
import torch

from headprune_lib.orders import prune_order
from headprune_lib.replication import measurements, weights
from headprune_lib.replication.data import MissingData
from headprune_lib.replication.data.verses import TRANSLATION_TASKS, Pairs
from headprune_lib.replication.measurements.orders import random_order, training_in
from headprune_lib.replication.measurements.trained import OtherWeights, weights_at_hand
from headprune_lib.replication.store import Journal
from headprune_lib.replication.verification import same_weights
from headprune_lib.replication.verification.quantities import (
    same_answers,
    same_draws,
    same_scores,
    same_translations,
)
from headprune_lib.replication.verification.same_weights import find_again
from headprune_lib.replication.verification.sheets import sheets
from headprune_lib.replication.verification.subjects import NotAtHand, subjects_of

ENCODER = (
    *("figure1b", "table3", "table6", "figure2b", "figure3b", "agreement", "table4"),
    *("which_first", "precision", "scoring_examples", "head_roles", "recovery"),
)
TRANSLATION = (
    *("table1", "table2", "table5", "figure2a", "figure3a", "figure4", "figure5"),
    *("quality", "search", "which_first toy", "recovery toy"),
)
# Of many orders, those by which the others are made; of many trainings, two.
ORDERS = {
    "which_first": (
        "importance unnormalised",
        "entropy",
        "random",
        "importance-entropy chosen",
        "importance-entropy shuffled",
        "importance tuned",
    ),
    "scoring_examples": ("importance",),
    "recovery": ("importance 40% all weights", "uncut 0% LoRA"),
    "recovery toy": ("importance 40% all weights", "uncut 0% all weights"),
}
# Arrays whose change need not be noticed, by the end of their name.
NAMED = {
    "names": "what a run is called",
    "shares": "a grid",
    "truncated": "counts sentences past the tokenizer's limit",
    "valid_draft_log_loss": "means over all verses, of which none was kept",
    "seconds": "times are of a machine and a moment",
    "memory": "of a machine",
    "file": "bytes, which the format makes",
    "batch_sizes": "of the profile",
    "n_sentences": "of the profile",
    "updates": "of the learning curve",
    "epochs": "of the learning curve",
    "validation_bleu": "of the learning curve",
    "further": "names of masks",
    "bfloat16": "another processor rounds otherwise",
    "reference_pieces": "of the text",
    "metric": "of the task",
    "_after": "of weights that were trained again and not kept",
}


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    return Journal(tmp_path_factory.mktemp("journal"))


@pytest.fixture
def once(monkeypatch):
    """Outcomes of a mask on texts are computed once in a test: the model stays as it is."""
    known = {}

    def remembered(function):
        def of(subject, texts, mask, *args, **kwargs):
            which = (
                texts.places
                if isinstance(texts, Pairs)
                else tuple(batch["input_ids"].numpy().tobytes() for batch in texts.batches)
            )
            masked = (mask[kind].numpy().tobytes() for kind in mask)
            key = (function.__name__, subject.key, which, *masked, args, *kwargs.items())
            if key not in known:
                known[key] = function(subject, texts, mask, *args, **kwargs)
            return known[key]

        return of

    for name in ("evaluate", "counts_under"):
        monkeypatch.setattr(same_weights, name, remembered(getattr(same_weights, name)))


def changed(name, array):
    """The array with every one of its values another, by more than a rounding."""
    if "loss" in name:
        return array + 20 + abs(array) // 4 if array.dtype.kind == "i" else array + 0.02
    if array.dtype.kind in "US":
        return np.roll(array, 1) if array.size > 1 else np.char.add(array, "x")
    return ~array if array.dtype == bool else array + 1


def with_array(result, part, name, array):
    one = result.parts[part]
    made = dataclasses.replace(one, raw={**one.raw, name: array})
    return dataclasses.replace(result, parts={**result.parts, part: made})


def compared(result, subjects, journal, n_cells):
    """What is found again on every training, with so many cells of each."""
    return [
        quantity
        for subject, n in zip(subjects, n_cells, strict=True)
        for quantity in find_again(result, subject, journal, random.Random(0), n)
    ]


def n_cells(result, subjects, rows):
    """Of each training as many cells as there are of so many rows of each sheet."""
    return [rows * len(sheets(result, subject)) for subject in subjects]


def noticed(result, subjects, journal, n_cells):
    try:
        found = compared(result, subjects, journal, n_cells)
    except (KeyError, IndexError, ValueError):  # no such head, lists of unequal length
        return True
    return not all(quantity.agrees for quantity in found)


def obtained(name, profile):
    """A result by its name; of one that exists for both halves, with the pair of languages."""
    parts = ORDERS.get(name)
    name, _, task = name.partition(" ")
    parts = parts or ORDERS.get(name)
    return measurements.get(name, profile, task=task or None, parts=parts)


# Asked in every run: single heads, a curve, translations, checkpoints; the others nightly.
ALWAYS = {"figure1b", "table6", "figure3b", "table1", "figure5"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ALWAYS else [pytest.mark.nightly])
        for name in (*ENCODER, *TRANSLATION)
    ],
)
def test_whatever_is_changed_is_noticed(name, smoke, journal, once):
    # all of an encoder's sweep; two of a translator's masks, one of which cuts something
    rows = 9 if name in ENCODER and name not in ORDERS else 2
    everything_is_noticed(obtained(name, smoke), journal, rows)


def test_each_training_is_held_against_its_own_part(smoke, journal, once):
    pre = dataclasses.replace(smoke, translation_model="pre-norm")
    result = measurements.get("table5", pre, parts=["outcomes", "training 6"])
    assert [subject.seed for subject in subjects_of(result)] == [1, 6]
    everything_is_noticed(result, journal, 2)
    first = result.parts["outcomes"]
    alone = dataclasses.replace(result, parts={"outcomes": first})
    with pytest.raises(ValueError, match="toy/pre-norm holds nothing of training 6"):
        sheets(alone, subjects_of(result)[1])


def everything_is_noticed(result, journal, rows):
    """A result is found again, and no array of any part can be another one."""
    subjects = subjects_of(result)
    cells = n_cells(result, subjects, rows)
    found = compared(result, subjects, journal, cells)
    assert found and [quantity for quantity in found if not quantity.agrees] == []
    unnoticed = {
        array
        for part in result.parts
        for array, values in result.parts[part].raw.items()
        if values.size  # no head is gone of an uncut model
        and not noticed(
            with_array(result, part, array, changed(array, values)), subjects, journal, cells
        )
    }
    assert {array for array in unnoticed if not array.endswith(tuple(NAMED))} == set()


def test_scores_on_other_text_that_are_changed_are_noticed(smoke, journal):
    result = measurements.get("stability", smoke)
    subjects = subjects_of(result)
    nothing = [0] * len(subjects)
    assert all(quantity.agrees for quantity in compared(result, subjects, journal, nothing))
    for part, array in (
        ("importance", "scores synthetic-far"),
        ("importance unnormalised", "scores synthetic"),
        ("entropy", "scores synthetic-far"),
        ("fisher", "effect"),
    ):
        other = changed(array, result.parts[part].raw[array])
        assert noticed(with_array(result, part, array, other), subjects, journal, nothing), array


def test_of_many_parts_so_many_are_drawn_as_are_asked_for(smoke, journal, once):
    result = obtained("which_first", smoke)
    subject = subjects_of(result)[0]

    def looked_at(seed, n_parts):
        generator = random.Random(seed)
        found = find_again(result, subject, journal, generator, 2, n_parts)
        said = [quantity.name for quantity in found]
        return {part for part in result.parts if f"labels, {training_in(part)[0]}" in said}

    assert looked_at(0, None) == set(result.parts)
    drawn = [looked_at(seed, 2) for seed in range(12)]
    assert {len(parts) for parts in drawn} == {2}
    assert len(set.union(*drawn)) > 3
    assert looked_at(3, 99) == set(result.parts)


def test_three_answers_of_one_cell_are_noticed_and_two_are_not(smoke, journal, once):
    result = measurements.get("figure1b", smoke)
    subjects, correct = subjects_of(result), result.raw["correct"]
    for n, told in ((2, False), (3, True)):
        flipped = correct.copy()
        flipped[5, :n] = ~flipped[5, :n]
        other = with_array(result, "outcomes", "correct", flipped)
        assert noticed(other, subjects, journal, n_cells(other, subjects, 9)) is told


def test_the_bounds():
    stored = {"correct": np.ones(400, bool), "loss": np.ones(400)}
    assert same_answers("", stored, {**stored, "loss": stored["loss"] + 0.009}).agrees
    assert not same_answers("", stored, {**stored, "loss": stored["loss"] + 0.011}).agrees
    counts = np.tile(np.array([9, 7, 5, 3, 10, 9, 8, 7, 10, 10]), (300, 1))
    drafts = {"counts": counts, "draft_loss": np.ones(300)}
    for n, agrees in ((3, True), (4, False)):  # 1 in 100
        other, lost = counts.copy(), np.ones(300)
        other[:n, 3] -= 1
        lost[:n] += 0.02
        assert same_translations("", drafts, {**drafts, "counts": other}, 300).agrees is agrees
        assert same_translations("", drafts, {**drafts, "draft_loss": lost}, 300).agrees is agrees
    lost_all = counts.copy()
    lost_all[:3, :4] = 0  # three translations that are wrong altogether
    assert not same_translations("", drafts, {**drafts, "counts": lost_all}, 300).agrees
    scores = np.array([[4.0, 1.0], [0.1, 0.2]])
    assert same_scores("", scores, scores + np.array([[0.003, 0], [0, 0.0001]])).agrees
    assert not same_scores("", scores, scores + np.array([[0, 0], [0.003, 0]])).agrees


def test_an_order_is_drawn_again_where_another_machine_rounds_scores_otherwise():
    scores = {"self": torch.tensor([[0.2, 0.5000], [0.5004, 0.9]])}
    heads = prune_order(scores)
    elsewhere = [heads[0], heads[2], heads[1], heads[3]]  # 0.5004 before 0.5000
    for draw in range(20):
        here, there = random_order(heads, draw), random_order(elsewhere, draw)
        assert here != there
        found = same_draws("", [there], [here], scores)
        assert found.agrees, found
        assert "2 heads" in found.found
    assert same_draws("", [heads], [heads], scores).found == "the same"
    for other in (
        [[heads[1], heads[0], *heads[2:]]],  # 0.5 and 0.2 have changed places
        [[heads[0], heads[1], heads[1], heads[3]]],  # a head twice
        [heads[:3]],
        [heads, heads],
    ):
        assert not same_draws("", other, [heads], scores).agrees


def test_what_is_not_here_is_named_and_other_committed_weights_fail(smoke, tmp_path, monkeypatch):
    result = measurements.get("figure1b", smoke)
    with monkeypatch.context() as patch:
        patch.setattr(weights, "file_sha256", lambda path: "0" * 64)
        weights._sha256.cache_clear()
        with pytest.raises(NotAtHand, match="SHA-256 000.*which is not committed"):
            subjects_of(result)
        models = subjects_of.__globals__
        patch.setitem(models, "models_root", lambda: smoke_models(smoke))
        with pytest.raises(OtherWeights, match="SHA-256 000"):
            subjects_of(result)
    weights._sha256.cache_clear()
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    with pytest.raises(NotAtHand, match="weights of tiny, synthetic, seed 1, are not committed"):
        subjects_of(result)


def test_text_that_is_not_here_is_told_for_translators_too(smoke, monkeypatch):
    def load():
        raise MissingData("no text for toy at hand")

    result = measurements.get("table1", smoke)
    without = dataclasses.replace(TRANSLATION_TASKS[result.task], load=load)
    monkeypatch.setitem(TRANSLATION_TASKS, result.task, without)
    with pytest.raises(NotAtHand, match=f"text of {result.task} is not here: .* HEADPRUNE_DATA"):
        subjects_of(result)


def smoke_models(smoke):
    return weights_at_hand("encoder", smoke, smoke.task, {"seed": smoke.seed}).parent
