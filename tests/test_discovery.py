"""Attention that no list names is found by its structure, and accepted once it is verified."""

import copy
import pickle

import pytest
import torch
from ownmodels import OwnAttention, OwnModel
from tiny import batch, build, removed_as_masked, unchanged
from torch import nn

import headprune_lib as hp
from headprune_lib import discovery
from headprune_lib.masking import masked_rows
from headprune_lib.specs import UnknownArchitecture

IDS = torch.arange(15).view(3, 5)


def test_a_class_that_nobody_registered_is_found_masked_and_removed():
    model = OwnModel("", "places")  # the second returns integers too, as an indexer of tokens does
    blocks = hp.find_heads(model)
    assert [(b.source, b.kind, b.n_heads, b.head_dim) for b in blocks] == [
        ("found", "self", 4, 2)
    ] * 2
    assert [b.spec.returns for b in blocks] == [1, 2]
    pruned = removed_as_masked(model, [(0, 1), (1, 3)], lambda each: each(IDS))
    assert [(b.kept_heads, b.source) for b in hp.find_heads(pruned)] == [
        ((0, 2, 3), "found"), ((0, 1, 2), "found"),
    ]  # fmt: skip
    pruned = removed_as_masked(OwnModel(""), {"self": torch.zeros(1, 4)}, lambda each: each(IDS))
    assert [(b.kept_heads, b.source) for b in hp.find_heads(pruned)] == [((), "found")]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("mixing", r"changing the values of head.* changes heads \[0, 3\]: heads mix"),
        ("random", "returns something else at each pass"),
    ],
)
def test_what_is_not_proved_is_refused_with_what_was_seen(fault, message):
    with pytest.raises(UnknownArchitecture, match=f"seen and refused: OwnAttention.*{message}"):
        hp.find_heads(OwnModel(fault))
    with pytest.warns(UserWarning, match=f"1 attention modules of OwnModel.*{message}"):
        blocks = hp.find_heads(OwnModel("", fault))
    assert [block.path for block in blocks] == ["layers.0"]
    assert [block.source for block in hp.find_heads(OwnModel(fault), verify=False)] == ["assumed"]


def test_heads_that_cannot_be_removed_are_masked_only():
    model = OwnModel("fixed", "")
    fixed, free = hp.find_heads(model)
    assert "does not run with fewer heads" in fixed.why_not_prunable and not free.why_not_prunable
    message = r"layers.0: heads of it can be masked.*not removed"
    with unchanged(model), pytest.raises(ValueError, match=message):
        hp.prune_heads(model, [(0, 1), (1, 1)])
    hp.prune_heads(model, [(1, 1)])


NAMES = {"query": "wq", "key": "wk", "value": "wv", "output": "wo", "head_dim": "head_size"}


@pytest.mark.usefixtures("forget_taught")
def test_what_is_registered_goes_before_what_is_found_and_is_proved_too():
    hp.register_attention(OwnAttention, **NAMES, n_heads="n_heads", returns=1)
    assert [block.source for block in hp.find_heads(OwnModel(""))] == ["registered"]
    hp.register_attention(OwnAttention, **NAMES, n_heads="n_heads")
    (block,) = hp.find_heads(OwnModel(""))  # it returns a tensor alone, not two things
    assert block.source == "registered" and "returns 1 values" in block.why_keep_one
    hp.register_attention("LlamaAttention", like="LlamaAttention")
    assert {(b.source, b.why_keep_one) for b in hp.find_heads(build("llama"))} == {
        ("registered", "")
    }


def test_the_proof_changes_nothing_and_is_made_anew_where_a_module_is_another():
    model = OwnModel("", "").train()
    model.layers[0].eval()
    model.embedding.weight.requires_grad_(False)
    state = torch.random.get_rng_state()
    with unchanged(model):
        hp.find_heads(model)
    assert torch.equal(torch.random.get_rng_state(), state)
    model.layers.append(OwnAttention("mixing"))
    with pytest.warns(UserWarning, match="not supported"):
        assert len(hp.find_heads(model)) == 2


def entered(context, *given):
    def call(model):
        with context(model, *given):
            model(**batch(2))

    return call


HALF = {"self": (torch.arange(12) % 2).view(3, 4).float()}
CALLS = {
    "masked_heads": entered(hp.masked_heads, HALF),
    "masked_rows": entered(masked_rows, [HALF, HALF], [0, 1]),
    "prune_heads": lambda model: hp.prune_heads(model, HALF),
    "prune_mask": lambda model: hp.prune_mask(model, HALF, 0.5),
    "uniform_mask": lambda model: hp.uniform_mask(model, HALF, 0.5),
    "tune_mask": lambda model: hp.tune_mask(model, HALF, [batch(2)]),
    "fold_gates": lambda model: hp.fold_gates(model, HALF),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_heads_are_looked_for_once_a_call(call, monkeypatch):
    walks, split = [], discovery._split
    monkeypatch.setattr(discovery, "_split", lambda modules: walks.append(1) or split(modules))
    call(build())
    assert len(walks) == 1


class Closed(nn.Module):
    """A model whose ``forward`` asks for what cannot be guessed."""

    def __init__(self):
        super().__init__()
        self.inner = OwnModel("")

    def forward(self, secret):
        return self.inner(secret["ids"])


def test_a_batch_of_ones_own_proves_what_random_inputs_do_not_reach():
    model = Closed()
    with pytest.raises(UnknownArchitecture, match="did not run on random inputs.*inputs=…"):
        hp.find_heads(model)
    assert [b.source for b in hp.find_heads(model, inputs={"secret": {"ids": IDS}})] == ["found"]
    copied = copy.deepcopy(model)
    assert hp.find_heads(copied) == hp.find_heads(model)  # it is remembered, in copies too
    assert b"headprune_lib" not in pickle.dumps(model)
    copied.inner.layers[0] = OwnAttention("")
    with pytest.raises(UnknownArchitecture, match="did not run on random inputs"):
        hp.find_heads(copied)
