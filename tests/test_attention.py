"""Attention weights against what the model itself hands out."""

import pytest
import torch
from tiny import BUILDERS, DECODERS, ENCODER_DECODERS, batch_for, build, inputs_of

from headprune_lib import cut_heads, prune_heads
from headprune_lib.attention import attention_of
from headprune_lib.heads import find_heads

OWN = {
    "self": "attentions",
    "enc-enc": "encoder_attentions",
    "dec-dec": "decoder_attentions",
    "enc-dec": "cross_attentions",
}


def by_block(model, batch):
    """(kind, layer) -> weights; of layers that share a module the last."""
    return {
        (blocks[number].kind, blocks[number].layer): weights
        for blocks, number, weights in attention_of(model, [batch])
    }


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_they_are_what_the_model_hands_out(name):
    model, batch = build(name), batch_for(name)
    found = by_block(model, batch)
    assert {*found} == {(block.kind, block.layer) for block in find_heads(model)}
    outputs = model(**inputs_of(batch), output_attentions=True)
    for (kind, layer), weights in found.items():
        handed = getattr(outputs, OWN[kind], None)
        if handed:  # not by gpt2, in this version
            expected = handed[-1 if name == "albert" else layer]
            torch.testing.assert_close(weights.values, expected)
        sums = (weights.values * weights.seen[:, None]).sum(-1)
        asking = weights.seen.any(-1)[:, None].expand(sums.shape)
        torch.testing.assert_close(sums[asking], torch.ones_like(sums[asking]))


def expected_seen(name, kind, batch, window):
    """Which keys a real query may look at, by the rules of attention."""
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
    sharp = prune_heads(
        sharp, cut_heads(sharp, [("self", i, h) for i in range(3) for h in (1, 2, 3)])
    )
    given = batch_for("bert")
    for (kind, _), weights in by_block(sharp, given).items():
        expected = expected_seen("bert", kind, given, None)
        lost = (weights.values == 0).all(1) & expected
        assert lost.any(), "no weight is lost to the precision: the test is to be sharper"
        assert torch.equal(weights.seen, expected)
