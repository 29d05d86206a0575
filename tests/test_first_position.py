"""The last layer of classifiers that read one position of it."""

import copy

import pytest
import torch
import transformers as t
from tiny import build
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.models.bert.modeling_bert import BertSelfAttention

from headprune_lib import (
    find_heads,
    full_mask,
    head_importance,
    one_head_ablation,
    prune_heads,
    reading_first,
    score_heads,
)
from headprune_lib.criteria.gradients import gate_gradients
from headprune_lib.first_position import first_position_alone
from headprune_lib.losses import default_loss

READ_FIRST = sorted(reading_first.READ_FIRST)
PADDED = {
    "input_ids": torch.arange(5, 26).view(3, 7),
    "attention_mask": torch.tensor([[1] * 7, [1] * 5 + [0] * 2, [1] * 3 + [0] * 4]),
}


def classifier(name, **settings):
    made = getattr(t, name)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "vocab_size": 50}
    config = made.config_class(num_attention_heads=2, num_hidden_layers=3, **sizes, **settings)
    torch.manual_seed(0)
    return made(config).double().eval()


@pytest.mark.parametrize("name", READ_FIRST)
def test_a_classifier_reads_the_first_position_alone(name):
    model = classifier(name)
    with torch.no_grad():
        expected = model(**PADDED).logits
        with first_position_alone(model, PADDED) as share:
            found = model(**PADDED).logits
            hidden = model.base_model(**PADDED).last_hidden_state
    assert share == 10 / 12 and hidden.shape == (3, 1, 16)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert model.base_model(**PADDED).last_hidden_state.shape == (3, 7, 16)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("cut", [None, "heads", "a layer"])
@pytest.mark.parametrize("name", READ_FIRST)
def test_sweeps_and_importance_are_those_of_all_positions(name, cut, kernel, monkeypatch):
    """Also of pruned models, whose last layer may have no heads, and without a mask of padding."""
    if kernel == "sdpa" and name.startswith("MPNet"):
        pytest.skip("MPNet has its own attention alone")
    model = classifier(name, attn_implementation=kernel)
    if cut:
        mask = full_mask(model)
        mask["self"][-1, : 1 if cut == "heads" else 2] = 0
        prune_heads(model, mask)
    batch = PADDED | {"labels": torch.tensor([0, 1, 1])}
    batches = [batch, {name: batch[name] for name in ("input_ids", "labels")}]

    def measured():
        found = []
        for one in batches:
            ((uncut, each),) = one_head_ablation(model, [one])
            found += [uncut, *each.values(), *gate_gradients(model, one, find_heads(model))]
        token = score_heads(model, batches, "importance-token", normalize=None)
        return [*found, token["self"].nan_to_num(-1)]

    found = measured()
    monkeypatch.setattr(reading_first, "READ_FIRST", {})
    for one, other in zip(found, measured(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-14)


def test_attention_weights_are_of_all_queries():
    """Where they are wanted in the pass that importance is taken in."""
    model = classifier("BertForSequenceClassification", attn_implementation="eager")
    for wanted in ({"output_attentions": True}, {}):
        model.config.output_attentions = not wanted
        with first_position_alone(model, wanted) as share, torch.no_grad():
            assert share == 8 / 12
            found = model(**PADDED, output_attentions=True).attentions[-1]
        assert found.shape == (3, 2, 7, 7)


def test_what_replaces_attention_is_gone_afterwards_and_leaves_others_code_alone():
    model = classifier("BertForSequenceClassification")
    core = model.base_model.encoder.layer[-1].attention.self
    with first_position_alone(model, {}):
        assert "forward" in core.__dict__
    assert "forward" not in core.__dict__ and not core._forward_pre_hooks
    core.forward = core.forward  # as accelerate does where it dispatches
    with first_position_alone(model, {}) as share:
        assert share == 8 / 12
    assert "forward" in core.__dict__
    del core.forward
    kernel = model.config._attn_implementation = "flash_attention_2"
    with first_position_alone(model, {}) as share:
        assert share == 8 / 12, kernel


def test_a_compiled_classifier_is_measured_as_it_is():
    model = classifier("BertForSequenceClassification")
    batch = PADDED | {"labels": torch.tensor([0, 1, 1])}
    expected = head_importance(model, [batch], normalize=None)["self"]
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        before = compiled(**PADDED).logits
    found = head_importance(compiled, [batch], normalize=None)["self"]
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-14)
    with torch.no_grad():
        torch.testing.assert_close(compiled(**PADDED).logits, before)


