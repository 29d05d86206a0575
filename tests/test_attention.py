"""Attention weights against what the model itself hands out, and their statistics written out."""

import math

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import BUILDERS, DECODERS, ENCODER_DECODERS, IMAGES, batch_for, build

from headprune_lib import cut_heads, prune_heads
from headprune_lib.attention import (
    Weights,
    attention_of,
    end_ids,
    entropies,
    greatest,
    mass_at,
    mass_on,
    read_weights,
    recorded_weights,
    special_ids,
)
from headprune_lib.criteria.gradients import batch_gradients, gate_gradients
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
    outputs = model(
        **{key: value for key, value in batch.items() if key != "labels"}, output_attentions=True
    )
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


def test_images_have_no_padding_and_no_ids():
    (name,) = IMAGES
    for weights in by_block(build(name), batch_for(name)).values():
        assert weights.seen.all() and weights.ids is None
        assert mass_on(weights, [1])[0].sum() == 0


def test_heads_that_are_gone_have_none():
    model = prune_heads(build(), cut_heads(build(), [("self", 1, 0), ("self", 1, 3)]))
    found = by_block(model, batch_for("bert"))
    assert [weights.values.shape[1] for weights in found.values()] == [4, 2, 4]


def test_one_pass_gives_importance_and_weights():
    model, batch = build(), batch_for("bert")
    blocks = find_heads(model)
    with recorded_weights(model, blocks) as found:
        ((moved, gradients),) = batch_gradients(model, [batch], blocks, None, None)
    for number, weights in read_weights(blocks, found, moved):
        alone = by_block(model, batch)["self", number]
        torch.testing.assert_close(weights.values, alone.values)
        assert not weights.values.requires_grad
    assert found == [[], [], []], "emptied for the next batch"
    for one, other in zip(gradients, gate_gradients(model, batch), strict=True):
        torch.testing.assert_close(one, other)


def test_the_model_is_as_it_was_also_after_an_error():
    model, blocks = build(), find_heads(build())
    with pytest.raises(RuntimeError, match="in the middle"), recorded_weights(model, blocks):
        raise RuntimeError("in the middle")
    assert not model.config.output_attentions
    assert not any(module._forward_hooks for module in model.modules())


def test_a_kernel_without_weights_is_refused():
    message = "the kernel 'sdpa' makes none: load the model with attn_implementation"
    with pytest.raises(ValueError, match=message):
        next(attention_of(build("bert", "sdpa"), [batch_for("bert")]))
    model = build("bert", "sdpa")
    model.set_attn_implementation("eager")
    assert by_block(model, batch_for("bert"))


# --- statistics -----------------------------------------------------------------------------------


def made_up(seed, n_keys=6):
    """Random weights of 2 examples, 3 heads and 4 queries, with keys and queries that do not count."""
    generator = torch.Generator().manual_seed(seed)
    seen = torch.rand(2, 4, n_keys, generator=generator) < 0.7
    seen[0, 0] = False  # a query that sees nothing
    seen[1, 1] = torch.arange(n_keys) == 2  # and one that sees one key
    raw = torch.rand(2, 3, 4, n_keys, generator=generator, dtype=torch.float64) ** 3
    raw = raw * seen[:, None]
    values = raw / raw.sum(-1, keepdim=True).clamp(min=1e-300)
    return Weights(values, seen, torch.randint(0, 4, (2, n_keys), generator=generator))


def by_loops(weights, leave_out, of):
    """(sum, count) of each head, a query and a key at a time."""
    n_rows, n_heads, n_queries, n_keys = weights.values.shape
    sums, counts = [0.0] * n_heads, [0] * n_heads
    for head in range(n_heads):
        for row in range(n_rows):
            for query in range(n_queries):
                given = [
                    float(weights.values[row, head, query, key])
                    for key in range(n_keys)
                    if weights.seen[row, query, key] and int(weights.ids[row, key]) not in leave_out
                ]
                value = of(given)
                if value is not None:
                    sums[head] += value
                    counts[head] += 1
    return sums, counts


def plain_entropy(given):
    if len(given) < 2 or sum(given) == 0:
        return None
    shares = [each / sum(given) for each in given]
    return -sum(each * math.log(each) for each in shares if each) / math.log(len(given))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), leave_out=st.sets(st.integers(0, 3), max_size=3))
