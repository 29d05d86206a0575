"""Orders of removal: the paper's, and one for every criterion of the register."""

import dataclasses

import numpy as np
import pytest
import torch

from headprune_lib import masked_heads, prune_order, register_criterion, score_heads
from headprune_lib.criteria import CRITERIA
from headprune_lib.heads import full_mask
from headprune_lib.orders import order_mask, prune_schedule
from headprune_lib.replication import measurements
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements import MEASUREMENTS, obtaining
from headprune_lib.replication.measurements.accuracy import one_by_one_scores
from headprune_lib.replication.measurements.orders import EVERY, read_order
from headprune_lib.replication.order_names import mask_key
from headprune_lib.replication.pretrained import load_tokenizer
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.translation.subject import TranslationSubject, forced_batches


@pytest.fixture
def forget():
    known = dict(CRITERIA)
    yield
    CRITERIA.clear()
    CRITERIA.update(known)


def heads_of(part):
    """The stored order of a part's first run."""
    return [tuple(head) if len(head) == 3 else (0, *head) for head in part.raw["order"][0].tolist()]


def numbered(order, kinds):
    return [(kinds.index(kind), layer, head) for kind, layer, head in order]


@pytest.mark.parametrize(
    ("name", "by", "normalize"),
    [
        ("fisher", "fisher", "own"),
        ("importance-token", "importance-token", "own"),
        ("importance-token unnormalised", "importance-token", None),
    ],
)
def test_a_criterion_is_an_order_scored_on_the_sentences_of_importance(smoke, name, by, normalize):
    found = measurements.get("pruning_curve", smoke, parts=[name])
    subject = EncoderSubject.of(smoke, kernel="eager")
    scores = score_heads(
        subject.model, subject.batches(subject.scoring).batches, by, normalize=normalize
    )
    assert heads_of(found.parts[name]) == numbered(prune_order(scores), ("self",))
    assert len(found.values["curves"][name]["mean"]) == smoke.steps + 1


def test_the_other_way_round(smoke):
    found = measurements.get("pruning_curve", smoke, parts=["fisher", "fisher reversed"])
    one, other = (heads_of(found.parts[name]) for name in ("fisher", "fisher reversed"))
    assert one == other[::-1]


def test_beside_importance_it_has_an_area(smoke):
    alone = measurements.get("pruning_curve", smoke, parts=["importance", "fisher"])
    assert {"random", "fisher"} & set(alone.values["area_differences"]) == {"fisher"}


def test_of_a_translation_model(smoke):
    found = measurements.get("figure3a", smoke, parts=["fisher"])
    subject = TranslationSubject.of(smoke, smoke.translation_task, kernel="eager")
    scores = score_heads(subject.model, forced_batches(subject, subject.split("score")), "fisher")
    assert heads_of(found.parts["fisher"]) == numbered(
        prune_order(scores), ("enc-enc", "enc-dec", "dec-dec")
    )


def test_a_users_own_criterion_is_an_order(smoke, forget):
    @register_criterion("backwards", label="from the last head on", formula="-h", source="a test")
    def backwards(model, batches, *, loss=None, device=None):
        heads = score_heads(model, [], "random")["self"]
        return {"self": -torch.arange(heads.numel()).double().reshape(heads.shape)}

    found = measurements.get("pruning_curve", smoke, parts=["backwards"])
    heads = heads_of(found.parts["backwards"])
    assert heads == sorted(heads, reverse=True)


def test_a_new_version_of_a_criterion_is_another_signature(smoke, monkeypatch):
    def digest(name):
        return obtaining.signature(
            MEASUREMENTS["pruning_curve"], "encoder", smoke, smoke.task, name
        )["digest"]

    before = {name: digest(name) for name in ("fisher", *EVERY["encoder"])}
    for name in ("fisher", "importance", "random"):
        one = CRITERIA[name]
        monkeypatch.setitem(CRITERIA, name, type(one)(**{**vars(one), "version": 2}))
    after = {name: digest(name) for name in before}
    assert {name for name in before if before[name] != after[name]} == {"fisher"}


@pytest.mark.parametrize(
    ("half", "name", "message"),
    [
        ("encoder", "fishr", "unknown order 'fishr': did you mean fisher"),
        ("encoder", "fisher twice", "unknown order 'fisher twice'"),
        ("translation", "importance-entropy alpha=2", "has alpha=2; give alpha=0 to alpha=1"),
    ],
)
def test_neither_an_order_nor_a_criterion(half, name, message):
    with pytest.raises(ValueError, match=message):
        read_order(half, name)


