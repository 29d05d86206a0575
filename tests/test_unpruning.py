"""A pruned model at its original size computes the same, and has its heads back where they are given."""

import copy

import pytest
import torch
import transformers as t
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import BUILDERS, batch_for, build

from headprune_lib import cut_heads, find_heads, full_mask, masked_heads, prune_heads, prune_mask
from headprune_lib.unpruning import unprune_heads


def cut(model, seed, per_group=False):
    """Some heads of every kind at random, and all of one layer."""
    generator = torch.Generator().manual_seed(seed)
    scores = {
        kind: torch.rand(mask.shape, generator=generator) for kind, mask in full_mask(model).items()
    }
    mask = prune_mask(model, scores, 0.4, per_group=per_group)
    if not per_group:
        next(iter(mask.values()))[-1] = 0
    return prune_heads(model, mask)


def outputs(model, name):
    with torch.no_grad():
        return model(**batch_for(name)).logits


@pytest.mark.parametrize("name", sorted(BUILDERS))
def test_zeros_in_place_of_what_was_removed_change_nothing(name):
    full = build(name)
    pruned = cut(build(name), seed=3)
    before = {key: value.clone() for key, value in pruned.state_dict().items()}
    whole = unprune_heads(pruned)
    torch.testing.assert_close(outputs(whole, name), outputs(pruned, name), rtol=1e-10, atol=1e-12)
    assert {k: v.shape for k, v in whole.state_dict().items()} == {
        k: v.shape for k, v in full.state_dict().items()
    }
    assert all(len(block.kept) == block.n_heads for block in find_heads(whole))
    after = pruned.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(sorted(BUILDERS)), st.integers(0, 10_000))
def test_with_the_originals_heads_it_is_the_original(name, seed):
    original = build(name)
    whole = unprune_heads(cut(copy.deepcopy(original), seed), original)
    theirs = original.state_dict()
    assert all(torch.equal(value, theirs[key]) for key, value in whole.state_dict().items())


def test_what_the_others_learned_meanwhile_stays():
    original = build("bert")
    pruned = prune_heads(copy.deepcopy(original), cut_heads(original, [("self", 1, 2)]))
    with torch.no_grad():
        for parameter in pruned.parameters():
            parameter += 1
    whole = unprune_heads(pruned, original)
    (query, theirs) = (
        one.bert.encoder.layer[1].attention.self.query.weight for one in (whole, original)
    )
    old = torch.arange(16) // 4 == 2
    assert torch.equal(query[old], theirs[old]) and torch.equal(query[~old], theirs[~old] + 1)


def test_equally_many_of_each_group_are_put_back_where_they_were():
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 4}
    config = t.LlamaConfig(**shape, num_hidden_layers=2, intermediate_size=24, vocab_size=30)
    original = t.LlamaForCausalLM(config).double().eval()
    pruned = cut(copy.deepcopy(original), 1, per_group=True)
    ids = torch.arange(4, 12)[None]
    with torch.no_grad():
        expected, found = pruned(ids).logits, unprune_heads(pruned)(ids).logits
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_heads_of_classes_that_were_found_are_put_back_too():
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2}
    more = {"vocab_size": 30, "intermediate_size": 24}
    for made in (
        t.ErnieForSequenceClassification(t.ErnieConfig(**shape, **more)),
        t.Qwen2ForCausalLM(t.Qwen2Config(**shape, **more, num_key_value_heads=4)),
    ):
        model, ids = made.double().eval(), torch.arange(4, 12)[None]
        pruned = cut(model, 2)
        with torch.no_grad():
            expected, found = pruned(ids).logits, unprune_heads(pruned)(ids).logits
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_what_a_caller_has_is_left_as_it_was():
    pruned = cut(build("bert"), 0).train()
    pruned.bert.embeddings.requires_grad_(False)
    state = torch.get_rng_state()
    whole = unprune_heads(pruned)
    assert torch.equal(torch.get_rng_state(), state) and whole.training
    assert not whole.bert.embeddings.word_embeddings.weight.requires_grad
    assert whole.classifier.weight.requires_grad
    with torch.no_grad():  # nothing is shared
        whole.classifier.weight += 1
    assert not torch.equal(whole.classifier.weight, pruned.classifier.weight)


def test_an_unpruned_model_comes_back_as_a_copy():
    model = build("bert")
    whole = unprune_heads(model)
    assert whole is not model
    assert torch.equal(outputs(whole, "bert"), outputs(model, "bert"))


def test_what_cannot_be_made_again_is_refused():
    pruned = cut(build("bert"), 0)
    small = t.BertForSequenceClassification(t.BertConfig(hidden_size=8, num_attention_heads=4))
    with pytest.raises(ValueError, match="the model that the heads were removed from"):
        unprune_heads(pruned, small)
    with masked_heads(pruned, full_mask(pruned)), pytest.raises(RuntimeError, match="masked"):
        unprune_heads(pruned)
    activation = pruned.bert.pooler.activation
    pruned.bert.pooler.activation = torch.nn.ReLU()
    with pytest.raises(ValueError, match="bert.pooler.activation is ReLU"):
        unprune_heads(pruned)
    pruned.bert.pooler.activation = activation
    pruned.classifier = torch.nn.Linear(16, 7)
    with pytest.raises(ValueError, match="classifier.*put other changes into model.config"):
        unprune_heads(pruned)
    with pytest.raises(ValueError, match="DataParallel is no model of transformers"):
        unprune_heads(torch.nn.DataParallel(build("bert")))
    untied = build("gpt2")
    assert untied.config.tie_word_embeddings
    untied.lm_head.weight = torch.nn.Parameter(untied.lm_head.weight.detach() + 1)
    with pytest.raises(ValueError, match="is not tied as its class ties it"):
        unprune_heads(cut(untied, 1))

    class Own(t.BertForSequenceClassification):
        def __init__(self, config, more):
            super().__init__(config)

    with pytest.raises(ValueError, match="Own is not made of its configuration alone"):
        unprune_heads(Own(build("bert").config, 1))


def test_positions_are_in_the_precision_that_the_model_has():
    pruned = cut(build("llama"), 0, per_group=True).to(torch.bfloat16)
    ids = torch.arange(4, 12)[None]
    with torch.no_grad():
        assert torch.equal(unprune_heads(pruned)(ids).logits, pruned(ids).logits)


def test_weights_computed_from_others_are_taken_as_they_are():
    torch.manual_seed(0)
    config = t.Wav2Vec2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32,
        conv_dim=(8,), conv_kernel=(4,), conv_stride=(2,), num_feat_extract_layers=1,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    model = t.Wav2Vec2Model(config).eval()  # its positions' convolution has weight_norm
    pruned = cut(copy.deepcopy(model), seed=3)
    whole, sound = unprune_heads(pruned), {"input_values": torch.randn(2, 40)}
    with torch.no_grad():
        found, wanted = whole(**sound), pruned(**sound)
    torch.testing.assert_close(found.last_hidden_state, wanted.last_hidden_state)
