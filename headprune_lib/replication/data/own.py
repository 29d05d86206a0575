"""The user's own text: a folder with ``task.yml``, which says how to read it.

It is registered as a task of classification, of translation or of language models, whichever the
file describes: by its ``labels``, its ``languages`` or the ``unit`` of its passages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import yaml

from headprune_lib.messages import unknown
from headprune_lib.replication.data.classification import TASKS, Layout, Metric, Task
from headprune_lib.replication.data.parallel import TRANSLATION_TASKS, TranslationTask
from headprune_lib.replication.data.passages import LANGUAGE_TASKS, LanguageTask
from headprune_lib.replication.data.texts import (
    Texts,
    in_hash_order,
    read_lines,
    read_pairs,
    split_by_hash,
)
from headprune_lib.replication.paths import absolute

Splits = dict[str, Texts]


@dataclass(frozen=True, eq=False)
class OwnTask(Task):
    """The user's own classification task; no checksums of its text are registered."""

    def checksums(self, data: str | None = None) -> dict[str, str]:
        """Name -> checksum of each split."""
        return _checksums(self.name, self.load())


@dataclass(frozen=True)
class OwnText:
    """The text that a folder's ``task.yml`` describes, and the tasks it is registered as.

    Attributes:
        entry: the content of the file.
        others: further split -> the name of its own task, which serves as another domain.
    """

    name: str
    folder: Path
    entry: dict[str, Any] = field(default_factory=dict)
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
        n = len(TASKS[self.name].load()["train"])
        n_scoring = min(values["n_scoring"], n // 2)
        n_selection = min(values["n_selection"], n - n_scoring)
        sizes = {"n_scoring": n_scoring, "n_selection": n_selection, "n_examples": None}
        return {"domains": [*self.others.values()], **sizes, **given_values}


def _is_list(given: Any) -> bool:
    return isinstance(given, list) and not any(isinstance(each, list | dict) for each in given)


def _is_named(given: Any) -> bool:
    return isinstance(given, dict)


def _is_files(given: Any) -> bool:
    def is_some(one: Any) -> bool:
        return isinstance(one, str) or (_is_list(one) and all(isinstance(at, str) for at in one))

    return all(map(is_some, given.values() if isinstance(given, dict) else [given]))


_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "labels": (_is_list, "a list, such as [question, complaint]"),
    "languages": (_is_list, "a list, such as [de, en]"),
    "columns": (_is_named, "names, such as {label: kind, text: message}"),
    "profile": (_is_named, "names and values, such as {random_orders: 10}"),
    "files": (_is_files, "a file, a list of files, or either for each split"),
}
"""Entry of ``task.yml`` -> whether a value has its form, and the form in words."""
_COLUMNS = ("label", "text", "second")


def _check_forms(entry: Mapping[str, Any]) -> None:
    """Raises ValueError for an entry of another form, or a column that nothing reads."""
    for name, (fits, form) in _FORMS.items():
        if name in entry and not fits(entry[name]):
            raise ValueError(f"{name} is {entry[name]!r}. Give {form}")
    for column in entry.get("columns", {}):
        if column not in _COLUMNS:
            raise ValueError(unknown("column", column, _COLUMNS))


class _Kind(NamedTuple):
    """How to read a kind of text, the splits that it needs, and their shares of a single file."""

    register: dict[str, Any]
    read: Callable[[Path, dict[str, Any], dict[str, list[str]]], Splits]
    splits: dict[str, float]
    entries: tuple[str, ...] = ()


def _read_labelled(folder: Path, entry: dict[str, Any], files: dict[str, list[str]]) -> Splits:
    if any(isinstance(label, bool) for label in entry["labels"]):
        raise ValueError("YAML reads labels such as yes as True. Put them between quotes")
    if entry.get("metric", "accuracy") not in get_args(Metric):
        raise ValueError(unknown("metric", entry["metric"], get_args(Metric)))
    columns = {"label": "label", "text": "text", **entry.get("columns", {})}
    return Layout(files, columns).read(folder, [str(label).lower() for label in entry["labels"]])


def _read_translated(folder: Path, entry: dict[str, Any], files: dict[str, list[str]]) -> Splits:
    if len(entry["languages"]) != 2 or any(len(names) != 2 for names in files.values()):
        raise ValueError("expected two languages, and two files a split: text and translation")
    return {
        split: in_hash_order(read_pairs([folder / name for name in names]))
        for split, names in files.items()
    }


def _read_passages(folder: Path, _entry: dict[str, Any], files: dict[str, list[str]]) -> Splits:
    return {
        split: in_hash_order(
            Texts(
                tuple(
                    line.strip()
                    for name in names
                    for line in read_lines([folder / name])[0]
                    if line.strip()
                )
            )
        )
        for split, names in files.items()
    }


_KINDS: dict[str, _Kind] = {
    "labels": _Kind(TASKS, _read_labelled, {"train": 0.7, "test": 0.3}, ("columns", "metric")),
    "languages": _Kind(
        TRANSLATION_TASKS, _read_translated, {"score": 0.4, "valid": 0.2, "test": 0.4}
    ),
    "unit": _Kind(LANGUAGE_TASKS, _read_passages, {"train": 0.7, "test": 0.3}),
}
OWN_TEXTS: dict[str, OwnText] = {}
"""The user's own tasks registered so far; each is in the register of its kind as well."""


