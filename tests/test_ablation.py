"""What a sweep keeps of each pass; that it equals plain masking is a law."""

from types import SimpleNamespace

import pytest
import torch
import transformers as t
from tiny import ENCODER_DECODERS, TWO_SIDED, batch_for, build

import headprune_lib as hp
from headprune_lib.ablation import all_but_one_masks, masked_logits, one_head_masks
from headprune_lib.discovery import KINDS
from headprune_lib.fairseq_import.convert import PreNormTranslator
from headprune_lib.losses import default_loss

SWEEPS = pytest.mark.parametrize(
    ("sweep", "masks"),
    [(hp.one_head_ablation, one_head_masks), (hp.all_but_one, all_but_one_masks)],
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


def test_outputs_without_logits():
    model, inputs = build("bert").bert, batch_for("bert")
    with pytest.raises(ValueError, match="without logits; say with reduce="):
        next(hp.one_head_ablation(model, [inputs]))
    ((uncut, cut),) = hp.one_head_ablation(
        model, [inputs], reduce=lambda outputs, _batch: outputs.pooler_output
    )
    mask = one_head_masks(model)["self", 1, 2]
    with hp.masked_heads(model, mask), torch.no_grad():
        inputs.pop("labels")
        torch.testing.assert_close(cut["self", 1, 2], model(**inputs).pooler_output)
    assert not torch.equal(uncut, cut["self", 1, 2])


def two_sided(name):
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
        for name in (*ENCODER_DECODERS, "pre-norm")
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


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_labels_alone_make_the_decoders_input(name):
    """Without them BART would take its source for its target, and T5 would not run."""
    model, inputs = build(name), batch_for(name)
    inputs["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(inputs["labels"])
    alone = {key: value for key, value in inputs.items() if key != "decoder_input_ids"}
    ((uncut, cut),) = hp.one_head_ablation(model, [alone])
    ((expected, cuts),) = hp.one_head_ablation(model, [inputs])
    torch.testing.assert_close(uncut, expected)
    torch.testing.assert_close(cut, cuts)
    torch.testing.assert_close(next(masked_logits(model, [alone])), expected)
