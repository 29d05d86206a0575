"""What a practitioner gets wrong is refused with what to do, or does no harm."""

import contextlib
import copy
import itertools
from functools import partial

import numpy as np
import pytest
import torch
import transformers as t
from tiny import batch, batch_for, build
from torch import nn
from torch.nn.utils import prune as torch_prune
from torch.utils import checkpoint as torch_checkpointing
from torch.utils.checkpoint import CheckpointError, CheckpointFunction
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from headprune_lib import (
    cut_heads,
    find_heads,
    full_mask,
    head_importance,
    masked_heads,
    one_head_ablation,
    prune_heads,
    prune_mask,
    score_heads,
    tune_mask,
    uniform_mask,
)
from headprune_lib.ablation import masked_logits
from headprune_lib.criteria import CRITERIA


def first_cut(model):
    return cut_heads(model, [("self", 0, 1)])


def logits(model, inputs):
    with torch.no_grad():
        return model(**inputs).logits


def scored(model, by="importance", **changed):
    inputs = {**batch(3), **changed}
    return score_heads(model, [{k: v for k, v in inputs.items() if v is not None}], by)


def under_inference(model):
    with torch.inference_mode():
        return head_importance(model, [batch(3)])


def made_under_inference(_model):
    with torch.inference_mode():
        model = build("bert")
    return head_importance(model, [batch(3)])


def traced(model):
    model.config.return_dict = False
    ids = (batch(3)["input_ids"],)
    return find_heads(torch.jit.trace(model, ids, check_trace=False, strict=False))


def pruned_by_torch(model):
    query = model.bert.encoder.layer[0].attention.self.query
    torch_prune.l1_unstructured(query, "weight", amount=0.5)
    prune_heads(model, first_cut(model))


def sharing(model):
    first, second, _ = model.bert.encoder.layer
    second.attention.output.dense = first.attention.output.dense
    find_heads(model)


def removing_under_a_mask(model):
    with masked_heads(model, cut_heads(model, [("self", 0, 3)])):
        prune_heads(model, first_cut(model))


def removing_in_a_sweep(model):
    for _ in one_head_ablation(model, [batch(3)], reduce=lambda *_: removing(model)):
        pass


def removing(model):
    prune_heads(model, first_cut(model))


def one_of(inputs):
    return {name: value[0] for name, value in inputs.items()}


class Rows(torch.utils.data.Dataset):
    """Examples without an end, as a data set that draws them has."""

    def __init__(self, inputs):
        self.inputs = inputs

    def __getitem__(self, index):
        return one_of(self.inputs)


def masked_with(value):
    def run(model):
        with masked_heads(model, {"self": value(full_mask(model)["self"])}):
            pass

    return run


def prune_share(amount):
    return lambda model: prune_mask(model, {"self": torch.rand(3, 4)}, amount)


