"""The user's own text: a folder with ``task.yml``, which says how to read it.

It is registered as a task of classification, of translation or of language models, whichever the
file describes: by its ``labels``, its ``languages`` or the ``unit`` of its passages.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import pydantic
import yaml

from headprune_lib.messages import unknown
from headprune_lib.replication.data.classification import TASKS, Layout
from headprune_lib.replication.data.parallel import LANGUAGE_TASKS, TRANSLATION_TASKS
from headprune_lib.replication.data.texts import (
    ClassificationTask,
    LanguageTask,
    Metric,
    Splits,
    Task,
    Texts,
    TranslationTask,
    checksums_of,
    in_hash_order,
    read_lines,
    read_pairs,
    split_by_hash,
)
from headprune_lib.replication.paths import absolute

Entry = dict[str, Any]
"""The content of ``task.yml``."""
Files = dict[str, list[str]]
"""Split -> its files."""


@dataclass(frozen=True)
class OwnText:
    """The text that a folder's ``task.yml`` describes, and the tasks it is registered as.

    Attributes:
        others: further split -> the name of its own task, which serves as another domain.
    """

    name: str
    folder: Path
    entry: Entry
    others: dict[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> Literal["labels", "languages", "unit"]:
        """The entry that tells which kind of task it is."""
        return next(kind for kind in _KINDS if kind in self.entry)

    @property
    def fields(self) -> dict[str, str]:
        """A profile's fields that name tasks -> the task name that each gets."""
        if self.kind == "languages":
            named = dict.fromkeys(("translation_task", "training_task"), self.name)
            return {**named, "translation_far": self.others.get("far", self.name)}
        return {{"labels": "task", "unit": "language_task"}[self.kind]: self.name}

    def over(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that override a profile's.

        For classification, heads are chosen and scored on no more text than there is.
        """
        given_values = dict(self.entry.get("profile", {}))
        if self.kind != "labels":
            return given_values
        n = len(TASKS[self.name].split("train"))
        n_scoring = min(values["n_scoring"], n // 2)
        n_selection = min(values["n_selection"], n - n_scoring)
        sizes = {"n_scoring": n_scoring, "n_selection": n_selection, "n_examples": None}
        return {"domains": [*self.others.values()], **sizes, **given_values}


OWN_TEXTS: dict[str, OwnText] = {}
"""The user's own tasks registered so far; each is in the register of its kind as well."""

_Scalars = list[str | bool | int | float | date | None]
_Files = str | list[str]
_FORMS: dict[str, tuple[Any, str]] = {
    "labels": (_Scalars, "a list, such as [question, complaint]"),
    "languages": (_Scalars, "a list, such as [de, en]"),
    "columns": (dict, "names, such as {label: kind, text: message}"),
    "profile": (dict, "names and values, such as {random_orders: 10}"),
    "files": (_Files | dict[str, _Files], "a file, a list of files, or either for each split"),
}
"""Entry of ``task.yml`` -> the type of its value, in Python and in words."""
_COLUMNS = ("label", "text", "second")


class _Kind(NamedTuple):
    """A kind of task: how to read its text, the splits that it needs, and further entries.

    Attributes:
        splits: name -> its share of a single file.
    """

    register: dict[str, Any]
    make: Callable[..., Task]
    read: Callable[[Path, Entry, Files], Splits]
    splits: dict[str, float]
    entries: tuple[str, ...] = ()


def _read_labelled(folder: Path, entry: Entry, files: Files) -> Splits:
    if any(isinstance(label, bool) for label in entry["labels"]):
        raise ValueError("YAML reads labels such as yes as True. Put them between quotes")
    if entry.get("metric", "accuracy") not in get_args(Metric):
        raise ValueError(unknown("metric", entry["metric"], get_args(Metric)))
    columns = {"label": "label", "text": "text", **entry.get("columns", {})}
    return Layout(files, columns).read(folder, [str(label).lower() for label in entry["labels"]])


def _read_translated(folder: Path, entry: Entry, files: Files) -> Splits:
    if len(entry["languages"]) != 2 or any(len(names) != 2 for names in files.values()):
        raise ValueError("expected two languages, and two files a split: text and translation")
    return {
        split: in_hash_order(read_pairs([folder / name for name in names]))
        for split, names in files.items()
    }


def _read_passages(folder: Path, _entry: Entry, files: Files) -> Splits:
    splits = {}
    for split, names in files.items():
        lines = [line.strip() for name in names for line in read_lines([folder / name])[0]]
        splits[split] = in_hash_order(Texts(tuple(filter(None, lines))))
    return splits


_KINDS: dict[str, _Kind] = {
    "labels": _Kind(
        TASKS,
        ClassificationTask,
        _read_labelled,
        {"train": 0.7, "test": 0.3},
        ("columns", "metric"),
    ),
    "languages": _Kind(
        TRANSLATION_TASKS,
        partial(TranslationTask, far="test"),
        _read_translated,
        {"score": 0.4, "valid": 0.2, "test": 0.4},
    ),
    "unit": _Kind(LANGUAGE_TASKS, LanguageTask, _read_passages, {"train": 0.7, "test": 0.3}),
}


def own_text(data: str | None) -> OwnText | None:
    """Register the text of a folder's ``task.yml`` as a task; None if there is no such file.

    Raises ValueError if it does not describe a task, or the text is not laid out as it says.
    """
    if data in (None, "hub"):
        return None
    folder = absolute(data)
    file = folder / "task.yml"
    if not file.is_file():
        return None
    try:
        entry = yaml.safe_load(file.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not valid YAML: {' '.join(str(error).split())}") from None
    entry = entry if isinstance(entry, dict) else {}
    name = str(entry.get("name"))
    if (text := OWN_TEXTS.get(name)) and (text.folder, text.entry) == (folder, entry):
        return text
    try:
        _check(entry)
        _check_name(name, folder)
        return _enter(OwnText(name, folder, entry))
    except ValueError as error:
        message = str(error)
        if not message.startswith(str(folder)):
            message = f"{file}: {message}"
        raise ValueError(message) from error


def _check(entry: Entry) -> None:
    """Raises ValueError for an entry that is unknown, missing or of another form."""
    kinds = [kind for kind in _KINDS if kind in entry]
    entries = [each for kind in kinds or _KINDS for each in (kind, *_KINDS[kind].entries)]
    possible = {"name", "files", "title", "profile", *entries}
    if wrong := sorted(map(str, entry.keys() - possible)):
        raise ValueError(unknown("entry", wrong[0], possible))
    missing = [each for each in ("name", "files") if not entry.get(each)]
    if missing or len(kinds) != 1 or not entry[kinds[0]]:
        lacks = f"has no {', no '.join(missing)}" if missing else "does not name one kind of task"
        raise ValueError(
            f"it {lacks}. Give a name, files, and one of labels (for a classifier), languages "
            "(for a translator) and unit (for the passages of a language model)"
        )
    for name, (form, words) in _FORMS.items():
        try:
            pydantic.TypeAdapter(form).validate_python(entry.get(name), strict=True)
        except pydantic.ValidationError:
            if name in entry:
                raise ValueError(f"{name} is {entry[name]!r}. Give {words}") from None
    for column in entry.get("columns", {}):
        if column not in _COLUMNS:
            raise ValueError(unknown("column", column, _COLUMNS))


def _check_name(name: str, folder: Path) -> None:
    """Raises ValueError if a name is another task's, or not of letters, digits, ``_`` and ``-``."""
    is_taken = any(name in kind.register for kind in _KINDS.values())
    mine = name in OWN_TEXTS and OWN_TEXTS[name].folder == folder
    if (is_taken and not mine) or not re.fullmatch(r"[\w-]+", name):
        raise ValueError(
            f"a task cannot be called {name!r}. Give a free name of letters, digits, _, -"
        )


def _files_of(own: OwnText) -> Files:
    """The files of each split, or of ``all``. Raises ValueError for files that cannot be split."""
    files = own.entry["files"]
    files = files if isinstance(files, dict) else {"all": files}
    files = {split: [names] if isinstance(names, str) else names for split, names in files.items()}
    names = [name for each in files.values() for name in each]
    if missing := [name for name in names if not (own.folder / name).is_file()]:
        raise ValueError(f"it names {', '.join(missing)}, which {own.folder} does not have")
    paths = [(own.folder / name).resolve() for name in names]
    if twice := sorted({path.name for path in paths if paths.count(path) > 1}):
        raise ValueError(
            f"files has {', '.join(twice)} twice. Give each split text of its own, or one file"
        )
    if "valid" in files and "valid" not in _KINDS[own.kind].splits:
        raise ValueError(
            f"files has valid, and nothing is read from it where there are {own.kind}. Leave it "
            "out, or call it by another name"
        )
    return files


def _enter(own: OwnText) -> OwnText:
    """Read and register the text, and each further split as a task of its own."""
    kind = _KINDS[own.kind]
    splits = kind.read(own.folder, own.entry, _files_of(own))
    if "all" in splits:
        splits |= split_by_hash(splits.pop("all"), kind.splits)
    if missing := [split for split in kind.splits if not len(splits.get(split, ()))]:
        raise ValueError(
            f"it has no text for {', '.join(missing)}. Give text for each of "
            f"{', '.join(kind.splits)}"
        )
    if own.kind != "unit" and len(splits["test"]) == 1:
        raise ValueError("it has a single text for test, which has no interval. Give several")
    for split in [split for split in splits if split not in (*kind.splits, "train", "valid")]:
        name = split if own.kind == "labels" else f"{own.name}-{split}"
        _check_name(name, own.folder)
        _register(OwnText(name, own.folder, own.entry), {"test": splits.pop(split)}, name)
        own.others[split] = name
    _register(own, splits, own.entry.get("title", own.name))
    return own


def _register(own: OwnText, splits: Splits, title: str) -> None:
    kind, described = _KINDS[own.kind], own.entry[own.kind]
    further = {"metric": own.entry["metric"]} if "metric" in own.entry else {}
    kind.register[own.name] = kind.make(
        own.name,
        title,
        splits.copy,
        at_hand=partial(_checksums, own, splits),
        short=own.name,
        **{own.kind: str(described) if own.kind == "unit" else tuple(map(str, described))},
        **further,
    )
    OWN_TEXTS[own.name] = own


def _checksums(own: OwnText, splits: Splits) -> dict[str, str]:
    """Of each split's text, and of what its description says about labels and score."""
    described = json.dumps({name: own.entry.get(name) for name in ("labels", "metric")})
    sha256 = hashlib.sha256(described.encode()).hexdigest()
    return {**checksums_of(own.name, splits), f"{own.name}/task.yml": sha256}


def own_pairs() -> list[str]:
    """The names of the user's own translation tasks."""
    return [name for name, text in OWN_TEXTS.items() if text.kind == "languages"]
