"""A run that asks for fewer test texts measures no more than these need, and says so before it starts."""

import pytest

from headprune_lib.replication import measurements, planning, store
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.profiles import load_profile


@pytest.fixture
def announced():
    return []


def seeds_of(result):
    return {run["seed"] for part in result.parts.values() for run in part.runs}


def test_fewer_texts_are_measured_on_the_first_training_alone(smoke, announced):
    few = load_profile("smoke", n_examples=20)
    for name, left_out in (("figure3b", ["seed 2"]), ("which_first", ["seed 2"]), ("figure1b", [])):
        result = measurements.get(name, few, fresh=True, announce=announced.append)
        assert seeds_of(result) == {1} and result.n_examples == 20
        assert {*announced[-1].parts} == {*result.parts}  # all, before the first was measured
        assert announced[-1].left_out == left_out
        if name == "figure3b":  # choices are made on as many training sentences
            assert result.parts["oracle leak-free"].raw["train_correct"].shape[1] == 20
    fewer = load_profile("smoke", translation_model="pre-norm", n_verses=12, n_headline=12)
    assert seeds_of(measurements.get("figure6d", fewer)) == {1}  # of trainings 1 and 6


def test_a_training_that_is_asked_for_by_name_is_measured_on_fewer_texts_too(smoke):
    fewer = load_profile("smoke", translation_model="pre-norm", n_verses=12, n_headline=12)
    result = measurements.get("figure6d", fewer, parts=["importance training 6"])
    assert seeds_of(result) == {6}


def test_what_does_not_depend_on_the_number_of_texts_is_not_measured_again(smoke, announced):
    few = load_profile("smoke", n_examples=20)
    for name in ("agreement", "table1"):
        before = measurements.get(name, smoke)
        again = measurements.get(name, few, fresh=True, announce=announced.append)
        assert again.to_json() == before.to_json()
    assert not announced
    as_many = load_profile("smoke", n_examples=smoke.n_examples)  # no less than usual
    again = measurements.get("agreement", as_many, fresh=True, announce=announced.append)
    assert [upcoming.parts for upcoming in announced] == [["outcomes"]]
    assert seeds_of(again) == {1, 2}


def test_how_long_it_takes_is_said_before_it_starts(smoke, capsys):
    class Begun(Exception):
        pass

    def announce(upcoming):
        planning.announce(upcoming)
        raise Begun

    few, told = load_profile("smoke", n_examples=20), {}
    for name in ("figure3b", "stability"):
        with pytest.raises(Begun):
            measurements.get(name, few, fresh=True, announce=announce)
        told[name] = capsys.readouterr().err
    assert "pruning_curve/synthetic/tiny: 7 of its parts are to be measured" in told["figure3b"]
    assert "on the first training alone, without seed 2. " in told["figure3b"]
    assert "at most 1 min on this machine" in told["figure3b"]  # timed: nothing is stored yet
    assert "How long this takes is not known" in told["stability"]


def test_of_a_stored_result_the_time_is_known(smoke, capsys):
    for name in ("figure1b", "stability"):
        stored = measurements.get(name, smoke)
        for part in stored.parts.values():
            part.provenance |= {"seconds": 3600.0, "date": "2026-01-01"}  # one hour for all parts
        store.save(stored, results_folder(smoke))
        few = load_profile("smoke", n_examples=24)
        measurements.get(name, few, fresh=True, announce=planning.announce)
        told = capsys.readouterr().err
        # half of the 48 sentences; of stability's work nothing is counted
        assert ("takes about 30 min on" if name == "figure1b" else "took 60 min on") in told
