"""What a sweep keeps of each pass, and what it spares; that it equals plain masking is a law."""

import pytest
import torch
from tiny import batch_for, build
from transformers.models.bert.modeling_bert import BertPredictionHeadTransform

import headprune_lib as hp
from headprune_lib.ablation import masked_logits, one_head_masks


def test_outputs_without_logits():
    model, inputs = build("bert").bert, batch_for("bert")
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
    swept, expected = (list(hp.one_head_ablation(model, [each])) for each in (alone, inputs))
    torch.testing.assert_close(swept, expected)
    torch.testing.assert_close(next(masked_logits(model, [alone])), expected[0][0])


# A classifier's last layer is computed at the position that is read, or at all if more may be read.


def last_layer(model):
    return model.base_model.encoder.layer[-1]


def may_read_more(outputs, _batch):
    return outputs.logits.square().sum(1)


@pytest.mark.parametrize("name", ["bert", "roberta", "mpnet"])
def test_the_feed_forward_part_runs_at_one_position(name):
    model, batch, lengths = build(name), batch_for(name), []
    dense, every = last_layer(model).intermediate.dense, batch["input_ids"].shape[1]

    def watch(module, inputs):
        if module is dense:
            lengths.append(inputs[0].shape[1])

    # by a hook of torch itself, for which the library does not compute every position
    with torch.nn.modules.module.register_module_forward_pre_hook(watch):
        for run in (hp.head_importance, lambda *given: list(hp.one_head_ablation(*given))):
            run(model, [batch])
            assert lengths and {*lengths} == {1}
        lengths.clear()
        hp.head_importance(model, [batch], loss=may_read_more)
        assert {*lengths} == {every}


class BertPooler(torch.nn.Module):
    """A pooler of that name which reads every position."""

    def forward(self, states):
        return states.mean(1)


class Mixer(torch.nn.Linear):
    def forward(self, states):
        return super().forward(states).cumsum(1).flip(1)


def shares_its_feed_forward_part(model):
    last_layer(model).intermediate = model.bert.encoder.layer[0].intermediate


def mixes_positions(model):
    last_layer(model).output.dense.__class__ = Mixer


def pools_by_the_mean(model):
    model.bert.pooler = BertPooler()


def answers_at_every_position(model):
    model.bert.pooler = BertPredictionHeadTransform(model.config).double()


def has_a_forward_of_its_own(model):
    own = model.bert.encoder.forward
    model.bert.encoder.forward = lambda states, *args, **kwargs: own(
        states.flip(1), *args, **kwargs
    )


@pytest.mark.parametrize(
    "change",
    [
        shares_its_feed_forward_part, mixes_positions, pools_by_the_mean, answers_at_every_position,
        has_a_forward_of_its_own,
    ],
)  # fmt: skip
def test_a_changed_model_is_computed_whole(change):
    model, batch = build("bert"), batch_for("bert")
    change(model)
    ((uncut, cut),) = hp.one_head_ablation(model, [batch])
    torch.testing.assert_close(uncut, next(masked_logits(model, [batch])))
    for head, mask in one_head_masks(model).items():
        torch.testing.assert_close(cut[head], next(masked_logits(model, [batch], mask)))
