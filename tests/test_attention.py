"""Attention weights against those that the model itself returns, and statistics of them."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import BUILDERS, DECODERS, ENCODER_DECODERS, batch_for, build, inputs_of

from headprune_lib import prune_heads
from headprune_lib.attention import (
    Weights,
    attention_weights,
    entropies,
    greatest,
    mass_at,
    mass_on,
)
from headprune_lib.discovery import find_heads

OWN = {
    "self": "attentions", "enc-enc": "encoder_attentions", "dec-dec": "decoder_attentions",
    "enc-dec": "cross_attentions",
}  # fmt: skip


def by_block(model, batch):
    """(kind, layer) -> weights; for layers that share a module, the last ones."""
    blocks = find_heads(model)
    return {
        (blocks[number].kind, blocks[number].layer): weights
        for number, weights in attention_weights(model, blocks, batch)
    }


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_they_are_what_the_model_hands_out(name):
    model, batch = build(name), batch_for(name)
    found = by_block(model, batch)
    assert {*found} == {(block.kind, block.layer) for block in find_heads(model)}
    outputs = model(**inputs_of(batch), output_attentions=True)
    for (kind, layer), weights in found.items():
        handed = getattr(outputs, OWN[kind], None)
        if handed:  # gpt2 returns none in this version
            expected = handed[-1 if name == "albert" else layer]
            torch.testing.assert_close(weights.values, expected)
        sums = (weights.values * weights.seen[:, None]).sum(-1)
        asking = weights.seen.any(-1)[:, None].expand(sums.shape)
        torch.testing.assert_close(sums[asking], torch.ones_like(sums[asking]))


def expected_seen(name, kind, batch, window):
    """The keys that a real query may attend to, by the rules of attention."""
    source = batch["attention_mask"].bool()
    queries, keys = source, source
    if name in ENCODER_DECODERS:
        target = batch["labels"] != -100
        queries = source if kind == "enc-enc" else target
        keys = target if kind == "dec-dec" else source
    seen = queries[:, :, None] & keys[:, None, :]
    n_queries, n_keys = seen.shape[1:]
    if kind == "dec-dec" or name in DECODERS:
        seen = seen & torch.ones(n_queries, n_keys).tril().bool()
    if window:
        apart = torch.arange(n_queries)[:, None] - torch.arange(n_keys)
        seen = seen & (apart.abs() < window)
    return seen


@pytest.mark.parametrize("name", ["bert", "mpnet", "bart", "t5", "gpt2", "llama", "mistral"])
def test_padding_and_what_comes_later_are_not_seen(name):
    batch = batch_for(name)
    window = 4 if name == "mistral" else None
    for (kind, _), weights in by_block(build(name), batch).items():
        assert torch.equal(weights.seen, expected_seen(name, kind, batch, window)), kind


def test_a_weight_too_small_for_the_precision_is_on_a_key_that_is_seen():
    sharp = build("bert")
    for layer in sharp.bert.encoder.layer:
        layer.attention.self.query.weight.data *= 300
    sharp = prune_heads(sharp, [(i, head) for i in range(3) for head in (1, 2, 3)])
    given = batch_for("bert")
    for (kind, _), weights in by_block(sharp, given).items():
        expected = expected_seen("bert", kind, given, None)
        lost = (weights.values == 0).all(1) & expected
        assert lost.any(), "no weight is lost to the precision: the test is to be sharper"
        assert torch.equal(weights.seen, expected)


def made_up(seed):
    """Random weights of 2 examples, 3 heads and 4 queries, with keys and queries that do not count."""
    generator, n_keys = torch.Generator().manual_seed(seed), 6
    seen = torch.rand(2, 4, n_keys, generator=generator) < 0.7
    seen[0, 0] = False  # a query that sees nothing
    seen[1, 1] = torch.arange(n_keys) == 2  # and one that sees one key
    raw = torch.rand(2, 3, 4, n_keys, generator=generator, dtype=torch.float64) ** 3
    raw = raw * seen[:, None]
    values = raw / raw.sum(-1, keepdim=True).clamp(min=1e-300)
    return Weights(values, seen, torch.randint(0, 4, (2, n_keys), generator=generator))


def by_loops(weights, of):
    """Each head's (sum, count), query by query; ``of`` gets the keys' weight, id and distance."""
    n_rows, n_heads, n_queries, n_keys = weights.values.shape
    sums, counts = [0.0] * n_heads, [0] * n_heads
    for row, head, query in itertools.product(range(n_rows), range(n_heads), range(n_queries)):
        keys = [
            (float(weights.values[row, head, query, key]), int(weights.ids[row, key]), key - query)
            for key in range(n_keys)
            if weights.seen[row, query, key]
        ]
        if (value := of(keys)) is not None:
            sums[head] += value
            counts[head] += 1
    return sums, counts


def plain_entropy(given):
    if len(given) < 2 or sum(given) == 0:
        return None
    shares = [each / sum(given) for each in given]
    return -sum(each * math.log(each) for each in shares if each) / math.log(len(given))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sets(st.integers(0, 3), max_size=3), st.integers(-1, 1))
def test_statistics_are_plain_loops_over_queries_and_keys(seed, ids, offset):
    weights = made_up(seed)

    def others(keys):
        return [weight for weight, id_, _ in keys if id_ not in ids]

    def on_them(keys):
        return sum(weight for weight, id_, _ in keys if id_ in ids) if keys else None

    def beside(keys):
        return next((weight for weight, _, distance in keys if distance == offset), None)

    for found, of in (
        (entropies(weights, ids), lambda keys: plain_entropy(others(keys))),
        (greatest(weights, ids), lambda keys: max(others(keys), default=None)),
        (mass_on(weights, ids), on_them),
        (mass_at(weights, offset), beside),
    ):
        sums, counts = by_loops(weights, of)
        torch.testing.assert_close(found[0], torch.tensor(sums, dtype=torch.float64))
        torch.testing.assert_close(found[1], torch.tensor(counts, dtype=torch.float64))
