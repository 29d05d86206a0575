"""Batches of token ids: rows of like length together, padded on the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Int

Batch = dict[str, Tensor]
"""A model's keyword arguments, ``labels`` among them."""

NO_LABEL = -100
"""transformers' mark of a position without label."""


def check_batch(batch: object, *, tensors: bool = False) -> None:
    """Raises TypeError for what is no batch, as each key of one is where a list of them was meant.

    Args:
        tensors: whether every value must be a tensor, and have an example.

    Raises:
        ValueError: tensors without any example.
    """
    if not isinstance(batch, Mapping):
        raise TypeError(
            f"a batch is a dict of the model's arguments, given {type(batch).__name__}: batches are "
            "a list of such dicts, also where there is one, [batch]"
        )
    for name, value in batch.items() if tensors else ():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"batch[{name!r}] is of type {type(value).__name__}, not a tensor: every value of a "
                "batch has one row an example"
            )
        if value.ndim and not len(value):
            raise ValueError(f"batch[{name!r}] has no rows: a batch holds at least one example")


def by_length(rows: Sequence[Sequence], size: int) -> list[list[int]]:
    """Indices of the rows in groups of at most ``size``, shortest rows first.

    >>> by_length(["ccc", "a", "bb"], 2)
    [[1, 2], [0]]
    """
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    return [order[start : start + size] for start in range(0, len(order), size)]


def pad(rows: Sequence[Sequence[int]], value: int) -> Int[Tensor, "row longest"]:
    """Rows of numbers as one tensor, padded on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


def teacher_forced(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], padding: int, start: int
) -> dict[str, Int[Tensor, "row longest"]]:
    """A batch with the reference as the decoder's input, shifted by one behind ``start``."""
    source = pad(sources, padding)
    return {
        "input_ids": source,
        "attention_mask": (source != padding).long(),
        "decoder_input_ids": pad([[start, *row[:-1]] for row in targets], padding),
        "labels": pad(targets, NO_LABEL),
    }


def without_labels(batch: Mapping[str, Tensor]) -> Batch:
    """A batch's model inputs; with labels among them a model would compute a loss of its own."""
    return {name: value for name, value in batch.items() if name != "labels"}


def model_inputs(model: nn.Module, batch: Batch) -> Batch:
    """As :func:`without_labels`, unless an encoder-decoder makes its decoder's input from them.

    BART would take the source for the target where it is given neither.
    """
    two_sided = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    needed = two_sided and not {"decoder_input_ids", "decoder_inputs_embeds"} & batch.keys()
    return batch if needed else without_labels(batch)
