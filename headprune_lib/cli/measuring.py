"""How good and how fast a model is on a file of one's own; and where its heads are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import nn

from headprune_lib.batching import NO_LABEL, Batch, without_labels
from headprune_lib.heads import HeadTensors, find_heads
from headprune_lib.losses import default_loss
from headprune_lib.timing import pass_seconds

_ROUNDS = 3


def structure(model: nn.Module) -> pd.DataFrame:
    """One row a layer of attention: kind, layer (from 1), heads built, kept and in a group, width."""
    return pd.DataFrame([
        {"kind": block.kind, "layer": block.layer + 1, "heads": block.n_heads,
         "kept": len(block.kept), "group": block.group, "width": block.width, "module": block.path}
        for block in find_heads(model)
    ])


def scores_table(scores: HeadTensors) -> pd.DataFrame:
    """One row a head, the least important first, layers and heads from 1; heads removed left out."""
    rows = [(kind, layer + 1, head + 1, float(value)) for kind, values in scores.items()
            for layer, row in enumerate(values) for head, value in enumerate(row)
            if not torch.isnan(value)]
    table = pd.DataFrame(rows, columns=["kind", "layer", "head", "importance"])
    return table.sort_values("importance", kind="stable", ignore_index=True)


def measure(model: nn.Module, batches: list[Batch]) -> dict[str, float | int]:
    """Quality and speed on batches.

    Returns:
        ``loss`` in nats an example, or a token where the labels are tokens; ``accuracy`` where
        they are classes; ``examples_per_second``, the median of three passes after a warm-up;
        ``parameters``, ``heads``.
    """
    device = next(model.parameters()).device
    batches = [{name: value.to(device) for name, value in batch.items()} for batch in batches]
    loss, found, total, right = default_loss(model), 0.0, 0, 0
    with torch.inference_mode():
        for batch in batches:
            outputs = model(**without_labels(batch))
            found += float(loss(outputs, batch).sum())
            labels = batch["labels"]
            total += int((labels != NO_LABEL).sum())
            if labels.ndim == 1:
                right += int((outputs.logits.argmax(-1) == labels).sum())
        seconds = [pass_seconds(model, batches) for _ in range(_ROUNDS)]
    n_examples = sum(len(batch["labels"]) for batch in batches)
    quality = {"accuracy": right / total} if batches[0]["labels"].ndim == 1 else {}
    return {
        **quality, "loss": found / total,
        "examples_per_second": n_examples / float(np.median(seconds)),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "heads": sum(len(block.kept) for block in find_heads(model)),
    }