def test_entropy_and_greatest_weight_are_plain_loops(seed, leave_out):
    weights = made_up(seed)
    for found, of in (
        (entropies(weights, leave_out), plain_entropy),
        (greatest(weights, leave_out), lambda given: max(given, default=None)),
    ):
        sums, counts = by_loops(weights, leave_out, of)
        torch.testing.assert_close(found[0], torch.tensor(sums, dtype=torch.float64))
        torch.testing.assert_close(found[1], torch.tensor(counts, dtype=torch.float64))


def test_even_weights_have_entropy_1_and_a_single_one_0():
    seen = torch.ones(1, 1, 4).bool()
    even = Weights(torch.full((1, 1, 1, 4), 0.25), seen, None)
    single = Weights(torch.tensor([[[[0.0, 1.0, 0.0, 0.0]]]]), seen, None)
    assert (float(entropies(even)[0]), float(entropies(single)[0])) == (pytest.approx(1), 0)
    assert (float(greatest(even)[0]), float(greatest(single)[0])) == (0.25, 1)


def test_a_single_visible_key_and_none_leave_no_nan():
    one = Weights(torch.ones(1, 2, 3, 1), torch.ones(1, 3, 1).bool(), None)
    none = Weights(torch.full((1, 2, 3, 2), 0.5), torch.zeros(1, 3, 2).bool(), None)
    for weights in (one, none):
        sums, counts = entropies(weights)
        assert sums.tolist() == [0, 0] and counts.tolist() == [0, 0]
    assert greatest(none)[1].tolist() == [0, 0] and mass_on(none, [1])[1].tolist() == [0, 0]


def test_the_mass_on_some_tokens():
    ids = torch.tensor([[7, 1, 2, 7]])
    values = torch.tensor([[[[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.5, 0.0]]]])
    seen = torch.tensor([[[True] * 4, [True, True, True, False]]])
    sums, counts = mass_on(Weights(values, seen, ids), [7])
    assert float(sums) == pytest.approx(0.1 + 0.4 + 0.25) and counts.tolist() == [2]


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_the_mass_beside_a_query_is_a_plain_loop_over_what_the_model_hands_out(offset):
    model, batch = build("bert"), batch_for("bert")
    inputs = {key: value for key, value in batch.items() if key != "labels"}
    with torch.no_grad():
        handed = model(**inputs, output_attentions=True).attentions
    lengths = batch["attention_mask"].sum(1).tolist()
    assert len({*lengths}) > 1, "without padding the test says less"
    for (_, layer), weights in by_block(model, batch).items():
        sums, counts = mass_at(weights, offset)
        for head in range(sums.shape[0]):
            given = [
                float(handed[layer][row, head, query, query + offset])
                for row, length in enumerate(lengths)
                for query in range(length)
                if 0 <= query + offset < length
            ]
            assert int(counts[head]) == len(given) > 0
            assert float(sums[head]) == pytest.approx(sum(given), rel=1e-5)


def test_the_special_ids_a_model():
    assert special_ids(build("bart")) == (0, 1, 2)


def longformer(cls=transformers.LongformerForSequenceClassification):
    torch.manual_seed(0)
    shape = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LongformerConfig(
        **shape,
        intermediate_size=16,
        attention_window=[4, 4],
        max_position_embeddings=66,
        num_labels=3,
    )
    return cls(config).double().eval()


@pytest.mark.parametrize(
    "cls",
    [
        transformers.LongformerForSequenceClassification,
        transformers.LongformerForTokenClassification,
    ],
)
def test_weights_of_other_queries_or_places_are_refused(cls):
    model, given = longformer(cls), batch_for("bert")
    del given["labels"]
    assert find_heads(model)
    with pytest.raises(
        ValueError, match="returns attention weights of shape .* not \\(example, head"
    ):
        list(attention_of(model, [given]))


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


def test_padding_that_is_of_no_query_is_refused():
    model, given = build("bert"), batch_for("bert")
    blocks = find_heads(model)
    with recorded_weights(model, blocks) as found, torch.no_grad():
        model(**{name: value for name, value in given.items() if name != "labels"})
    longer = {**given, "attention_mask": torch.nn.functional.pad(given["attention_mask"], (0, 2))}
    with pytest.raises(ValueError, match="which of them are padding is not known"):
        list(read_weights(blocks, found, longer))


@pytest.mark.parametrize("seed", range(2))
def test_end_marks_are_those_of_the_tokenizer(seed):
    class Names:
        eos_token_id, sep_token_id = (None, 7) if seed else (5, 7)

    assert end_ids(Names()) == ((7,) if seed else (5, 7))