@pytest.fixture(scope="module")
def one_by_one(smoke):
    """A profile whose fine-tunings are measured one by one; those of ``smoke`` serve for it."""
    return load_profile("smoke", seeds=[1], further_seeds=[2, 3])


PARTS = ("importance", "oracle leak-free", "random")


def on_training_2(*orders):
    return [f"{order} training 2" for order in orders]


def test_a_further_training_joins_the_first(one_by_one):
    first = measurements.get("pruning_curve", one_by_one, parts=PARTS)
    both = measurements.get("pruning_curve", one_by_one, parts=[*PARTS, *on_training_2(*PARTS)])
    alone = measurements.get("pruning_curve", load_profile("smoke", seeds=[2]), parts=PARTS)
    assert set(both.parts) == {*PARTS, *on_training_2(*PARTS)}
    for order in PARTS:
        part, other = both.parts[f"{order} training 2"], alone.parts[order]
        assert [run["seed"] for run in part.runs] == [2] and part.runs == other.runs
        for name in ("order", "correct", "loss"):  # as if it had been the only one
            assert (part.raw[name] == other.raw[name]).all()
        assert both.parts[order].raw_sha256 == first.parts[order].raw_sha256
        curves = [one.values["curves"][order]["runs"] for one in (first, alone, both)]
        assert curves[2] == curves[0] + curves[1]
    mean = np.mean([one.values["curves"]["importance"]["mean"] for one in (first, alone)], axis=0)
    assert both.values["curves"]["importance"]["mean"] == pytest.approx(mean, abs=1e-5)
    assert both.values["curves"]["importance main"]["runs"] == curves_of(first, "importance")
    # both sides of a difference are means over the same trainings
    for other in ("oracle leak-free", "random"):
        area = area_of(both, "importance") - area_of(both, other)
        assert both.values["area_differences"][other]["difference"] == pytest.approx(area, abs=1e-4)


def curves_of(result, order):
    return result.values["curves"][order]["runs"]


def area_of(result, order):
    return np.trapezoid(np.mean(curves_of(result, order), axis=0), dx=0.1)


def test_a_training_waits_until_all_orders_have_it(one_by_one):
    parts = [*PARTS, *on_training_2("importance", "random"), "importance training 3"]
    measured = measurements.get("pruning_curve", one_by_one, parts=parts)
    # random order lacks training 3, the one-by-one order has none but the first
    assert measured.values["curves"]["importance"]["names"] == ["1", "2"]
    assert {order: len(curves_of(measured, order)) for order in PARTS} == {
        "importance": 2,
        "oracle leak-free": 1,
        "random": 2 * one_by_one.random_orders,
    }
    area = area_of(measured, "importance main") - area_of(measured, "oracle leak-free")
    found = measured.values["area_differences"]["oracle leak-free"]["difference"]
    assert found == pytest.approx(area, abs=1e-4)


def test_a_further_training_alone_is_told_without_the_first(one_by_one):
    found = measurements.get(
        "pruning_curve",
        dataclasses.replace(one_by_one, n_examples=20),
        parts=on_training_2("random"),
    )
    assert set(found.values["curves"]) == {"random training 2"}


@pytest.mark.parametrize(
    ("profile", "part", "message"),
    [
        ({}, "random training 7", r"training 7 is not one of the further ones .* none; .*seed=7"),
        ({"seeds": [1], "further_seeds": [2]}, "oracle training 2", "ask for 'oracle leak-free'"),
        ({"further_seeds": [3]}, "importance training 3", r"\[1, 2\] are measured in one part"),
        ({"seeds": [1], "further_seeds": [2]}, "fishr training 2", "unknown order 'fishr'"),
    ],
)
def test_a_further_training_that_cannot_be_measured(profile, part, message):
    with pytest.raises(ValueError, match=message):
        measurements.get("pruning_curve", load_profile("smoke", **profile), parts=[part])


def test_further_trainings_leave_committed_parts_as_they_are():
    """MPNet's are measured later than its first one, and may be committed one by one."""
    base = load_profile("base")
    for task in ("sst2", "snli", "snli-held", "cola", "mrpc"):
        on = base.on(task)
        assert (on.seeds, on.further_seeds) == ([1], [2, 3])

        def recipe_of(part, on=on, task=task):
            made = obtaining.signature(MEASUREMENTS["pruning_curve"], "encoder", on, task, part)
            return list(made["recipe"])

        assert recipe_of("importance") == ["seed 1"]
        assert recipe_of("importance training 3") == ["seed 3"]