def own_text(data: str | None) -> OwnText | None:
    """Register the text of a folder's ``task.yml`` as a task; None if there is no such file.

    Args:
        data: a folder, or another value of the option ``data``.

    Raises:
        ValueError: the file does not describe a task, or its text is not laid out as it says.
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
    kinds = [kind for kind in _KINDS if kind in entry]
    entries = [each for kind in kinds or _KINDS for each in (kind, *_KINDS[kind].entries)]
    possible = {"name", "files", "title", "profile", *entries}
    if wrong := sorted(map(str, entry.keys() - possible)):
        raise ValueError(f"{file}: {unknown('entry', wrong[0], possible)}")
    missing = [each for each in ("name", "files") if not entry.get(each)]
    if missing or len(kinds) != 1 or not entry[kinds[0]]:
        lacks = f"has no {', no '.join(missing)}" if missing else "does not name one kind of task"
        raise ValueError(
            f"{file} {lacks}. Give a name, files, and one of labels (for a classifier), languages "
            "(for a translator) and unit (for the passages of a language model)"
        )
    _check_name(name, folder, file)
    try:
        text = _enter(OwnText(name, folder, entry))
    except ValueError as error:
        message = str(error)
        raise ValueError(
            message if message.startswith(str(folder)) else f"{file}: {message}"
        ) from error
    OWN_TEXTS[name] = text
    return text


def _check_name(name: str, folder: Path, file: Path) -> None:
    """Raises ValueError if a name is another task's, or not of letters, digits, ``_`` and ``-``."""
    is_taken = any(name in kind.register for kind in _KINDS.values())
    mine = name in OWN_TEXTS and OWN_TEXTS[name].folder == folder
    if (is_taken and not mine) or not re.fullmatch(r"[\w-]+", name):
        raise ValueError(
            f"{file}: a task cannot be called {name!r}. Give a free name of letters, digits, _, -"
        )


def _enter(own: OwnText) -> OwnText:
    """Read and register the text, and each further split as a task of its own."""
    _check_forms(own.entry)
    kind, files = _KINDS[own.kind], own.entry["files"]
    files = {"all": files} if isinstance(files, str | list) else files
    files = {split: [at] if isinstance(at, str) else at for split, at in files.items()}
    if missing := [at for each in files.values() for at in each if not (own.folder / at).is_file()]:
        raise ValueError(
            f"{own.folder / 'task.yml'} names {', '.join(missing)}, which {own.folder} does not have"
        )
    paths = [(own.folder / at).resolve() for each in files.values() for at in each]
    if twice := sorted({path.name for path in paths if paths.count(path) > 1}):
        raise ValueError(
            f"files has {', '.join(twice)} twice. Give each split text of its own, or one file"
        )
    if "valid" in files and "valid" not in kind.splits:
        raise ValueError(
            f"files has valid, and nothing is read from it where there are {own.kind}. Leave it "
            "out, or call it by another name"
        )
    splits = kind.read(own.folder, own.entry, files)
    if "all" in splits:
        splits |= split_by_hash(splits.pop("all"), kind.splits)
    if missing := [split for split in kind.splits if not len(splits.get(split, ()))]:
        raise ValueError(
            f"{own.folder / 'task.yml'} has no text for {', '.join(missing)}. Give text for each "
            f"of {', '.join(kind.splits)}"
        )
    others = {}
    for split in [split for split in splits if split not in (*kind.splits, "train", "valid")]:
        others[split] = split if own.kind == "labels" else f"{own.name}-{split}"
        _check_name(others[split], own.folder, own.folder / "task.yml")
        further = OwnText(others[split], own.folder, own.entry)
        kind.register[others[split]] = _task(further, {"test": splits.pop(split)}, others[split])
        OWN_TEXTS[others[split]] = further
    kind.register[own.name] = _task(own, splits, own.entry.get("title", own.name))
    return OwnText(own.name, own.folder, own.entry, others)


def _task(own: OwnText, splits: Splits, title: str) -> Task | TranslationTask | LanguageTask:
    """The text as a task of its kind's register."""
    entry, load, checksums = own.entry, partial(dict, splits), _checksums(own.name, splits)
    if own.kind == "labels":
        labels, metric = tuple(map(str, entry["labels"])), entry.get("metric", "accuracy")
        return OwnTask(own.name, title, labels, load, metric=metric)
    if own.kind == "languages":
        languages = tuple(map(str, entry["languages"]))
        return TranslationTask(
            own.name, title, languages, load, {}, checksums.copy, far="test", short=own.name
        )
    return LanguageTask(own.name, title, own.name, str(entry["unit"]), load, checksums)


def _checksums(name: str, splits: Splits) -> dict[str, str]:
    return {f"{name}/{split}": texts.sha256 for split, texts in splits.items()}


def own_pairs() -> list[str]:
    """The names of the user's own translation tasks."""
    return [name for name, text in OWN_TEXTS.items() if text.kind == "languages"]
