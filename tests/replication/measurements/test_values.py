"""Values follow from outcomes: of every committed result, and of made-up ones where none has the case."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib.replication import stats, store
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.along_training import gini_within
from headprune_lib.replication.measurements.curves import Curves, parts_of_orders
from headprune_lib.replication.measurements.obtaining import half_of
from headprune_lib.replication.measurements.single_heads import one_by_one_scores
from headprune_lib.replication.measurements.which_first import shuffled_within
from headprune_lib.replication.store import Key
from headprune_lib.replication.verification import records

KEYS = store.find()
LONG = {
    *(Key(name, "enfr", "post-norm") for name in ("one_head", "best_heads")),
    Key("recovery", "reviews", "minilm"),
}
"""Up to a minute each, where another result comes by the same code in seconds: nightly."""


def by_cost():
    """Every result; each measurement's smallest in a half is asked in every run, the others nightly."""
    smallest = {}
    for key in KEYS:
        smallest.setdefault((key.measurement, half_of(key)), []).append(key)
    always = {min(keys, key=size) for keys in smallest.values()} - LONG
    return [
        pytest.param(key, marks=pytest.mark.slow if key in always else pytest.mark.nightly)
        for key in KEYS
    ]


def size(key):
    """Bytes of all outcomes."""
    path = key.path()
    return sum(part.stat().st_size for part in path.parent.glob(f"{key.task}.{key.model}.*.npz"))


@pytest.mark.parametrize("key", by_cost(), ids="-".join)
def test_values_of_a_committed_result_follow_from_its_outcomes(key):
    assert records.values_follow(store.load(key)).agrees


def test_every_measurement_has_a_committed_result():
    declared = {(name, half) for name, one in MEASUREMENTS.items() for half in one.halves}
    assert declared == {(key.measurement, half_of(key)) for key in KEYS}


def test_one_by_one_an_answer_counts_before_a_loss():
    raw = {
        "heads": np.array([[0, 0], [0, 1], [1, 0], [1, 1]]),
        "correct": np.array([[1, 1], [1, 1], [0, 1], [1, 1]], bool),
        "correct_uncut": np.ones(2, bool),
        "loss_change": np.array([[5, 5], [1, 1], [0, 0], [9, 9]]),
    }
    assert one_by_one_scores(raw)["self"].ravel().argsort().tolist() == [1, 0, 3, 2]
    raw = {
        "heads": np.array([[kind, 0, 0] for kind in range(3)]),
        "counts_uncut": np.ones((1, 5)),
        "counts_change": np.zeros((3, 1, 5), np.int16),
        "reference_lengths": np.array([2]),
        "draft_loss_change": np.array([[30], [10], [20]]),
    }
    scores = one_by_one_scores(raw)
    assert scores["enc-dec"] < scores["dec-dec"] < scores["enc-enc"]


def test_who_is_at_chance_or_below_has_nothing_to_keep():
    curves = Curves(np.array([0.0, 0.5, 1.0]), 0.5, {}, {})
    assert curves.kept(np.array([0.9, 0.7, 0.5])) == pytest.approx([1.0, 0.5, 0.0])
    nothing = np.array([[0.5, 0.6, 0.5], [0.4, 0.6, 0.4]])
    assert np.isnan(curves.kept(nothing)).all()
    assert not stats.kept_above_chance(nothing, nothing[:, :1], 0.5, nothing=0.0).any()


def test_orders_are_joined_on_the_further_trainings_that_all_have():
    random = ["random", "random training 2"]
    parts = ["importance training 3", "importance", "importance training 2", *random, "oracle"]
    assert parts_of_orders(parts) == {
        "importance": ["importance", "importance training 2"],
        "random": random,
        "oracle": ["oracle"],
    }
    assert parts_of_orders(random[1:]) == {"random training 2": ["random training 2"]}


@settings(max_examples=20, deadline=None)
@given(draw=st.integers(0, 1000))
def test_the_control_moves_entropies_within_their_layer_alone(draw):
    values = torch.arange(24.0).view(4, 6)
    moved = shuffled_within(values, draw)
    assert torch.equal(moved.sort(1).values, values)
    assert torch.equal(moved, shuffled_within(values, draw))


def test_the_coefficient_within_layers_does_not_see_what_one_layer_has_more_than_another():
    scores = np.random.default_rng(0).lognormal(size=(18, 8))
    scaled = scores * np.arange(1, 19)[:, None]
    assert gini_within(scaled) == pytest.approx(gini_within(scores))
