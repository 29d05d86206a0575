"""What a practitioner gets wrong is refused with what to do, or does no harm."""

import contextlib
import copy
import itertools
from functools import partial

import numpy as np
import pytest
import torch
from tiny import batch, batch_for, build, logits_of
from torch import nn
from torch.nn.utils import prune as torch_prune
from torch.utils import checkpoint as torch_checkpointing
from torch.utils.checkpoint import CheckpointFunction
from torch.utils.checkpoint import checkpoint as torch_checkpoint

import headprune_lib as hp
from headprune_lib.ablation import masked_logits
from headprune_lib.criteria import CRITERIA


def first_cut(model):
    return hp.head_mask(model, [("self", 0, 1)])


def scored(model, by="importance", **changed):
    inputs = {**batch(3), **changed}
    return hp.score_heads(model, [{k: v for k, v in inputs.items() if v is not None}], by)


def under_inference(model):
    with torch.inference_mode():
        return hp.head_importance(model, [batch(3)])


def pruned_by_torch(model):
    query = model.bert.encoder.layer[0].attention.self.query
    torch_prune.l1_unstructured(query, "weight", amount=0.5)
    hp.prune_heads(model, first_cut(model))


def sharing(model):
    first, second, _ = model.bert.encoder.layer
    second.attention.output.dense = first.attention.output.dense
    hp.find_heads(model)


def removing_under_a_mask(model):
    with hp.masked_heads(model, hp.head_mask(model, [("self", 0, 3)])):
        hp.prune_heads(model, first_cut(model))


def removing_in_a_sweep(model):
    for _ in hp.one_head_ablation(model, [batch(3)], reduce=lambda *_: removing(model)):
        pass


def removing(model):
    hp.prune_heads(model, first_cut(model))


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
        with hp.masked_heads(model, {"self": value(hp.ones_mask(model)["self"])}):
            pass

    return run


def prune_share(amount):
    return lambda model: hp.prune_mask(model, {"self": torch.rand(3, 4)}, amount)


ONES = torch.ones(3, 4)
MISUSES = {
    "one batch for a list": (
        lambda m: hp.head_importance(m, batch(3)), TypeError, r"given str: .*\[batch\]"),
    "one batch for a list, swept": (
        lambda m: list(hp.one_head_ablation(m, batch(3))), TypeError, r"given str: .*\[batch\]"),
    "one batch for a list, tuned": (
        lambda m: hp.tune_mask(m, first_cut(m), batch(3)), TypeError, r"given str: .*\[batch\]"),
    "labels in a list": (lambda m: scored(m, labels=[0, 1, 2]), TypeError, r"'labels'\] is of type list"),
    "an array among tensors": (
        lambda m: scored(m, labels=np.arange(3)), TypeError, "is of type ndarray, not a tensor"),
    "a single example": (
        lambda m: hp.head_importance(m, [one_of(batch(3))]), ValueError, "that is one example.*DataLoader"),
    "a data set": (
        lambda m: hp.score_heads(m, Rows(batch(3)), "greedy"), ValueError, "one example.*DataLoader"),
    "a label that is a number": (lambda m: scored(m, labels=1), ValueError, "'labels'. is a number"),
    "no examples": (
        lambda m: hp.head_importance(m, [{k: v[:0] for k, v in batch(3).items()}]),
        ValueError, "has no rows"),
    "a model's name": (lambda _: hp.find_heads("bert-base-uncased"), TypeError, "given str; load one"),

    "no attention": (lambda _: hp.find_heads(nn.Linear(2, 2)), ValueError, "no known attention module"),
    "a wrapped model": (lambda m: hp.find_heads(nn.DataParallel(m)), ValueError, "give the model itself"),
    "a loss of outputs alone": (
        lambda m: hp.score_heads(m, [batch(3)], "greedy", loss=lambda outputs: outputs.loss),
        TypeError, "the loss <lambda> failed on the model's outputs and the batch"),
    "a loss that is a number": (
        lambda m: hp.head_importance(m, [batch(3)], loss=lambda outputs, _: float(outputs.loss)),
        TypeError, "the loss is a float, not a tensor"),
    "inference mode": (under_inference, ValueError, "under torch.inference_mode.*outside"),
    "a mask of integers": (masked_with(lambda ones: ones.long()), TypeError, "bool or floating-point"),
    "a mask of another shape": (masked_with(lambda ones: ones[:2]), ValueError, r"has shape \(2, 4\)"),
    "a mask with NaN": (masked_with(lambda ones: ones * torch.nan), ValueError, "must be finite"),
    "half a head": (lambda m: hp.prune_heads(m, {"self": ONES / 2}), ValueError, "0 and 1 only"),
    "a head that is not there": (lambda m: hp.head_mask(m, [("self", 3, 0)]), IndexError, "no head"),
    "a name for a mask": (
        lambda m: hp.prune_heads(m, "self"), TypeError, r"given str.*head_mask\(model"),
    "one head for a list": (lambda m: hp.head_mask(m, ("self", 0, 1)), TypeError, "'self' is no head"),
    "a tensor for several kinds": (
        lambda _: hp.prune_heads(build("bart"), torch.ones(2, 4)), TypeError, r"the kinds are \['enc-enc'"),
    "heads without their kind": (
        lambda _: hp.head_mask(build("bart"), [(0, 1)]), TypeError, r"\(0, 1\) is no head"),
    "half of a group": (
        lambda _: hp.prune_heads(build("llama"), first_cut(build("llama"))), ValueError, "share a key"),
    "a share that is a switch": (prune_share(True), TypeError, "amount is True"),
    "a shared projection": (
        sharing, ValueError, r"layer.0.attention and .*layer.1.attention share one output"),
    "removal under a mask": (removing_under_a_mask, RuntimeError, "masked or measured right now"),
    "removal in a sweep": (removing_in_a_sweep, RuntimeError, "masked or measured right now"),
    "weights pruned by torch": (pruned_by_torch, ValueError, "torch.nn.utils.prune.remove"),
    "no folder": (lambda _: hp.load_pruned("./nowhere"), FileNotFoundError, "no folder ./nowhere"),


}  # fmt: skip


