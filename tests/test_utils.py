"""Batches that do not fit in memory, and the device on which batches are put."""

import pytest
import torch
from tiny import batch_for, build

from headprune_lib import example_importance, gradients
from headprune_lib.utils import split_on_oom


def test_what_cannot_be_halved_is_the_error_of_memory():
    def compute(_batch):
        raise torch.OutOfMemoryError("no room")

    ids = torch.ones(4, 2)
    for batch in (
        {"input_ids": ids[:1]},
        {"input_ids": ids, "labels": torch.ones(3)},  # whose rows are whose?
        {"input_ids": ids, "scale": torch.tensor(1.0)},
    ):
        with pytest.raises(torch.OutOfMemoryError):
            split_on_oom(compute, batch, torch.cat)


@pytest.mark.parametrize("name", ["bert", "marian"])
def test_importance_of_each_example_is_the_same_where_batches_are_taken_in_halves(
    name, monkeypatch
):
    model, batch, real = build(name).eval(), batch_for(name), gradients.gate_gradients
    expected = example_importance(model, [batch])

    def tight(model, batch, *given):
        if len(batch["input_ids"]) > 1:
            raise torch.OutOfMemoryError("no room")
        return real(model, batch, *given)

    assert len(batch["input_ids"]) > 1
    monkeypatch.setattr(gradients, "gate_gradients", tight)
    found = example_importance(model, [batch])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
