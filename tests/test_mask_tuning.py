"""Gates fitted to the uncut outputs of layers, against plain least squares, one pass per block."""

import copy

import pytest
import tiny
import torch
from tiny import BUILDERS, IMAGES, SINGLE, batch_for, build, logits_of, unchanged

import headprune_lib as hp


def some_mask(model):
    """A mask that cuts every third head or group, but none in the second of three layers."""
    mask = tiny.some_mask(model)
    for values in mask.values():
        values[1:2] = values[1:2] if len(values) < 3 else 1
    return mask


def tokens(block, name, inputs):
    """A mask of the queries that are not padding, (example, position), computed independently."""
    if name in IMAGES:
        return torch.ones(len(inputs["labels"]), 5, dtype=torch.bool)
    if block.kind in ("enc-dec", "dec-dec"):
        return inputs["labels"] != -100
    return inputs["attention_mask"] == 1


def given_to(model, block, inputs, gates):
    """The inputs of a block's projection in each run of one plain pass, before its own gates."""
    found, output = [], block.part(model, "output")
    hook = output.register_forward_pre_hook(lambda _, args: found.append(args[0]))
    logits_of(model, inputs, gates)
    hook.remove()
    return found


def written(model, block, name, batches, gates):
    """The output of each head, (number, head), one head after another, over all tokens and runs."""
    columns = []
    for head in range(len(block.kept_heads)):
        own, weight = head * block.head_dim, tiny.head_weights(model, block, head)
        rows = []
        for inputs in batches:
            real = tokens(block, name, inputs)
            for context in given_to(model, block, inputs, gates):
                values = context[..., own : own + block.head_dim]
                rows += [weight @ values[i, j] for i, j in real.nonzero().tolist()]
        columns.append(torch.cat(rows))
    return torch.stack(columns, 1).double()


def plainly(model, mask, name, batches):
    """Gates, and the error of each block without and with them, by lstsq of full passes."""
    gates, errors = {kind: values.double() for kind, values in mask.items()}, []
    for block in hp.find_heads(model):
        own = gates[block.kind][block.layer]
        left = own == 1
        target = written(model, block, name, batches, hp.ones_mask(model)).sum(1)
        design = written(model, block, name, batches, gates)[:, left]
        missing = target - design.sum(1)
        change = torch.linalg.lstsq(design, missing[:, None]).solution[:, 0]
        if (1 + change).abs().max() <= 10:
            own[left] += change
        errors.append((missing.norm(), (target - design @ own[left]).norm()))
    return gates, errors


every_model = pytest.mark.parametrize(
    "name", tiny.in_tiers(BUILDERS, {"bert", "albert", "llama", "gpt2", "t5"})
)


@every_model
def test_gates_are_those_of_plain_least_squares(name):
    model, inputs = build(name), batch_for(name)
    mask, batches = some_mask(model), tiny.parts_of(inputs, 2)
    found = hp.tune_mask(model, mask, batches)
    expected, errors = plainly(model, mask, name, batches)
    near = 5e-3 if (name, "eager") in SINGLE else 1e-6  # inside, these compute in float32
    for kind, gates in found.items():
        assert gates.dtype == torch.float64
        assert torch.equal(gates == 0, mask[kind] == 0)
        torch.testing.assert_close(gates, expected[kind], rtol=near, atol=near)
    assert all(with_gates <= without * (1 + 1e-9) for without, with_gates in errors)
    better = sum(with_gates < 0.99 * without for without, with_gates in errors)
    assert better > 1 or len(errors) == better == 1
    assert sum(((gates != 1) & (gates != 0)).sum() for gates in found.values()) > 1


def repeating(factor):
    """A model in whose first layer head 1 writes what head 0 writes, times a factor."""
    model = build("bert")
    block = hp.find_heads(model)[0]
    first, second = slice(0, block.head_dim), slice(block.head_dim, 2 * block.head_dim)
    for part in ("query", "key", "value"):
        for values in block.part(model, part).parameters():
            values.data[second] = values.data[first]
    of_first, of_second = (tiny.head_weights(model, block, head) for head in (0, 1))
    of_second.copy_(factor * of_first)
    return model


@pytest.mark.parametrize("gate", [1, 2, 9.9, -9.9, 10.1, -10.1, 900])
def test_a_head_makes_up_for_one_that_writes_the_same_and_no_gate_is_beyond_ten(gate):
    model = repeating(1 / (gate - 1) if gate != 1 else 0)  # one that writes nothing keeps gate 1
    (gates, *_) = hp.tune_mask(model, [(0, 0)], [batch_for("bert")])["self"]
    assert gates[0] == 0 and gates[1] == pytest.approx(gate if abs(gate) <= 10 else 1, abs=1e-5)
    assert (abs(gates[2] - 1) > 1e-3) == (gate == 1)


def test_the_model_is_left_as_it_was_after_an_error_too():
    model, inputs = build("t5").train(), batch_for("t5")
    next(model.children()).eval()
    next(model.parameters()).requires_grad_(False)
    with unchanged(model):
        hp.tune_mask(model, some_mask(model), [inputs])
    broken = inputs | {"input_ids": torch.full_like(inputs["input_ids"], 99)}
    with unchanged(model), pytest.raises(IndexError):
        hp.tune_mask(model, some_mask(model), [inputs, broken])


@every_model
def test_folded_and_pruned_is_masked_by_the_gates(name):
    model, inputs = build(name), batch_for(name)
    mask = some_mask(model)
    gates = hp.tune_mask(model, mask, [inputs])
    expected = logits_of(model, inputs, gates)
    folded = hp.fold_gates(copy.deepcopy(model), gates)
    near = 1e-5 if (name, "eager") in SINGLE else 1e-10
    torch.testing.assert_close(logits_of(folded, inputs), expected, rtol=near, atol=near)
    if not any(block.why_not_prunable for block in hp.find_heads(model)):
        hp.prune_heads(folded, mask)
        torch.testing.assert_close(logits_of(folded, inputs), expected, rtol=near, atol=near)
    assert not torch.allclose(logits_of(model, inputs, mask), expected, atol=1e-3)


@pytest.mark.parametrize("name", ["bert", "gpt2", "marian"])
def test_what_was_pruned_is_tuned_and_folded_further(name):
    model, inputs = build(name), batch_for(name)
    blocks = hp.find_heads(model)
    first = hp.head_mask(model, [(block.kind, block.layer, 1) for block in blocks])
    second = hp.head_mask(model, [(blocks[0].kind, 0, 2)])
    pruned = hp.prune_heads(copy.deepcopy(model), first)
    gates = hp.tune_mask(pruned, second, [inputs])
    # the same for the whole model, in which heads that are gone write nothing
    silent = hp.fold_gates(copy.deepcopy(model), first)
    expected = hp.tune_mask(silent, second, [inputs])
    assert all((values[:, 1] == 1).all() for values in gates.values())
    torch.testing.assert_close(gates, expected, rtol=1e-6, atol=1e-6)
    masked = logits_of(pruned, inputs, gates)
    hp.fold_gates(pruned, gates)
    torch.testing.assert_close(logits_of(hp.prune_heads(pruned, second), inputs), masked)