def test_every_mask_has_the_losses_of_every_example(smoke):
    for name, part in measurements.get("pruning_curve", smoke).parts.items():
        assert part.raw["loss"].shape == part.raw["correct"].shape, name
    chosen_by = measurements.get("pruning_curve", smoke).parts["oracle leak-free"].raw
    heads = len(chosen_by["train_heads"])
    assert chosen_by["train_loss_change"].shape == (heads, smoke.n_selection)
    scores = one_by_one_scores(
        {name[6:]: chosen_by[name] for name in chosen_by if "train_" in name}
    )
    assert chosen_by["order"][0].tolist() == [list(head[1:]) for head in prune_order(scores)]


def test_a_register_of_criteria_leaves_stored_orders_as_they_were(monkeypatch):
    """Each committed part of a curve has the signature that its measurement gives it today."""
    monkeypatch.delenv("HEADPRUNE_RESULTS", raising=False)
    checked = 0
    for name in ("pruning_curve", "pruning_by_kind"):
        for result in measurements.found(name):
            half = measurements.half_of(result.key)
            about = (
                {"task": result.task, "model": result.model}
                if half == "encoder"
                else {"translation_model": result.model}
            )
            profile = load_profile(result.profile, **about)
            for part, stored in result.parts.items():
                made = obtaining.signature(
                    MEASUREMENTS[name], half, profile, result.task, part, registered=True
                )
                assert made["digest"] == stored.signature["digest"], (result.key, part)
                checked += 1
    assert checked > 30


def test_words_after_a_name_are_settings(smoke):
    named = read_order("encoder", "importance-entropy alpha=0.25 low model words")
    assert named.settings == {"alpha": 0.25, "low": True, "among": "model"} and named.words
    assert read_order("encoder", "importance-batch unnormalised").normalize is None
    assert read_order("encoder", "magnitude normalised").normalize == "l2"
    subject = EncoderSubject.of(smoke, kernel="eager")
    batches = subject.batches(subject.scoring).batches
    for name, given in (
        ("importance-entropy alpha=0.25", {"alpha": 0.25}),
        ("entropy words", {"leave_out": load_tokenizer("tiny").all_special_ids}),
    ):
        found = measurements.get("pruning_curve", smoke, parts=[name]).parts[name]
        scores = score_heads(subject.model, batches, name.split()[0], **given)
        assert heads_of(found) == numbered(prune_order(scores), ("self",))


@pytest.mark.parametrize("half", ["encoder", "translation"])
def test_scored_again_after_each_step(smoke, half):
    """Against a loop that masks what is gone and scores what is left."""
    if half == "encoder":
        name, artifact, main = (
            "fisher rescored",
            "pruning_curve",
            EncoderSubject.of(smoke, None, "eager"),
        )
        batches = main.batches(main.scoring).batches
    else:
        name, artifact = "importance rescored", "figure3a"
        main = TranslationSubject.of(smoke, smoke.translation_task, kernel="eager")
        batches = forced_batches(main, main.split("score"))
    found = heads_of(measurements.get(artifact, smoke, parts=[name]).parts[name])
    mask, gone = full_mask(main.model), []
    schedule = prune_schedule(len(found), smoke.steps)
    for step in range(smoke.steps):
        with masked_heads(main.model, mask):
            order = prune_order(score_heads(main.model, batches, name.split()[0]))
        left = [head for head in order if head not in gone]
        gone += left[: schedule[step + 1] - schedule[step]]
        for kind, layer, head in gone:
            mask[kind][layer, head] = 0
    kinds = ("self",) if half == "encoder" else ("enc-enc", "enc-dec", "dec-dec")
    sure = len(found) * 3 // 4  # with nearly all heads gone the last scores differ by roundings
    assert found[:sure] == numbered(gone[:sure], kinds)


def test_masks_that_cut_the_same_heads_have_one_name(smoke):
    main = EncoderSubject.of(smoke)
    one, other = (
        order_mask(main.model, heads, 2)
        for heads in ([("self", 0, 1), ("self", 1, 2)], [("self", 1, 2), ("self", 0, 1)])
    )
    assert mask_key(one) == mask_key(other) != mask_key(full_mask(main.model))