def test_positions_that_somebody_may_read_are_computed():
    class Own(t.BertForSequenceClassification):
        """May read what it likes."""

    own = Own(classifier("BertForSequenceClassification").config)
    plain = classifier("BertForSequenceClassification")
    talkative = classifier("BertForSequenceClassification", output_hidden_states=True)
    for model, inputs in (
        (own, {}),
        (plain, {"output_hidden_states": True}),
        (talkative, {}),
        (classifier("BertForTokenClassification"), {}),
        (torch.nn.Linear(2, 2), {}),
        (build("albert"), {}),
        (build("gpt2"), {}),
    ):
        with first_position_alone(model, inputs) as share:
            assert share == 0
    with pytest.raises(RuntimeError, match="stop"), first_position_alone(plain, {}):
        raise RuntimeError("stop")
    assert plain.base_model(**PADDED).last_hidden_state.shape == (3, 7, 16)


def _blind_row(model, batch):
    batch["attention_mask"][1] = 0


def _added_mask(model, batch):
    """Booleans are added by the kernel that adds its mask."""
    seen = batch["attention_mask"].bool()[:, None, None, :]
    batch["attention_mask"] = seen.expand(3, 1, 7, 7).clone()


def _one_layer_thrice(model, batch):
    layers = model.bert.encoder.layer
    model.bert.encoder.layer = torch.nn.ModuleList([layers[0]] * 3)


def _one_attention_twice(model, batch):
    layers = model.bert.encoder.layer
    layers[2].attention.self = layers[0].attention.self


class MeanPooler(torch.nn.Module):
    def forward(self, states):
        return states.mean(1)


def _own_pooler(model, batch):
    model.bert.pooler = MeanPooler()


def _own_forward(model, batch):
    def forward(labels=None, **inputs):
        states = model.bert(**inputs).last_hidden_state
        return SequenceClassifierOutput(logits=model.classifier(states.mean(1)))

    model.forward = forward


def _own_attention(model, batch):
    class Own(BertSelfAttention):
        def forward(self, hidden_states, *args, **kwargs):
            return super().forward(hidden_states.flip(1), *args, **kwargs)

    model.bert.encoder.layer[-1].attention.self.__class__ = Own


def _own_scale(model, batch):
    model.bert.encoder.layer[-1].attention.self.scaling *= 3


def _mixing_hook(model, batch):
    mixed = lambda module, inputs, output: output + output.mean(1, keepdim=True)  # noqa: E731
    model.bert.encoder.layer[-1].output.register_forward_hook(mixed)


def _mixing_activation(model, batch):
    class Mixed(torch.nn.Module):
        def forward(self, states):
            return torch.relu(states.mean(1, keepdim=True) + states)

    model.bert.encoder.layer[-1].intermediate.intermediate_act_fn = Mixed()


def _chunks(model, batch):
    for layer in model.bert.encoder.layer:
        layer.chunk_size_feed_forward = model.config.chunk_size_feed_forward = 7


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize(
    "change",
    [_blind_row, _added_mask, _one_layer_thrice, _one_attention_twice, _own_pooler, _own_forward,
     _own_attention, _own_scale, _mixing_hook, _mixing_activation, _chunks],
)  # fmt: skip
def test_what_somebody_changed_is_computed_as_it_is(change, kernel, monkeypatch):
    """Each was silently wrong, or an error, at some time."""
    model = classifier("BertForSequenceClassification", attn_implementation=kernel)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    batch = {name: values.clone() for name, values in PADDED.items()}
    batch["labels"] = torch.tensor([0, 1, 1])
    change(model, batch)

    def measured():
        ((uncut, each),) = one_head_ablation(model, [batch])
        importance = head_importance(model, [batch], normalize=None)["self"]
        return [uncut, *each.values(), importance]

    found = measured()
    monkeypatch.setattr(reading_first, "READ_FIRST", {})
    for one, other in zip(found, measured(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_a_loss_of_ones_own_may_read_all_positions():
    model = classifier("BertForSequenceClassification")
    seen = []

    def loss(outputs, batch):
        states = model.bert(batch["input_ids"]).last_hidden_state
        seen.append(states.shape[1])
        return states.square().mean((1, 2))

    head_importance(model, [PADDED], loss=loss)
    ((_, _),) = one_head_ablation(model, [PADDED], reduce=loss)
    assert set(seen) == {7}
    # the library's own reads what the model returns
    with first_position_alone(model, PADDED, default_loss(model)) as share:
        assert share == 10 / 12
    model.bert.config = copy.deepcopy(model.config)
    model.bert.config.output_hidden_states = True
    with first_position_alone(model, {}) as share:
        assert share == 0
