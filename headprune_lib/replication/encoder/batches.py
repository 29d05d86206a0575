"""Labelled texts as batches of sentences of like length, padded on the right."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import DataCollatorWithPadding

from headprune_lib.replication.data import Texts
from headprune_lib.utils import by_length


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
    tokenizer,
    examples: Texts,
    batch_size: int,
    max_length: int,
    order: Sequence[int] | None = None,
) -> Batches:
    """Tokenise and batch, sorted by length unless an ``order`` is given; of a pair, both texts.

    Raises:
        ValueError: no examples.
    """
    if not len(examples):
        raise ValueError("the dataset is empty: give at least one example")
    sides = [examples.texts] if examples.second is None else [examples.texts, examples.second]
    names = ["input_ids", "attention_mask"]
    # BERT tells the two texts of a pair apart by their types; those of a single text say nothing
    names += ["token_type_ids"] if len(sides) == 2 else []
    made = tokenizer(*map(list, sides))
    rows = [
        {name: made[name][i] for name in names if name in made} | {"labels": label}
        for i, label in enumerate(examples.labels)
    ]
    truncated = [i for i, row in enumerate(rows) if len(row["input_ids"]) > max_length]
    for i in truncated:
        short = tokenizer(*(side[i] for side in sides), truncation=True, max_length=max_length)
        rows[i] |= {name: short[name] for name in names if name in short}
    groups = (
        by_length([row["input_ids"] for row in rows], batch_size)
        if order is None
        else [[*order[start : start + batch_size]] for start in range(0, len(order), batch_size)]
    )
    padded = DataCollatorWithPadding(tokenizer)
    batches = [dict(padded([rows[i] for i in members])) for members in groups]
    return Batches(batches, np.concatenate(groups), len(truncated))


def shuffled_by_length(examples: Texts, batch_size: int, generator: random.Random) -> list[int]:
    """A random order whose batches hold sentences of like length: little padding, still random."""
    order = list(range(len(examples)))
    generator.shuffle(order)
    window = 50 * batch_size
    sides = [*zip(*filter(None, (examples.texts, examples.second)), strict=True)]
    batches = []
    for start in range(0, len(order), window):
        near = sorted(order[start : start + window], key=lambda i: sum(map(len, sides[i])))
        batches += [near[i : i + batch_size] for i in range(0, len(near), batch_size)]
    # a short batch goes last, or make_batches would cut the others at its length
    short = [b for b in batches if len(b) < batch_size]
    batches = [b for b in batches if len(b) == batch_size]
    generator.shuffle(batches)
    return [i for batch in batches + short for i in batch]
