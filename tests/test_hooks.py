"""Compiled models: hooks act on them too."""

import copy

import pytest
import torch
from tiny import batch_for, build, logits_of, some_mask

import headprune_lib as hp

INPUTS = batch_for("bert")


def wrapped(model):
    return torch.compile(model, backend="aot_eager")


def layer_by_layer(model):
    for layer in model.bert.encoder.layer:
        layer.compile(backend="aot_eager")
    return model


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [wrapped, layer_by_layer])
def test_a_compiled_model_that_has_run_gives_what_the_plain_one_does(compiled):
    plain = build(kernel="sdpa", dtype=torch.float32)
    mask, whole = some_mask(plain, 2), logits_of(plain, INPUTS)
    masked = logits_of(plain, INPUTS, mask)
    torch.compiler.reset()
    model = compiled(copy.deepcopy(plain))
    model(**INPUTS).loss.backward()
    torch.testing.assert_close(logits_of(model, INPUTS), whole)  # compiled without any hook
    torch.testing.assert_close(logits_of(model, INPUTS, mask), masked)
    for measure in (hp.head_importance, lambda *given: next(hp.one_head_ablation(*given))[1]):
        torch.testing.assert_close(measure(model, [INPUTS]), measure(plain, [INPUTS]))
    torch.testing.assert_close(logits_of(model, INPUTS), whole)
    pruned = hp.prune_heads(model, mask)
    torch.testing.assert_close(logits_of(pruned, INPUTS), masked, rtol=0, atol=1e-5)
