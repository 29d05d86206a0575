"""The laws every architecture obeys, under every attention kernel."""

import copy
import pickle
from functools import cache

import pytest
import torch
from tiny import CASES, DECODERS, GENERATORS, SINGLE, batch_for, build
from torch.nn.functional import cross_entropy
from transformers.pytorch_utils import Conv1D

from headprune_lib import (
    all_but_one,
    example_importance,
    find_heads,
    full_mask,
    head_importance,
    load_pruned,
    masked_heads,
    one_head_ablation,
    prune_heads,
    save_pruned,
)
from headprune_lib.ablation import all_but_one_masks, masked_logits, one_head_masks

# `make check` asks the laws of every architecture under one kernel, `make test` under both.
PROVED = [
    pytest.param(
        name,
        kernel,
        marks=[pytest.mark.slow] if kernel == "eager" and (name, "sdpa") in CASES else [],
    )
    for name, kernel in CASES
]
every_model = pytest.mark.parametrize(("name", "kernel"), PROVED)
every_generator = pytest.mark.parametrize(
    ("name", "kernel"), [case for case in PROVED if case.values[0] in GENERATORS]
)


def logits(model, inputs):
    given = {
        k: v.to(model.dtype) if v.is_floating_point() else v
        for k, v in inputs.items()
        if k != "labels"
    }
    with torch.no_grad():
        return model(**given).logits


def some_mask(model, empty_layer=None):
    """Every third head is cut; of grouped heads every third group."""
    mask = {}
    for block in find_heads(model):
        groups = torch.arange(block.n_heads) // block.group
        values = mask.setdefault(block.kind, torch.ones_like(full_mask(model)[block.kind]))
        values[block.layer] = ((groups + block.layer * len(groups.unique())) % 3 != 0).double()
    for values in mask.values():
        if empty_layer is not None:
            values[min(empty_layer, len(values) - 1)] = 0
    return mask


def head_weights(model, block, head):
    """The weights that take a head's numbers in the output projection: (hidden, width)."""
    projection, columns = (
        block.part(model, "output"),
        slice(head * block.width, (head + 1) * block.width),
    )
    turned = isinstance(projection, Conv1D)
    return projection.weight.data[columns].T if turned else projection.weight.data[:, columns]


def n_hooks(model):
    return sum(
        len(m._forward_hooks) + len(m._forward_pre_hooks) + ("forward" in m.__dict__)
        for m in model.modules()
    )


@every_model
def test_all_ones_changes_nothing(name, kernel):
    model, inputs = build(name, kernel), batch_for(name)
    with masked_heads(model, full_mask(model)):
        assert torch.equal(logits(model, inputs), logits(model, inputs))
    with masked_heads(model, full_mask(model)):
        masked = logits(model, inputs)
    assert torch.equal(masked, logits(model, inputs))


@every_model
def test_masking_is_zeroing_the_columns_of_the_output_projection(name, kernel):
    model, inputs = build(name, kernel), batch_for(name)
    mask = some_mask(model)
    with masked_heads(model, mask):
        masked = logits(model, inputs)
    zeroed = copy.deepcopy(model)
    for block in find_heads(zeroed):
        for head in range(block.n_heads):
            if mask[block.kind][block.layer, head] == 0:
                head_weights(zeroed, block, head).zero_()
    torch.testing.assert_close(
        masked, logits(zeroed, inputs), rtol=0, atol=1e-5 if (name, kernel) in SINGLE else 1e-12
    )
    assert not torch.allclose(masked, logits(model, inputs))


def losses_of(name, model, inputs):
    """One loss an example, by the definition: of the class, or of all pieces of a sentence."""
    made, labels = logits(model, inputs), inputs["labels"]
    if name in DECODERS:
        made, labels = made[:, :-1], labels[:, 1:]
    losses = cross_entropy(made.movedim(-1, 1), labels, reduction="none")
    return losses if losses.ndim == 1 else losses.sum(-1)


def exactness(name, kernel):
    """Step of a finite difference, and the relative and absolute error that it leaves."""
    # a difference of losses that are exact to float32 only needs a longer step
    return (2e-3, 2e-2, 4e-3) if (name, kernel) in SINGLE else (1e-5, 1e-5, 1e-7)


