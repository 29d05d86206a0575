"""Batches of sentences of like length, padded on the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headprune_lib.data import Examples

NO_LABEL = -100
"""transformers' mark of a position without label."""


def by_length(rows: Sequence[Sequence], size: int) -> list[list[int]]:
    """Indices of the rows in groups of at most ``size``, shortest rows first.

    >>> by_length(["ccc", "a", "bb"], 2)
    [[1, 2], [0]]
    """
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    return [order[start : start + size] for start in range(0, len(order), size)]


def pad(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    """Rows of numbers as one tensor (rows, longest), padded on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


def teacher_forced(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]],
                   padding: int, start: int) -> dict[str, Tensor]:
    """A batch with the reference as the decoder's input, shifted by one behind ``start``."""
    source = pad(sources, padding)
    return {
        "input_ids": source,
        "attention_mask": (source != padding).long(),
        "decoder_input_ids": pad([[start, *row[:-1]] for row in targets], padding),
        "labels": pad(targets, NO_LABEL),
    }


def without_labels(batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A batch's model inputs; with labels among them a model would compute a loss of its own."""
    return {name: value for name, value in batch.items() if name != "labels"}


@dataclass(frozen=True)
class Batches:
    """Padded batches, shortest sentences first, and the way back to the examples' own order.

    ``order[i]`` is the example at place i of the concatenated batches; ``n_truncated`` counts
    sentences that were longer than the limit.
    """

    batches: list[dict[str, torch.Tensor]]
    order: np.ndarray
    n_truncated: int

    def restore(self, values: np.ndarray) -> np.ndarray:
        """Values along the last axis, in batch order, put back into the examples' order."""
        restored = np.empty_like(values)
        restored[..., self.order] = values
        return restored


def make_batches(
    tokenizer, examples: Examples, batch_size: int, max_length: int, order: Sequence[int] | None = None
) -> Batches:
    """Tokenise and batch, sorted by length unless an ``order`` is given.

    Raises:
        ValueError: no examples.
    """
    if not len(examples):
        raise ValueError("the dataset is empty: give at least one example")
    ids = tokenizer(list(examples.texts), add_special_tokens=True)["input_ids"]
    truncated = [i for i, row in enumerate(ids) if len(row) > max_length]
    if truncated:
        short = tokenizer([examples.texts[i] for i in truncated], truncation=True, max_length=max_length)
        for i, row in zip(truncated, short["input_ids"], strict=True):
            ids[i] = row
    groups = by_length(ids, batch_size) if order is None else [
        [*order[start : start + batch_size]] for start in range(0, len(order), batch_size)]
    batches = []
    for members in groups:
        batches.append({
            "input_ids": pad([ids[i] for i in members], tokenizer.pad_token_id),
            "attention_mask": pad([[1] * len(ids[i]) for i in members], 0),
            "labels": torch.tensor([examples.labels[i] for i in members]),
        })
    return Batches(batches, np.concatenate(groups), len(truncated))