MISUSES = {
    "one batch for a list": (
        lambda m: head_importance(m, batch(3)), TypeError, r"given str: .*\[batch\]"),
    "one batch for a list, swept": (
        lambda m: list(one_head_ablation(m, batch(3))), TypeError, r"given str: .*\[batch\]"),
    "one batch for a list, masked": (
        lambda m: list(masked_logits(m, batch(3))), TypeError, r"given str: .*\[batch\]"),
    "one batch for a list, tuned": (
        lambda m: tune_mask(m, first_cut(m), batch(3)), TypeError, r"given str: .*\[batch\]"),
    "one batch for a list, looked at": (
        lambda m: score_heads(m, batch(3), "entropy"), TypeError, r"given str: .*\[batch\]"),
    "pairs for dicts": (
        lambda m: head_importance(m, [(1, 2)]), TypeError, "given tuple"),
    "labels in a list": (
        lambda m: scored(m, labels=[0, 1, 2]), TypeError, r"batch\['labels'\] is of type list"),
    "texts among tensors": (
        lambda m: scored(m, "second-order", text=["a", "b", "c"]), TypeError, "is of type list"),
    "an array among tensors": (
        lambda m: scored(m, labels=np.arange(3)), TypeError, "is of type ndarray, not a tensor"),
    "a single example": (
        lambda m: head_importance(m, [one_of(batch(3))]), ValueError, "that is one example.*DataLoader"),
    "a data set": (
        lambda m: head_importance(m, Rows(batch(3))), ValueError, "that is one example.*DataLoader"),
    "a data set, searched": (
        lambda m: score_heads(m, Rows(batch(3)), "greedy"), ValueError, "that is one example"),
    "a data set, swept": (
        lambda m: list(one_head_ablation(m, Rows(batch(3)))), ValueError, "that is one example"),
    "a label that is a number": (lambda m: scored(m, labels=1), ValueError, "'labels'. is a number"),
    "no examples": (
        lambda m: head_importance(m, [{k: v[:0] for k, v in batch(3).items()}]),
        ValueError, "has no rows"),
    "a model's name": (lambda _: find_heads("bert-base-uncased"), TypeError, "given str; load one"),
    "a model's class": (lambda _: find_heads(t.BertModel), TypeError, "given the class BertModel"),
    "no model": (lambda _: head_importance(None, [batch(3)]), TypeError, "given NoneType"),
    "a traced model": (traced, ValueError, "torch.jit made runs without Python"),
    "a loss of torch's": (
        lambda m: head_importance(m, [batch(3)], loss=nn.CrossEntropyLoss()),
        TypeError, "the loss CrossEntropyLoss failed on .* give lambda outputs, batch: torch"),
    "a loss of logits and labels": (
        lambda m: head_importance(m, [batch(3)], loss=nn.functional.cross_entropy),
        TypeError, "the loss cross_entropy failed on .* give lambda outputs, batch: torch"),
    "a loss of outputs alone": (
        lambda m: score_heads(m, [batch(3)], "greedy", loss=lambda outputs: outputs.loss),
        TypeError, "the loss <lambda> failed on the model's outputs and the batch"),
    "a loss that is a number": (
        lambda m: head_importance(m, [batch(3)], loss=lambda outputs, _: float(outputs.loss)),
        TypeError, "the loss is a float, not a tensor"),
    "inference mode": (under_inference, ValueError, "under torch.inference_mode.*outside"),
    "weights of inference mode": (
        made_under_inference, ValueError, "weights were made under torch.inference_mode"),
    "a mask that is learned": (
        masked_with(lambda ones: ones.requires_grad_()), ValueError, "no.* flows through a mask"),
    "a mask of numpy": (masked_with(lambda ones: ones.numpy()), TypeError, "given ndarray"),
    "scores of numpy": (
        lambda m: prune_mask(m, {"self": np.ones((3, 4))}, 0.5), TypeError, "is a ndarray"),
    "heads for a mask": (
        lambda m: prune_heads(m, [("self", 0, 1)]), TypeError, r"given list.*cut_heads\(model"),
    "heads by layer for a mask": (
        lambda m: prune_heads(m, {0: [1, 2]}), ValueError, r"kinds \[0\].*cut_heads\(model"),
    "one head for a list": (lambda m: cut_heads(m, ("self", 0, 1)), TypeError, "'self' is no head"),
    "a tensor for several kinds": (
        lambda _: full_mask(build("bart")) and prune_heads(build("bart"), torch.ones(2, 4)),
        TypeError, r"given Tensor; the kinds are \['enc-enc'"),
    "heads without their kind": (
        lambda _: cut_heads(build("bart"), [(0, 1)]), TypeError, r"\(0, 1\) is no head"),
    "a share that is a switch": (prune_share(True), TypeError, "amount is True"),
    "a share that is text": (prune_share("0.5"), TypeError, "amount is '0.5'"),
    "a shared projection": (
        sharing, ValueError, r"layer.0.attention and .*layer.1.attention share one output"),
    "removal under a mask": (removing_under_a_mask, RuntimeError, "masked or measured right now"),
    "removal in a sweep": (removing_in_a_sweep, RuntimeError, "masked or measured right now"),
    "weights pruned by torch": (pruned_by_torch, ValueError, "torch.nn.utils.prune.remove"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSES)
def test_it_is_refused_with_what_to_do_and_nothing_changes(name):
    misuse, error, message = MISUSES[name]
    model = build("bert")
    expected = logits(model, batch(3))
    with pytest.raises(error, match=message):
        misuse(model)
    if name not in ("a shared projection", "weights pruned by torch", "a traced model"):
        torch.testing.assert_close(logits(model, batch(3)), expected, rtol=0, atol=0)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not any(module._forward_pre_hooks for module in model.modules()) or "torch" in name


def test_labels_of_which_none_counts():
    model = build("gpt2")
    inputs = {k: v for k, v in batch(3).items() if k != "labels"}
    none = torch.full_like(inputs["input_ids"], -100)
    for by in ("importance", "fisher", "second-order"):
        with pytest.raises(ValueError, match="every head's score is exactly 0: no example has a"):
            score_heads(model, [{**inputs, "labels": none}], by)
    some = none.clone()  # an example without labels beside others is an example of loss 0
    some[0, 1:3] = inputs["input_ids"][0, 1:3]
    scores = head_importance(model, [{**inputs, "labels": some}], normalize=None)["self"]
    alone = {k: v[:1] for k, v in {**inputs, "labels": some}.items()}
    torch.testing.assert_close(3 * scores, head_importance(model, [alone], normalize=None)["self"])


def test_a_copy_that_is_made_under_a_mask_is_free_after_it():
    model, inputs = build("bert"), batch(3)
    plain = logits(model, inputs)
    with masked_heads(model, first_cut(model)):
        made = copy.deepcopy(model)
        masked = logits(model, inputs)
        assert torch.equal(logits(made, inputs), masked) and not torch.equal(masked, plain)
    assert torch.equal(logits(made, inputs), plain)
    pruned = prune_heads(made, first_cut(made))  # nor does anything refuse the copy
    torch.testing.assert_close(logits(pruned, inputs), masked)


def test_after_an_exception_under_a_mask_heads_can_be_removed():
    model = build("bert")
    with contextlib.suppress(ZeroDivisionError), masked_heads(model, first_cut(model)):
        raise ZeroDivisionError
    assert find_heads(prune_heads(model, first_cut(model)))[0].kept == (0, 2, 3)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_batch_with_flags_and_int32(criterion):
    settings = {"gates": {"updates": 2}, "shapley": {"permutations": 1}}.get(criterion, {})
    model, inputs = build("bert"), batch(3)
    model.set_attn_implementation("eager")
    expected = score_heads(model, [inputs], criterion, **settings)["self"]
    further = {"token_type_ids": None, "use_cache": False, "output_attentions": True, "extra": 1}
    given = {**inputs, **further, "labels": inputs["labels"].int()}
    found = score_heads(model, [given], criterion, **settings)["self"]
    torch.testing.assert_close(found, expected)
    assert given["labels"].dtype == torch.int32


def test_a_mask_of_one_kind_is_also_the_tensor_alone():
    model, inputs, scores = build("bert"), batch(3), torch.rand(3, 4)
    mask = cut_heads(model, [("self", 0, 1), ("self", 2, 3)])
    assert torch.equal(cut_heads(model, [(0, 1), (2, 3)])["self"], mask["self"])
    assert torch.equal(cut_heads(model, {0: [1], 2: {3}})["self"], mask["self"])
    for choose in (prune_mask, uniform_mask):
        assert torch.equal(
            choose(model, scores, 0.5)["self"], choose(model, {"self": scores}, 0.5)["self"]
        )
    with masked_heads(model, mask):
        expected = logits(model, inputs)
    with masked_heads(model, mask["self"]):
        assert torch.equal(logits(model, inputs), expected)
    torch.testing.assert_close(next(masked_logits(model, [inputs], mask["self"])), expected)
    torch.testing.assert_close(logits(prune_heads(model, mask["self"]), inputs), expected)


@pytest.mark.parametrize("state", ["dropout", "frozen", "no_grad", "checkpointing", "loader"])
def test_what_does_no_harm(state):
    model, inputs = build("bert"), batch(3)
    expected = head_importance(model, [inputs], normalize=None)["self"]
    given: object = [inputs]
    if state == "dropout":
        for module in model.train().modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.5
    elif state == "frozen":
        model.requires_grad_(False)
    elif state == "checkpointing":
        model.train().gradient_checkpointing_enable()
    elif state == "loader":
        rows = [{k: v[i] for k, v in inputs.items()} for i in range(3)]
        given = torch.utils.data.DataLoader(rows, batch_size=2)
    with torch.no_grad() if state == "no_grad" else contextlib.nullcontext():
        found = head_importance(model, given, normalize=None)["self"]
    torch.testing.assert_close(found, expected)
    assert model.training is (state in ("dropout", "checkpointing"))


def trained(name):
    model = build(name).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    return model, [
        cut_heads(model, [(block.kind, block.layer, head) for head in block.groups[0]])
        for block in find_heads(model)[:2]
    ]


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def checkpoint(model, reentrant):
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()


def checkpoint_by_own_code(model, _reentrant=True):
    model.enable_input_require_grads()

    def checkpointed(layer, *args, **kwargs):  # keywords are for forms that are not reentrant
        return torch_checkpoint(partial(layer, **kwargs), *args, use_reentrant=True)

    for layer in model.bert.encoder.layer:
        layer.forward = partial(checkpointed, layer.forward)


checkpointing = pytest.mark.parametrize("reentrant", [True, False])


@pytest.mark.parametrize(
    ("name", "reentrant", "checkpoint"),
    [
        *itertools.product(["bert", "llama", "t5"], [True, False], [checkpoint]),
        ("bert", True, checkpoint_by_own_code),
    ],
)
def test_a_backward_pass_after_the_block_is_of_the_masked_model(name, reentrant, checkpoint):
    model, (first, second) = trained(name)
    first = {kind: 0.5 + mask.float() / 2 for kind, mask in first.items()}  # twice is not once
    inputs, expected = batch_for(name), {}
    for mask in (first, second, full_mask(model)):
        with masked_heads(model, mask):
            own = gradients(model, model(**inputs).loss)
        expected = {key: own[key] + expected.get(key, 0) for key in own}
    checkpoint(model, reentrant)
    with masked_heads(model, first):
        loss = model(**inputs).loss
    loss = loss + model(**inputs).loss
    with masked_heads(model, second):
        loss = loss + model(**inputs).loss
    found = gradients(model, loss)
    assert found.keys() == expected.keys()
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, expected[key])


