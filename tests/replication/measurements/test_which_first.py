"""Orders of removal beside each other: what is measured, and what is said of it."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib import masked_heads, prune_order, tune_mask
from headprune_lib.criteria.importance_entropy import importance_entropy
from headprune_lib.generation.greedy import generate
from headprune_lib.heads import KINDS, full_mask
from headprune_lib.orders import order_mask
from headprune_lib.replication import measurements, stats
from headprune_lib.replication.data.parallel import Pairs
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements import compared, contrasts
from headprune_lib.replication.measurements.contrasts import (
    COMBINED,
    CONTRASTS,
    CONTROL,
    Statistics,
    values_of,
)
from headprune_lib.replication.measurements.measurement import Context
from headprune_lib.replication.measurements.orders import training_in
from headprune_lib.replication.measurements.shared_masks import losses_under, outcomes_under
from headprune_lib.replication.stats.bleu import corpus_bleu, sentence_counts, unpack
from headprune_lib.replication.store import Journal
from headprune_lib.replication.translation.models import detokenise
from headprune_lib.replication.translation.subject import TranslationSubject, forced_batches


@pytest.fixture(scope="module")
def result(smoke):
    return measurements.get("which_first", smoke)


@pytest.fixture(scope="module")
def translated(smoke):
    own = dataclasses.replace(smoke, translation_model="pre-norm")
    orders = ("importance", "entropy training 6", "random", "random training 6")
    return measurements.get("which_first", own, task="toy", parts=orders)


@pytest.fixture(scope="module")
def gated(smoke, result):  # which is measured first: a stored result gives all its parts
    return measurements.get("which_first", smoke, parts=("importance tuned", "random tuned"))


def test_every_order_of_the_profile_on_every_training(result, smoke):
    assert {*result.parts} == {
        name for order in smoke.compared for name in (order, f"{order} training 2")
    }
    for name, part in result.parts.items():
        order, seed = training_in(name)
        runs = {"random": 2, CONTROL: 20}.get(order, 1)
        steps = 11 if order == CONTROL else 16
        assert part.raw["correct"].shape == (runs, steps, 48), name
        assert part.raw["loss_area"].shape == (runs, 48)
        assert [run["seed"] for run in part.runs] == [seed or 1]
    assert {*result.values["contrasts"]} == {*CONTRASTS}


def test_an_order_is_measured_as_plain_masks_say(result, smoke):
    raw = result.parts["importance training 2"].raw
    subject = EncoderSubject.of(smoke, 2)
    prepared = subject.batches(subject.test)
    order = [("self", layer, head) for layer, head in raw["order"][0].tolist()]
    for step in (3, 10, 15):
        mask = order_mask(subject.model, order, int(np.ceil(8 * raw["shares"][step])))
        with masked_heads(subject.model, mask), torch.no_grad():
            logits = [
                subject.model(**{k: v for k, v in batch.items() if k != "labels"}).logits
                for batch in prepared.batches
            ]
        labels = torch.cat([batch["labels"] for batch in prepared.batches])
        right = prepared.restore((torch.cat(logits).argmax(-1) == labels).numpy())
        assert (raw["correct"][0, step] != right).sum() <= 1


def test_orders_follow_from_the_scores_that_are_kept(result, translated):
    parts = {**result.parts, **{f"toy {name}": one for name, one in translated.parts.items()}}
    kept = 0
    for name, part in parts.items():
        scores = {
            array.removeprefix("scores "): torch.from_numpy(values)
            for array, values in part.raw.items()
            if array.startswith("scores ")
        }
        if not scores:
            assert "random" in name or "importance-entropy" in name or "rescored" in name
            continue
        heads = prune_order(scores)
        stored = part.raw["order"][0].tolist()
        expected = [[KINDS.index(k), *rest] if "toy" in name else rest for k, *rest in heads]
        assert stored == expected
        kept += 1
    assert kept == 8 + 2


def test_translations_along_an_order_are_those_under_plain_masks(translated, smoke):
    raw = translated.parts["entropy training 6"].raw
    own = dataclasses.replace(smoke, translation_model="pre-norm")
    subject = TranslationSubject.of(own, "toy", 6)
    pairs = subject.pairs("test")
    order = [(KINDS[kind], layer, head) for kind, layer, head in raw["order"][0].tolist()]
    sources = subject.translator.encode(pairs.sources)
    for step in (0, 4, 9):
        mask = order_mask(subject.model, order, int(np.ceil(len(order) * raw["shares"][step])))
        with masked_heads(subject.model, mask):
            ids = generate(subject.model, sources)
        found = detokenise(subject.translator.pieces.vocabulary, ids)
        counts = sentence_counts(found, list(pairs.targets))
        stored = unpack(
            raw["counts_uncut"] + raw["counts_change"][0, step], raw["reference_lengths"]
        )
        np.testing.assert_array_equal(stored, counts)


def test_a_translations_loss_is_that_of_its_reference_by_piece(translated, smoke, tmp_path):
    raw = translated.parts["importance"].raw
    own = dataclasses.replace(smoke, translation_model="pre-norm")
    subject = TranslationSubject.of(own, "toy", 1)
    pairs = subject.pairs("test").first(3)
    means = []
    for i in range(3):
        alone = forced_batches(
            subject,
            Pairs(pairs.places[i : i + 1], pairs.sources[i : i + 1], pairs.targets[i : i + 1]),
        )[0]
        with torch.no_grad():
            logits = subject.model(**{k: v for k, v in alone.items() if k != "labels"}).logits
        means.append(float(torch.nn.functional.cross_entropy(logits[0], alone["labels"][0])))
    found = losses_under(subject, [full_mask(subject.model)], pairs, Journal(tmp_path))
    np.testing.assert_allclose(found[0], means, rtol=1e-4)
    assert raw["log_loss"].shape == (1, 16)


def test_a_tuned_order_cuts_the_same_heads_under_gates(gated, result, smoke):
    for order in ("importance", "random"):
        one, plain = gated.parts[f"{order} tuned"].raw, result.parts[order].raw
        np.testing.assert_array_equal(one["order"], plain["order"])
        np.testing.assert_array_equal(one["said"], plain["said"])
        gates = one["gates self"]
        assert gates.shape == (len(one["order"]), 16, 2, 4)
        for run, heads in enumerate(one["order"].tolist()):
            for step, share in enumerate(one["shares"]):
                gone = {tuple(head) for head in heads[: int(np.ceil(8 * share - 1e-9))]}
                zero = {tuple(head) for head in np.argwhere(gates[run, step] == 0).tolist()}
                assert zero == gone
        assert (gates[:, 0] == 1).all() and ((gates != 0) & (gates != 1)).any()
        # nothing is gone, or everything
        for end in (0, -1):
            np.testing.assert_array_equal(one["log_loss"][:, end], plain["log_loss"][:, end])
            np.testing.assert_array_equal(one["correct"][:, end], plain["correct"][:, end])
        assert not np.array_equal(one["log_loss"], plain["log_loss"])
    assert {"importance tuned", "random tuned"} <= {*gated.values["orders"]}


def test_gates_are_fitted_on_the_sentences_that_score_and_act_on_the_tested_ones(gated, smoke):
    raw, subject = gated.parts["importance tuned"].raw, EncoderSubject.of(smoke)
    order = [("self", *head) for head in raw["order"][0].tolist()]
    prepared = subject.batches(subject.test)
    for step in (3, 6):
        mask = order_mask(subject.model, order, int(np.ceil(8 * raw["shares"][step])))
        gates = tune_mask(subject.model, mask, subject.batches(subject.scoring).batches)
        np.testing.assert_allclose(raw["gates self"][0, step], gates["self"], atol=1e-3)
        losses = []
        for batch in prepared.batches:
            with masked_heads(subject.model, gates), torch.no_grad():
                logits = subject.model(**{k: v for k, v in batch.items() if k != "labels"}).logits
            losses.append(torch.nn.functional.cross_entropy(logits, batch["labels"]) * len(logits))
        assert raw["log_loss"][0, step] == pytest.approx(float(sum(losses)) / 48, abs=1e-4)


def test_a_translator_is_followed_under_gates_too(translated, smoke):
    own = dataclasses.replace(smoke, translation_model="pre-norm")
    found = measurements.get("which_first", own, task="toy", parts=("importance tuned",))
    plain, one = translated.parts["importance"].raw, found.parts["importance tuned"].raw
    np.testing.assert_array_equal(one["order"], plain["order"])
    assert {name for name in one if name.startswith("gates ")} == {f"gates {k}" for k in KINDS}
    for end in (0, -1):
        np.testing.assert_array_equal(one["counts_change"][:, end], plain["counts_change"][:, end])
    subject = TranslationSubject.of(own, "toy", 1)
    order = [(KINDS[kind], layer, head) for kind, layer, head in one["order"][0].tolist()]
    step = 6
    mask = order_mask(subject.model, order, int(np.ceil(len(order) * one["shares"][step])))
    gates = tune_mask(subject.model, mask, forced_batches(subject, subject.split("score")))
    for kind, values in gates.items():
        np.testing.assert_allclose(one[f"gates {kind}"][0, step], values, atol=1e-3)
    pairs = subject.pairs("test")
    with masked_heads(subject.model, gates):
        ids = generate(subject.model, subject.translator.encode(pairs.sources))
    counts = sentence_counts(
        detokenise(subject.translator.pieces.vocabulary, ids), list(pairs.targets)
    )
    packed = one["counts_uncut"] + one["counts_change"][0, step]
    np.testing.assert_array_equal(unpack(packed, one["reference_lengths"]), counts)


def test_the_area_of_the_loss_is_the_trapezoid_rule_example_by_example():
    loss = np.random.default_rng(0).random((16, 5))
    found = compared.loss_area(compared.SHARES, loss)
    for i in range(5):
        added = loss[:11, i] - loss[0, i]
        expected = sum((added[j] + added[j + 1]) / 2 * 0.05 for j in range(10)) / 0.5
        assert found[i] == pytest.approx(1000 * expected, rel=1 / 30, abs=1)


def test_masks_that_two_orders_share_are_evaluated_once(smoke, tmp_path):
    subject, journal = EncoderSubject.of(smoke), Journal(tmp_path)
    heads = [("self", layer, head) for layer in range(2) for head in range(4)]
    turned = [*heads[:4][::-1], *heads[4:]]  # the same from half of the heads on
    for order in (heads, turned):
        masks = compared.masks_along(subject, order, compared.SHARES)
        outcomes_under(subject, masks, subject.test, journal)
    # no head, 1 to 8 of them, and again 1 to 3
    assert len(list(tmp_path.glob("*.npz"))) == 9 + 3


def test_the_same_mask_on_other_text_is_measured_again(smoke, tmp_path):
    own = dataclasses.replace(smoke, translation_model="pre-norm")
    for subject, texts in (
        (EncoderSubject.of(smoke), lambda one: (one.test, one.selection)),
        (TranslationSubject.of(own, "toy", 1), lambda one: (one.pairs("test"), one.pairs("train"))),
    ):
        journal, mask = Journal(tmp_path / subject.key), full_mask(subject.model)
        here, there = texts(subject)
        losses = [losses_under(subject, [mask], text, journal) for text in (here, there, here)]
        assert losses[0].shape == (1, len(here)) and losses[1].shape == (1, len(there))
        np.testing.assert_array_equal(losses[0], losses[2])


def test_the_weight_is_chosen_on_training_sentences(result, smoke, tmp_path):
    part = result.parts[f"{COMBINED} training 2"].raw
    (said,) = part["said"].tolist()
    subject = EncoderSubject.of(smoke, 2)
    eager = EncoderSubject.of(smoke, 2, "eager")
    batches, journal = eager.batches(eager.scoring).batches, Journal(tmp_path)
    added = {}
    for alpha in compared.ALPHAS:
        order = prune_order(importance_entropy(eager.model, batches, alpha=alpha))
        shares = tuple(i / 20 for i in range(11))
        masks = compared.masks_along(subject, order, shares)
        loss = losses_under(subject, masks, subject.selection, journal)
        added[f"alpha={alpha:g}"] = compared.loss_area(shares, loss).mean()
        if f"alpha={alpha:g}" == said:
            assert [list(head[1:]) for head in order] == part["order"][0].tolist()
    assert added[said] == pytest.approx(min(added.values()), abs=0.5)


@settings(max_examples=20, deadline=None)
@given(draw=st.integers(0, 1000))
def test_the_control_moves_entropies_within_their_layer_alone(draw):
    values = torch.arange(24.0).view(4, 6)
    moved = compared.shuffled_within(values, draw)
    assert torch.equal(moved.sort(1).values, values)
    assert torch.equal(moved, compared.shuffled_within(values, draw))


def test_the_control_has_other_orders_than_the_combined_one(result):
    control, combined = (result.parts[name].raw for name in (CONTROL, COMBINED))
    orders = {tuple(map(tuple, order)) for order in control["order"].tolist()}
    if combined["said"][0] != "alpha=1":
        assert len(orders) > 5


# --- what is said of them -------------------------------------------------------------------------


def made_up(seed, metric="accuracy", runs=3, n=40):
    generator = np.random.default_rng(seed)
    steps = len(compared.SHARES)
    return {
        "said": np.array([""] * runs),
        "correct": generator.random((runs, steps, n)) < np.linspace(0.9, 0.5, steps)[:, None],
        "loss_area": generator.integers(0, 500, (runs, n)),
        "log_loss": generator.random((runs, steps)),
        "labels": np.arange(n) % 2,
        "shares": np.array(compared.SHARES),
        "metric": np.array(metric),
    }


def part_of(raw, rows):
    one_a_run = ("said", "correct", "loss_area", "log_loss")
    return {name: values[rows] if name in one_a_run else values for name, values in raw.items()}


def two_trainings(raw, order="importance"):
    """Two runs on the first training, one on the second."""
    outcomes = {order: part_of(raw, slice(2)), f"{order} training 2": part_of(raw, slice(2, None))}
    return outcomes, {order: [{"seed": 1}], f"{order} training 2": [{"seed": 2}]}


def test_areas_are_means_over_runs_then_trainings():
    raw = made_up(0)
    found = values_of(*two_trainings(raw), Statistics(resamples=50))
    order = found["orders"]["importance"]
    assert order["trainings"] == [1, 2] and found["chance"] == 0.5
    accuracy = raw["correct"].mean(-1)
    curve = (accuracy[:2].mean(0) + accuracy[2]) / 2
    kept = (curve - 0.5) / (curve[0] - 0.5)
    np.testing.assert_allclose(order["kept"], kept)
    area = sum((kept[j] + kept[j + 1]) / 2 * 0.05 for j in range(10)) / 0.5
    assert order["area"]["value"] == pytest.approx(area)
    loss = (raw["loss_area"][:2].mean() + raw["loss_area"][2].mean()) / 2 / 1000
    assert order["added_loss"]["value"] == pytest.approx(loss)


@pytest.mark.parametrize("metric", ["accuracy", "matthews", "f1"])
def test_resamples_are_those_of_a_loop(metric):
    raw = made_up(1, metric)
    score = contrasts.SCORES[metric]
    chance = score.chance(raw["labels"])
    one = contrasts.follow(*two_trainings(raw))["importance"]
    found = contrasts._drawn(one, Statistics(resamples=6, seed=3))
    uncut = []
    chosen = np.random.default_rng([3, 1]).integers(0, 2, (6, 2))
    drawn = stats.bootstrap_indices(40, 6, 3)
    for i in range(6):
        own = drawn[i]
        by_run = [score(raw["correct"][run][:11][:, own], raw["labels"][own]) for run in range(3)]
        by_training = [(by_run[0] + by_run[1]) / 2, by_run[2]]
        curve = np.mean([by_training[j] for j in chosen[i]], axis=0)
        kept = (curve - chance) / (curve[0] - chance) if curve[0] > chance else 0 * curve
        uncut.append(curve[0])
        expected = stats.area_under_curve(raw["shares"][:11], kept)
        assert found.areas[i] == pytest.approx(expected, rel=1e-5)
        losses = raw["loss_area"][:, own].mean(1)
        each = [(losses[0] + losses[1]) / 2, losses[2]]
        assert found.losses[i] == pytest.approx(np.mean([each[j] for j in chosen[i]]) / 1000)
    assert found.uncut == pytest.approx(min(uncut))


def test_the_area_of_a_translator_is_that_of_its_corpus_bleu(translated):
    parts = {name: part for name, part in translated.parts.items() if "random" in name}
    bleu = []
    for part in parts.values():
        packed = part.raw["counts_uncut"] + part.raw["counts_change"]
        counts = unpack(packed, part.raw["reference_lengths"])
        bleu.append([corpus_bleu(run.sum(1)) for run in counts])
    curve = np.mean(bleu, axis=(0, 1))
    order = translated.values["orders"]["random"]
    np.testing.assert_allclose(order["score"], curve, rtol=1e-5)
    assert order["trainings"] == [1, 6] and translated.values["chance"] == 0
    kept = curve[:11] / curve[0]
    area = stats.area_under_curve(np.arange(11) / 20, kept)
    assert order["area"]["value"] == pytest.approx(area, rel=1e-5)


def against(better, worse):
    outcomes = {"importance rescored": better, "importance": worse}
    found = values_of(
        outcomes, {name: [{"seed": 1}] for name in outcomes}, Statistics(resamples=300)
    )
    return found["contrasts"]["scored again against once"]


def test_an_order_against_itself_is_nothing_and_a_better_one_is_seen():
    worse, better = made_up(2, n=400), made_up(2, n=400)
    better["correct"] = better["correct"] | (np.random.default_rng(9).random((3, 16, 400)) < 0.3)
    better["correct"][:, 0] = worse["correct"][:, 0]
    better["loss_area"] = better["loss_area"] - 100
    assert against(worse, worse)["area"] == {"value": 0.0, "interval": [0.0, 0.0], "error": 0.0}
    again = against(better, worse)
    assert again["area"]["interval"][0] > 0
    assert again["loss"]["value"] == pytest.approx(0.1) and again["loss"]["error"] < 1e-6


def test_a_contrast_is_over_the_trainings_that_have_both_orders():
    outcomes, runs = two_trainings(made_up(3))
    outcomes["importance rescored"] = part_of(made_up(4), slice(1))
    runs["importance rescored"] = [{"seed": 1}]
    found = values_of(outcomes, runs, Statistics(resamples=20))
    assert found["contrasts"]["scored again against once"]["trainings"] == [1]
    only = {name: outcomes[name] for name in ("importance", "importance rescored")}
    alone = values_of(only, runs, Statistics(resamples=20))
    assert alone["contrasts"] == found["contrasts"]
    runs["importance rescored"] = [{"seed": 9}]
    assert values_of(outcomes, runs, Statistics(resamples=20))["contrasts"] == {}


def test_orders_stand_on_the_trainings_that_all_of_them_have():
    raw = made_up(4)
    outcomes, runs = two_trainings(raw)
    outcomes["entropy training 2"] = part_of(raw, slice(2, None))
    runs["entropy training 2"] = [{"seed": 2}]
    found = values_of(outcomes, runs, Statistics(resamples=20))["orders"]
    assert [found[name]["trainings"] for name in ("importance", "entropy")] == [[2], [2]]
    one, other = found["importance"], found["entropy"]  # the same run of the same training
    assert one["area"] == other["area"] and (one["score"] == other["score"]).all()
    # without a training that all have, each on its own
    outcomes["random"], runs["random"] = part_of(raw, slice(1)), [{"seed": 3}]
    apart = values_of(outcomes, runs, Statistics(resamples=20))["orders"]
    assert [one["trainings"] for one in apart.values()] == [[1, 2], [2], [3]]


def test_a_name_that_is_no_order_is_refused_before_anything_is_measured(smoke, tmp_path):
    own = dataclasses.replace(smoke, compared=["importence"])
    with pytest.raises(ValueError, match="unknown order 'importence': did you mean importance"):
        measurements.get("which_first", own)
    context = Context("encoder", smoke, "synthetic", Journal(tmp_path), None)
    with pytest.raises(ValueError, match="give alpha=0 to alpha=1"):
        list(compared.runs_of(context, "importance-entropy alpha=7", None))