@pytest.mark.parametrize("name", MISUSES)
def test_it_is_refused_with_what_to_do_and_nothing_changes(name):
    misuse, error, message = MISUSES[name]
    model = build("bert")
    expected = logits_of(model, batch(3))
    with pytest.raises(error, match=message):
        misuse(model)
    if name not in ("a shared projection", "weights pruned by torch"):
        torch.testing.assert_close(logits_of(model, batch(3)), expected, rtol=0, atol=0)
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not any(module._forward_pre_hooks for module in model.modules()) or "torch" in name


def test_an_example_without_labels_beside_others_has_loss_0():
    model = build("gpt2")
    inputs = {k: v for k, v in batch(3).items() if k != "labels"}
    none = torch.full_like(inputs["input_ids"], -100)
    some = none.clone()
    some[0, 1:3] = inputs["input_ids"][0, 1:3]
    scores = hp.head_importance(model, [{**inputs, "labels": some}], normalize=None)["self"]
    alone = {k: v[:1] for k, v in {**inputs, "labels": some}.items()}
    torch.testing.assert_close(
        3 * scores, hp.head_importance(model, [alone], normalize=None)["self"]
    )


def test_a_copy_that_is_made_under_a_mask_is_free_after_it():
    model, inputs = build("bert"), batch(3)
    plain = logits_of(model, inputs)
    with hp.masked_heads(model, first_cut(model)):
        made = copy.deepcopy(model)
        masked = logits_of(model, inputs)
        assert torch.equal(logits_of(made, inputs), masked) and not torch.equal(masked, plain)
    assert torch.equal(logits_of(made, inputs), plain) and torch.equal(
        logits_of(model, inputs), plain
    )
    pruned = hp.prune_heads(made, first_cut(made))  # nor does anything refuse the copy
    torch.testing.assert_close(logits_of(pruned, inputs), masked)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_batch_with_flags_and_int32(criterion):
    settings = {"gates": {"updates": 2}, "shapley": {"permutations": 1}}.get(criterion, {})
    model, inputs = build("bert"), batch(3)
    model.set_attn_implementation("eager")
    expected = hp.score_heads(model, [inputs], criterion, **settings)["self"]
    further = {"token_type_ids": None, "use_cache": False, "output_attentions": True, "extra": 1}
    given = {**inputs, **further, "labels": inputs["labels"].int()}
    found = hp.score_heads(model, [given], criterion, **settings)["self"]
    torch.testing.assert_close(found, expected)
    assert given["labels"].dtype == torch.int32


def test_a_mask_of_one_kind_is_also_the_tensor_alone():
    model, inputs, scores = build("bert"), batch(3), torch.rand(3, 4)
    mask = hp.head_mask(model, [("self", 0, 1), ("self", 2, 3)])
    assert torch.equal(hp.head_mask(model, [(0, 1), (2, 3)])["self"], mask["self"])
    assert torch.equal(hp.head_mask(model, {0: [1], 2: {3}})["self"], mask["self"])
    for choose in (hp.prune_mask, hp.uniform_mask):
        assert torch.equal(
            choose(model, scores, 0.5)["self"], choose(model, {"self": scores}, 0.5)["self"]
        )
    with hp.masked_heads(model, mask):
        expected = logits_of(model, inputs)
    with hp.masked_heads(model, mask["self"]):
        assert torch.equal(logits_of(model, inputs), expected)
    torch.testing.assert_close(next(masked_logits(model, [inputs], mask["self"])), expected)
    for given in ([(0, 1), ("self", 2, 3)], {0: [1], 2: 3}, mask["self"].numpy()):
        with hp.masked_heads(model, given):
            assert torch.equal(logits_of(model, inputs), expected)
    torch.testing.assert_close(logits_of(hp.prune_heads(model, mask["self"]), inputs), expected)