def test_checkpointing_by_own_code_without_reentrance_is_an_error_after_the_block():
    model, (mask, _) = trained("bert")
    for layer in model.bert.encoder.layer:
        layer.forward = partial(torch_checkpoint, layer.forward, use_reentrant=False)
    with masked_heads(model, mask):
        loss = model(**batch(3)).loss
    with pytest.raises(CheckpointError):
        loss.backward()


def test_masks_that_end_out_of_order_are_each_repeated_with_their_own_model():
    model, (mask, _) = trained("bert")
    with masked_heads(model, mask):
        expected = gradients(model, model(**batch(3)).loss)
    checkpoint_by_own_code(model)
    other, (other_mask, _) = trained("bert")
    first, second = masked_heads(other, other_mask), masked_heads(model, mask)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    loss = model(**batch(3)).loss
    second.__exit__(None, None, None)
    for key, gradient in gradients(model, loss).items():
        torch.testing.assert_close(gradient, expected[key])
    assert torch_checkpointing.CheckpointFunction is CheckpointFunction


@checkpointing
@pytest.mark.parametrize("switched", ["before", "inside"])
def test_a_backward_pass_inside_the_block(switched, reentrant):
    model, (mask, _) = trained("bert")
    with masked_heads(model, mask):
        expected = gradients(model, model(**batch(3)).loss)
    if switched == "before":
        checkpoint(model, reentrant)
    with masked_heads(model, mask):
        if switched == "inside":
            checkpoint(model, reentrant)
        found = gradients(model, model(**batch(3)).loss)
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, expected[key])


