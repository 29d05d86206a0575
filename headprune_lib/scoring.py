"""Head importance: Eq. 2 of the paper exactly, and what other code computes under its name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from headprune_lib.batching import NO_LABEL, without_labels
from headprune_lib.evaluating import evaluating
from headprune_lib.heads import AttentionBlock, HeadTensors, find_heads, head_grid

Batch = dict[str, Tensor]
Loss = Callable[[object, Batch], Tensor]
VARIANTS = ("example", "token", "batch", "bertology", "fisher")


def head_importance(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    normalize: str | None = "l2",
    variant: str = "example",
    device: str | torch.device | None = None,
) -> HeadTensors:
    r"""Expected sensitivity of the loss to each head's gate (paper, Eq. 2).

    :math:`I_h = \mathbb{E}_x |\partial L(x) / \partial \xi_h|` with the absolute value taken per
    example. One backward pass of the loss *summed* over a batch gives every example's own
    derivative, :math:`\mathrm{Att}_h(x)^\top \partial L(x)/\partial \mathrm{Att}_h(x)`, because
    examples do not interact; the result does not depend on the batch size.

    Args:
        model: a transformers model; put in evaluation mode for the call, and left as it was.
        batches: dicts of tensors that are the model's keyword arguments, ``labels`` among them.
        loss: ``(outputs, batch) -> (batch,)``, one loss an example; cross-entropy of
            ``outputs.logits`` against ``batch["labels"]`` if not given, in a language model that
            of each next token, summed.
        normalize: ``"l2"`` divides by the l2 norm over the heads of a layer (paper, section 4.1),
            ``None`` leaves the raw scores, in units of the loss.
        variant: ``"example"`` is Eq. 2. The others are found elsewhere under the same name:
            ``"token"``, absolute value per token position, mean over tokens (the paper's own code);
            ``"batch"``, per batch, of the mean loss;
            ``"bertology"``, the same with a gradient that is never zeroed, so a sum of absolute
            running totals (an old transformers example script);
            ``"fisher"``, the batch's derivative squared.
        device: where to compute; the model's own device if not given.

    Returns:
        kind -> float64 tensor of shape ``(layer, head)``; NaN for heads that were removed.

    Raises:
        ValueError: an unknown variant or normalisation, no batches, or a label outside the classes.
    """
    if variant not in VARIANTS:
        raise ValueError(f"unknown variant {variant!r}; expected one of {VARIANTS}")
    if normalize not in ("l2", None):
        raise ValueError(f"unknown normalisation {normalize!r}; expected 'l2' or None")
    blocks = find_heads(model)
    totals = [torch.zeros(len(block.kept), dtype=torch.float64) for block in blocks]
    running = [torch.zeros_like(total) for total in totals]
    counts = [0] * len(blocks)
    for batch, per_token in _batch_gradients(model, batches, blocks, loss, device):
        for i, (block, gradient) in enumerate(zip(blocks, per_token, strict=True)):
            counts[i] += _n_counted(variant, batch, gradient, block.kind)
            totals[i] += _reduce(gradient, variant, running[i])
    if not all(counts):
        raise ValueError("no batches given: head importance is a mean over at least one example")
    scores = _on_grid(model, blocks, [total / n for total, n in zip(totals, counts, strict=True)])
    return normalize_l2(scores) if normalize == "l2" else scores


def example_importance(model: nn.Module, batches: Iterable[Batch], *, loss: Loss | None = None,
                       device: str | torch.device | None = None) -> HeadTensors:
    r""":math:`|\partial L(x) / \partial \xi_h|` of every example: kind -> ``(example, layer, head)``.

    Its mean over examples is :func:`headprune_lib.head_importance` without normalisation; NaN where a head was
    removed. For intervals of what is computed from importance.
    """
    blocks = find_heads(model)
    rows: list[list[Tensor]] = [[] for _ in blocks]
    for _, per_token in _batch_gradients(model, batches, blocks, loss, device):
        for row, gradient in zip(rows, per_token, strict=True):
            row.append(gradient.sum(1).abs().cpu())
    if not rows[0]:
        raise ValueError("no batches given: expected at least one example")
    return _on_grid(model, blocks, [torch.cat(row) for row in rows])


def _on_grid(model: nn.Module, blocks: list[AttentionBlock], values: list[Tensor]) -> HeadTensors:
    """Values (..., heads kept) of each block as kind -> (..., layer, head), NaN where one is gone."""
    grid = {kind: torch.full((*values[0].shape[:-1], *shape), torch.nan, dtype=torch.float64)
            for kind, shape in head_grid(model).items()}
    for block, value in zip(blocks, values, strict=True):
        grid[block.kind][..., block.layer, list(block.kept)] = value.double()
    return grid


def normalize_l2(scores: HeadTensors) -> HeadTensors:
    """Each layer's scores over their l2 norm (paper, section 4.1); a layer of zeros stays zero."""
    normal = {}
    for kind, values in scores.items():
        norm = values.nan_to_num().norm(dim=1, keepdim=True)
        normal[kind] = values / torch.where(norm == 0, torch.ones_like(norm), norm)
    return normal


def _batch_gradients(model: nn.Module, batches: Iterable[Batch], blocks: list[AttentionBlock],
                     loss: Loss | None, device) -> Iterator[tuple[Batch, list[Tensor]]]:
    """Each batch with its :func:`gate_gradients`, the model ready for them all the while."""
    device = torch.device(device) if device is not None else next(model.parameters()).device
    with evaluating(model.to(device), frozen=True):
        for batch in batches:
            batch = {name: value.to(device) for name, value in batch.items()}
            yield batch, gate_gradients(model, batch, blocks, loss)


def gate_gradients(
    model: nn.Module,
    batch: Batch,
    blocks: list[AttentionBlock] | None = None,
    loss: Loss | None = None,
) -> list[Tensor]:
    """Derivative of each example's loss in each head's gate, split by token position, at gate 1.

    Returns:
        one tensor of shape ``(batch, position, kept heads)`` for each block, on the model's device.
        Summed over positions it is ``dL(x)/dxi_h``.
    """
    blocks = find_heads(model) if blocks is None else blocks
    with contextlib.ExitStack() as stack:
        contexts: list[list[Tensor]] = [[] for _ in blocks]  # several where layers share a module
        for block, own in zip(blocks, contexts, strict=True):
            handle = block.part(model, "output").register_forward_pre_hook(_capture(own))
            stack.callback(handle.remove)
        with torch.enable_grad():
            given = _given(model, batch) if loss is None else batch
            outputs = model(**given)
            losses = (loss or default_loss(model))(outputs, batch)
            # the sum: an example's loss has no gradient in another example's heads
            gradients = iter(torch.autograd.grad(
                losses.sum(), [context for own in contexts for context in own],
                materialize_grads=True))
    result = []
    for block, own in zip(blocks, contexts, strict=True):
        product = sum(context.detach() * next(gradients) for context in own)  # (B, T, kept * width)
        by_head = product.unflatten(-1, (len(block.kept), block.width))
        result.append(by_head.sum(-1))
    return result


def _given(model: nn.Module, batch: Batch) -> Batch:
    """The inputs without labels, unless an encoder-decoder makes its decoder's input from them."""
    needed = getattr(model.config, "is_encoder_decoder", False) and not (
        {"decoder_input_ids", "decoder_inputs_embeds"} & batch.keys())
    return batch if needed else without_labels(batch)


def default_loss(model: nn.Module) -> Loss:
    """Cross-entropy as transformers would compute it: of the next token for a language model."""
    config = getattr(model, "config", None)
    causal = not getattr(config, "is_encoder_decoder", False) and getattr(
        model, "can_generate", bool)()
    return next_token_cross_entropy if causal else cross_entropy


def next_token_cross_entropy(outputs, batch: Batch) -> Tensor:
    """As :func:`cross_entropy`, of each token (``labels`` are the inputs) from those before it."""
    if "labels" not in batch:
        return cross_entropy(outputs, batch)
    ahead = batch["labels"].new_full((len(batch["labels"]), 1), NO_LABEL)
    return cross_entropy(outputs, {**batch, "labels": torch.cat([batch["labels"][:, 1:], ahead], 1)})


def cross_entropy(outputs, batch: Batch) -> Tensor:
    """One cross-entropy an example, in nats: ``(batch, class) x (batch,) -> (batch,)``.

    For a model that predicts a token at each position, ``(batch, position, class) x (batch,
    position) -> (batch,)``: the sum over the positions whose label is not -100.

    Raises:
        ValueError: no labels, or one outside ``0 .. classes - 1``.
    """
    logits = outputs.logits
    if "labels" not in batch:
        raise ValueError("the batch has no 'labels': give them, or a loss=(outputs, batch) of yours")
    labels, n_classes = batch["labels"], logits.shape[-1]
    outside = (labels < 0) | (labels >= n_classes)
    if labels.ndim == 2:
        outside &= labels != NO_LABEL
    if outside.any():
        wrong = labels[outside][0].item()
        raise ValueError(
            f"label {wrong} is outside the model's {n_classes} classes (0 to {n_classes - 1})"
        )
    exact = logits.float() if logits.dtype != torch.float64 else logits
    losses = nn.functional.cross_entropy(exact.movedim(-1, 1), labels, reduction="none",
                                         ignore_index=NO_LABEL)
    return losses.sum(-1) if labels.ndim == 2 else losses


def _n_counted(variant: str, batch: Batch, per_token: Tensor, kind: str) -> int:
    """How many of what a variant is a mean over a batch holds."""
    if variant == "example":
        return len(per_token)
    return _n_tokens(batch, per_token, kind) if variant == "token" else 1


def _n_tokens(batch: Batch, per_token: Tensor, kind: str) -> int:
    """Positions of a batch that are not padding; ``per_token`` is (batch, position, head).

    The heads of a decoder beside an encoder have as many positions as there are labels.
    """
    decoder, labels = kind in ("enc-dec", "dec-dec"), batch.get("labels")
    mask = batch.get("decoder_attention_mask" if decoder else "attention_mask")
    if mask is None and decoder and labels is not None and labels.shape == per_token.shape[:2]:
        mask = labels != NO_LABEL
    return per_token.shape[0] * per_token.shape[1] if mask is None else int(mask.sum())


def _reduce(gradient: Tensor, variant: str, running: Tensor) -> Tensor:
    """(B, T, H) -> (H,): what one batch adds to the score; ``running`` is updated in place."""
    gradient = gradient.double().cpu()
    if variant == "token":
        return gradient.abs().sum((0, 1))
    by_example = gradient.sum(1)  # (B, H)
    if variant == "example":
        return by_example.abs().sum(0)
    by_batch = by_example.mean(0)  # gradient of the batch's mean loss
    if variant == "batch":
        return by_batch.abs()
    if variant == "fisher":
        return by_batch.square()
    running += by_batch
    return running.abs()


def _capture(contexts: list[Tensor]):
    def keep(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        context = inputs[0]
        if not context.requires_grad:  # the lowest layer: nothing below it needs a gradient
            context = context.detach().requires_grad_()
        contexts.append(context)
        return (context, *inputs[1:])

    return keep
