"""Curves of translators with several trainings: measured apart, and joined as runs."""

import dataclasses

import numpy as np
import pytest

from headprune_lib import masked_heads
from headprune_lib.ablation import all_but_one_masks
from headprune_lib.heads import KINDS
from headprune_lib.orders import order_mask, prune_order
from headprune_lib.replication import measurements, stats
from headprune_lib.replication.claims.evidence import rows_of
from headprune_lib.replication.measurements.curves import MAIN, Statistics, read_curves
from headprune_lib.replication.measurements.orders import training_in
from headprune_lib.replication.stats.bleu import corpus_bleu, sentence_counts
from headprune_lib.replication.store import OUTCOMES, Journal
from headprune_lib.replication.translation.outcomes import mean_losses
from headprune_lib.replication.translation.subject import TranslationSubject

FURTHER = "importance training 6"
KINDS_FURTHER = [f"{kind} {order}" for kind in KINDS for order in ("importance", FURTHER)]


@pytest.fixture(scope="module")
def pre(smoke):
    return dataclasses.replace(smoke, translation_model="pre-norm")


@pytest.fixture(scope="module")
def curve(pre):
    measurements.get("figure6d", pre, parts=["importance", "random"])
    return measurements.get("figure6d", pre, parts=[FURTHER])


def test_the_parts_that_a_page_wants(pre, smoke):
    for name, orders in (("pruning_curve", {FURTHER}), ("pruning_by_kind", {*KINDS_FURTHER[1::2]})):
        parts = measurements.MEASUREMENTS[name].parts
        assert {*parts(pre, "translation", "toy")} - {*parts(smoke, "translation", "toy")} == orders


def test_a_further_training_is_pruned_in_its_own_order(curve, pre, tmp_path):
    assert {*curve.parts} == {"importance", "random", FURTHER}
    part, seconds = curve.parts[FURTHER], TranslationSubject.of(pre, "toy", 6)
    assert part.runs == [seconds.run] and list(part.signature["recipe"]) == ["seed 6"]
    assert curve.parts["importance"].runs[0]["seed"] == 1
    order = prune_order(seconds.importance(Journal(tmp_path)))
    pairs = seconds.headline
    with masked_heads(seconds.model, order_mask(seconds.model, order, 12)):
        made = seconds.translator.translate(pairs.sources)
    bleu = float(corpus_bleu(sentence_counts(made, pairs.targets).sum(0)))
    first, further = curve.values["curves"]["importance"]["runs"]
    assert further[5] == pytest.approx(bleu, abs=1e-3)
    assert first == curve.values["curves"][MAIN]["mean"]
    np.testing.assert_allclose(
        curve.values["curves"]["importance"]["mean"], np.mean([first, further], 0), rtol=1e-4
    )
    area = {
        name: stats.area_under_curve(curve.values["shares"], curve.values["curves"][name]["mean"])
        for name in (MAIN, "random")
    }
    found = curve.values["area_differences"]
    assert set(found) == {"random"}  # of the first training, as the random orders are
    expected = area[MAIN] - area["random"]
    assert found["random"]["difference"] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_trainings_are_drawn_with_the_verses(curve):
    outcomes = {name: part.raw for name, part in curve.parts.items()}
    drawn = read_curves("translation", outcomes, Statistics(resamples=400)).drawn
    first, further = curve.values["curves"]["importance"]["runs"]
    # among draws of two trainings, a quarter has each of them alone
    near = np.abs(drawn["importance"][:, 0] - first[0]) < np.abs(
        drawn["importance"][:, 0] - further[0]
    )
    assert drawn["importance"][:, 0].std() > drawn[MAIN][:, 0].std()
    assert 0.05 < near.mean() < 0.95


def test_the_draft_loss_of_every_verse_is_kept(curve):
    raw = curve.parts["importance"].raw
    assert "draft_log_loss" not in raw and raw["draft_loss_change"].shape == (10, 60)
    means = mean_losses(raw)
    assert means["draft_log_loss"].shape == (11,)
    assert mean_losses(means) is means  # as older results hold it
    assert means["draft_log_loss"][-1] > means["draft_log_loss"][0]


def test_kinds_are_compared_on_the_same_trainings(pre):
    result = measurements.get("figure4", pre, parts=KINDS_FURTHER)
    alone = measurements.get("figure4", pre, parts=["enc-enc importance"], fresh=False)
    assert {*alone.parts} == {*result.parts} == {*KINDS_FURTHER}
    curves = result.values["curves"]
    assert {*curves} == {f"{kind} importance" for kind in KINDS}
    uncut = {tuple(run[0] for run in curve["runs"]) for curve in curves.values()}
    assert len(uncut) == 1  # no head is gone: the two trainings themselves
    along = result.values["differences_along"]["enc-dec minus dec-dec"]
    assert along[0] == {"difference": 0.0, "interval": [0.0, 0.0]}
    outcomes = {name: result.parts[name].raw for name in ("enc-enc importance",)}
    measurement = measurements.MEASUREMENTS["pruning_by_kind"]
    some = measurement.summarise("translation", outcomes, {}, Statistics())
    assert {*some["curves"]} == {"enc-enc importance"} and "differences" not in some


def test_table_5_of_a_further_training_counts_with_the_first(pre):
    alone = measurements.get("table5", pre, parts=["training 6"])
    assert {*alone.values} == {"further"}
    both = measurements.get("table5", pre)
    assert list(both.parts) == [OUTCOMES, "training 6"]
    assert [part.runs[0]["seed"] for part in both.parts.values()] == [1, 6]
    assert both.values["further"]["training 6"]["layers"] != both.values["layers"]
    (row,) = rows_of(both)
    assert row.judged.trainings == 2
    # the best head of a layer is the training's own, chosen on the validation chapters
    raw, subject = both.parts["training 6"].raw, TranslationSubject.of(pre, "toy", 6)
    masks, pairs = all_but_one_masks(subject.model), subject.pairs("valid")
    scores = {}
    for head in [head for head in masks if head[:2] == ("enc-enc", 0)]:
        with masked_heads(subject.model, masks[head]):
            made = subject.translator.translate(pairs.sources)
        scores[head[2]] = float(corpus_bleu(sentence_counts(made, pairs.targets).sum(0)))
    chosen = next(int(head) for kind, layer, head in raw["heads"] if (kind, layer) == (0, 0))
    assert scores[chosen] == pytest.approx(max(scores.values()), abs=1e-6)


def test_a_training_that_the_profile_does_not_have(pre):
    assert training_in("importance unnormalised") == ("importance unnormalised", None)
    for name, part in (
        ("figure6d", "importance training 9"),
        ("figure4", "dec-dec importance training 9"),
    ):
        with pytest.raises(
            ValueError, match="training 9 is none of the profile's for toy, pre-norm: 1, 6"
        ):
            measurements.get(name, pre, parts=[part])
    with pytest.raises(ValueError, match="unknown order 'randomly'"):
        measurements.get("figure6d", pre, parts=["randomly training 6"])
