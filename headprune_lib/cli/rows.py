"""Text with labels, or with translations, from a TSV or JSONL file; and batches of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from headprune_lib.batching import NO_LABEL, Batch, by_length, pad

_COLUMNS = "text and label, text, text2 and label, source and target, or text alone"
_PADDING = {"input_ids": None, "token_type_ids": 0, "attention_mask": 0, "labels": NO_LABEL}


@dataclass(frozen=True)
class Rows:
    """What a file holds; ``second`` are second texts, ``labels`` names or numbers of classes."""

    texts: list[str]
    second: list[str] | None = None
    labels: list | None = None
    targets: list[str] | None = None

    def __len__(self) -> int:
        return len(self.texts)


def read_rows(path: Path) -> Rows:
    """The rows of a ``.tsv`` or ``.jsonl`` file, named columns: ``text``, ``text2`` and ``label``,
    ``source`` and ``target``, or ``text`` alone for a language model.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another ending, other columns, a row with missing cells (named), or no row.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    try:
        if path.suffix == ".tsv":
            table = pd.read_csv(path, sep="\t", quoting=3, keep_default_na=False, dtype=str)
        elif path.suffix in (".jsonl", ".json"):
            table = pd.read_json(path, lines=True, dtype=False)
        else:
            raise ValueError(f"{path} is neither .tsv nor .jsonl")
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{path}: {str(error).strip()}") from None
    columns = set(table.columns)
    if columns == {"source", "target"}:
        found = Rows(list(table["source"]), targets=list(table["target"]))
    elif "text" in columns and columns <= {"text", "text2", "label"}:
        found = Rows(*(list(table[name]) if name in columns else None
                       for name in ("text", "text2", "label")))
    else:
        raise ValueError(f"{path} has the columns {sorted(map(str, columns))}, expected {_COLUMNS}")
    if not len(table):
        raise ValueError(f"{path} holds no row")
    holes = table.isna() | (table.astype(str) == "")
    if holes.to_numpy().any():
        number = int(holes.any(axis=1).to_numpy().argmax())
        raise ValueError(f"{path}, row {number + 1}: {list(table.columns[holes.iloc[number]])} is "
                         "missing or empty")
    return found


def make_own_batches(model: nn.Module, tokenizer: PreTrainedTokenizerBase, rows: Rows,
                     batch_size: int, max_length: int) -> list[Batch]:
    """Batches of like length with ``labels``, as the model wants them.

    Raises:
        ValueError: rows that the model has no use for, or labels that it does not know.
    """
    encoded = _encoded(model, tokenizer, rows, max_length)
    batches = []
    for members in by_length([row["input_ids"] for row in encoded], batch_size):
        part = [encoded[i] for i in members]
        batch = {name: _stacked([row[name] for row in part], name, tokenizer) for name in part[0]}
        if rows.targets is not None:
            batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(
                batch["labels"])
        batches.append(batch)
    return batches


def _encoded(model: nn.Module, tokenizer: PreTrainedTokenizerBase, rows: Rows,
             max_length: int) -> list[dict]:
    wants = kind_of(model)
    given = ("translation" if rows.targets is not None else
             "classification" if rows.labels is not None else "language model")
    if wants != given:
        raise ValueError(f"{type(model).__name__} is for {wants}, the file is for {given}; "
                         f"expected columns: {_COLUMNS}")
    made = tokenizer(rows.texts, rows.second, truncation=True, max_length=max_length)
    names = [name for name in made if name in _PADDING]
    encoded = [{name: made[name][i] for name in names} for i in range(len(rows))]
    if wants == "translation":
        targets = tokenizer(text_target=rows.targets, truncation=True, max_length=max_length)
        labels = targets["input_ids"]
    elif wants == "classification":
        labels = _class_numbers(model, rows.labels)
    else:
        labels = [row["input_ids"] for row in encoded]
    return [{**row, "labels": label} for row, label in zip(encoded, labels, strict=True)]


def kind_of(model: nn.Module) -> str:
    """What a model does with text: ``translation``, ``language model`` or ``classification``."""
    if getattr(model.config, "is_encoder_decoder", False):
        return "translation"
    if getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise ValueError(f"{type(model).__name__} reads {model.main_input_name}, not text; use "
                         "head_importance and prune_heads from Python")
    return "language model" if model.can_generate() else "classification"


def _class_numbers(model: nn.Module, labels: list) -> list[int]:
    known = {str(name): number for name, number in model.config.label2id.items()}
    known |= {str(number): number for number in range(model.config.num_labels)}
    unknown = sorted({str(label) for label in labels} - known.keys())
    if unknown:
        raise ValueError(f"label {unknown[0]!r} is none of the model's {model.config.num_labels} "
                         f"classes: {sorted(model.config.label2id)} or 0 to "
                         f"{model.config.num_labels - 1}")
    return [known[str(label)] for label in labels]


def _stacked(cells: list, name: str, tokenizer: PreTrainedTokenizerBase) -> torch.Tensor:
    if not isinstance(cells[0], list):
        return torch.tensor(cells)
    filler = _PADDING[name]
    if filler is None:  # GPT-2 and its like have no padding piece; attention masks it anyway
        filler = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    return pad(cells, filler)
