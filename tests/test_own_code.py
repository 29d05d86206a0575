"""Code that is not the released one, under a known name: measured as it runs, or refused."""

import types

import pytest
import torch
import transformers
from gates import of_examples
from tiny import batch, build, logits_of
from torch.nn.functional import linear
from transformers.models.bert.modeling_bert import BertSelfAttention

import headprune_lib as hp
from headprune_lib.specs import UnknownArchitecture


def attention(layout):
    """Attention with sharper weights whose output has heads side by side, interleaved or mixed."""

    def attend(module, query, key, value, mask, scaling=None, **_kwargs):
        scores = 2 * query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        weights = (scores if mask is None else scores + mask).softmax(-1)
        context = weights @ value  # (B, head, T, width)
        if layout == "mixed":
            context = context + context.flip(1)
        if layout == "interleaved":
            return context.permute(0, 2, 3, 1).flatten(2), weights
        return context.transpose(1, 2).flatten(2), weights

    def forward(self, hidden_states, attention_mask=None, *_args, **_kwargs):
        query, key, value = (
            part(hidden_states).unflatten(-1, (-1, self.attention_head_size)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        return attend(self, query, key, value, attention_mask)

    return attend, forward


def in_the_class(model, layout, monkeypatch):
    monkeypatch.setattr(BertSelfAttention, "forward", attention(layout)[1])


def in_the_modules(model, layout, monkeypatch):
    for layer in model.bert.encoder.layer:
        core = layer.attention.self
        core.forward = types.MethodType(attention(layout)[1], core)


def in_a_registered_function(model, layout, monkeypatch):
    transformers.AttentionInterface.register("of_ones_own", attention(layout)[0])
    transformers.AttentionMaskInterface.register(
        "of_ones_own", transformers.AttentionMaskInterface()["eager"]
    )
    model.set_attn_implementation("of_ones_own")


WAYS = (in_the_class, in_the_modules, in_a_registered_function)


def assert_sweep_is_masking(model, inputs):
    ((_, cut),) = hp.one_head_ablation(model, [inputs])
    for head, logits in cut.items():
        torch.testing.assert_close(logits, logits_of(model, inputs, [head]))


@pytest.mark.parametrize("replace", WAYS)
def test_replaced_attention_that_keeps_heads_apart_is_measured_as_it_runs(replace, monkeypatch):
    model, inputs = build(), batch()
    released = hp.head_importance(model, [inputs], normalize=None)["self"]
    replace(model, "side by side", monkeypatch)
    expected = of_examples(model, [inputs])["self"].abs().mean(0)
    assert not torch.allclose(released, expected, rtol=1e-3)
    found = hp.head_importance(model, [inputs], normalize=None)["self"]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-8)
    assert_sweep_is_masking(model, inputs)


@pytest.mark.parametrize("layout", ["interleaved", "mixed"])
@pytest.mark.parametrize("replace", WAYS)
def test_replaced_attention_that_does_not_is_refused(replace, layout, monkeypatch):
    model, inputs = build(), batch()
    hp.find_heads(model)  # what was found before must no longer be trusted
    replace(model, layout, monkeypatch)
    with pytest.raises(UnknownArchitecture, match="heads mix before|lie otherwise"):
        hp.head_importance(model, [inputs])
    with pytest.raises(UnknownArchitecture):
        hp.prune_heads(model, {"self": torch.ones(3, 4)})


def bent(projection, states):
    return torch.tanh(linear(states, projection.weight, projection.bias))


def bent_in_the_module(model, monkeypatch):
    for layer in model.bert.encoder.layer:
        projection = layer.attention.output.dense
        projection.forward = types.MethodType(bent, projection)


def bent_in_the_class(model, monkeypatch):
    monkeypatch.setattr(torch.nn.Linear, "forward", bent)


@pytest.mark.parametrize("bend", [bent_in_the_module, bent_in_the_class])
def test_a_sweep_runs_the_code_of_the_output_projection(bend, monkeypatch):
    model, inputs = build(), batch()
    bend(model, monkeypatch)
    assert_sweep_is_masking(model, inputs)
