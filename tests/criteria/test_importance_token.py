"""An absolute value a token position, by a gate at every position."""

import pytest
import torch
from gates import ROUNDING, gate_derivatives, rows_of
from tiny import batch_for, build

from headprune_lib.criteria.importance_token import importance_token


@pytest.mark.parametrize("name", ["bert", "bart"])
def test_it_is_a_mean_over_the_tokens_of_the_side_that_attends(name):
    model, batches = build(name), [batch_for(name, 3), batch_for(name, 2, seed=3)]
    total, tokens = {}, {}
    for inputs in batches:
        for row in rows_of(inputs):
            source = int(row["attention_mask"].sum())
            target = int((row["labels"] != -100).sum())
            for block, each in gate_derivatives(model, row).items():
                place = block.kind, block.layer
                total[place] = total.get(place, 0) + each.abs().sum(0)
                tokens[place] = tokens.get(place, 0) + (
                    source if block.kind in ("self", "enc-enc") else target
                )
    found = importance_token(model, batches)
    for (kind, layer), values in total.items():
        torch.testing.assert_close(found[kind][layer], values / tokens[kind, layer], **ROUNDING)
    assert name == "bert" or len(set(tokens.values())) == 2
