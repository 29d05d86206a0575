"""Practitioners' mistakes are refused with advice, or do no harm."""

import contextlib
import copy
import warnings
from functools import partial

import numpy as np
import pytest
import torch
import transformers as t
from tiny import batch, batch_for, build, logits_of, unchanged, without_dropout
from torch import nn
from torch.nn.utils import parametrizations, weight_norm
from torch.nn.utils.prune import l1_unstructured
from torch.utils import checkpoint as torch_checkpointing
from torch.utils.checkpoint import CheckpointFunction
from torch.utils.checkpoint import checkpoint as torch_checkpoint

import headprune_lib as hp
from headprune_lib.ablation import masked_logits

FIRST = [("self", 0, 1)]
ONES = torch.ones(3, 4)
VALUE, OUTPUT = (
    f"bert.encoder.layer.1.attention.{part}" for part in ("self.value", "output.dense")
)


def scored(model, loss=None, **changed):
    inputs = {k: v for k, v in {**batch(3), **changed}.items() if v is not None}
    return hp.score_heads(model, [inputs], loss=loss)


def setting(by, message, **settings):
    """A case: an invalid setting of a criterion."""
    return lambda m: hp.score_heads(m, [batch(3)], by, **settings), ValueError, message


def by_scores(*scores):
    return lambda m: hp.prune_mask(m, dict(scores), 0.5)


def under_inference(model):
    with torch.inference_mode():
        return hp.head_importance(model, [batch(3)])


def under_a_mask(use):
    def misuse(model):
        with hp.masked_heads(model, [(0, 3)]):
            use(model)

    return misuse


def removing_in_a_sweep(model):
    list(hp.one_head_ablation(model, [batch(3)], reduce=lambda *_: remove(model)))


def remove(model):
    hp.prune_heads(model, [(1, 0), (0, 2)])


def save(model):
    hp.save_pruned(model, "out")


# Changes of a model before it is misused, each of which returns the model.


def on(path, change):
    """A function that changes one module of a model."""
    return lambda model: (change(model.get_submodule(path)), model)[1]


def put(path, module):
    """A function that puts another module into a model."""
    return lambda model: model.set_submodule(path, module) or model


def in_integers(output):
    output.weight = nn.Parameter(output.weight.to(torch.int8), requires_grad=False)


def sharing(layers):
    layers[1].attention.output.dense = layers[0].attention.output.dense


def tied(layers):
    layers[1].attention.self.query.weight = layers[0].attention.self.query.weight


def untied(_model):
    model = build("gpt2", dtype=torch.float32)
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach() + 1)
    return model


def in_an_adapter(model):
    wrapped = nn.Module()
    wrapped.model, wrapped.peft_config, wrapped.config = model, {}, model.config
    return wrapped


class Bound(t.BertForSequenceClassification):
    def __init__(self, config, more):
        super().__init__(config)


def one_of(inputs):
    return {name: value[0] for name, value in inputs.items()}


class Rows(torch.utils.data.Dataset):
    """Examples without an end, as in a data set that draws them."""

    def __getitem__(self, index):
        return one_of(batch(3))


def masked_with(mask):
    return lambda model: hp.masked_heads(model, mask).__enter__()


