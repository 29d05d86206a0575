"""What is measured of encoders on the smoke profile, against plain loops over single sentences."""

import itertools
import math

import numpy as np
import plainly
import pytest
import scipy.stats
import torch

from headprune_lib import find_heads, order_mask, rank_heads, score_heads
from headprune_lib.ablation import all_but_one_masks, one_head_masks
from headprune_lib.replication import measurements
from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.measurements.head_roles import OFFSETS
from headprune_lib.replication.measurements.scores import DRAWS, drawn, sizes_of
from headprune_lib.replication.measurements.which_first import ALPHAS, COMBINED, CONTROL
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.order_names import parse_part
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.utils import without_labels


@pytest.fixture(scope="module")
def subject(smoke):
    return EncoderSubject.of(smoke, kernel="eager")


@pytest.fixture(scope="module")
def which_first(smoke):
    return measurements.get("which_first", smoke)


def far(profile):
    return TASKS["synthetic-far"].split("test", None).first(profile.n_domain)


@pytest.mark.parametrize(
    ("measurement", "prefix", "masks_of", "text"),
    [
        ("one_head", "", one_head_masks, "test"),
        ("all_but_one", "", all_but_one_masks, "test"),
        ("best_heads", "", all_but_one_masks, "test"),
        ("best_heads", "train_", all_but_one_masks, "selection"),
        ("across_domains", "synthetic/", one_head_masks, "test"),
        ("across_domains", "synthetic-far/", one_head_masks, "far"),
    ],
)
def test_a_sweep_is_what_each_mask_does_to_each_sentence(
    smoke, subject, measurement, prefix, masks_of, text
):
    raw = measurements.get(measurement, smoke).raw
    examples = far(smoke) if text == "far" else getattr(subject, text)
    heads, masks = raw[f"{prefix}heads"], masks_of(subject.model)
    if (measurement, prefix) != ("best_heads", ""):
        assert len(heads) == sum(block.n_heads for block in find_heads(subject.model))
    for row in {0, len(heads) // 2, len(heads) - 1}:
        right, nats = plainly.answers(subject, examples, masks["self", *heads[row]])
        np.testing.assert_array_equal(raw[f"{prefix}correct"][row], right)
        found = (raw[f"{prefix}loss_uncut"] + raw[f"{prefix}loss_change"][row]) / 1000
        np.testing.assert_allclose(found, nats, atol=2e-3)
    if prefix == "train_":  # the heads that are reported are the best ones there
        chosen = dict(raw["heads"].tolist())
        best = raw["train_correct"].sum(1).reshape(2, 4)
        assert [best[layer, chosen[layer]] for layer in (0, 1)] == best.max(1).tolist()


def test_curves_are_what_masks_along_the_stored_orders_do(smoke, which_first):
    curve = measurements.get("pruning_curve", smoke)
    runs = curve.parts["importance"].runs
    assert [run["seed"] for run in runs] == smoke.seeds and len(curve.parts["oracle"].runs) == 1
    backwards = curve.parts["importance reversed"].raw["order"][0]
    assert (backwards == curve.parts["importance"].raw["order"][0][::-1]).all()
    assert {*which_first.parts} == {
        name for order in smoke.compared for name in (order, f"{order} training 2")
    }
    parts = [*curve.parts.items(), *which_first.parts.items()]
    for (name, part), step in zip(parts, itertools.cycle((3, 8, 5))):
        raw, seed = part.raw, parse_part(name).training or 1
        assert part.runs[0]["seed"] == seed
        subject = EncoderSubject.of(smoke, seed)
        order = [("self", *head) for head in raw["order"][0]]
        mask = order_mask(subject.model, order, math.ceil(8 * raw["shares"][step] - 1e-9))
        right, nats = plainly.answers(subject, subject.test, mask)
        assert (raw["correct"][0, step] != right).sum() <= 1, name
        assert raw["log_loss"][0, step] == pytest.approx(nats.mean(), abs=2e-3)
        if "loss" in raw:
            np.testing.assert_allclose(raw["loss"][0, step] / 1000, nats, atol=2e-3)


def test_the_weight_is_chosen_on_training_sentences(which_first, smoke):
    raw = which_first.parts[f"{COMBINED} training 2"].raw
    subject = EncoderSubject.of(smoke, 2, "eager")
    batches, added = subject.batches(subject.scoring).batches, {}
    for alpha in ALPHAS:
        scores = score_heads(subject.model, batches, "importance-entropy", alpha=alpha)
        order = rank_heads(scores)
        each = [
            plainly.answers(subject, subject.selection, order_mask(subject.model, order, n))[1]
            for n in range(5)
        ]
        means = np.array([each[math.ceil(0.4 * step - 1e-9)].mean() for step in range(11)])
        added[f"alpha={alpha:g}"] = np.trapezoid(means - means[0], dx=0.05) / 0.5
        if f"alpha={alpha:g}" == raw["said"][0]:
            assert [list(head[1:]) for head in order] == raw["order"][0].tolist()
    assert added[raw["said"][0]] == pytest.approx(min(added.values()), abs=5e-4)
    combined, control = (which_first.parts[name].raw for name in (COMBINED, CONTROL))
    orders = {tuple(map(tuple, order)) for order in control["order"].tolist()}
    assert combined["said"][0] == "alpha=1" or len(orders) > 5


# --- scores -----------------------------------------------------------------------------------------


def test_sentences_of_scores_and_of_choices_are_apart():
    subject = EncoderSubject(load_profile("smoke"), 1, None, "")
    subject.check_apart()
    train = TASKS["synthetic"].split("train", None)
    assert subject.selection.texts == train.texts[:32]
    assert subject.scoring.texts == train.texts[-32:]
    used = EncoderSubject(load_profile("smoke", n_used=5), 1, None, "")
    assert used.test.texts == TASKS["synthetic"].split("test", None).texts[5:53]
    for more in ({"n_selection": len(train) - 31}, {"n_scoring": len(train) - 31}):
        with pytest.raises(ValueError, match=r"so that no sentence is in both"):
            EncoderSubject(load_profile("smoke", **more), 1, None, "").check_apart()


def test_draws_share_no_sentence_and_the_larger_contain_the_smaller():
    texts = Texts(tuple(map(str, range(4000))), tuple(i % 2 for i in range(4000)))
    found = {(n, draw): {*some.texts} for n, draw, some in drawn(texts)}
    assert [*found] == [*itertools.product((16, 64, 256, 1000), range(3)), (4000, 0)]
    for (n, draw), some in found.items():
        assert len(some) == n and some <= found.get((n * 4, draw), some)
    for one, other in itertools.combinations(range(DRAWS), 2):
        assert not found[1000, one] & found[1000, other]
    (_, _, some), *_ = drawn(texts)
    assert [int(text) % 2 for text in some.texts] == [*some.labels]
    assert sizes_of(4000) == (16, 64, 256, 1000, 4000) and sizes_of(60) == (16, 60)


def test_roles_are_means_over_queries_of_the_attention_that_the_model_hands_out(smoke, subject):
    raw = measurements.get("head_roles", smoke).raw
    special, rows = load_tokenizer(smoke.model).all_special_ids, {}
    for i in range(len(subject.scoring)):
        (batch,) = subject.batches(subject.scoring.after(i).first(1)).batches
        with torch.no_grad():
            found = subject.model(**without_labels(batch), output_attentions=True).attentions
        weights, ids = torch.stack(found)[:, 0].double().numpy(), batch["input_ids"][0]
        n = weights.shape[-1]
        entropies = scipy.stats.entropy(weights, axis=-1) / np.log(n)
        rows.setdefault("entropy", []).append(entropies)
        rows.setdefault("special", []).append(weights[..., np.isin(ids, special)].sum(-1))
        for name, offset in OFFSETS.items():
            rows.setdefault(name, []).append(np.diagonal(weights, offset, -2, -1))
    for name, each in rows.items():
        expected = np.concatenate(each, -1).mean(-1)
        np.testing.assert_allclose(raw[name], expected, rtol=1e-4, err_msg=name)
