"""The search against one written out, head by head."""

import pytest
from gates import loss_without
from tiny import batch_for, build

from headprune_lib import cut_heads, prune_order, score_heads
from headprune_lib.criteria.search import losses_without
from headprune_lib.heads import find_heads
from headprune_lib.losses import default_loss


def test_one_head_a_step_is_backward_elimination(model, examples):
    gone, left = [], [("self", layer, head) for layer in range(3) for head in range(4)]
    while left:
        best = min(left, key=lambda head: loss_without(model, examples, [*gone, head]))
        gone.append(best)
        left.remove(best)
    found = score_heads(model, [examples], "greedy", steps=12)
    assert prune_order(found) == gone
    assert sorted(found["self"].flatten().tolist()) == pytest.approx([i / 11 for i in range(12)])


@pytest.mark.parametrize("name", ["bert", "mpnet", "albert", "modernbert", "marian"])
def test_reused_activations_give_the_losses_of_plain_passes(name):
    model, batches = build(name), [batch_for(name), batch_for(name, n=3, seed=4)]
    heads = [(b.kind, b.layer, head) for b in find_heads(model) for head in b.kept]
    mask = cut_heads(model, [heads[1], heads[-1]])
    left = [head for head in heads if head not in (heads[1], heads[-1])]
    plain = losses_without(model, batches, left, mask, loss=default_loss(model))
    assert losses_without(model, batches, left, mask) == pytest.approx(plain, rel=1e-9)
