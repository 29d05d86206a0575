"""Batches of token ids: rows of like length together, padded on the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Int

Batch = dict[str, Tensor]
"""A model's keyword arguments, ``labels`` among them."""

NO_LABEL = -100
"""transformers' mark of a position without label."""


_CLASSES = ("labels", "start_positions", "end_positions")
_FLAGS = (bool, int, float, str)
_AXES = {"input_ids": 2, "decoder_input_ids": 2, **dict.fromkeys(_CLASSES, 1)}


def check_batch(batch: object) -> Batch:
    """A batch as it is computed with: nothing that is None, numbers of classes as int64.

    Flags (a bool, a number, a text) and what only the model knows (a cache) stay as they are.

    Raises:
        TypeError: no dict, as each key of a batch is where a list of batches was meant; or lists
            and arrays of numbers or texts in place of tensors.
        ValueError: one example, as a Dataset holds them, in place of a batch; or no example.
    """
    if not isinstance(batch, Mapping):
        raise TypeError(
            f"a batch is a dict of the model's arguments, given {type(batch).__name__}: batches are "
            "a list of such dicts, also where there is one, [batch]"
        )
    checked = {name: value for name, value in batch.items() if value is not None}
    for name, value in checked.items():
        if _is_data(value):
            raise TypeError(
                f"batch[{name!r}] is of type {type(value).__name__}, not a tensor with one "
                "row an example. Convert it; a Dataset of the Hub does so itself, "
                "dataset.with_format('torch')"
            )
        axes = value.ndim if isinstance(value, Tensor) else 0
        if axes < _AXES.get(name, 0) and isinstance(value, (Tensor, *_FLAGS)):
            given = (
                f"has shape {tuple(value.shape)}" if isinstance(value, Tensor) else "is a number"
            )
            raise ValueError(
                f"batch[{name!r}] {given}: that is one example, and a batch has one row an example. "
                "Give torch.utils.data.DataLoader(dataset, batch_size=32) for a Dataset, or "
                "tensor[None] in place of each tensor of a single example"
            )
        if axes and not len(value):
            raise ValueError(f"batch[{name!r}] has no rows: a batch holds at least one example")
        if axes and name in _CLASSES and value.dtype in (torch.int8, torch.int16, torch.int32):
            checked[name] = value.long()  # all that PyTorch's losses take
    return checked


def _is_data(value: Any) -> bool:
    """Whether numbers or texts are given that should be in a tensor."""
    if isinstance(value, list | tuple):
        first = next(iter(value), None)
        return isinstance(first, _FLAGS) or _is_data(first)
    return hasattr(value, "__array__") and not isinstance(value, Tensor)  # of NumPy


def n_rows(batch: Batch) -> int:
    """How many rows every tensor of a batch has; 0 where they cannot be told apart.

    So it is where tensors differ in it, or where a value is neither a tensor nor a flag.
    """
    sizes = {
        (len(value) if value.ndim else 0) if isinstance(value, Tensor) else 0
        for value in batch.values()
        if not isinstance(value, _FLAGS)
    }
    return sizes.pop() if len(sizes) == 1 else 0


def rows(batch: Batch, part: slice) -> Batch:
    """Some rows of a batch that has :func:`n_rows`, with its flags."""
    return {k: value if isinstance(value, _FLAGS) else value[part] for k, value in batch.items()}


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
