"""Derivatives of the loss by real gates: a plain computation to check the library's against."""

import torch
from tiny import logits_of, parts_of

from headprune_lib.discovery import find_heads
from headprune_lib.masking import head_mask

# Float64 sums taken in different orders, which depend on the processor, differ by some 1e-13 of
# their terms; a wrong score is off by more than a thousandth.
ROUNDING = {"rtol": 1e-9, "atol": 1e-12}


def plain_loss(model, example):
    """The cross-entropy of a batch of one, written out: the sum over positions with a label."""
    logits = model(**{name: value for name, value in example.items() if name != "labels"}).logits
    log_p, loss = logits.log_softmax(-1)[0], torch.zeros((), dtype=logits.dtype)
    labels = example["labels"][0]
    for place, label in zip(log_p.reshape(-1, log_p.shape[-1]), labels.reshape(-1), strict=True):
        loss = loss - (place[label] if label != -100 else 0)
    return loss


def gate_derivatives(model, example, loss_of=plain_loss):
    """Derivatives of one example's loss by a gate at every position: block -> (position, head).

    The example is a batch of one. The gates multiply the input of each output projection.
    """
    blocks, gates, handles = find_heads(model), {}, []

    def gated(block):
        def hook(_module, inputs):
            shape = (*inputs[0].shape[:2], len(block.kept_heads))
            gates[block] = torch.ones(shape, dtype=inputs[0].dtype, requires_grad=True)
            return (inputs[0] * gates[block].repeat_interleave(block.head_dim, -1),)

        return hook

    for block in blocks:
        output = model.get_submodule(block.path).get_submodule(block.spec.output)
        handles.append(output.register_forward_pre_hook(gated(block)))
    loss = loss_of(model, example)
    for handle in handles:
        handle.remove()
    found = torch.autograd.grad(loss, [gates[block] for block in blocks])
    return {block: each.flatten(0, 1).double() for block, each in zip(blocks, found, strict=True)}


def of_examples(model, batches):
    """Kind -> derivatives (example, layer, head); all layers of a kind have equally many heads."""
    found: dict[str, list] = {}
    for batch in batches:
        for row in parts_of(batch, 1):
            layers: dict[str, list] = {}
            for block, each in gate_derivatives(model, row).items():
                layers.setdefault(block.kind, []).append(each.sum(0))
            for kind, values in layers.items():
                found.setdefault(kind, []).append(torch.stack(values))
    return {kind: torch.stack(rows) for kind, rows in found.items()}


def loss_without(model, batch, heads):
    """Mean cross-entropy of a classifier's examples without some heads."""
    logits = logits_of(model, batch, head_mask(model, heads))
    return float(torch.nn.functional.cross_entropy(logits, batch["labels"]))
