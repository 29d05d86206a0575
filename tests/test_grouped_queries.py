"""Heads that share keys and values: whole groups go, or equally many of each, in every model."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ownmodels import GroupedAttention, GroupedModel
from tiny import GROUPS, batch, build, in_tiers, logits_of, removed_as_masked

import headprune_lib as hp
from headprune_lib.selection import removal_units

FAST = {"llama, two groups", "qwen2, multi-query", "falcon", "phi3"}
STEPPED = {
    name: build(name, "sdpa") for name in ("llama, two groups", "qwen2, multi-query", "falcon")
}


def logits(model):
    return logits_of(model, batch())


def masks(model):
    """Masks that cut one head of each group, two of each, or one group and one of each other."""
    (group,) = {block.queries_per_kv for block in hp.find_heads(model)}
    numbers = torch.arange(6)
    one, two = numbers % group == 1, numbers % group != 1
    whole = (numbers < group) | one
    for first, second in ((one, two), (two, numbers < 0), (whole, one)):
        mask = hp.ones_mask(model)
        mask["self"][0, first], mask["self"][1, second] = 0, 0
        yield mask


@pytest.mark.parametrize("name", in_tiers(GROUPS, FAST))
def test_removal_equals_masking_saved_generated_and_pruned_again(name, tmp_path):
    model = build(name, "sdpa", torch.float32)
    assert not any(b.why_whole_groups or b.why_not_prunable for b in hp.find_heads(model))
    for number, mask in enumerate(masks(model)):
        with hp.masked_heads(model, mask):
            told = model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=6, do_sample=False)
        pruned = removed_as_masked(model, mask, logits)
        again = pruned.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=6, do_sample=False)
        assert torch.equal(again, told)
        loaded = hp.load_pruned(hp.save_pruned(pruned, tmp_path / str(number)))
        torch.testing.assert_close(logits(loaded), logits(pruned), rtol=0, atol=1e-5)
        for block, smaller in zip(hp.find_heads(model), hp.find_heads(loaded), strict=True):
            left = [int(mask["self"][block.layer, list(g)].sum()) for g in block.groups]
            assert smaller.queries_per_kv == (max(left) or block.queries_per_kv)
            assert len(smaller.groups) == sum(map(bool, left))
        scores = {"self": torch.rand(2, 6).masked_fill(mask["self"] == 0, torch.nan)}
        removed_as_masked(loaded, hp.prune_mask(loaded, scores, 0.5, per_group=True), logits)


@settings(deadline=None)
@given(
    st.sampled_from(sorted(STEPPED)), st.integers(0, 99), st.integers(0, 6), st.booleans(),
    st.sampled_from(["mean", "sum"]),
)  # fmt: skip
def test_the_first_steps_can_always_be_removed_and_take_the_lowest(
    name, seed, keep, per_group, how
):
    model = STEPPED[name]
    scores = {"self": torch.rand(2, 6, generator=torch.Generator().manual_seed(seed))}
    steps = removal_units(model, scores, keep_at_least=keep, per_group=per_group, group_score=how)
    left = {block.layer: set(block.kept_heads) for block in hp.find_heads(model)}
    ranks = []
    for step in steps:
        ((kind, layer),) = {head[:2] for head in step}
        block, heads = hp.find_heads(model)[layer], {head for *_, head in step}
        values = scores[kind][layer, sorted(heads)].double()
        ranks.append(float(values.mean() if how == "mean" else values.sum()))
        for group in block.groups:
            mine = heads & set(group)
            assert len(mine) == (1 if per_group else 0 if not mine else block.queries_per_kv)
            if per_group:  # the lowest that is left
                assert min(left[layer] & set(group), key=lambda h: scores[kind][layer, h]) in mine
        left[layer] -= heads
        assert len(left[layer]) >= keep
        block.group_left(sorted(left[layer]))  # raises where it could not be removed
    assert ranks == sorted(ranks)
    assert all(len(heads) < keep + len(steps[0] if steps else "123456") for heads in left.values())


def test_the_mean_and_the_sum_of_a_group_are_two_orders():
    # a layer whose two groups have two heads left, and one whose groups have one left
    model = build("llama, two groups")
    hp.prune_heads(model, next(masks(model)))
    assert [block.queries_per_kv for block in hp.find_heads(model)] == [2, 1]
    scores = {"self": torch.tensor([[0.4, 9, 0.4, 5, 9, 5], [9, 0.5, 9, 9, 5, 9]])}
    scores["self"][[0, 0, 1, 1, 1, 1], [1, 4, 0, 2, 3, 5]] = torch.nan
    first = {how: removal_units(model, scores, group_score=how)[0] for how in ("mean", "sum")}
    assert first == {"mean": [("self", 0, 0), ("self", 0, 2)], "sum": [("self", 1, 1)]}
    with pytest.raises(ValueError, match="group_score is 'max'. Give 'mean' or 'sum'"):
        removal_units(model, scores, group_score="max")


def test_code_that_counts_on_whole_groups_is_found_out():
    torch.manual_seed(0)
    model = GroupedModel(GroupedAttention("whole"))
    (block,) = hp.find_heads(model)
    assert block.queries_per_kv == 2 and "does not run with fewer heads" in block.why_whole_groups
    scores = {"self": torch.rand(1, 4)}
    with pytest.raises(ValueError, match="can only be removed together.*Leave per_group out"):
        hp.prune_mask(model, scores, 0.5, per_group=True)
    mask = {"self": torch.tensor([[1.0, 0, 1, 0]])}
    with pytest.raises(
        ValueError, match="can only be removed together.*cut or keep all of a group"
    ):
        hp.prune_heads(model, mask)
    pruned = hp.prune_heads(model, hp.prune_mask(model, scores, 0.5))
    assert pruned.layers[0].v_proj.out_features == 2
