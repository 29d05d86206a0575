"""The laws every architecture obeys, under every attention kernel."""

import copy
import pickle
import re
from functools import cache

import pytest
import tiny
import torch
from tiny import batch_for, build, head_weights, inputs_of, logits_of, parts_of, some_mask, traces
from torch.nn.functional import cross_entropy

import headprune_lib as hp
from headprune_lib.ablation import all_but_one_masks, masked_logits, one_head_masks

# `make check` tests a model of each mechanism, `make test` every architecture under both kernels.
FAST = {
    ("bert", "sdpa"),
    ("deberta-v2", "eager"),  # relative positions, content to position and back
    ("modernbert", "sdpa"),  # fused projection, windows
    ("albert", "sdpa"),  # layers share their weights
    ("vit", "sdpa"),
    ("bart", "sdpa"),
    ("t5", "sdpa"),  # a bias per head, made by the lowest layer
    ("gpt2", "sdpa"),  # fused projection, transposed
    ("gpt-neox", "sdpa"),  # fused head by head, attention parallel to the feed-forward layer
    ("llama", "sdpa"),  # grouped queries
}


def cases(fast, among=tiny.CASES):
    """Parameters of a law: these models in the fast tier, all others in the slow one."""
    return pytest.mark.parametrize(
        ("name", "kernel"),
        [pytest.param(*case, marks=[] if case in fast else pytest.mark.slow) for case in among],
    )


every_model = cases(FAST)
# For laws that hardly depend on the model, and not on the kernel: each under its last kernel.
ONE_KERNEL = [*{name: (name, kernel) for name, kernel in tiny.CASES}.values()]
every_model_but_fast_for_one = cases({("bert", "sdpa")}, ONE_KERNEL)
every_generator = cases(FAST, [case for case in tiny.CASES if case[0] in tiny.GENERATORS])


def steered(_layer, _inputs, output):
    """A hook of the caller's that mixes the positions of what a layer returns."""
    states, *more = output if isinstance(output, tuple) else (output,)
    states = states + states.mean(1, keepdim=True)
    return (states, *more) if isinstance(output, tuple) else states


@every_model
def test_masking_is_zeroing_the_columns_of_the_output_projection(name, kernel):
    model, inputs = build(name, kernel), batch_for(name)
    whole, mask = logits_of(model, inputs), some_mask(model)
    assert torch.equal(logits_of(model, inputs, hp.ones_mask(model)), whole)
    with hp.masked_heads(model, mask):
        masked = logits_of(model, inputs)
    zeroed = copy.deepcopy(model)
    for block in hp.find_heads(zeroed):
        for head in range(block.n_heads):
            if mask[block.kind][block.layer, head] == 0:
                head_weights(zeroed, block, head).zero_()
    rounding = 1e-5 if (name, kernel) in tiny.SINGLE else 1e-12
    torch.testing.assert_close(masked, logits_of(zeroed, inputs), rtol=0, atol=rounding)
    assert not torch.allclose(masked, whole)
    assert torch.equal(logits_of(model, inputs), whole)


def losses_of(name, model, inputs):
    """One loss per example, by definition: of the class, or summed over the tokens of a text."""
    logits, labels = logits_of(model, inputs), inputs["labels"]
    if name in tiny.DECODERS:
        logits, labels = logits[:, :-1], labels[:, 1:]
    losses = cross_entropy(logits.movedim(-1, 1), labels, reduction="none")
    return losses if losses.ndim == 1 else losses.sum(-1)


def exactness(name, kernel):
    """Step of a finite difference, and the relative and absolute error that it leaves."""
    # a difference of losses that are only exact to float32 needs a longer step
    return (2e-3, 2e-2, 4e-3) if (name, kernel) in tiny.SINGLE else (1e-5, 1e-5, 1e-7)


@cache
def differences(name, kernel):
    """Absolute change of each example's loss with each head's gate: kind -> (example, layer, head)."""
    model, inputs = build(name, kernel), batch_for(name)
    step = exactness(name, kernel)[0]
    changes = {kind: ones.double().repeat(5, 1, 1) for kind, ones in hp.ones_mask(model).items()}
    for block in hp.find_heads(model):
        for head in range(block.n_heads):
            weights = head_weights(model, block, head)
            own, losses = weights.clone(), []
            for sign in (1, -1):  # a gate of 1 + step scales the head's columns
                weights.copy_(own * (1 + sign * step))
                losses.append(losses_of(name, model, inputs))
            weights.copy_(own)
            derivative = (losses[0] - losses[1]) / (2 * step)
            changes[block.kind][:, block.layer, head] = derivative.abs()
    return changes


