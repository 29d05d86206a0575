"""Scores by weights alone, and random ones."""

import pytest
import torch
from tiny import build

from headprune_lib.criteria.weights import magnitude
from headprune_lib.discovery import find_heads


@pytest.mark.parametrize("name", ["bert", "mpnet", "bart", "t5", "gpt2", "gpt-neox", "llama"])
def test_it_is_the_norm_of_what_the_head_does_to_a_lone_key(name):
    """A head that sees one key adds O V x: with unit vectors for x, the columns of the product."""
    model = build(name).double()
    found = magnitude(model)
    for block in find_heads(model)[:2]:
        output = block.part(model, "output")
        projection = block.part(model, "fused" if block.spec.fused else "value")
        hidden = output(torch.zeros(1, len(block.kept_heads) * block.head_dim, dtype=torch.float64))
        size = projection.weight.shape[0 if type(projection).__name__ == "Conv1D" else 1]
        bias = projection(torch.zeros(1, size, dtype=torch.float64))
        rows = projection(torch.eye(size, dtype=torch.float64)) - bias  # (hidden, outputs)
        for head in block.kept_heads:
            values = rows[:, _columns(block, head)]
            context = torch.zeros(size, len(block.kept_heads) * block.head_dim, dtype=torch.float64)
            context[:, head * block.head_dim : (head + 1) * block.head_dim] = values
            expected = (output(context) - hidden).norm()
            torch.testing.assert_close(found[block.kind][block.layer, head], expected)


def _columns(block, head):
    """The place of a head's values in the outputs of the projection that makes them."""
    n, width = len(block.kept_heads), block.head_dim
    if not block.spec.fused:
        start = head // block.queries_per_kv * width
    elif block.spec.qkv_interleaved:
        start = head * 3 * width + 2 * width
    else:
        start = 2 * n * width + head * width
    return slice(start, start + width)
