"""A pruned model at its original size computes the same, and has its heads back where they are given."""

import copy

import pytest
import torch
import transformers as t
from tiny import BUILDERS, batch_for, build, logits_of, same_weights

from headprune_lib import cut_heads, find_heads, full_mask, masked_heads, prune_heads, prune_mask
from headprune_lib.saving import unprune_heads


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


FAST = {"bert", "deberta-v2", "albert", "t5", "gpt2", "gpt-neox", "llama"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in FAST else pytest.mark.slow) for n in sorted(BUILDERS)],
)
def test_zeros_or_the_originals_heads_take_the_place_of_what_was_removed(name, drawn_seed):
    original = build(name)
    pruned = cut(copy.deepcopy(original), drawn_seed)
    before = copy.deepcopy(pruned.state_dict())
    whole = unprune_heads(pruned)
    expected = logits_of(pruned, batch_for(name))
    torch.testing.assert_close(logits_of(whole, batch_for(name)), expected, rtol=1e-10, atol=1e-12)
    assert all(len(block.kept) == block.n_heads for block in find_heads(whole))
    assert same_weights(unprune_heads(pruned, original), original.state_dict())
    assert same_weights(pruned, before)


def test_what_the_others_learned_meanwhile_stays():
    original = build("bert")
    pruned = prune_heads(copy.deepcopy(original), cut_heads(original, [("self", 1, 2)]))
    with torch.no_grad():
        for parameter in pruned.parameters():
            parameter += 1
    whole = unprune_heads(pruned, original)
    query, before = (
        each.bert.encoder.layer[1].attention.self.query.weight for each in (whole, original)
    )
    removed = torch.arange(16) // 4 == 2
    assert torch.equal(query[removed], before[removed])
    assert torch.equal(query[~removed], before[~removed] + 1)


SHAPE = {
    "hidden_size": 16, "num_attention_heads": 8, "num_hidden_layers": 2, "vocab_size": 30,
    "intermediate_size": 24,
}  # fmt: skip
GROUPED = {**SHAPE, "num_key_value_heads": 2, "head_dim": 4}


@pytest.mark.parametrize(
    ("make", "per_group", "dtype"),
    [
        (lambda: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED)), True, torch.float64),
        # positions are in the precision that the model has
        (lambda: t.LlamaForCausalLM(t.LlamaConfig(**GROUPED)), True, torch.bfloat16),
        # classes that were found
        (lambda: t.ErnieForSequenceClassification(t.ErnieConfig(**SHAPE)), False, torch.float64),
        (lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**GROUPED)), False, torch.float64),
    ],
)
def test_heads_of_groups_and_of_classes_that_were_found_are_put_back(make, per_group, dtype):
    torch.manual_seed(0)
    pruned = cut(make().to(dtype).eval(), 1, per_group=per_group)
    inputs = {"input_ids": torch.arange(4, 12)[None]}
    expected, logits = (logits_of(each, inputs) for each in (pruned, unprune_heads(pruned)))
    torch.testing.assert_close(logits, expected, rtol=1e-10, atol=1e-12)


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
    model = build("bert")
    copied = unprune_heads(model)
    assert copied is not model and same_weights(copied, model.state_dict())


def _other_activation(model):
    model.bert.pooler.activation = torch.nn.ReLU()


def _other_classifier(model):
    model.classifier = torch.nn.Linear(16, 7)


def _untied(model):
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach() + 1)


class Own(t.BertForSequenceClassification):
    def __init__(self, config, more):
        super().__init__(config)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("bert", _other_activation, "bert.pooler.activation is ReLU"),
        ("bert", _other_classifier, "classifier.*put other changes into model.config"),
        ("gpt2", _untied, "is not tied as its class ties it"),
        ("bert", lambda model: Own(model.config, 1), "Own is not made of its configuration alone"),
        ("bert", torch.nn.DataParallel, "DataParallel is no model of transformers"),
    ],
)
def test_what_cannot_be_made_again_is_refused(name, change, message):
    model = cut(build(name), 0)
    changed = change(model) or model
    with pytest.raises(ValueError, match=message):
        unprune_heads(changed)


def test_another_original_and_a_mask_are_refused():
    pruned = cut(build("bert"), 0)
    small = t.BertForSequenceClassification(t.BertConfig(hidden_size=8, num_attention_heads=4))
    with pytest.raises(ValueError, match="the model that the heads were removed from"):
        unprune_heads(pruned, small)
    with masked_heads(pruned, full_mask(pruned)), pytest.raises(RuntimeError, match="masked"):
        unprune_heads(pruned)


def test_weights_computed_from_others_are_taken_as_they_are():
    torch.manual_seed(0)
    config = t.Wav2Vec2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32,
        conv_dim=(8,), conv_kernel=(4,), conv_stride=(2,), num_feat_extract_layers=1,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    model = t.Wav2Vec2Model(config).eval()  # its positions' convolution has weight_norm
    pruned, sound = cut(model, seed=3), {"input_values": torch.randn(2, 40)}
    whole = unprune_heads(pruned)
    with torch.no_grad():
        expected, states = (each(**sound).last_hidden_state for each in (pruned, whole))
    torch.testing.assert_close(states, expected)