@pytest.mark.parametrize("state", ["dropout", "frozen", "no_grad", "checkpointing", "loader"])
def test_what_does_no_harm(state):
    model, inputs = build("bert"), batch(3)
    expected = hp.head_importance(model, [inputs], normalize=None)["self"]
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
        found = hp.head_importance(model, given, normalize=None)["self"]
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
        hp.head_mask(model, [(block.kind, block.layer, head) for head in block.groups[0]])
        for block in hp.find_heads(model)[:2]
    ]


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def checkpoint(model, reentrant):
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()


def checkpoint_by_own_code(model, reentrant=True):
    model.enable_input_require_grads()

    def checkpointed(layer, *args, **kwargs):  # keywords are for forms that are not reentrant
        return torch_checkpoint(partial(layer, **kwargs), *args, use_reentrant=reentrant)

    for layer in model.bert.encoder.layer:
        layer.forward = partial(checkpointed, layer.forward)


checkpointing = pytest.mark.parametrize("reentrant", [True, False])


@pytest.mark.parametrize(
    ("name", "reentrant", "checkpoint"),
    [
        *itertools.product(["bert", "llama", "t5"], [True, False], [checkpoint]),
        *itertools.product(["bert"], [True, False], [checkpoint_by_own_code]),
    ],
)
def test_a_backward_pass_after_the_block_is_of_the_masked_model(name, reentrant, checkpoint):
    model, (first, second) = trained(name)
    first = {  # twice is not once
        kind: (0.5 + mask.float() / 2).requires_grad_() for kind, mask in first.items()
    }
    inputs, expected = batch_for(name), {}
    for mask in (first, second, hp.ones_mask(model)):
        with hp.masked_heads(model, mask):
            own = gradients(model, model(**inputs).loss)
        expected = {key: own[key] + expected.get(key, 0) for key in own}
    of_mask = {kind: mask.grad.clone() for kind, mask in first.items()}
    checkpoint(model, reentrant)
    with hp.masked_heads(model, first):
        loss = model(**inputs).loss
    loss = loss + model(**inputs).loss
    with hp.masked_heads(model, second):
        loss = loss + model(**inputs).loss
    found = gradients(model, loss)
    assert found.keys() == expected.keys()
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, expected[key])
    for kind, mask in first.items():
        torch.testing.assert_close(mask.grad, 2 * of_mask[kind])


def test_masks_that_end_out_of_order_are_each_repeated_with_their_own_model():
    model, (mask, _) = trained("bert")
    with hp.masked_heads(model, mask):
        expected = gradients(model, model(**batch(3)).loss)
    checkpoint_by_own_code(model)
    other, (other_mask, _) = trained("bert")
    first, second = hp.masked_heads(other, other_mask), hp.masked_heads(model, mask)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    loss = model(**batch(3)).loss
    second.__exit__(None, None, None)
    for key, gradient in gradients(model, loss).items():
        torch.testing.assert_close(gradient, expected[key])
    assert torch_checkpointing.CheckpointFunction is CheckpointFunction


@checkpointing
def test_a_pass_from_outside_is_not_repeated_under_a_mask(reentrant):
    model, (mask, _) = trained("bert")
    checkpoint(model, reentrant)
    before = [vars(module).get("_gradient_checkpointing_func") for module in model.modules()]
    loss = model(**batch(3)).loss
    with hp.masked_heads(model, mask), pytest.raises(RuntimeError, match="backward.. outside the"):
        loss.backward()
    with hp.masked_heads(model, mask):
        made = copy.deepcopy(model)
    for one in (model, made):  # neither keeps anything of the mask
        gradients(one, one(**batch(3)).loss)
    after = [vars(module).get("_gradient_checkpointing_func") for module in model.modules()]
    assert all(one is other for one, other in zip(before, after, strict=True))


def test_scores_of_a_model_whose_own_code_checkpoints():
    expected = hp.score_heads(build("bert"), [batch(3)], "second-order")["self"]
    model = build("bert")
    for layer in model.bert.encoder.layer:
        layer.forward = partial(torch_checkpoint, layer.forward, use_reentrant=False)
    found = hp.score_heads(model, [batch(3)], "second-order")["self"]
    torch.testing.assert_close(found, expected)


def test_nested_masks_multiply_and_a_part_of_a_model_is_masked_as_the_whole_is():
    model, inputs = build("bert"), batch(3)
    encoder, other = model.bert.encoder, hp.head_mask(model, [("self", 1, 2)])
    with hp.masked_heads(model, hp.head_mask(model, [("self", 0, 1), ("self", 1, 2)])):
        expected = logits_of(model, inputs)
    with hp.masked_heads(encoder, first_cut(encoder)), hp.masked_heads(model, other):
        assert torch.equal(logits_of(model, inputs), expected)
