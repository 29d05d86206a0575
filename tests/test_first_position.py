"""A classifier's last layer is computed at the position read, or at all if more may be read."""

import copy

import pytest
import torch
from tiny import batch_for, build
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.bert.modeling_bert import BertPredictionHeadTransform

import headprune_lib as hp
from headprune_lib.ablation import masked_logits, one_head_masks


def ran_on(model, module, batch, loss=None):
    """The length of a module's first input in a pass of the library, by a hook of torch itself."""
    shapes = []
    handle = torch.nn.modules.module.register_module_forward_pre_hook(
        lambda other, inputs: shapes.append(inputs[0].shape[1]) if other is module else None
    )
    try:
        hp.head_importance(model, [batch], loss=loss)
    finally:
        handle.remove()
    return shapes[0]


def last_layer(model):
    return model.base_model.encoder.layer[-1]


@pytest.mark.parametrize("name", ["bert", "roberta", "mpnet"])
def test_the_feed_forward_part_runs_at_one_position(name):
    model, batch = build(name), batch_for(name)
    dense, n_positions = last_layer(model).intermediate.dense, batch["input_ids"].shape[1]
    assert ran_on(model, dense, batch) == 1
    assert ran_on(model, model.base_model.encoder.layer[0].intermediate.dense, batch) == n_positions
    assert ran_on(model, dense, batch, may_read_more) == n_positions


def may_read_more(outputs, _batch):
    return outputs.logits.square().sum(1)


def test_a_sweep_spares_work():
    model, batch = build("bert"), batch_for("bert")
    work = []
    for watched in (False, True):
        model = copy.deepcopy(model)
        if watched:
            last_layer(model).register_forward_hook(lambda *_: None)
        with FlopCounterMode(display=False) as counter:
            list(hp.one_head_ablation(model, [batch]))
        work.append(counter.get_total_flops())
    assert work[0] < 0.9 * work[1]


class BertPooler(torch.nn.Module):
    """A pooler of that name which reads every position."""

    def forward(self, states):
        return states.mean(1)


def shares_its_feed_forward_part(model):
    layers = model.bert.encoder.layer
    layers[-1].intermediate = layers[0].intermediate


def mixes_positions(model):
    dense = last_layer(model).output.dense
    mixer = type(
        "Mixer", (torch.nn.Module,), {"forward": lambda self, x: dense(x).cumsum(1).flip(1)}
    )
    last_layer(model).output.dense = mixer()


def pools_by_the_mean(model):
    model.bert.pooler = BertPooler()


def answers_at_every_position(model):
    model.bert.pooler = BertPredictionHeadTransform(model.config).double()


def has_a_forward_of_its_own(model):
    model.bert.encoder.forward = lambda states, *args, **kwargs: type(model.bert.encoder).forward(
        model.bert.encoder, states.flip(1), *args, **kwargs
    )


@pytest.mark.parametrize(
    "change",
    [
        shares_its_feed_forward_part,
        mixes_positions,
        pools_by_the_mean,
        answers_at_every_position,
        has_a_forward_of_its_own,
    ],
)
def test_a_changed_model_is_computed_whole(change):
    model, batch = copy.deepcopy(build("bert")), batch_for("bert")
    change(model)
    ((uncut, cut),) = hp.one_head_ablation(model, [batch])
    torch.testing.assert_close(uncut, next(masked_logits(model, [batch])))
    for head, mask in one_head_masks(model).items():
        torch.testing.assert_close(cut[head], next(masked_logits(model, [batch], mask)))


def test_a_hook_sees_every_position():
    model, batch = copy.deepcopy(build("bert")), batch_for("bert")
    seen = []
    last_layer(model).register_forward_hook(lambda _m, _i, output: seen.append(output.shape[1]))
    hp.head_importance(model, [batch])
    list(hp.one_head_ablation(model, [batch]))
    assert {*seen} == {batch["input_ids"].shape[1]}
