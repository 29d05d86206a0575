"""Orders of removal by every criterion, on every training, against scoring by the library."""

import dataclasses

import pytest

from headprune_lib import masked_heads, rank_heads, score_heads
from headprune_lib.masking import ones_mask
from headprune_lib.replication import measurements
from headprune_lib.replication.measurements.single_heads import one_by_one_scores
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store.packing import heads_in
from headprune_lib.selection import prune_schedule


def heads_of(result, name):
    """The stored order of a part's first run."""
    return heads_in(result.parts[name].raw["order"][0])


def test_a_name_says_the_criterion_its_settings_and_whether_it_is_turned_round(smoke):
    cases = {
        "fisher": ("fisher", {}),
        "importance-token unnormalised": ("importance-token", {"normalize": None}),
        "importance-entropy alpha=0.25": ("importance-entropy", {"alpha": 0.25}),
        "entropy words": ("entropy", {"leave_out": load_tokenizer("tiny").all_special_ids}),
    }
    result = measurements.get("pruning_curve", smoke, parts=[*cases, "fisher reversed"])
    subject = EncoderSubject.of(smoke, kernel="eager")
    batches = subject.batches(subject.scoring).batches
    for name, (by, settings) in cases.items():
        expected = rank_heads(score_heads(subject.model, batches, by, **settings))
        assert heads_of(result, name) == expected, name
    assert heads_of(result, "fisher reversed") == heads_of(result, "fisher")[::-1]
    result = measurements.get("pruning_curve", smoke)
    raw = result.parts["oracle leak-free"].raw
    swept = {n.removeprefix("train_"): one for n, one in raw.items() if n.startswith("train_")}
    assert swept["loss_change"].shape == (8, smoke.n_selection)
    assert heads_of(result, "oracle leak-free") == rank_heads(one_by_one_scores(swept))


@pytest.mark.parametrize("half", ["encoder", "translation"])
def test_scored_again_after_each_step(smoke, half):
    """Against a loop that masks what is gone and scores what is left."""
    if half == "encoder":
        name, artifact = "fisher rescored", "pruning_curve"
        main = EncoderSubject.of(smoke, None, "eager")
        batches = main.batches(main.scoring).batches
    else:
        name, artifact = "importance rescored", "figure3a"
        main = TranslationSubject.of(smoke, smoke.translation_task, kernel="eager")
        batches = main.forced(main.split("score")).batches
    found = heads_of(measurements.get(artifact, smoke, parts=[name]), name)
    mask, gone = ones_mask(main.model), []
    schedule = prune_schedule(len(found), smoke.steps)
    for step in range(smoke.steps):
        with masked_heads(main.model, mask):
            order = rank_heads(score_heads(main.model, batches, name.split()[0]))
        left = [head for head in order if head not in gone]
        gone += left[: schedule[step + 1] - schedule[step]]
        for kind, layer, head in gone:
            mask[kind][layer, head] = 0
    sure = len(found) * 3 // 4  # with nearly all heads gone the last scores differ by roundings
    assert found[:sure] == gone[:sure]


def test_a_further_training_is_measured_as_if_it_were_the_only_one(smoke):
    profile = load_profile("smoke", seeds=[1], further_seeds=[2, 3])
    orders = ("importance", "random")
    parts = [*orders, *(f"{order} training 2" for order in orders)]
    both = measurements.get("pruning_curve", profile, parts=parts)
    alone = measurements.get("pruning_curve", load_profile("smoke", seeds=[2]), parts=orders)
    for order in orders:
        part, other = both.parts[f"{order} training 2"], alone.parts[order]
        assert [run["seed"] for run in part.runs] == [2] and part.runs == other.runs
        for name in ("order", "correct", "loss"):
            assert (part.raw[name] == other.raw[name]).all()
    few = dataclasses.replace(profile, n_examples=20)
    found = measurements.get("pruning_curve", few, parts=["random training 2"])
    assert set(found.values["curves"]) == {"random training 2"}  # told without the first
