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
    """Tokenise and batch, sorted by length unless an ``order`` is given; of a pair, both texts.

    Raises:
        ValueError: no examples.
    """
    if not len(examples):
        raise ValueError("the dataset is empty: give at least one example")
    sides = [examples.texts] if examples.second is None else [examples.texts, examples.second]
    rows = tokenizer(*map(list, sides))
    ids, types = rows["input_ids"], rows.get("token_type_ids") if len(sides) == 2 else None
    truncated = [i for i, row in enumerate(ids) if len(row) > max_length]
    if truncated:
        short = tokenizer(*([side[i] for i in truncated] for side in sides),
                          truncation=True, max_length=max_length)
        for place, i in enumerate(truncated):
            ids[i] = short["input_ids"][place]
            if types is not None:
                types[i] = short["token_type_ids"][place]
    groups = by_length(ids, batch_size) if order is None else [
        [*order[start : start + batch_size]] for start in range(0, len(order), batch_size)]
    batches = []
    for members in groups:
        batch = {
            "input_ids": pad([ids[i] for i in members], tokenizer.pad_token_id),
            "attention_mask": pad([[1] * len(ids[i]) for i in members], 0),
            "labels": torch.tensor([examples.labels[i] for i in members]),
        }
        if types is not None:  # BERT tells the two texts of a pair apart by them
            batch["token_type_ids"] = pad([types[i] for i in members], 0)
        batches.append(batch)
    return Batches(batches, np.concatenate(groups), len(truncated))
