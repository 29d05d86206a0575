"""Compiled models, threads and overlapping contexts: hooks act, or the call is refused."""

import contextlib
import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tiny import batch_for, build, logits_of, some_mask

import headprune_lib as hp
from headprune_lib.attention import recorded_weights
from headprune_lib.utils import eval_mode

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
    with hp.masked_heads(plain, mask):
        masked = logits_of(plain, INPUTS)
    torch.compiler.reset()
    model = compiled(copy.deepcopy(plain))
    model(**INPUTS).loss.backward()
    torch.testing.assert_close(logits_of(model, INPUTS), whole)  # compiled without any hook
    with hp.masked_heads(model, mask):
        torch.testing.assert_close(logits_of(model, INPUTS), masked)
    for measure in (hp.head_importance, lambda *given: next(hp.one_head_ablation(*given))[1]):
        torch.testing.assert_close(measure(model, [INPUTS]), measure(plain, [INPUTS]))
    torch.testing.assert_close(logits_of(model, INPUTS), whole)
    pruned = hp.prune_heads(model, mask)
    torch.testing.assert_close(logits_of(pruned, INPUTS), masked, rtol=0, atol=1e-5)


def in_a_thread(call):
    """What a call in another thread gives, or the exception that it ends with."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
    return future.exception() or future.result()


@pytest.mark.parametrize(
    "use",
    [
        lambda model: list(hp.one_head_ablation(model, [INPUTS])),
        lambda model: hp.head_importance(model, [INPUTS]),
        lambda model: hp.score_heads(model, [INPUTS], by="entropy"),
        lambda model: hp.masked_heads(model, hp.ones_mask(model)).__enter__(),
    ],
)
@pytest.mark.parametrize(
    "hold",
    [
        lambda model: hp.masked_heads(model, [(0, 1)]),
        lambda model: hp.masked_heads(model, hp.ones_mask(model)),
        lambda model: recorded_weights(model, hp.find_heads(model)),
        eval_mode,
    ],
)
def test_a_second_thread_is_refused_while_the_first_holds_the_model(hold, use):
    model = build(dtype=torch.float32)
    with hold(model):
        refused = in_a_thread(lambda: use(model))
        assert isinstance(refused, RuntimeError) and "copy.deepcopy" in str(refused)
        with contextlib.suppress(AttributeError):
            use(model)  # the same thread may nest
        assert not isinstance(in_a_thread(lambda: use(copy.deepcopy(model))), RuntimeError)