@cache
def importance_by_differences(name, kernel):
    """The mean over examples of the loss's absolute change with each head's gate, by kind."""
    model, inputs = build(name, kernel), batch_for(name)
    step, found = exactness(name, kernel)[0], full_mask(model)
    for block in find_heads(model):
        for head in range(block.n_heads):
            losses = []
            for sign in (1, -1):
                # a gate of 1 + step is the head's columns of the projection times that
                shifted = copy.deepcopy(model)
                head_weights(shifted, block, head).mul_(1 + sign * step)
                losses.append(losses_of(name, shifted, inputs))
            derivative = (losses[0] - losses[1]) / (2 * step)  # (batch,)
            found[block.kind][block.layer, head] = derivative.abs().mean()
    return found


@every_model
@pytest.mark.parametrize(
    "batch_size",
    [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(5, marks=pytest.mark.slow)],
)
def test_importance_is_the_finite_difference_example_by_example(name, kernel, batch_size):
    model, inputs = build(name, kernel), batch_for(name)
    _, rtol, atol = exactness(name, kernel)
    expected = importance_by_differences(name, kernel)
    parts = [{k: v[i : i + batch_size] for k, v in inputs.items()} for i in range(0, 5, batch_size)]
    scores = head_importance(model, parts, normalize=None)
    assert scores.keys() == expected.keys()
    for kind, values in scores.items():
        torch.testing.assert_close(values, expected[kind].double(), rtol=rtol, atol=atol)


@every_model
def test_sweeps_equal_plain_masking(name, kernel):
    model, inputs = build(name, kernel, torch.float32), batch_for(name)
    for sweep, masks in (
        (one_head_ablation, one_head_masks(model)),
        (all_but_one, all_but_one_masks(model)),
    ):
        ((uncut, cut),) = sweep(model, [inputs])
        torch.testing.assert_close(uncut, logits(model, inputs))
        assert list(cut) == list(masks)
        for head, mask in masks.items():
            (plain,) = masked_logits(model, [inputs], mask)
            torch.testing.assert_close(cut[head], plain, rtol=1e-4, atol=1e-5)
            with masked_heads(model, mask):
                torch.testing.assert_close(plain, logits(model, inputs), rtol=1e-4, atol=1e-5)


@every_model
def test_importance_is_the_mean_of_the_examples(name, kernel):
    model, inputs = build(name, kernel), batch_for(name)
    parts = [{k: v[i : i + 2] for k, v in inputs.items()} for i in (0, 2, 4)]
    scores, each = head_importance(model, parts, normalize=None), example_importance(model, parts)
    for kind, values in scores.items():
        assert each[kind].shape == (5, *values.shape)
        torch.testing.assert_close(each[kind].mean(0), values)


@every_model
@pytest.mark.parametrize("empty_layer", [None, 1])
def test_removal_equals_masking_and_survives_copying_and_saving(
    name, kernel, empty_layer, tmp_path
):
    model, inputs = build(name, kernel, torch.float32), batch_for(name)
    mask = some_mask(model, empty_layer)
    with masked_heads(model, mask):
        masked = logits(model, inputs)
    before = sum(p.numel() for p in model.parameters())
    pruned = prune_heads(copy.deepcopy(model), mask)
    assert sum(p.numel() for p in pruned.parameters()) < before
    torch.testing.assert_close(logits(pruned, inputs), masked, rtol=0, atol=1e-5)
    for copied in (copy.deepcopy(pruned), pickle.loads(pickle.dumps(pruned))):
        torch.testing.assert_close(logits(copied, inputs), masked, rtol=0, atol=1e-5)
    loaded = load_pruned(save_pruned(pruned, tmp_path / "pruned"))
    # the attention kernel is not part of what is saved
    torch.testing.assert_close(logits(loaded, inputs), logits(pruned, inputs), rtol=0, atol=1e-5)
    for block in find_heads(loaded):
        row = mask[block.kind][block.layer]
        assert block.kept == tuple(head for head in range(4) if row[head])
    if name in GENERATORS:
        assert loaded.generation_config.eos_token_id == model.generation_config.eos_token_id


@every_model
def test_a_pruned_model_is_scored_masked_and_pruned_again(name, kernel):
    model, inputs = build(name, kernel, torch.float32), batch_for(name)
    first, second = some_mask(model), full_mask(model)
    for block in find_heads(model):  # the second head, or group, of the lowest layers
        if block.layer == 0:
            second[block.kind][0, block.group : 2 * block.group] = 0
    pruned = prune_heads(copy.deepcopy(model), first)
    for kind, values in head_importance(pruned, [inputs]).items():
        assert torch.equal(values.isnan(), first[kind] == 0)
    with masked_heads(pruned, second):
        masked = logits(pruned, inputs)
    torch.testing.assert_close(
        logits(prune_heads(pruned, second), inputs), masked, rtol=0, atol=1e-5
    )
    both = {kind: first[kind] * second[kind] for kind in first}
    with masked_heads(model, both):
        torch.testing.assert_close(logits(pruned, inputs), logits(model, inputs), rtol=0, atol=1e-5)


