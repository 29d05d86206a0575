"""Seconds of a forward pass."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import nn

from headprune_lib.batching import Batch, without_labels


def pass_seconds(model: nn.Module, batches: Sequence[Batch]) -> float:
    """Seconds of one forward pass over batches that are where the model is; labels are left out."""
    cuda = next(model.parameters()).is_cuda
    with torch.inference_mode():
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for batch in batches:
            model(**without_labels(batch))
        if cuda:
            torch.cuda.synchronize()
    return time.perf_counter() - start