@checkpointing
def test_a_pass_from_outside_is_not_repeated_under_a_mask(reentrant):
    model, (mask, _) = trained("bert")
    checkpoint(model, reentrant)
    before = [vars(module).get("_gradient_checkpointing_func") for module in model.modules()]
    loss = model(**batch(3)).loss
    with masked_heads(model, mask), pytest.raises(RuntimeError, match="backward.. outside the"):
        loss.backward()
    with masked_heads(model, mask):
        made = copy.deepcopy(model)
    for one in (model, made):  # neither keeps anything of the mask
        gradients(one, one(**batch(3)).loss)
    after = [vars(module).get("_gradient_checkpointing_func") for module in model.modules()]
    assert all(one is other for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("criterion", ["importance", "gates", "second-order"])
def test_scores_of_a_model_whose_own_code_checkpoints(criterion):
    settings = {"updates": 3} if criterion == "gates" else {}
    expected = score_heads(build("bert"), [batch(3)], criterion, **settings)["self"]
    model = build("bert")
    for layer in model.bert.encoder.layer:
        layer.forward = partial(torch_checkpoint, layer.forward, use_reentrant=False)
    found = score_heads(model, [batch(3)], criterion, **settings)["self"]
    torch.testing.assert_close(found, expected)


def test_a_part_of_a_model_is_masked_as_the_whole_is():
    model, inputs = build("bert"), batch(3)
    with masked_heads(model, first_cut(model)):
        expected = logits(model, inputs)
    encoder = model.bert.encoder
    with masked_heads(encoder, first_cut(encoder)):
        assert torch.equal(logits(model, inputs), expected)


def test_nested_masks_multiply():
    model, inputs = build("bert"), batch(3)
    with masked_heads(model, cut_heads(model, [("self", 0, 1), ("self", 1, 2)])):
        expected = logits(model, inputs)
    with (
        masked_heads(model, first_cut(model)),
        masked_heads(model, cut_heads(model, [("self", 1, 2)])),
    ):
        assert torch.equal(logits(model, inputs), expected)


def test_scores_are_all_zero_under_a_mask_that_cuts_everything():
    model = build("bert")
    none = {kind: torch.zeros_like(mask) for kind, mask in full_mask(model).items()}
    for criterion in ("importance", "second-order"):
        with masked_heads(model, none):
            scores = score_heads(model, [batch(3)], criterion, normalize=None)
        assert not any(values.any() for values in scores.values())
