"""Compiled models, threads and overlapping contexts: hooks act, or the call is refused."""

import contextlib
import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tiny import batch_for, build, logits_of

import headprune_lib as hp
from headprune_lib.attention import recorded_weights
from headprune_lib.utils import eval_mode


def some_mask(model):
    mask = hp.ones_mask(model)
    mask["self"][0, 1] = mask["self"][2] = 0
    return mask


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
    mask, whole = some_mask(plain), logits_of(plain, inputs)
    with hp.masked_heads(plain, mask):
        masked = logits_of(plain, inputs)
    torch.compiler.reset()
    model = compiled(copy.deepcopy(plain))
    model(**inputs).loss.backward()
    torch.testing.assert_close(logits_of(model, inputs), whole)  # compiled without any hook
    with hp.masked_heads(model, mask):
        torch.testing.assert_close(logits_of(model, inputs), masked)
    for kind, values in hp.head_importance(model, [inputs]).items():
        torch.testing.assert_close(values, hp.head_importance(plain, [inputs])[kind])
    (_, found), (_, expected) = (
        next(hp.one_head_ablation(one, [inputs])) for one in (model, plain)
    )
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(logits_of(model, inputs), whole)
    pruned = hp.prune_heads(model, mask)
    torch.testing.assert_close(logits_of(pruned, inputs), masked, rtol=0, atol=1e-5)


def in_a_thread(call):
    """What a call in another thread gives, or the exception that it ends with."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
    return future.exception() or future.result()


@pytest.mark.parametrize(
    "use",
    [
        lambda model: list(hp.one_head_ablation(model, [batch_for("bert")])),
        lambda model: hp.head_importance(model, [batch_for("bert")]),
        lambda model: hp.score_heads(model, [batch_for("bert")], by="entropy"),
        lambda model: hp.masked_heads(model, hp.ones_mask(model)).__enter__(),
    ],
)
@pytest.mark.parametrize(
    "hold",
    [
        lambda model: hp.masked_heads(model, some_mask(model)),
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
