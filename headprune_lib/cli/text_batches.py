"""Rows of text as batches that fit a model, with labels."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headprune_lib.batching import NO_LABEL, Batch, by_length, model_inputs, pad
from headprune_lib.cli.text_files import Rows
from headprune_lib.losses import binary_cross_entropy, default_loss, squared_error
from headprune_lib.messages import one_line, out_of_memory
from headprune_lib.running import on_device

# transformers' collators want a padding piece, which GPT-2 and its like have not, and pad on the
# tokenizer's side, which for Llama and its like is the left, where positions would be other ones
_FILLERS = {"input_ids": 0, "token_type_ids": 0, "attention_mask": 0, "labels": NO_LABEL}
_FROM_PYTHON = "use head_importance and prune_heads from Python"


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
    fillers = _FILLERS | {"input_ids": _padding_piece(model, tokenizer)}
    batches = []
    for members in by_length([row["input_ids"] for row in encoded], batch_size):
        part = [encoded[i] for i in members]
        batch = {name: _stacked([row[name] for row in part], fillers[name]) for name in part[0]}
        if rows.targets is not None:
            translator: Any = model  # not every class has the method
            batch["decoder_input_ids"] = translator.prepare_decoder_input_ids_from_labels(
                batch["labels"]
            )
        batches.append((members, batch))
    return batches


_WANTED = {
    "classification": "the columns text and label, or text, text2 and label",
    "translation": "the columns source and target",
    "language model": "a column text alone",
}


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
            f"{type(model).__name__} is for {wants}, and the file's columns are those for {given}; "
            f"expected {_WANTED[wants]}"
        )
    made = tokenizer(rows.texts, rows.second, truncation=True, max_length=max_length)
    names = [name for name in made if name in _FILLERS]
    encoded = [{name: made[name][i] for name in names} for i in range(len(rows))]
    if wants == "translation":
        targets = tokenizer(text_target=rows.targets, truncation=True, max_length=max_length)
        labels = targets["input_ids"]
    elif rows.labels is not None:
        labels = _class_labels(model, rows.labels)
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
    """What a model does with text: ``translation``, ``language model`` or ``classification``.

    Raises:
        ValueError: it reads something else than text, or text for something else.
    """
    name = type(model).__name__
    if getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise ValueError(f"{name} reads {model.main_input_name}, not text; {_FROM_PYTHON}")
    if name.endswith("ForSequenceClassification"):
        return "classification"
    if model.can_generate():
        return (
            "translation"
            if getattr(model.config, "is_encoder_decoder", False)
            else "language model"
        )
    raise ValueError(
        f"{name} is for none of what the command can measure: classes of texts "
        f"(…ForSequenceClassification), translation, the next token; {_FROM_PYTHON}"
    )


def check_runs(model: PreTrainedModel, batch: Batch) -> None:
    """Run a model on a batch.

    Raises:
        ValueError: it cannot, for whatever reason but a lack of memory.
    """
    device = next(model.parameters()).device
    try:
        with torch.inference_mode():
            model(**on_device(model_inputs(model, batch), device))
    except IndexError as error:
        raise ValueError(f"{error}: is the tokenizer that of another model?") from None
    except Exception as error:  # whatever a class makes of what it cannot read
        if out_of_memory(error):
            raise
        raise ValueError(
            f"{type(model).__name__} does not run on rows of text "
            f"({type(error).__name__}: {one_line(error)}); {_FROM_PYTHON}"
        ) from None


def _class_labels(model: PreTrainedModel, labels: list[Any]) -> list[int] | list[float]:
    """Numbers of classes, of names or of numbers; of a regression the numbers themselves."""
    config: Any = model.config
    loss = default_loss(model)
    if loss is binary_cross_entropy:
        raise ValueError(
            f"{type(model).__name__} gives each text several labels (problem_type), and a file one; "
            f"{_FROM_PYTHON}"
        )
    if loss is squared_error:
        return [_number(label) for label in labels]
    names = {str(name): number for name, number in config.label2id.items()}
    numbers = {str(number): number for number in range(config.num_labels)}
    # names that are themselves numbers, and mean other classes: a label is a name then
    shadowed = any(numbers.get(name, number) != number for name, number in names.items())
    known = names if shadowed else numbers | names
    unknown = sorted({str(label) for label in labels} - known.keys())
    if unknown:
        raise ValueError(
            f"label {unknown[0]!r} is none of the model's {config.num_labels} classes: "
            f"{sorted(config.label2id)}" + ("" if shadowed else f" or 0 to {config.num_labels - 1}")
        )
    return [known[str(label)] for label in labels]


def _number(label: Any) -> float:
    try:
        number = float(label)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"label {label!r} is no number, which the model gives (regression)")
    return number


def _stacked(cells: list[Any], filler: int) -> torch.Tensor:
    return pad(cells, filler) if isinstance(cells[0], list) else torch.tensor(cells)


def _padding_piece(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The model's own goes first: by it a decoder's classifier finds the last piece of a text."""
    config: Any = model.config
    for piece in (getattr(config, "pad_token_id", None), tokenizer.pad_token_id):
        if piece is not None and piece >= 0:
            return piece
    return 0  # GPT-2 and its like have none; attention masks it anyway
