"""What heads look at, against the attention that the model hands out."""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch

from headprune_lib.criteria.entropy import means_over_queries
from headprune_lib.orders import prune_schedule
from headprune_lib.replication import measurements
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements import head_roles
from headprune_lib.replication.measurements.head_roles import OFFSETS, ORDERS, ROLES
from headprune_lib.replication.pretrained import load_tokenizer


@pytest.fixture(scope="module")
def result(smoke):
    return measurements.get("head_roles", smoke)


@pytest.fixture(scope="module")
def attended(smoke):
    """Layer after layer: the weights (head, query, key) of every sentence alone, and its ids."""
    subject = EncoderSubject.of(smoke, kernel="eager")
    found = []
    for batch in subject.batches(subject.scoring).batches:
        inputs = {key: value for key, value in batch.items() if key != "labels"}
        with torch.no_grad():
            layers = subject.model(**inputs, output_attentions=True).attentions
        for row, n in enumerate(batch["attention_mask"].sum(1).tolist()):
            weights = [layer[row, :, :n, :n].double().numpy() for layer in layers]
            found.append((weights, batch["input_ids"][row, :n].tolist()))
    return found


def by_head(attended, of):
    """(layer, head): the mean over all queries of what ``of`` says of one, where it says something."""
    shape = (len(attended[0][0]), len(attended[0][0][0]))
    found = np.empty(shape)
    for layer, head in np.ndindex(shape):
        said = [
            of(weights[layer][head, query], query, ids)
            for weights, ids in attended
            for query in range(len(ids))
        ]
        found[layer, head] = np.mean([one for one in said if one is not None])
    return found


def entropy(row, _query, _ids):
    return scipy.stats.entropy(row) / np.log(len(row))


@pytest.mark.parametrize("special", ["the tokenizer's", (5, 6)])
def test_statistics_are_means_over_queries_of_what_the_model_hands_out(
    result, attended, smoke, special
):
    found = result.raw
    if special == "the tokenizer's":
        special = load_tokenizer(smoke.model).all_special_ids
    else:  # the made-up text has none of the others
        assert any({*special} & {*ids} for _, ids in attended)
        subject = EncoderSubject.of(smoke, kernel="eager")
        wanted = head_roles.statistics_of(special)
        batches = subject.batches(subject.scoring).batches
        means = means_over_queries(subject.model, batches, [*wanted.values()])
        found = {name: one["self"].numpy() for name, one in zip(wanted, means, strict=True)}
        assert np.ptp(found["special"]) > 0
    plain = {
        "entropy": entropy,
        "special": lambda row, _, ids: sum(row[i] for i, id_ in enumerate(ids) if id_ in special),
        **{
            name: lambda row, query, _, beside=beside: (
                row[query + beside] if 0 <= query + beside < len(row) else None
            )
            for name, beside in OFFSETS.items()
        },
    }
    for name, of in plain.items():
        np.testing.assert_allclose(found[name], by_head(attended, of), rtol=1e-4, err_msg=name)
    assert np.ptp(found["entropy"]) > 0


def test_steps_are_means_over_the_heads_that_go_in_them(result):
    raw = result.raw
    norms = np.sqrt((raw["importance"] ** 2).sum(1, keepdims=True))
    scores = {"importance": raw["importance"] / norms, ORDERS[1]: raw["importance"]}
    place = np.maximum(np.maximum(raw["previous"], raw["same"]), raw["next"])
    for order, values in scores.items():
        flat = np.argsort(values.ravel(), kind="stable")
        ends = prune_schedule(len(flat))
        found = result.values["orders"][order]
        assert {*found["steps"]} == {*ROLES}
        for role, each in (("place", place), ("entropy", raw["entropy"])):
            parts = [flat[a:b] for a, b in itertools.pairwise(ends) if b > a]
            expected = [each.ravel()[part].mean() for part in parts]
            steps = found["steps"][role]
            assert [step["mean"] for step in steps] == pytest.approx(expected, rel=1e-5)
            assert [step["n"] for step in steps] == [len(part) for part in parts]
            assert all(step["interval"][0] <= step["mean"] + 1e-6 for step in steps)
            rank = scipy.stats.spearmanr(np.arange(len(flat)), each.ravel()[flat])[0]
            assert found["ranks"][role]["r"] == pytest.approx(rank, rel=1e-5)


def test_layers_are_counted_from_1_and_heads_have_a_record(result):
    assert result.values["means"]["layer"] == pytest.approx(1.5)
    assert len(result.values["heads"]) == result.raw["entropy"].size
    first = result.values["heads"][0]
    assert first["layer"] == first["head"] == 0
    assert first["entropy words"] == pytest.approx(result.raw["entropy words"][0, 0], rel=1e-5)


def test_the_interval_of_a_step_is_over_its_heads():
    values = np.array([1.0, 2, 3, 6])
    found = head_roles._step(values, head_roles.Statistics(resamples=2000))
    drawn = np.random.default_rng(0).integers(0, 4, (2000, 4))
    assert found["interval"] == pytest.approx(np.quantile(values[drawn].mean(1), [0.025, 0.975]))
