"""What a sweep keeps of each pass; that it equals plain masking is a law."""

from types import SimpleNamespace

import pytest
import torch
import transformers as t
from tiny import ENCODER_DECODERS, SHAPE, TWO_SIDED, WIDE, batch_for, build

from headprune_lib import (
    all_but_one,
    find_heads,
    head_importance,
    masked_heads,
    one_head_ablation,
    reusing,
)
from headprune_lib.ablation import all_but_one_masks, masked_logits, one_head_masks
from headprune_lib.fairseq_import.prenorm import PreNormTranslator
from headprune_lib.heads import KINDS
from headprune_lib.losses import default_loss

SWEEPS = pytest.mark.parametrize(
    ("sweep", "masks"), [(one_head_ablation, one_head_masks), (all_but_one, all_but_one_masks)]
)


@pytest.mark.parametrize("name", ["gpt2", "albert", "t5"])
@SWEEPS
def test_a_sweep_keeps_what_it_is_asked_for(name, sweep, masks):
    model, inputs = build(name), batch_for(name)
    loss = default_loss(model)
    ((uncut, cut),) = sweep(model, [inputs], reduce=loss)
    assert uncut.shape == (5,)
    for head, mask in masks(model).items():
        (logits,) = masked_logits(model, [inputs], mask)
        torch.testing.assert_close(cut[head], loss(SimpleNamespace(logits=logits), inputs))


def test_logits_that_would_fill_the_memory_are_refused(monkeypatch):
    model, inputs = build("gpt2"), batch_for("gpt2")
    monkeypatch.setattr(reusing, "_MOST_BYTES", 5 * 9 * 30 * 8 * 12 - 1)  # float64, 12 heads
    with pytest.raises(ValueError, match=r"\(5, 9, 30\) under each of 12 cuts.*give reduce="):
        next(one_head_ablation(model, [inputs]))
    next(one_head_ablation(model, [inputs], reduce=default_loss(model)))
    monkeypatch.setattr(reusing, "_MOST_BYTES", 5 * 9 * 30 * 8 * 12)
    next(one_head_ablation(model, [inputs]))


def test_outputs_without_logits():
    model, inputs = build("bert").bert, batch_for("bert")
    with pytest.raises(ValueError, match="without logits; say with reduce="):
        next(one_head_ablation(model, [inputs]))
    ((uncut, cut),) = one_head_ablation(
        model, [inputs], reduce=lambda outputs, _batch: outputs.pooler_output
    )
    mask = one_head_masks(model)["self", 1, 2]
    with masked_heads(model, mask), torch.no_grad():
        inputs.pop("labels")
        torch.testing.assert_close(cut["self", 1, 2], model(**inputs).pooler_output)
    assert not torch.equal(uncut, cut["self", 1, 2])


def two_berts():
    """Two stacks of their own, and a projection between them."""
    torch.manual_seed(0)
    encoder = t.BertConfig(**SHAPE, **WIDE)
    decoder = t.BertConfig(
        **SHAPE, **{**WIDE, "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2},
        is_decoder=True, add_cross_attention=True,
    )  # fmt: skip
    model = t.EncoderDecoderModel(
        t.EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    )
    torch.nn.init.normal_(model.get_output_embeddings().weight)
    return model.double().eval()


def two_sided(name):
    if name == "two berts":
        return two_berts(), batch_for("bart")
    if name == "pre-norm":
        torch.manual_seed(0)
        model = (
            PreNormTranslator(t.M2M100Config(**TWO_SIDED, encoder_vocab_size=30)).double().eval()
        )
        return model, batch_for("bart")
    return build(name, "sdpa"), batch_for(name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in ("bart", "t5")))
        for name in (*ENCODER_DECODERS, "two berts", "pre-norm")
    ],
)
@SWEEPS
def test_a_sweep_of_an_encoder_decoder_is_that_of_plain_masks(name, sweep, masks):
    model, inputs = two_sided(name)
    ((uncut, cut),) = sweep(model, [inputs])
    assert list(cut) == list(masks(model)) and {kind for kind, _, _ in cut} == set(KINDS)
    for head, mask in masks(model).items():
        (expected,) = masked_logits(model, [inputs], mask)
        torch.testing.assert_close(cut[head], expected, rtol=1e-10, atol=1e-12)
        assert not torch.allclose(expected, uncut, rtol=1e-6)


@pytest.mark.parametrize("name", ["marian", "t5", "pre-norm"])
def test_what_a_cut_of_an_encoder_decoder_does_not_change_is_not_computed_again(name):
    """Two and two layers of 4 heads: which of them run, for the cuts of each kind and layer."""
    model, inputs = two_sided(name)
    ran = {}
    for side, stack in (("encoder", model.get_encoder()), ("decoder", model.get_decoder())):
        layers = getattr(stack, "block", None) or stack.layers
        ran[side] = [0] * len(layers)
        for i, layer in enumerate(layers):
            layer.forward = counting(ran[side], i, layer.forward)
    next(one_head_ablation(model, [inputs]))
    # once without a cut; the encoder's cuts of layer 0 run both layers of it, of layer 1 the upper
    assert ran["encoder"] == [1 + 4, 1 + 8]
    # the encoder's cuts run all of the decoder; the decoder's, of two kinds, what is not below
    assert ran["decoder"] == [1 + 8 + 8, 1 + 8 + 16]


def counting(ran, i, forward):
    def run(*args, **kwargs):
        ran[i] += 1
        return forward(*args, **kwargs)

    return run


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_labels_alone_make_the_decoders_input(name):
    """Without them BART would take its source for its target, and T5 would not run."""
    model, inputs = build(name), batch_for(name)
    inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(inputs["labels"])
    alone = {key: value for key, value in inputs.items() if key != "decoder_input_ids"}
    ((uncut, cut),) = one_head_ablation(model, [alone])
    ((expected, cuts),) = one_head_ablation(model, [inputs])
    torch.testing.assert_close(uncut, expected)
    torch.testing.assert_close(cut, cuts)
    torch.testing.assert_close(next(masked_logits(model, [alone])), expected)


BERT = {**SHAPE, **WIDE, "is_decoder": True, "add_cross_attention": True}
ALONE = {
    "bart": lambda: t.BartForCausalLM(t.BartConfig(**TWO_SIDED)),
    "bert": lambda: t.BertLMHeadModel(t.BertConfig(**BERT)),
}


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("encoder", [False, True])
def test_a_decoder_without_its_encoder(name, encoder):
    torch.manual_seed(0)
    model, inputs = ALONE[name]().double().eval(), batch_for("gpt2")
    torch.nn.init.normal_(model.get_output_embeddings().weight)
    if encoder:
        inputs["encoder_hidden_states"] = torch.randn(5, 4, 16).double()
    ((uncut, cut),) = one_head_ablation(model, [inputs])
    paths = {(block.kind, block.layer): block.path for block in find_heads(model)}
    scores = head_importance(model, [inputs], normalize=None)
    for head, mask in one_head_masks(model).items():
        (expected,) = masked_logits(model, [inputs], mask)
        torch.testing.assert_close(cut[head], expected)
        silent = not encoder and paths[head[:2]].endswith(("encoder_attn", "crossattention"))
        assert torch.equal(expected, uncut) == silent
        assert (scores[head[0]][head[1:]] == 0) == silent
