"""Rows of text from a file, and batches of them for a model."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headprune_lib import find_heads, score_heads
from headprune_lib.attention import end_ids
from headprune_lib.cli.app import check_table
from headprune_lib.cli.models import load_model, load_tokenizer
from headprune_lib.criteria import get_criterion
from headprune_lib.losses import (
    binary_cross_entropy,
    default_loss,
    predicts_next_token,
    squared_error,
)
from headprune_lib.masking import HeadTensors
from headprune_lib.messages import one_line, out_of_memory, unknown
from headprune_lib.utils import NO_LABEL, Batch, by_length, model_inputs, pad, to_device

_FROM_PYTHON = "Use head_importance and prune_heads from Python"
_OTHER_TOKENIZER = "Is the tokenizer from another model?"


@dataclass(frozen=True)
class Rows:
    """The columns of a file that a model reads."""

    texts: list[str]
    second: list[str] | None = None  # second texts of pairs
    labels: list[Any] | None = None  # class names or ids, or regression targets
    targets: list[str] | None = None  # translations of the texts


# kind of model -> field of Rows -> column of the file
_COLUMNS = {
    "classification": {"texts": "text", "second": "text2", "labels": "label"},
    "translation": {"texts": "source", "targets": "target"},
    "language model": {"texts": "text"},
}
Table = tuple[list[str], list[dict[str, Any]]]
"""Names of the columns, and the rows."""
_MORE = ""  # key of a row's cells that have no column


def kind_of(model: PreTrainedModel) -> str:
    """Return a model's kind: ``translation``, ``language model`` or ``classification``.

    Raises:
        ValueError: the model does not read text, or does something else with it.
    """
    name = type(model).__name__
    if getattr(model, "main_input_name", "input_ids") != "input_ids":
        raise ValueError(f"{name} reads {model.main_input_name}, not text. {_FROM_PYTHON}")
    if name.endswith("ForSequenceClassification"):
        return "classification"
    if predicts_next_token(model):
        return "language model"
    if model.can_generate() and getattr(model.config, "is_encoder_decoder", False):
        return "translation"
    raise ValueError(
        f"{name} is not a text classifier (…ForSequenceClassification), a translation model or a "
        f"language model, and the command measures no other. {_FROM_PYTHON}"
    )


def read_rows(path: Path, kind: str, text_columns: Sequence[str] = ()) -> Rows:
    """Read the rows of a ``.tsv``, ``.csv`` or ``.jsonl`` file; other columns are ignored.

    Args:
        kind: the model's, from :func:`kind_of`. Classification reads the columns ``text`` and
            ``label``, and ``text2`` if the file has it; translation ``source`` and ``target``;
            a language model ``text``.
        text_columns: one or two columns to read the text from in place of these.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another file extension, a missing column, no rows, or a row (its number is
            given, from 1) with surplus cells, an empty cell, or no text where text is needed.
    """
    check_table(path)
    try:
        names, rows = (_jsonl if path.suffix.lower().startswith(".json") else _table)(path)
        columns = _columns(kind, names, text_columns)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error}). Save it in that encoding") from None
    except (ValueError, csv.Error) as error:  # csv.Error: an unclosed quote, a huge cell
        raise ValueError(f"{path}: {error}") from None
    if not rows:
        raise ValueError(f"{path} has a header but no rows. Add one row per text")
    for number, row in enumerate(rows, 1):
        for field, name in columns.items():
            cell = row.get(name)
            if cell in (None, "") or not (field == "labels" or isinstance(cell, str)):
                wrong = "missing or empty" if cell in (None, "") else f"{cell!r}, expected text"
                raise ValueError(f"{path}, row {number}: {name} is {wrong}. Correct or remove it")
    return Rows(**{field: [row[name] for row in rows] for field, name in columns.items()})


def _columns(kind: str, names: list[str], text_columns: Sequence[str]) -> dict[str, str]:
    """Map each field of the rows to its column of the file."""
    columns = dict(_COLUMNS[kind])
    texts = [field for field in columns if field != "labels"]
    if len(text_columns) > len(texts):
        raise ValueError(f"{len(text_columns)} text columns for {kind}. Give at most {len(texts)}")
    columns |= dict(zip(texts, text_columns, strict=False))
    if "second" in columns and len(text_columns) < 2 and (text_columns or "text2" not in names):
        del columns["second"]
    for column in columns.values():
        if column not in names:
            raise ValueError(
                f"{kind} reads the columns {' and '.join(columns.values())} (--text-column gives "
                f"other names): {unknown('column', column, names)}"
            )
    return columns


def _table(path: Path) -> Table:
    comma = path.suffix.lower() == ".csv"
    # in a .tsv quotes are part of the text
    form = {"strict": True} if comma else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, restkey=_MORE, **form)
        names, rows = list(reader.fieldnames or ()), list(reader)
    if len(set(names)) < len(names):
        raise ValueError(f"a column is named twice: {names}")
    for number, row in enumerate(rows, 1):
        if more := row.get(_MORE):
            hint = "a comma in a text that is not in quotes" if comma else "a tab in a text"
            raise ValueError(
                f"row {number} has {len(names) + len(more)} cells, and there are {len(names)} "
                f"columns. Is there {hint}?"
            )
    return names, rows


def _jsonl(path: Path) -> Table:
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as file:
        for line in filter(str.strip, file):
            try:
                row = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                raise ValueError(f"row {len(rows) + 1} is not JSON ({error})") from None
            if not isinstance(row, dict):
                raise ValueError(f"row {len(rows) + 1} is {line.strip()[:40]}, not a JSON object")
            rows.append(row)
    return list(dict.fromkeys(name for row in rows for name in row)), rows


# transformers' collators need a padding token, which GPT-2 and similar models lack, and pad on the
# tokenizer's side; for Llama and similar models that is the left, which would shift the positions
_FILLERS = {"input_ids": 0, "token_type_ids": 0, "attention_mask": 0, "labels": NO_LABEL}


def make_batches(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Rows,
    batch_size: int,
    max_length: int,
) -> list[Batch]:
    """Make batches of similar length, with ``labels`` in the form that the model expects.

    Raises:
        ValueError: labels unknown to the model, or a text with more tokens than it has positions.
    """
    kind = kind_of(model)
    encoded = tokenizer(rows.texts, rows.second, truncation=True, max_length=max_length)
    columns = {name: encoded[name] for name in encoded if name in _FILLERS}
    if kind == "translation":
        targets = tokenizer(text_target=rows.targets, truncation=True, max_length=max_length)
        columns["labels"] = targets["input_ids"]
    else:
        texts = kind == "language model"
        columns["labels"] = columns["input_ids"] if texts else _class_labels(model, rows.labels)
    longest, limit = max(map(len, columns["input_ids"])), positions(model)
    if limit is not None and longest > limit:
        raise ValueError(
            f"a text has {longest} tokens, and the model has {limit} positions. Lower --max-length"
        )
    fillers = _FILLERS | {"input_ids": padding_token(model, tokenizer)}
    batches = []
    for members in by_length(columns["input_ids"], batch_size):
        batch = {}
        for name, cells in columns.items():
            chosen = [cells[i] for i in members]
            by_token = isinstance(chosen[0], list)
            batch[name] = pad(chosen, fillers[name]) if by_token else torch.tensor(chosen)
        if kind == "translation":
            translator: Any = model  # not every class has the method
            shifted = translator.prepare_decoder_input_ids_from_labels(batch["labels"])
            batch["decoder_input_ids"] = shifted
        batches.append(batch)
    return batches


def _class_labels(model: PreTrainedModel, labels: list[Any]) -> list[int] | list[float]:
    """Class ids from class names or ids; for a regression the numbers themselves."""
    config: Any = model.config
    loss = default_loss(model)
    if loss is binary_cross_entropy:
        raise ValueError(
            f"several labels per text (problem_type) are not supported. {_FROM_PYTHON}"
        )
    if loss is squared_error:
        return [_number(label) for label in labels]
    names = {str(name): number for name, number in config.label2id.items()}
    numbers = {str(number): number for number in range(config.num_labels)}
    # where names are numbers that denote other classes, a label is read as a name
    shadowed = any(numbers.get(name, number) != number for name, number in names.items())
    known = names if shadowed else numbers | names
    if strange := sorted({str(label) for label in labels} - known.keys()):
        raise ValueError(
            f"label {strange[0]!r} is not one of the model's {config.num_labels} classes: "
            f"{sorted(config.label2id)}" + ("" if shadowed else f" or 0 to {config.num_labels - 1}")
        )
    return [known[str(label)] for label in labels]


def _number(label: Any) -> float:
    try:
        number = float(label)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"label {label!r} is not a number. Give numbers for a regression model")
    return number


def padding_token(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The padding id, the model's own first: decoder classifiers find a text's last token by it."""
    config: Any = model.config
    for token in (getattr(config, "pad_token_id", None), tokenizer.pad_token_id):
        if token is not None and token >= 0:
            return token
    return 0  # GPT-2 and similar models have none; it is masked in attention anyway


