"""What is measured of translators on the smoke profile, against translations made one by one."""

import dataclasses
import math
import pickle

import cloudpickle
import numpy as np
import plainly
import pytest
import torch

from headprune_lib import find_heads, ones_mask, order_mask, tune_mask
from headprune_lib.ablation import all_but_one_masks, one_head_masks
from headprune_lib.replication import measurements
from headprune_lib.replication.data import Texts
from headprune_lib.replication.measurements.along_training import Point, chosen, further_masks
from headprune_lib.replication.measurements.translators import shared_ngrams
from headprune_lib.replication.metrics import corpus_bleu
from headprune_lib.replication.profiles import Checkpoints
from headprune_lib.replication.setups import TranslationSubject
from headprune_lib.replication.store import Journal
from headprune_lib.replication.store.packing import KINDS, all_counts


@pytest.fixture(scope="module")
def pre(smoke):
    return dataclasses.replace(smoke, translation_model="pre-norm")


@pytest.fixture(scope="module")
def subject(smoke):
    return TranslationSubject.of(smoke, "toy", kernel="eager")


def scores_of(raw, prefix=""):
    """BLEU without a cut, and (cuts,) with each."""
    own = {n.removeprefix(prefix): one for n, one in raw.items() if n.startswith(prefix)}
    uncut, cut = all_counts({**own, "heads": raw.get(f"{prefix}heads", raw["heads"])})
    return float(corpus_bleu(uncut.sum(0))), corpus_bleu(cut.sum(1))


def test_a_worker_masks_the_model_whose_losses_it_takes(subject, tmp_path, monkeypatch):
    pairs, whole = subject.tested(12), ones_mask(subject.model)
    masks = {"whole": whole, "cut": {kind: values * 0 for kind, values in whole.items()}}
    here = subject.reference_losses(pairs, masks, Journal(tmp_path / "here"))
    assert (here["loss"][0] != here["loss"][1]).all()

    def sent(_subject, units, *_others):
        return [pickle.loads(cloudpickle.dumps(unit))() for unit in units.values()]

    monkeypatch.setattr(TranslationSubject, "compute", sent)
    there = subject.reference_losses(pairs, masks, Journal(tmp_path / "there"))
    np.testing.assert_array_equal(there["loss"], here["loss"])


