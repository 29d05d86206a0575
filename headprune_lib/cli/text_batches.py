"""Rows of text as batches that fit a model, with labels."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headprune_lib.batching import NO_LABEL, Batch, by_length, pad
from headprune_lib.cli.text_files import COLUMNS, Rows

# transformers' collators want a padding piece, which GPT-2 and its like have not, and pad on the
# tokenizer's side, which for Llama and its like is the left, where positions would be other ones
_PADDING = {"input_ids": None, "token_type_ids": 0, "attention_mask": 0, "labels": NO_LABEL}


def make_own_batches(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Rows,
    batch_size: int,
    max_length: int,
) -> list[Batch]:
    """Batches of like length with ``labels``, as the model wants them.

    Raises:
        ValueError: rows that the model has no use for, labels that it does not know, or a text
            that is longer than it has positions for.
    """
    return [batch for _, batch in numbered_batches(model, tokenizer, rows, batch_size, max_length)]


def numbered_batches(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Rows,
    batch_size: int,
    max_length: int,
) -> list[tuple[list[int], Batch]]:
    """What :func:`make_own_batches` makes, each batch with the numbers of its rows, from 0."""
    encoded = _encoded(model, tokenizer, rows, max_length)
    longest, limit = max(len(row["input_ids"]) for row in encoded), positions(model)
    if limit is not None and longest > limit:
        raise ValueError(
            f"a text has {longest} pieces, {type(model).__name__} has positions for "
            f"{limit}: lower --max-length"
        )
    batches = []
    for members in by_length([row["input_ids"] for row in encoded], batch_size):
        part = [encoded[i] for i in members]
        batch = {name: _stacked([row[name] for row in part], name, tokenizer) for name in part[0]}
        if rows.targets is not None:
            translator: Any = model  # not every class has the method
            batch["decoder_input_ids"] = translator.prepare_decoder_input_ids_from_labels(
                batch["labels"]
            )
        batches.append((members, batch))
    return batches


def _encoded(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Rows, max_length: int
) -> list[dict[str, Any]]:
    wants = kind_of(model)
    given = (
        "translation"
        if rows.targets is not None
        else "classification"
        if rows.labels is not None
        else "language model"
    )
    if wants != given:
        raise ValueError(
            f"{type(model).__name__} is for {wants}, the file is for {given}; "
            f"expected columns: {COLUMNS}"
        )
    made = tokenizer(rows.texts, rows.second, truncation=True, max_length=max_length)
    names = [name for name in made if name in _PADDING]
    encoded = [{name: made[name][i] for name in names} for i in range(len(rows))]
    if wants == "translation":
        targets = tokenizer(text_target=rows.targets, truncation=True, max_length=max_length)
        labels = targets["input_ids"]
    elif rows.labels is not None:
        labels = _class_numbers(model, rows.labels)
    else:
        labels = [row["input_ids"] for row in encoded]
    return [{**row, "labels": label} for row, label in zip(encoded, labels, strict=True)]


def positions(model: PreTrainedModel) -> int | None:
    """How long a text may be; None where positions are no table that ends."""
    tables = [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding) and ("position" in name or name.endswith("wpe"))
    ]
    if not tables:
        return None
    # RoBERTa and its like count from behind the padding piece
    sizes = [
        table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
        for table in tables
    ]
    return min([*sizes, getattr(model.config, "max_position_embeddings", sizes[0])])


def kind_of(model: PreTrainedModel) -> str:
    """What a model does with text: ``translation``, ``language model`` or ``classification``."""
    if getattr(model.config, "is_encoder_decoder", False):
        return "translation"
    if getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise ValueError(
            f"{type(model).__name__} reads {model.main_input_name}, not text; use "
            "head_importance and prune_heads from Python"
        )
    return "language model" if model.can_generate() else "classification"


def _class_numbers(model: PreTrainedModel, labels: list[Any]) -> list[int]:
    config: Any = model.config
    known = {str(name): number for name, number in config.label2id.items()}
    known |= {str(number): number for number in range(config.num_labels)}
    unknown = sorted({str(label) for label in labels} - known.keys())
    if unknown:
        raise ValueError(
            f"label {unknown[0]!r} is none of the model's {config.num_labels} "
            f"classes: {sorted(config.label2id)} or 0 to "
            f"{config.num_labels - 1}"
        )
    return [known[str(label)] for label in labels]


def _stacked(cells: list[Any], name: str, tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    if not isinstance(cells[0], list):
        return torch.tensor(cells)
    filler = _PADDING[name]
    if filler is None:  # GPT-2 and its like have no padding piece; attention masks it anyway
        filler = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    return pad(cells, filler)