@every_model
@pytest.mark.parametrize("batch_size", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_importance_is_the_finite_difference_example_by_example(name, kernel, batch_size):
    model, parts = build(name, kernel), parts_of(batch_for(name), batch_size)
    _, rtol, atol = exactness(name, kernel)
    expected = differences(name, kernel)
    scores = hp.head_importance(model, parts, normalize=None)
    each = hp.example_importance(model, parts)
    means = {kind: values.mean(0) for kind, values in expected.items()}
    torch.testing.assert_close(scores, means, rtol=rtol, atol=atol)
    torch.testing.assert_close(each, expected, rtol=rtol, atol=atol)


@every_model
@pytest.mark.parametrize("state", ["whole", "pruned", "hooked"])
def test_sweeps_equal_plain_masking(name, kernel, state):
    """Also without heads that were removed before, and with hooks of the caller on each layer."""
    model, inputs = build(name, kernel, torch.float32), batch_for(name)
    if state == "pruned":
        hp.prune_heads(model, some_mask(model))
    if state == "hooked":
        for block in hp.find_heads(model):
            path = re.match(r".*?\.\d+", block.path)[0]
            model.get_submodule(path).register_forward_hook(steered)
    for sweep, masks in (
        (hp.one_head_ablation, one_head_masks(model)),
        (hp.all_but_one, all_but_one_masks(model)),
    ):
        ((uncut, cut),) = sweep(model, [inputs])
        torch.testing.assert_close(uncut, logits_of(model, inputs))
        assert list(cut) == list(masks)
        for head, mask in list(masks.items())[:: 1 if sweep is hp.one_head_ablation else 3]:
            masked = logits_of(model, inputs, mask)
            torch.testing.assert_close(cut[head], masked, rtol=1e-4, atol=1e-5)
        (plain,) = masked_logits(model, [inputs], mask)  # of the last head
        torch.testing.assert_close(plain, masked, rtol=1e-4, atol=1e-5)


@every_model
@pytest.mark.parametrize("empty_layer", [pytest.param(None, marks=pytest.mark.slow), 1])
def test_removal_equals_masking_and_survives_copying_and_saving(
    name, kernel, empty_layer, tmp_path
):
    model, inputs = build(name, kernel, torch.float32), batch_for(name)
    mask = some_mask(model, empty_layer)
    masked = logits_of(model, inputs, mask)
    pruned = hp.prune_heads(copy.deepcopy(model), mask)
    assert pruned.num_parameters() < model.num_parameters()
    loaded = hp.load_pruned(hp.save_pruned(pruned, tmp_path / "pruned"))
    # the attention kernel is not part of what is saved
    for smaller in (pruned, copy.deepcopy(pruned), pickle.loads(pickle.dumps(pruned)), loaded):
        torch.testing.assert_close(logits_of(smaller, inputs), masked, rtol=0, atol=1e-5)
        for block in hp.find_heads(smaller):
            row = mask[block.kind][block.layer]
            assert block.kept_heads == tuple(head for head in range(4) if row[head])
    if name in tiny.GENERATORS:
        assert loaded.generation_config.eos_token_id == model.generation_config.eos_token_id


@every_model
def test_a_pruned_model_is_scored_masked_and_pruned_again(name, kernel):
    model, inputs = build(name, kernel, torch.float32), batch_for(name)
    first, second = some_mask(model), hp.ones_mask(model)
    for block in hp.find_heads(model):  # the second head, or group, of the lowest layers
        if block.layer == 0:
            second[block.kind][0, block.queries_per_kv : 2 * block.queries_per_kv] = 0
    pruned = hp.prune_heads(copy.deepcopy(model), first)
    for kind, values in hp.head_importance(pruned, [inputs]).items():
        assert torch.equal(values.isnan(), first[kind] == 0)
    both = {kind: first[kind] * second[kind] for kind in first}
    expected = logits_of(model, inputs, both)
    for mask in (second, both):  # a mask may also be cumulative
        masked = logits_of(pruned, inputs, mask)
        torch.testing.assert_close(masked, expected, rtol=0, atol=1e-5)
        twice = logits_of(hp.prune_heads(copy.deepcopy(pruned), mask), inputs)
        torch.testing.assert_close(twice, expected, rtol=0, atol=1e-5)


@every_model_but_fast_for_one
def test_the_model_is_as_it_was_after_an_exception(name, kernel):
    model, broken = build(name, kernel), batch_for(name, 1)
    if "pixel_values" in broken:
        broken["pixel_values"] = broken["pixel_values"][:, :2]
    else:
        broken["input_ids"] = torch.full((1, 9), 99)
    for call in (
        lambda: logits_of(model, broken),
        lambda: hp.head_importance(model, [broken]),
        lambda: next(hp.one_head_ablation(model, [broken])),
    ):
        masked = hp.masked_heads(model, some_mask(model))
        with tiny.unchanged(model), pytest.raises((IndexError, ValueError)), masked:
            call()


@every_model_but_fast_for_one
def test_between_two_batches_of_a_sweep_the_model_is_as_it_was(name, kernel):
    model, inputs = build(name, kernel, torch.float32), batch_for(name)
    parts = parts_of(inputs, 2)[:2]
    mask, other = some_mask(model), hp.ones_mask(model)
    list(masked_logits(model, parts[:1], mask))  # a first pass may fill caches of the model's own
    model.train()
    next(model.children()).eval()
    next(model.parameters()).requires_grad_(False)
    before, started = traces(model), []
    sweeps = (
        lambda: masked_logits(model, parts, mask),
        lambda: masked_logits(model, parts, other),
        lambda: hp.one_head_ablation(model, parts),
        lambda: hp.all_but_one(model, parts),
    )
    for sweep in sweeps:
        started.append(sweep())  # kept, half used
        next(started[-1])
        assert traces(model) == before
    model(**inputs_of(parts[0], torch.float32)).logits.sum().backward()
    alone = [list(sweep()) for sweep in sweeps]
    together = zip(*(sweep() for sweep in sweeps), strict=True)
    for left, right in zip(zip(*alone, strict=True), together, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0)
    assert traces(model) == before


@every_generator
@pytest.mark.parametrize("empty_layer", [pytest.param(None, marks=pytest.mark.slow), 0])
def test_removal_equals_masking_in_generation_with_cache(name, kernel, empty_layer):
    model, inputs = build(name, kernel), batch_for(name)
    mask = some_mask(model, empty_layer)
    asked = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    if name in tiny.DECODERS:  # a prompt has its padding on the left
        asked = {key: values.flip(1) for key, values in asked.items()}
    pruned = hp.prune_heads(copy.deepcopy(model), mask)
    steps = {"max_new_tokens": 6, "return_dict_in_generate": True, "output_logits": True}
    beams = {"max_new_tokens": 12, "num_beams": 2}
    with hp.masked_heads(model, mask):
        masked = model.generate(**asked, **beams)
        expected = torch.stack(model.generate(**asked, **steps).logits)
    # also the logits, since a token may be right by chance
    logits = torch.stack(pruned.generate(**asked, **steps).logits)
    # (step, row, token): eager attention to padding alone is NaN, which a mask keeps
    known = expected.isfinite().all(dim=(0, 2))
    assert known.any()
    torch.testing.assert_close(logits[:, known], expected[:, known], rtol=1e-4, atol=1e-5)
    assert torch.equal(pruned.generate(**asked, **beams), masked)
    assert not torch.equal(model.generate(**asked, **beams), masked)


def wrapped(model):
    return torch.compile(model, backend="aot_eager")


def layer_by_layer(model):
    for layer in model.bert.encoder.layer:
        layer.compile(backend="aot_eager")
    return model


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [wrapped, layer_by_layer])
def test_a_compiled_model_that_has_run_gives_what_the_plain_one_does(compiled):
    plain, inputs = build(kernel="sdpa", dtype=torch.float32), batch_for("bert")
    mask, whole = some_mask(plain, 2), logits_of(plain, inputs)
    masked = logits_of(plain, inputs, mask)
    torch.compiler.reset()
    model = compiled(copy.deepcopy(plain))
    model(**inputs).loss.backward()
    torch.testing.assert_close(logits_of(model, inputs), whole)  # compiled without any hook
    torch.testing.assert_close(logits_of(model, inputs, mask), masked)
    for measure in (hp.head_importance, lambda *given: next(hp.one_head_ablation(*given))[1]):
        torch.testing.assert_close(measure(model, [inputs]), measure(plain, [inputs]))
    torch.testing.assert_close(logits_of(model, inputs), whole)
    pruned = hp.prune_heads(model, mask)
    torch.testing.assert_close(logits_of(pruned, inputs), masked, rtol=0, atol=1e-5)