FORGOTTEN = r"given str\. .*\[batch\]"
COMPUTED = "computes its weights from others.*Remove that first"
NORMED = on(OUTPUT, parametrizations.weight_norm)
BESIDE = "changed apart from its heads.*"
BOUND = "Bound is not built from its configuration alone"
OTHER = r"scores have shapes .*has .*\(3, 4\).*of this model"
MISUSES = {
    "one batch for a list": (lambda m: hp.head_importance(m, batch(3)), TypeError, FORGOTTEN),
    "one batch, swept": (lambda m: list(hp.one_head_ablation(m, batch(3))), TypeError, FORGOTTEN),
    "one batch, tuned": (
        lambda m: hp.tune_mask(m, hp.head_mask(m, FIRST), batch(3)), TypeError, FORGOTTEN),
    "labels in a list": (
        lambda m: scored(m, labels=[0, 1, 2]), TypeError, r"'labels'\] is of type list"),
    "an array among tensors": (
        lambda m: scored(m, labels=np.arange(3)), TypeError, "is of type ndarray, not a tensor"),
    "a single example": (
        lambda m: hp.head_importance(m, [one_of(batch(3))]), ValueError, "one example.*DataLoader"),
    "a data set": (
        lambda m: hp.score_heads(m, Rows(), "greedy"), ValueError, "one example.*DataLoader"),
    "a label that is a number": (lambda m: scored(m, labels=1), ValueError, "'labels'. has shape"),
    "a label outside the classes": (
        lambda m: scored(m, labels=torch.tensor([0, 3, 1])),
        ValueError, "label 3 is outside the model's classes, 0 to 2"),
    "an example without a label": (
        lambda m: scored(m, labels=torch.tensor([0, -100, 1])), ValueError, "-100 is"),
    "no labels": (lambda m: scored(m, labels=None), ValueError, "no 'labels'"),
    "an infinite loss": (  # is not taken for a head that was removed
        lambda m: scored(m, loss=lambda outputs, _: (outputs.logits - 1e309).exp().log().sum(-1)),
        ValueError, "is NaN, which marks removed heads"),
    "an unknown variant": (
        lambda m: hp.head_importance(m, [batch(3)], variant="tokens"),
        ValueError, "unknown variant 'tokens': did you mean token"),
    "an unknown normalisation": setting("random", "unknown normalisation 'l1'", normalize="l1"),
    "importance of its own normalisation": (
        lambda m: hp.head_importance(m, [batch(3)], normalize="own"),
        ValueError, "unknown normalisation 'own'"),
    "no steps": setting("importance-integrated", "steps is 0", steps=0),
    "no probes": setting("second-order", "probes is 0. Give at least 1, or None", probes=0),
    "a loss for a norm": setting("logits-norm", "not a loss. Leave loss out", loss=scored),
    "no permutations": setting("shapley", "permutations is 0", permutations=0),
    "no updates": setting("gates", "updates is 0", updates=0),
    "a weight beyond one": setting("importance-entropy", "alpha is 2. Give the weight", alpha=2),
    "ranks of layers": setting("importance-entropy", "unknown among 'layer'", among="layer"),
    "scores of fewer layers": (by_scores(("self", ONES[:2])), ValueError, OTHER),
    "scores of more kinds": (by_scores(("self", ONES), ("enc-dec", ONES)), ValueError, OTHER),
    "no scores": (by_scores(), ValueError, OTHER),
    "a score that is no number": (
        by_scores(("self", ONES.tril() / ONES.tril())), ValueError,
        r"layer 0, head 1\) is NaN.*infinite"),
    "half a head, tuned": (
        lambda m: hp.tune_mask(m, ONES / 2, [batch(3)]),
        ValueError, "must contain only 0 and 1, to remove or keep"),
    "tuning what torch computes": (
        lambda m: hp.tune_mask(m, FIRST, [batch(3)]), ValueError, COMPUTED, NORMED),
    "folding into what torch computes": (
        lambda m: hp.fold_gates(m, ONES / 2), ValueError, COMPUTED, NORMED),
    "no examples": (
        lambda m: hp.head_importance(m, [{k: v[:0] for k, v in batch(3).items()}]),
        ValueError, "has no rows"),
    "a model's name": (lambda _: hp.find_heads("bert-base-uncased"), TypeError, "given str. Load one"),
    "no attention": (lambda _: hp.find_heads(nn.Linear(2, 2)), ValueError, "no known attention mod"),
    "a wrapped model": (lambda m: hp.find_heads(nn.DataParallel(m)), ValueError, "Give the model, wrapper"),
    "a loss of outputs alone": (
        lambda m: hp.score_heads(m, [batch(3)], "greedy", loss=lambda outputs: outputs.loss),
        TypeError, "the loss <lambda> failed on the model's outputs and the batch"),
    "a loss that is a number": (
        lambda m: hp.head_importance(m, [batch(3)], loss=lambda outputs, _: float(outputs.loss)),
        TypeError, "the loss is a float, not a tensor"),
    "inference mode": (under_inference, ValueError, "under torch.inference_mode.*outside"),
    "a mask of integers": (masked_with(ONES.long()), TypeError, "bool or floating-point"),
    "a mask of another shape": (masked_with(ONES[:2]), ValueError, r"has shape \(2, 4\)"),
    "a mask with NaN": (masked_with(ONES * torch.nan), ValueError, "is nan. Give finite entries"),
    "half a head": (lambda m: hp.prune_heads(m, ONES / 2), ValueError, "only 0 and 1"),
    "a head that is not there": (lambda m: hp.head_mask(m, [(3, 0)]), IndexError, "no head"),
    "a name for a mask": (
        lambda m: hp.prune_heads(m, "self"), TypeError, r"given str.*head_mask\(model"),
    "one head for a list": (lambda m: hp.head_mask(m, FIRST[0]), TypeError, "'self' is not a head"),
    "a tensor for several kinds": (
        lambda _: hp.prune_heads(build("bart"), ONES), TypeError, r"The kinds are \['enc-enc'"),
    "heads without their kind": (
        lambda _: hp.head_mask(build("bart"), [(0, 1)]), TypeError, r"\(0, 1\) is not a head"),
    "half of a group": (
        lambda _: hp.prune_heads(build("llama"), FIRST), ValueError,
        r"share a key.*equally many in every group.*The groups are \[\[0, 1"),
    "a share that is a switch": (
        lambda m: hp.prune_mask(m, torch.rand(3, 4), True), TypeError, "amount is True"),
    "no logits": (
        lambda m: next(hp.one_head_ablation(m.bert, [batch(3)])), ValueError, "no logits. Give reduce"),
    "a shared projection": (
        hp.find_heads, ValueError, r"layer.0.attention and .*layer.1.attention share one output",
        on("bert.encoder.layer", sharing)),
    "removal under a mask": (under_a_mask(remove), RuntimeError, "masked right now"),
    "removal in a sweep": (removing_in_a_sweep, RuntimeError, "masked right now"),
    "putting back under a mask": (under_a_mask(hp.unprune_heads), RuntimeError, "masked"),
    "another model's heads put back": (
        lambda m: hp.unprune_heads(m, build("electra")), ValueError,
        "the model that the heads were removed from"),
    # weights that cannot be sliced
    "weights pruned by torch": (
        remove, ValueError, "torch.nn.utils.prune.remove",
        on(VALUE, lambda value: l1_unstructured(value, "weight", amount=0.5))),
    "weights that are not in memory": (
        remove, ValueError, "meta device. Load them first", lambda m: m.to("meta")),
    "weights in integers": (
        remove, ValueError, "no plain weights to slice.*then quantise", on(OUTPUT, in_integers)),
    "an adapter": (
        remove, ValueError, r"value: Linear wraps the weights in an adapter \(LoRA\)\. Merge it first",
        put(f"{VALUE}.lora_A", nn.Linear(16, 2))),
    "weights that layers share": (
        remove, ValueError, r"weights are tied \(.*layer.0.attention.self.query.weight",
        on("bert.encoder.layer", tied)),
    "removal from what torch computes": (remove, ValueError, COMPUTED, NORMED),
    "removal from what torch computed": (remove, ValueError, COMPUTED, on(VALUE, weight_norm)),
    # models that cannot be made again
    "saving what a configuration does not build": (
        save, ValueError, BOUND, lambda m: Bound(m.config, 1)),
    "saving within an adapter": (
        save, ValueError, r"Merge the adapter first: model = model\.merge_and_unload", in_an_adapter),
    "saving with an adapter": (
        save, ValueError, BESIDE + r"value\.lora_A\.weight.*Merge adapt",
        put(f"{VALUE}.lora_A", nn.Linear(16, 2))),
    "saving what is quantised": (
        save, ValueError, "stores bert.*of its own .*Save the pruned model first, then quant",
        lambda m: torch.ao.quantization.quantize_dynamic(m.float(), {nn.Linear})),
    "saving another head of the model": (
        save, ValueError, BESIDE + r"classifier\.bias', 'classifier",
        put("classifier", nn.Linear(16, 7))),
    "putting back in what a configuration does not build": (
        hp.unprune_heads, ValueError, BOUND, lambda m: Bound(m.config, 1)),
    "putting back beside another function": (
        hp.unprune_heads, ValueError, "bert.pooler.activation is ReLU",
        put("bert.pooler.activation", nn.ReLU())),
    "putting back beside another head of the model": (
        hp.unprune_heads, ValueError, "classifier.*changes into model.config",
        put("classifier", nn.Linear(16, 7))),
    "putting back what is no longer tied": (
        hp.unprune_heads, ValueError, "is not tied as in its class", untied),
    "putting back in a wrapper": (
        hp.unprune_heads, ValueError, "DataParallel is not a transformers model", nn.DataParallel),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSES)