@every_model
def test_hooks_are_gone_after_an_exception(name, kernel):
    model = build(name, kernel)
    before, trained = n_hooks(model), [p.requires_grad for p in model.parameters()]
    broken = batch_for(name, 1)
    if "pixel_values" in broken:
        broken["pixel_values"] = broken["pixel_values"][:, :2]
    else:
        broken["input_ids"] = torch.full((1, 9), 99)
    with pytest.raises((IndexError, ValueError)), masked_heads(model, some_mask(model)):
        logits(model, broken)
    with pytest.raises((IndexError, ValueError)):
        head_importance(model, [broken])
    with pytest.raises((IndexError, ValueError)):
        next(one_head_ablation(model, [broken]))
    assert n_hooks(model) == before
    assert [p.requires_grad for p in model.parameters()] == trained


def traces(model):
    """Everything a function could forget to put back: modes, gradients wanted, hooks, patches."""
    modules = [
        (
            module.training,
            sorted(module.__dict__),
            list(module._forward_hooks),
            list(module._forward_pre_hooks),
            list(module._backward_hooks),
        )
        for module in model.modules()
    ]
    return (
        modules,
        [p.requires_grad for p in model.parameters()],
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    )


@every_model
def test_between_two_batches_of_a_sweep_the_model_is_as_it_was(name, kernel):
    model, inputs = build(name, kernel, torch.float32), batch_for(name)
    parts = [{k: v[i : i + 2] for k, v in inputs.items()} for i in (0, 2)]
    mask, other = some_mask(model), full_mask(model)
    list(masked_logits(model, parts[:1], mask))  # a first pass may fill caches of the model's own
    model.train()
    next(model.children()).eval()
    next(model.parameters()).requires_grad_(False)
    before, started = traces(model), []
    sweeps = {
        "masked": lambda: masked_logits(model, parts, mask),
        "otherwise masked": lambda: masked_logits(model, parts, other),
        "one": lambda: one_head_ablation(model, parts),
        "all but one": lambda: all_but_one(model, parts),
    }
    for sweep in sweeps.values():
        started.append(sweep())  # kept, half used
        next(started[-1])
        assert traces(model) == before
    model(**{k: v for k, v in parts[0].items() if k != "labels"}).logits.sum().backward()
    alone = [list(sweep()) for sweep in sweeps.values()]
    together = zip(*(sweep() for sweep in sweeps.values()), strict=True)
    for left, right in zip(zip(*alone, strict=True), together, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0)
    assert traces(model) == before


@every_generator
@pytest.mark.parametrize("empty_layer", [None, 0])
def test_removal_equals_masking_in_generation_with_cache(name, kernel, empty_layer):
    model, inputs = build(name, kernel), batch_for(name)
    mask = some_mask(model, empty_layer)
    asked = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    if name in DECODERS:  # a prompt has its padding on the left
        asked = {key: values.flip(1) for key, values in asked.items()}
    pruned = prune_heads(copy.deepcopy(model), mask)
    told = {"max_new_tokens": 6, "return_dict_in_generate": True, "output_logits": True}
    with masked_heads(model, mask):
        masked = model.generate(**asked, max_new_tokens=12, num_beams=2)
        expected = torch.stack(model.generate(**asked, **told).logits)
    # a token is chosen right by chance where its logits are wrong
    found = torch.stack(pruned.generate(**asked, **told).logits)
    # (step, row, word): eager attention to padding alone is NaN, which a mask keeps
    known = expected.isfinite().all(dim=(0, 2))
    assert known.any()
    torch.testing.assert_close(found[:, known], expected[:, known], rtol=1e-4, atol=1e-5)
    assert torch.equal(pruned.generate(**asked, max_new_tokens=12, num_beams=2), masked)
    assert not torch.equal(model.generate(**asked, max_new_tokens=12, num_beams=2), masked)


@pytest.mark.nightly
@every_model
def test_a_pruned_model_compiles(name, kernel):
    model, inputs = build(name, kernel, torch.float32), batch_for(name)
    pruned = prune_heads(model, some_mask(model, empty_layer=1))
    expected = logits(pruned, inputs)
    torch.compiler.reset()
    compiled = torch.compile(pruned, backend="aot_eager")  # traced whole; no C++ compiler needed
    torch.testing.assert_close(logits(compiled, inputs), expected, rtol=0, atol=1e-5)