@pytest.mark.parametrize(
    ("artifact", "prefix", "masks_of", "text"),
    [
        ("table1", "", one_head_masks, "headline"),
        ("table2", "", all_but_one_masks, "test"),
        ("table5", "", all_but_one_masks, "headline"),
        ("table5", "valid_", all_but_one_masks, "valid"),
        ("figure2a", "home_", one_head_masks, "test"),
        ("figure2a", "far_", one_head_masks, "far"),
    ],
)
def test_a_sweep_is_what_each_mask_does_to_each_translation(
    smoke, subject, artifact, prefix, masks_of, text
):
    result = measurements.get(artifact, smoke)
    raw, masks = result.raw, masks_of(subject.model)
    pairs = {"headline": subject.headline, "far": subject.far("toy-far")}.get(text)
    pairs = pairs or subject.pairs(text)
    heads = raw.get(f"{prefix}heads", raw["heads"])
    uncut, cut = scores_of(raw, prefix)
    assert uncut == pytest.approx(plainly.bleu(subject, pairs), abs=1e-3)
    assert text == "far" or uncut > 20
    for row in (0, len(heads) // 2, len(heads) - 1):
        kind, layer, head = heads[row]
        expected = plainly.bleu(subject, pairs, masks[KINDS[kind], layer, head])
        assert cut[row] == pytest.approx(expected, abs=1e-3)
    if not prefix:  # that is what the records are about
        assert result.n_examples == len(pairs)
        assert result.values["baseline"]["bleu"] == pytest.approx(uncut, abs=1e-3)
    layers = {(block.kind, block.layer) for block in find_heads(subject.model)}
    if prefix == "valid_":  # the heads that are reported are the best ones there
        assert {(KINDS[kind], layer) for kind, layer, _ in raw["heads"]} == layers
        for reported in raw["heads"]:
            same = (heads[:, :2] == reported[:2]).all(1)
            assert cut[(heads == reported).all(1)] == cut[same].max()


@pytest.mark.parametrize(
    ("artifact", "part"),
    [
        ("figure3a", "importance"),
        ("figure3a", "random"),
        ("figure4", "enc-dec importance"),
        ("figure6d", "importance training 6"),
    ],
)
def test_curves_are_what_masks_along_the_stored_orders_do(smoke, pre, artifact, part):
    profile, seed = (pre, 6) if artifact == "figure6d" else (smoke, 1)
    measured = measurements.get(artifact, profile, parts=[part]).parts[part]
    subject, raw = TranslationSubject.of(profile, "toy", seed), measured.raw
    assert measured.runs == [subject.run] and list(measured.signature["recipe"]) == [f"seed {seed}"]
    pairs = subject.pairs("test") if artifact == "figure4" else subject.headline
    order = [(KINDS[kind], layer, head) for kind, layer, head in raw["order"][0].tolist()]
    assert {head[0] for head in order} == ({"enc-dec"} if artifact == "figure4" else {*KINDS})
    _, curve = scores_of({**raw, "heads": raw["counts_change"]})
    for step in (3, 6):
        mask = order_mask(subject.model, order, math.ceil(len(order) * step / 10 - 1e-9))
        expected = plainly.bleu(subject, pairs, mask)
        assert curve[step - 1] == pytest.approx(expected, abs=1e-3)


def test_importance_is_the_mean_over_verses_of_the_derivative(smoke, tmp_path):
    subject = TranslationSubject.of(smoke, "toy")
    scores = subject.importance(Journal(tmp_path), normalize=None)
    assert {kind: tuple(one.shape) for kind, one in scores.items()} == dict.fromkeys(KINDS, (2, 4))
    pairs, step, model = subject.split("score"), 1e-4, subject.model.double()
    block = next(b for b in find_heads(model) if (b.kind, b.layer) == ("enc-dec", 1))
    weight = block.part(model, "output").weight.data
    columns, nats = slice(2 * block.head_dim, 3 * block.head_dim), []
    for factor in (1 + step, (1 - step) / (1 + step)):
        weight[:, columns] *= factor
        nats.append(plainly.reference_nats(subject, pairs)[0])
    weight[:, columns] /= 1 - step
    model.float()
    expected = np.abs((nats[0] - nats[1]) / (2 * step)).mean()
    assert float(scores["enc-dec"][1, 2]) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("part", ["entropy training 6", "importance tuned"])
def test_orders_beside_each_other_are_followed_as_plain_masks_say(pre, part):
    raw = measurements.get("which_first", pre, task="toy", parts=[part]).parts[part].raw
    subject, pairs = TranslationSubject.of(pre, "toy", 6 if "6" in part else 1), None
    pairs = subject.pairs("test")
    order = [(KINDS[kind], layer, head) for kind, layer, head in raw["order"][0].tolist()]
    uncut, curve = scores_of(
        {**raw, "counts_change": raw["counts_change"][0], "heads": raw["shares"]}
    )
    for step in (4, 9):
        n_cut = math.ceil(len(order) * raw["shares"][step] - 1e-9)
        mask = order_mask(subject.model, order, n_cut)
        if "tuned" in part:
            mask = tune_mask(subject.model, mask, subject.forced(subject.split("score")).batches)
            for kind, gates in mask.items():
                np.testing.assert_allclose(raw[f"gates {kind}"][0, step], gates, atol=1e-3)
        assert curve[step] == pytest.approx(plainly.bleu(subject, pairs, mask), abs=1e-3)
        nats, pieces = plainly.reference_nats(subject, pairs, mask)
        assert raw["log_loss"][0, step] == pytest.approx((nats / pieces).mean(), rel=1e-3)
    assert curve[0] == pytest.approx(uncut)


def test_quality_with_and_without_shared_ngrams(smoke, subject):
    values = measurements.get("quality", smoke).values
    for beams in (1, 5):
        expected = plainly.bleu(subject, subject.headline, beams=beams)
        assert values[f"beam {beams}"]["bleu"] == pytest.approx(expected, abs=1e-3)
    assert [record["epoch"] for record in values["curve"]] == list(range(1, 10))
    train = Texts(("a b c d e f",), second=("one two",))
    test = Texts(("x B, c D e", "b c d", "c d x"), second=("y", "y", "y"))
    assert shared_ngrams(train, test, 3).tolist() == [True, True, False]
    assert shared_ngrams(train, test, 4).tolist() == [True, False, False]


# --- along a training -------------------------------------------------------------------------------


def test_checkpoints_are_matched_by_share_of_the_best_bleu():
    bleus = enumerate((1, 3, 11, 16, 17, 20, 19), 1)
    epochs = [Point(10 * epoch, epoch, bleu, {"epoch": epoch}) for epoch, bleu in bleus]
    shares = [0.09, 0.18, 0.52, 0.77, 0.88, 0.99, 1.0]
    wanted = Checkpoints(shares, False, None, False, None, None)
    assert [point.epoch for point in chosen(epochs, wanted)] == [1, 2, 3, 4, 5, 6]
    start = Point(0, 0.0, math.nan, {"update": 0})
    quarter = Point(18, 1.75, 1.9, {"update": 18})  # 9.5% of the best
    wanted = dataclasses.replace(wanted, shares=[0.09, 0.5], within=True, every=3)
    found = chosen([start, epochs[0], quarter, *epochs[1:]], wanted)
    assert [point.updates for point in found] == [0, 18, 30, 60, 70]  # every third, and the last


def test_random_orders_are_the_same_for_every_checkpoint_and_training(pre):
    """Models of two seeds and of two times share nothing but what is cut."""
    found = []
    for seed, kept in ((1, {"update": 0}), (6, {"update": 0}), (6, {"epoch": 9})):
        subject = TranslationSubject.of(pre, "toy", seed, **kept)
        plain = {kind: torch.rand(2, 4) for kind in KINDS}
        masks = further_masks(subject, plain, pre.checkpoints["pre-norm"], 10)
        found.append(torch.stack([masks["random 0"][kind] for kind in KINDS]))
    assert (found[0] == 0).sum() == 10
    assert all(torch.equal(mask, found[0]) for mask in found)