def test_it_is_refused_with_what_to_do_and_nothing_changes(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    misuse, error, message, *changes = MISUSES[name]
    model = build("bert")
    with warnings.catch_warnings(action="ignore"):  # some changes are deprecated
        for change in changes:
            model = change(model)
    with unchanged(model), pytest.raises(error, match=message):
        misuse(model)
    assert not list(tmp_path.iterdir())


def test_a_copy_that_is_made_under_a_mask_is_free_after_it():
    model, inputs = build("bert"), batch(3)
    plain = logits_of(model, inputs)
    with hp.masked_heads(model, FIRST):
        made = copy.deepcopy(model)
        masked = logits_of(model, inputs)
        assert torch.equal(logits_of(made, inputs), masked) and not torch.equal(masked, plain)
    for each in (made, model):
        assert torch.equal(logits_of(each, inputs), plain)
    pruned = hp.prune_heads(made, FIRST)  # the copy is not refused either
    torch.testing.assert_close(logits_of(pruned, inputs), masked)


def test_a_mask_of_one_kind_is_also_the_tensor_alone():
    model, inputs, scores = build("bert"), batch(3), torch.rand(3, 4)
    mask = hp.head_mask(model, [("self", 0, 1), ("self", 2, 3)])
    for heads in ([(0, 1), (2, 3)], {0: [1], 2: {3}}):
        assert torch.equal(hp.head_mask(model, heads)["self"], mask["self"])
    for choose in (hp.prune_mask, hp.uniform_mask):
        one, named = (choose(model, given, 0.5)["self"] for given in (scores, {"self": scores}))
        assert torch.equal(one, named)
    expected = logits_of(model, inputs, mask)
    for given in (mask["self"], [(0, 1), ("self", 2, 3)], {0: [1], 2: 3}, mask["self"].numpy()):
        assert torch.equal(logits_of(model, inputs, given), expected)
    torch.testing.assert_close(next(masked_logits(model, [inputs], mask["self"])), expected)
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


# Activation checkpointing, which runs layers again in the backward pass.


def trained(name="bert"):
    """A model in training mode, and a mask for each of its first two layers."""
    model = without_dropout(build(name))
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


def checkpoint_by_own_code(model, reentrant):
    model.enable_input_require_grads()

    def checkpointed(layer, *args, **kwargs):  # keywords are for forms that are not reentrant
        return torch_checkpoint(partial(layer, **kwargs), *args, use_reentrant=reentrant)

    for layer in model.bert.encoder.layer:
        layer.forward = partial(checkpointed, layer.forward)


checkpointing = pytest.mark.parametrize("reentrant", [True, False])


@checkpointing
@pytest.mark.parametrize(
    ("name", "checkpoint"),
    [*((name, checkpoint) for name in ("bert", "llama", "t5")), ("bert", checkpoint_by_own_code)],
)
def test_a_backward_pass_after_the_block_is_of_the_masked_model(name, reentrant, checkpoint):
    model, (first, second) = trained(name)
    # halves, so that a mask applied twice differs from one applied once
    first = {kind: (0.5 + mask.float() / 2).requires_grad_() for kind, mask in first.items()}
    inputs, expected = batch_for(name), {}
    for mask in (first, second, hp.ones_mask(model)):
        with hp.masked_heads(model, mask):
            own = gradients(model, model(**inputs).loss)
        expected = {key: own[key] + expected.get(key, 0) for key in own}
    of_mask = {kind: 2 * mask.grad for kind, mask in first.items()}
    checkpoint(model, reentrant)
    with hp.masked_heads(model, first):
        loss = model(**inputs).loss
    loss = loss + model(**inputs).loss
    with hp.masked_heads(model, second):
        loss = loss + model(**inputs).loss
    torch.testing.assert_close(gradients(model, loss), expected)
    torch.testing.assert_close({kind: mask.grad for kind, mask in first.items()}, of_mask)


def test_masks_that_end_out_of_order_are_each_repeated_with_their_own_model():
    (model, (mask, _)), (other, (other_mask, _)) = trained(), trained()
    with hp.masked_heads(model, mask):
        expected = gradients(model, model(**batch(3)).loss)
    checkpoint_by_own_code(model, True)
    first, second = hp.masked_heads(other, other_mask), hp.masked_heads(model, mask)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    loss = model(**batch(3)).loss
    second.__exit__(None, None, None)
    torch.testing.assert_close(gradients(model, loss), expected)
    assert torch_checkpointing.CheckpointFunction is CheckpointFunction


@checkpointing
def test_a_pass_from_outside_is_not_repeated_under_a_mask(reentrant):
    model, (mask, _) = trained()
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


def test_nested_masks_multiply_and_a_part_of_a_model_is_masked_as_the_whole_is():
    model, inputs = build("bert"), batch(3)
    expected = logits_of(model, inputs, [(0, 1), (1, 2)])
    with hp.masked_heads(model.bert.encoder, FIRST), hp.masked_heads(model, [(1, 2)]):
        assert torch.equal(logits_of(model, inputs), expected)
