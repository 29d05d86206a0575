"""The second-order cost against differences of the loss, and its estimate against the exact one."""

import pytest
import torch
from tiny import batch_for, build

from headprune_lib import cut_heads, masked_heads, prune_heads, score_heads
from headprune_lib.criteria.gradient import importance_signed, second_order
from headprune_lib.heads import full_mask


def loss_at(model, batch, head, gate):
    kind, layer, number = head
    mask = full_mask(model)
    mask[kind][layer, number] = gate
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    with masked_heads(model, mask), torch.no_grad():
        logits, labels = model(**inputs).logits.double(), batch["labels"]
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), reduction="none", ignore_index=-100
    )
    return losses.sum() / len(labels)


@pytest.mark.parametrize(
    ("name", "head"),
    [("bert", ("self", 1, 2)), ("bart", ("enc-dec", 0, 3)), ("t5", ("dec-dec", 1, 0))],
)
def test_it_is_the_expansion_of_the_loss(name, head):
    model, batch, step = build(name), batch_for(name), 2.0**-7
    up, at, down = (loss_at(model, batch, head, gate) for gate in (1 + step, 1.0, 1 - step))
    expected = -(up - down) / (2 * step) + (up - 2 * at + down) / step**2 / 2
    found = second_order(model, [batch], probes=None)[head[0]][head[1:]]
    torch.testing.assert_close(found, expected, rtol=5e-3, atol=1e-5)


def test_random_signs_estimate_the_diagonal(model, examples, split):
    exact = second_order(model, [examples], probes=None)["self"]
    first = importance_signed(model, [examples])["self"]
    near, far = (
        (second_order(model, [examples], probes=probes, seed=1)["self"] - exact).abs().mean()
        for probes in (100, 2)
    )
    assert near < 0.4 * far and near < 0.4 * (exact - first).abs().mean()
    one, other, third = (second_order(model, split([]), seed=seed)["self"] for seed in (1, 1, 2))
    assert torch.equal(one, other) and not torch.equal(one, third)


def test_bad_settings_and_heads_that_are_gone(model, examples):
    with pytest.raises(ValueError, match="probes is 0; give at least 1, or None"):
        score_heads(model, [examples], "second-order", probes=0)
    smaller = prune_heads(build(), cut_heads(build(), [("self", 0, head) for head in range(4)]))
    found = second_order(smaller, [examples])["self"]
    assert found[0].isnan().all() and found[1:].isfinite().all()


@pytest.mark.parametrize("name", ["bert", "bart", "gpt2"])
def test_under_sdpa_it_is_what_it_is_under_eager(name):
    plain, fused = (
        second_order(build(name, kernel), [batch_for(name)]) for kernel in ("eager", "sdpa")
    )
    assert all(values.any() for values in plain.values())
    for kind, values in plain.items():
        torch.testing.assert_close(fused[kind], values, rtol=1e-6, atol=1e-8)
