"""Orders of removal beside each other: what is measured, and what is said of it."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib import masked_heads, prune_order
from headprune_lib.criteria.importance_entropy import importance_entropy
from headprune_lib.orders import order_mask
from headprune_lib.replication import measurements, stats
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements import contrasts, which_first
from headprune_lib.replication.measurements.contrasts import (
    COMBINED,
    CONTRASTS,
    CONTROL,
    Statistics,
    values_of,
)
from headprune_lib.replication.measurements.measurement import Context
from headprune_lib.replication.store import Journal


@pytest.fixture(scope="module")
def result(smoke):
    return measurements.get("which_first", smoke)


def outcomes(result):
    return {name: part.raw for name, part in result.parts.items()}


def test_every_order_of_the_profile_on_every_training(result, smoke):
    assert {*result.parts} == {*smoke.compared}
    for name, part in result.parts.items():
        runs = {"random": 4, CONTROL: 40}.get(name, 2)  # 2 trainings
        steps = 11 if name == CONTROL else 16
        assert part.raw["correct"].shape == (runs, steps, 48), name
        assert part.raw["loss_area"].shape == (runs, 48)
        assert {run["seed"] for run in part.runs} == {1, 2}
    assert {*result.values["contrasts"]} == {*CONTRASTS}


def test_an_order_is_measured_as_plain_masks_say(result, smoke):
    raw = result.parts["importance"].raw
    subject = EncoderSubject.of(smoke, 2)
    prepared = subject.batches(subject.test)
    order = [("self", layer, head) for layer, head in raw["order"][1].tolist()]
    for step in (3, 10, 15):
        mask = order_mask(subject.model, order, int(np.ceil(8 * raw["shares"][step])))
        with masked_heads(subject.model, mask), torch.no_grad():
            logits = [
                subject.model(**{k: v for k, v in batch.items() if k != "labels"}).logits
                for batch in prepared.batches
            ]
        labels = torch.cat([batch["labels"] for batch in prepared.batches])
        right = prepared.restore((torch.cat(logits).argmax(-1) == labels).numpy())
        assert (raw["correct"][1, step] != right).sum() <= 1


def test_the_area_of_the_loss_is_the_trapezoid_rule_example_by_example():
    generator = np.random.default_rng(0)
    loss, shares = generator.random((16, 5)), list(which_first.SHARES)
    found = which_first.loss_area(shares, loss)
    for i in range(5):
        added = loss[:11, i] - loss[0, i]
        expected = sum((added[j] + added[j + 1]) / 2 * 0.05 for j in range(10)) / 0.5
        assert found[i] == pytest.approx(1000 * expected, rel=1 / 30, abs=1)


def test_masks_that_two_orders_share_are_evaluated_once(smoke, tmp_path):
    subject, journal = EncoderSubject.of(smoke), Journal(tmp_path)
    heads = [("self", layer, head) for layer in range(2) for head in range(4)]
    turned = [*heads[:4][::-1], *heads[4:]]  # the same from half of the heads on
    for order in (heads, turned):
        which_first._along(subject, order, list(which_first.SHARES), subject.test, journal)
    # no head, 1 to 8 of them, and again 1 to 3
    assert len(list(tmp_path.iterdir())) == 9 + 3


def test_the_weight_is_chosen_on_training_sentences(result, smoke, tmp_path):
    said = result.parts[COMBINED].raw["said"].tolist()
    subject = EncoderSubject.of(smoke, 2)
    eager = EncoderSubject.of(smoke, 2, "eager")
    batches, journal = eager.batches(eager.scoring).batches, Journal(tmp_path)
    added = {}
    for alpha in which_first.ALPHAS:
        order = prune_order(importance_entropy(eager.model, batches, alpha=alpha))
        shares = [i / 20 for i in range(11)]
        found = which_first._along(subject, order, shares, subject.selection, journal)
        added[f"alpha={alpha:g}"] = which_first.loss_area(shares, found["loss"]).mean()
        if f"alpha={alpha:g}" == said[1]:
            stored = result.parts[COMBINED].raw["order"][1].tolist()
            assert [list(head[1:]) for head in order] == stored
    assert added[said[1]] == pytest.approx(min(added.values()), abs=0.5)


@settings(max_examples=20, deadline=None)
@given(draw=st.integers(0, 1000))
def test_the_control_moves_entropies_within_their_layer_alone(draw):
    values = torch.arange(24.0).view(4, 6)
    moved = which_first.shuffled_within(values, draw)
    assert torch.equal(moved.sort(1).values, values)
    assert torch.equal(moved, which_first.shuffled_within(values, draw))


def test_the_control_has_other_orders_than_the_combined_one(result):
    control, combined = (result.parts[name].raw for name in (CONTROL, COMBINED))
    orders = {tuple(map(tuple, order)) for order in control["order"][:20].tolist()}
    if combined["said"][0] != "alpha=1":
        assert len(orders) > 5


# --- what is said of them -------------------------------------------------------------------------


def made_up(seed, metric="accuracy", runs=(1, 1, 2), n=40):
    generator = np.random.default_rng(seed)
    steps = len(which_first.SHARES)
    return {
        "trainings": np.array(runs),
        "said": np.array([""] * len(runs)),
        "correct": generator.random((len(runs), steps, n)) < np.linspace(0.9, 0.5, steps)[:, None],
        "loss_area": generator.integers(0, 500, (len(runs), n)),
        "log_loss": generator.random((len(runs), steps)),
        "labels": generator.integers(0, 2, n) if metric != "accuracy" else np.arange(n) % 2,
        "shares": np.array(which_first.SHARES),
        "metric": np.array(metric),
    }


def test_areas_are_means_over_runs_then_trainings():
    raw = made_up(0)
    found = values_of({"importance": raw}, Statistics(resamples=50))
    assert found["n_trainings"] == 2 and found["chance"] == 0.5
    accuracy = raw["correct"].mean(-1)
    curve = (accuracy[:2].mean(0) + accuracy[2]) / 2
    kept = (curve - 0.5) / (curve[0] - 0.5)
    order = found["orders"]["importance"]
    np.testing.assert_allclose(order["kept"], kept)
    area = sum((kept[j] + kept[j + 1]) / 2 * 0.05 for j in range(10)) / 0.5
    assert order["area"]["value"] == pytest.approx(area)
    loss = (raw["loss_area"][:2].mean() + raw["loss_area"][2].mean()) / 2 / 1000
    assert order["added_loss"]["value"] == pytest.approx(loss)


@pytest.mark.parametrize("metric", ["accuracy", "matthews", "f1"])
def test_resamples_are_those_of_a_loop(metric):
    raw = made_up(1, metric)
    score = contrasts.SCORES[metric]
    chance, trainings = score.chance(raw["labels"]), np.array([1, 2])
    found = contrasts._drawn(raw, score, chance, trainings, Statistics(resamples=6, seed=3))
    chosen = np.random.default_rng([3, 1]).integers(0, 2, (6, 2))
    drawn = stats.bootstrap_indices(40, 6, 3)
    for i in range(6):
        own = drawn[i]
        by_run = [score(raw["correct"][run][:11][:, own], raw["labels"][own]) for run in range(3)]
        by_training = [(by_run[0] + by_run[1]) / 2, by_run[2]]
        curve = np.mean([by_training[j] for j in chosen[i]], axis=0)
        kept = (curve - chance) / (curve[0] - chance) if curve[0] > chance else 0 * curve
        expected = stats.area_under_curve(raw["shares"][:11], kept)
        assert found.areas[i] == pytest.approx(expected, rel=1e-5)
        losses = raw["loss_area"][:, own].mean(1)
        each = [(losses[0] + losses[1]) / 2, losses[2]]
        assert found.losses[i] == pytest.approx(np.mean([each[j] for j in chosen[i]]) / 1000)


def test_an_order_against_itself_is_nothing_and_a_better_one_is_seen():
    worse, better = made_up(2, n=400), made_up(2, n=400)
    better["correct"] = better["correct"] | (np.random.default_rng(9).random((3, 16, 400)) < 0.3)
    better["correct"][:, 0] = worse["correct"][:, 0]
    better["loss_area"] = better["loss_area"] - 100
    same = values_of({"importance rescored": worse, "importance": worse}, Statistics(resamples=300))
    assert same["contrasts"]["scored again against once"]["area"] == {
        "value": 0.0,
        "interval": [0.0, 0.0],
        "error": 0.0,
    }
    found = values_of(
        {"importance rescored": better, "importance": worse}, Statistics(resamples=300)
    )
    again = found["contrasts"]["scored again against once"]
    assert again["area"]["interval"][0] > 0
    assert again["loss"]["value"] == pytest.approx(0.1) and again["loss"]["error"] < 1e-6


def test_a_name_that_is_no_order_is_refused_before_anything_is_measured(smoke, tmp_path):
    own = dataclasses.replace(smoke, compared=["importence"])
    with pytest.raises(ValueError, match="unknown order 'importence': did you mean importance"):
        measurements.get("which_first", own)
    context = Context("encoder", smoke, "synthetic", Journal(tmp_path), None)
    with pytest.raises(ValueError, match="give alpha=0 to alpha=1"):
        list(which_first._runs(context, "importance-entropy alpha=7"))
