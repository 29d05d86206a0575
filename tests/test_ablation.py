"""The outputs that a sweep keeps of each pass; that it equals plain masking is tested as a law."""

import pytest
import torch
from tiny import batch_for, build

import headprune_lib as hp
from headprune_lib.ablation import masked_logits, one_head_masks


def test_outputs_without_logits():
    model, inputs = build("bert").bert, batch_for("bert")
    with pytest.raises(ValueError, match="has no logits. Give reduce"):
        next(hp.one_head_ablation(model, [inputs]))
    ((uncut, cut),) = hp.one_head_ablation(
        model, [inputs], reduce=lambda outputs, _batch: outputs.pooler_output
    )
    mask = one_head_masks(model)["self", 1, 2]
    with hp.masked_heads(model, mask), torch.no_grad():
        inputs.pop("labels")
        torch.testing.assert_close(cut["self", 1, 2], model(**inputs).pooler_output)
    assert not torch.equal(uncut, cut["self", 1, 2])


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
