"""Results: what a measurement found on a task with a model, how, and where it is kept.

A result is a folder entry ``<measurement>/<task>.<model>.json`` (values, signatures, provenance)
with one ``<task>.<model>.<part>.npz`` a part (the raw outcome of every example under every mask).
Most measurements have one part; a pruning curve has one for each order of removal, so that a new
order leaves the others alone. Values are computed from the outcomes of all parts: a change of
statistics never needs a new measurement, only a change of a part's signature does.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headprune_lib.replication.paths import results_root
from headprune_lib.replication.store.files import (
    Arrays,
    locked,
    npz_arrays,
    npz_bytes,
    replace_files,
    set_aside,
)
from headprune_lib.replication.store.text import layout, plain

OUTCOMES = "outcomes"
"""Name of the part of a measurement that has but one."""


class ResultDamaged(ValueError):
    """A stored result cannot be read; its files were set aside under another name."""


class Key(NamedTuple):
    """What a result is of."""

    measurement: str
    task: str
    model: str

    def path(self, root: Path | None = None) -> Path:
        """The JSON file."""
        return (root or results_root()) / self.measurement / f"{self.task}.{self.model}.json"


@dataclass(frozen=True)
class Measured:
    """What measuring a part gave: raw outcomes, and what they were measured on."""

    raw: Arrays
    runs: list[dict[str, Any]]
    dataset: str
    n_examples: int
    metric: str
    unit: str


Outcomes = dict[str, Arrays]
"""The raw outcomes of every part, by its name."""


@dataclass
class Part:
    """Outcomes that were measured together.

    Attributes:
        signature: what they depend on, see :func:`headprune_lib.replication.store.make_signature`.
        runs: one entry a training: its seed and the hash of its weights.
        provenance: where and with what they were measured; every later rewrite with its date.
        raw: the outcomes, kept in the .npz.
        raw_sha256: of that file.
    """

    signature: dict[str, Any]
    runs: list[dict[str, Any]]
    provenance: dict[str, Any]
    raw: Arrays = field(default_factory=dict, repr=False)
    raw_sha256: str = ""


@dataclass
class Result:
    """A measurement on a task with a model. Floats keep 6 significant digits in the file.

    Attributes:
        profile: the set of parameters that it was measured with.
        dataset: what it was measured on, such as ``sst2/test``.
        values: what pages show, computed from the parts' outcomes.
        statistics: fingerprint of the rules and constants that ``values`` depend on.
    """

    measurement: str
    task: str
    model: str
    profile: str
    dataset: str
    n_examples: int
    metric: str
    unit: str
    values: dict[str, Any]
    statistics: str
    parts: dict[str, Part]

    @property
    def key(self) -> Key:
        """What it is of."""
        return Key(self.measurement, self.task, self.model)

    @property
    def raw(self) -> Arrays:
        """The outcomes of the first training, of a measurement that has one part a training.

        Raises KeyError for one that has a part for every order.
        """
        return self.parts[OUTCOMES].raw

    @property
    def provenance(self) -> dict[str, Any]:
        """Of the part that was measured last."""
        return max((part.provenance for part in self.parts.values()), key=lambda one: one["date"])

    def to_json(self) -> str:
        """The text of the JSON file: sorted keys, one record or list of numbers a line.

        NaN and infinities become ``null``: strict JSON has no word for them. Whoever needs to tell
        them apart finds them in the outcomes. Raises TypeError for a value JSON cannot hold.
        """
        content = {name: plain(getattr(self, name), name) for name in _FIELDS if name != "parts"}
        content["parts"] = {
            name: {
                "runs": plain(part.runs, f"{name}.runs"),
                "provenance": plain(part.provenance, f"{name}.provenance"),
                "raw_sha256": part.raw_sha256,
                # Parameters must be readable as they were hashed, so they are not shortened.
                "signature": part.signature,
            }
            for name, part in self.parts.items()
        }
        return layout(content) + "\n"


_FIELDS = tuple(field.name for field in dataclasses.fields(Result))
_PART_FIELDS = {"signature", "runs", "provenance", "raw_sha256"}


def part_path(path: Path, part: str) -> Path:
    """The .npz file of a part, beside the JSON file ``path``."""
    return path.with_name(f"{path.stem}.{part.replace(' ', '-')}.npz")


def save(result: Result, root: Path | None = None) -> Path:
    """Write all files, whole or not at all; returns the path of the JSON file.

    Sets each part's ``raw_sha256``. When writing fails the files of before are still there.
    """
    path = result.key.path(root)
    files = {}
    for name, part in result.parts.items():
        content = npz_bytes(part.raw)
        part.raw_sha256 = hashlib.sha256(content).hexdigest()
        files[part_path(path, name)] = content
    # The raw outcomes first: killed between the two, the sum in the old JSON no longer fits, which
    # `load` notices; the other way round the new JSON would speak of outcomes that are not there.
    with locked(path):
        replace_files({**files, path: result.to_json().encode()})
    return path


def load(key: Key, root: Path | None = None, command: str = "") -> Result:
    """The stored result, its raw outcomes included.

    Args:
        command: what measures it, for the error messages.

    Raises:
        FileNotFoundError: there is none.
        ResultDamaged: its files are corrupt, truncated or do not belong together; they are then
            kept as ``<name>.damaged-1``.
    """
    path = key.path(root)
    if not path.exists():
        raise FileNotFoundError(f"no stored result {path}" + _with(command, "; measure it with: "))
    try:
        return _read(path)
    except ResultDamaged:
        pass  # or another process is writing its files, one after the other
    with locked(path):
        try:
            return _read(path)
        except ResultDamaged as error:
            kept = ", ".join(str(p) for p in set_aside(*_files(path)))
            raise ResultDamaged(
                f"{error}. Set aside as {kept}" + _with(command, "; it will be measured again by: ")
            ) from error


def _read(path: Path) -> Result:
    broken = path
    try:
        content = json.loads(path.read_bytes())
        _check(content)
        parts = {}
        for name, part in content.pop("parts").items():
            broken = part_path(path, name)
            parts[name] = Part(**part, raw=_outcomes(broken, part["raw_sha256"]))
        return Result(**content, parts=parts)
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError are among them
        raise ResultDamaged(f"{broken} is damaged ({error})") from error


def _with(command: str, before: str) -> str:
    return before + command if command else ""


def _check(content: Any) -> None:
    if not isinstance(content, dict) or set(content) != set(_FIELDS):
        raise ValueError(f"expected an object with the keys {', '.join(_FIELDS)}")
    if not all(isinstance(content[name], dict) for name in ("values", "parts")):
        raise ValueError("values and parts must be objects")
    broken = [name for name, part in content["parts"].items() if not _is_part(part)]
    if broken:
        raise ValueError(
            f"part {broken[0]} must be an object with the keys "
            f"{', '.join(sorted(_PART_FIELDS))}, signature and provenance objects"
        )


def _is_part(part: Any) -> bool:
    return (
        isinstance(part, dict)
        and set(part) == _PART_FIELDS
        and all(isinstance(part[name], dict) for name in ("signature", "provenance"))
    )


def _outcomes(path: Path, sha256: str) -> Arrays:
    if not path.exists():
        raise ValueError("missing; the .json needs it")
    raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise ValueError("its SHA-256 is not the one that the .json names")
    return npz_arrays(raw)


def _files(path: Path) -> list[Path]:
    return [path, *sorted(path.parent.glob(f"{path.stem}.*.npz"))]


def stored(key: Key, root: Path | None = None) -> Result | None:
    """As :func:`load`, None where there is no such result; whatever its signature."""
    try:
        return load(key, root)
    except FileNotFoundError:
        return None


def find(measurement: str = "*", root: Path | None = None) -> list[Key]:
    """The keys of all stored results of a measurement, found by looking; in order of their names."""
    found = []
    for path in sorted((root or results_root()).glob(f"{measurement}/*.json")):
        task, dot, model = path.stem.partition(".")
        if dot:
            found.append(Key(path.parent.name, task, model))
    return found
