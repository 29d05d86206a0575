"""What a sweep keeps of each pass; that it equals plain masking is a law."""

from types import SimpleNamespace

import pytest
import torch
import transformers as t
from tiny import SHAPE, TWO_SIDED, WIDE, batch_for, build

from headprune_lib import (
    ablation,
    all_but_one,
    find_heads,
    head_importance,
    masked_heads,
    one_head_ablation,
)
from headprune_lib.ablation import all_but_one_masks, masked_logits, one_head_masks
from headprune_lib.losses import default_loss


@pytest.mark.parametrize("name", ["bert", "gpt2", "albert"])
@pytest.mark.parametrize(
    ("sweep", "masks"),
    [(one_head_ablation, one_head_masks), (all_but_one, all_but_one_masks)],
)
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
    monkeypatch.setattr(ablation, "_MOST_BYTES", 5 * 9 * 30 * 8 * 12 - 1)  # float64, 12 heads
    with pytest.raises(ValueError, match=r"\(5, 9, 30\) under each of 12 cuts.*give reduce="):
        next(one_head_ablation(model, [inputs]))
    next(one_head_ablation(model, [inputs], reduce=default_loss(model)))
    monkeypatch.setattr(ablation, "_MOST_BYTES", 5 * 9 * 30 * 8 * 12)
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
    if {block.kind for block in find_heads(model)} != {"self"}:
        with pytest.raises(ValueError, match="sweeps reuse the activations of encoders"):
            next(one_head_ablation(model, [inputs]))
    else:
        ((uncut, cut),) = one_head_ablation(model, [inputs])
        for head, mask in one_head_masks(model).items():
            (expected,) = masked_logits(model, [inputs], mask)
            torch.testing.assert_close(cut[head], expected)
            assert torch.equal(expected, uncut) == (asks_an_encoder(model, head) and not encoder)
    scores = head_importance(model, [inputs], normalize=None)
    for block in find_heads(model):
        silent = asks_an_encoder(model, (block.kind, block.layer, 0)) and not encoder
        assert (scores[block.kind][block.layer] == 0).all() == silent


def asks_an_encoder(model, head):
    path = next(b.path for b in find_heads(model) if (b.kind, b.layer) == head[:2])
    return path.endswith(("encoder_attn", "crossattention"))
