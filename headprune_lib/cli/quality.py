"""How good and how fast models are on batches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from headprune_lib.batching import Batch, model_inputs
from headprune_lib.heads import find_heads
from headprune_lib.losses import NOTHING_COUNTS, default_loss, n_labels
from headprune_lib.running import on_device, pass_seconds

_ROUNDS = 3

Figures = dict[str, float]


def measure(models: Mapping[str, nn.Module], batches: Sequence[Batch]) -> dict[str, Figures]:
    """Quality and speed of each model.

    Returns:
        for each name ``loss`` in nats an example, or a token where the labels are tokens, or of a
        regression the squared error;
        ``accuracy`` where they are classes; ``examples_per_second``, the median of three passes
        after a warm-up, the models in turn, so that a slower moment of the machine hits all;
        ``parameters``, ``heads``.

    Raises:
        ValueError: the first model's loss is no finite number.
    """
    device = next(next(iter(models.values())).parameters()).device
    batches = [on_device(batch, device) for batch in batches]
    found = {name: quality(model, batches) for name, model in models.items()}
    first, figures = next(iter(found.items()))
    if not math.isfinite(figures["loss"]):
        raise ValueError(
            f"the loss {first} anything is removed is {figures['loss']}: are weights not numbers, "
            "or does float16 overflow? Nothing can be said of heads then"
        )
    rounds = [
        {name: pass_seconds(model, batches) for name, model in models.items()}
        for _ in range(_ROUNDS)
    ]
    n_examples = sum(len(batch["labels"]) for batch in batches)
    for name, model in models.items():
        found[name] |= {
            "examples_per_second": n_examples / statistics.median(one[name] for one in rounds),
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "heads": sum(len(block.kept) for block in find_heads(model)),
        }
    return found


def quality(model: nn.Module, batches: Sequence[Batch]) -> Figures:
    """Loss, and accuracy where labels are classes, on batches that are where the model is.

    Raises:
        ValueError: no label counts in any batch.
    """
    loss, found, total, right = default_loss(model), 0.0, 0, 0
    classes = names_classes(batches[0])
    with torch.inference_mode():
        for batch in batches:
            outputs, labels = model(**model_inputs(model, batch)), batch["labels"]
            found += float(loss(outputs, batch).sum())
            total += n_labels(loss, batch)
            if classes:
                right += int((outputs.logits.argmax(-1) == labels).sum())
    if not total:
        raise ValueError(f"there is no loss to tell: {NOTHING_COUNTS}")
    quality = {"accuracy": right / total} if classes else {}
    return {**quality, "loss": found / total}


def names_classes(batch: Batch) -> bool:
    """Whether the labels are classes of texts: no tokens, and no numbers of a regression."""
    return batch["labels"].ndim == 1 and not batch["labels"].is_floating_point()
