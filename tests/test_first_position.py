"""The last layer of classifiers that read one position of it."""

import pytest
import torch
import transformers as t
from tiny import build

from headprune_lib import (
    find_heads,
    first_position,
    full_mask,
    head_importance,
    one_head_ablation,
    prune_heads,
    score_heads,
)
from headprune_lib.criteria.gradients import gate_gradients
from headprune_lib.first_position import first_position_alone

READ_FIRST = sorted(first_position._READ_FIRST)
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
    monkeypatch.setattr(first_position, "_READ_FIRST", {})
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