def positions(model: PreTrainedModel) -> int | None:
    """Maximum length of a text in tokens; None if positions are not in a finite table."""
    sizes = [  # RoBERTa and similar models count from after the padding id
        table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
        for name, table in model.named_modules()
        if isinstance(table, nn.Embedding) and ("position" in name or name.endswith("wpe"))
    ]
    said = getattr(model.config, "max_position_embeddings", math.inf)
    return min(*sizes, said) if sizes else None


class Reader:
    """A model loaded by name, with readers of files for it."""

    def __init__(
        self, name: str, device: str, batch_size: int, max_length: int, columns: list[str] | None
    ) -> None:
        self.model, self.tokenizer = load_model(name, device=device), load_tokenizer(name)
        self.sizes, self.columns = (batch_size, max_length), columns or ()

    def rows(self, path: Path) -> Rows:
        """The rows of a file."""
        return read_rows(path, kind_of(self.model), self.columns)

    def batches(self, path: Path) -> list[Batch]:
        """The batches of a file, on the model's device; ValueError if it fails on the first."""
        device = next(self.model.parameters()).device
        made = make_batches(self.model, self.tokenizer, self.rows(path), *self.sizes)
        batches = [to_device(batch, device) for batch in made]
        try:
            with torch.inference_mode():
                self.model(**model_inputs(self.model, batches[0]))
        except Exception as error:  # models raise all kinds of errors for unsuitable input
            if out_of_memory(error):
                raise
            hint = _OTHER_TOKENIZER if isinstance(error, IndexError) else _FROM_PYTHON
            raise ValueError(
                f"{type(self.model).__name__} cannot be run on rows of text "
                f"({type(error).__name__}: {one_line(error)}). {hint}"
            ) from None
        return batches

    def scores(self, batches: list[Batch], by: str, normalize: str) -> HeadTensors:
        """Score every head; criteria that leave out end marks get them from the tokenizer."""
        from tqdm import tqdm

        if not any(block.kept_heads for block in find_heads(self.model)):
            raise ValueError("no head is left in the model: there is nothing to score")
        criterion, ends = get_criterion(by), end_ids(self.tokenizer)
        settings: dict[str, Any] = {"normalize": None if normalize == "none" else normalize}
        settings |= {"leave_out": ends} if ends and criterion.leaves_ends_out else {}
        # no bar unless there is a terminal
        watched = tqdm(batches, "scoring heads", unit="batch", leave=False, disable=None)
        try:
            return score_heads(self.model, watched, by, **settings)
        except IndexError as error:
            raise ValueError(f"{error}. {_OTHER_TOKENIZER}") from None
