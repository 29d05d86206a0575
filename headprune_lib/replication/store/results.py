"""Results: what a measurement found on a task with a model, how, and where it is kept.

A result is a file ``<measurement>/<task>.<model>.json`` (values, signatures, provenance) with one
``<task>.<model>.<part>.npz`` per part (the raw outcome of every example under every mask).
Most measurements have one part; a pruning curve has one for each order of removal, so that a new
order leaves the others alone. Values are computed from the outcomes of all parts: a change of
statistics never needs a new measurement, only a change of a part's signature does.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from headprune_lib.replication.lazy import torch
from headprune_lib.replication.paths import results_root
from headprune_lib.replication.store.files import (
    Arrays,
    locked,
    npz_arrays,
    npz_bytes,
    replace_files,
    set_aside,
)

OUTCOMES = "outcomes"
"""Name of a measurement's only part, or of its first training's."""


class ResultDamaged(ValueError):
    """A stored result cannot be read; its damaged files were set aside under other names."""


class Key(NamedTuple):
    """The measurement, task and model that identify a result."""

    measurement: str
    task: str
    model: str

    def path(self, root: Path | None = None) -> Path:
        """The path of the result's JSON file."""
        return (root or results_root()) / self.measurement / f"{self.task}.{self.model}.json"

    @classmethod
    def at(cls, path: Path) -> Key:
        """The key of a JSON file: the inverse of :meth:`path` with the root ``path.parents[1]``."""
        task, _, model = path.stem.partition(".")
        return cls(path.parent.name, task, model)


@dataclass(frozen=True)
class Measured:
    """The raw outcomes of a part that was measured, and what they were measured on."""

    raw: Arrays
    runs: list[dict[str, Any]]
    dataset: str
    n_examples: int
    metric: str
    unit: str


Outcomes = dict[str, Arrays]
"""The raw outcomes of every part, by the part's name."""


@dataclass
class Part:
    """Outcomes that were measured together.

    Attributes:
        signature: what they depend on, see :func:`make_signature`.
        runs: one entry per training: its seed and the hash of its weights.
        provenance: where and with what they were measured; every later rewrite with its date.
        arrays: the outcomes, stored in the .npz, or a function that reads them.
        raw_sha256: of that file.
    """

    signature: dict[str, Any]
    runs: list[dict[str, Any]]
    provenance: dict[str, Any]
    arrays: Arrays | Callable[[], Arrays] = field(default_factory=dict, repr=False)
    raw_sha256: str = ""

    @property
    def raw(self) -> Arrays:
        """The outcomes; those of a stored part are read on first access."""
        if callable(self.arrays):
            self.arrays = self.arrays()
        return self.arrays


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
        """The result's measurement, task and model."""
        return Key(self.measurement, self.task, self.model)

    @property
    def raw(self) -> Arrays:
        """The outcomes of the only part, or of the first training's if each training has a part.

        Raises KeyError for a measurement with a part for every order.
        """
        return self.parts[OUTCOMES].raw

    @property
    def provenance(self) -> dict[str, Any]:
        """The provenance of the part that was measured last."""
        return max((part.provenance for part in self.parts.values()), key=lambda one: one["date"])

    def to_json(self) -> str:
        """The text of the JSON file: sorted keys, one record or list of numbers per line.

        NaN and infinities become ``null``, since strict JSON lacks them. They can be told apart in
        the outcomes. Raises TypeError for a value that JSON cannot represent.
        """
        content = {
            name: plain(value, name) for name, value in vars(self).items() if name != "parts"
        }
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


def part_path(path: Path, part: str) -> Path:
    """The .npz file of a part, next to the JSON file ``path``."""
    return path.with_name(f"{path.stem}.{part.replace(' ', '-')}.npz")


def save(result: Result, root: Path | None = None) -> Path:
    """Write all files or none; returns the path of the JSON file.

    Sets each part's ``raw_sha256``. If writing fails, the previous files are still there.
    """
    path = result.key.path(root)
    files = {}
    for name, part in result.parts.items():
        content = npz_bytes(part.raw)
        part.raw_sha256 = hashlib.sha256(content).hexdigest()
        files[part_path(path, name)] = content
    # Outcomes first: after a kill in between, their hash in the old JSON no longer fits, which
    # `Part.raw` notices. The other way round, the new JSON would name outcomes that are not there.
    with locked(path):
        replace_files({**files, path: result.to_json().encode()})
    return path


def load(key: Key, root: Path | None = None, command: str = "") -> Result:
    """The stored result; outcomes are read, and checked against their SHA-256, on first access.

    So :attr:`Part.raw` may raise ResultDamaged too: only the part's file is then set aside, and the
    part is measured again when the result is next requested.

    Args:
        command: the command that measures it, for the error messages.

    Raises:
        FileNotFoundError: there is none.
        ResultDamaged: its JSON file is corrupt; its files are then kept as ``<name>.damaged-1``.
    """
    path = key.path(root)
    if not path.exists():
        advice = f". Measure it with: {command}" if command else ""
        raise FileNotFoundError(f"no stored result {path}{advice}")
    try:
        return _result(path, command)
    except _NOT_A_RESULT:
        pass  # or another process has just set it aside, and measured it again
    with locked(path):
        try:
            return _result(path, command)
        except _NOT_A_RESULT as error:
            every = [path, *sorted(path.parent.glob(f"{path.stem}.*.npz"))]
            raise _damaged(path, error, every, command) from error


_NOT_A_RESULT = (ValueError, TypeError, KeyError, AttributeError)


def _result(path: Path, command: str) -> Result:
    state = path.stat()
    content = dict(_content(path, state.st_mtime_ns, state.st_size))
    parts = {
        name: Part(**part, arrays=partial(_outcomes, path, name, part["raw_sha256"], command))
        for name, part in content.pop("parts").items()
    }
    return Result(**content, parts=parts)


@lru_cache(maxsize=1024)
def _content(path: Path, _modified: int, _size: int) -> dict[str, Any]:
    """The content of a JSON file; an unchanged file is read once per process."""
    return json.loads(path.read_bytes())


def _outcomes(path: Path, part: str, sha256: str, command: str) -> Arrays:
    """The arrays of a part of the result whose JSON file is ``path``."""
    try:
        return _read(part_path(path, part), sha256)
    except ValueError:
        pass  # or another process is writing the result's files, one after the other
    with locked(path):
        file = part_path(path, part)
        try:
            return _read(file, sha256)
        except ValueError as error:
            parts = json.loads(path.read_bytes())["parts"] if path.exists() else {}
            if parts.get(part, {}).get("raw_sha256", sha256) != sha256:
                raise ResultDamaged(
                    f"{file} was measured again since {path.name} was read. Read it again"
                ) from error
            raise _damaged(file, error, [file], command) from error


def _read(file: Path, sha256: str) -> Arrays:
    if not file.exists():
        raise ValueError("it is missing, and the .json names it")
    raw = file.read_bytes()
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise ValueError("its SHA-256 is not the one that the .json names")
    return npz_arrays(raw)


def _damaged(file: Path, error: Exception, aside: list[Path], command: str) -> ResultDamaged:
    """Set damaged files aside, and return the error to raise."""
    kept = ", ".join(str(path) for path in set_aside(*aside))
    advice = f". It was set aside as {kept}" if kept else ""
    advice += f". Measure it again with: {command}" if command else ""
    return ResultDamaged(f"{file} is damaged ({error}){advice}")


def stored(key: Key, root: Path | None = None) -> Result | None:
    """As :func:`load`, whatever the signature; None if there is no such result."""
    try:
        return load(key, root)
    except FileNotFoundError:
        return None


def find(measurement: str = "*", root: Path | None = None) -> list[Key]:
    """The keys of all stored results of a measurement (a glob pattern), in order of their paths."""
    paths = sorted((root or results_root()).glob(f"{measurement}/*.json"))
    return [Key.at(path) for path in paths if "." in path.stem]


# --- what a result depends on, and where it was measured ------------------------------------------


def make_signature(
    version: int,
    parameters: dict[str, Any],
    own: dict[str, Any],
    data: dict[str, str],
    weights: dict[str, str],
    recipe: dict[str, Any],
) -> dict[str, Any]:
    """The signature that a stored part must have to be used, with its SHA-256 ``digest``.

    Args:
        version: of the measurement; bumped by hand when its meaning changes.
        parameters: what all parts of the result depend on.
        own: what this part depends on in addition.
        data, weights: names of files -> their registered checksums.
        recipe: of the trainings.

    Raises:
        ValueError: a value that JSON cannot represent (NaN, a path, a tensor).
    """
    content = {
        "measurement": version,
        "parameters": parameters,
        "own": own,
        "data": data,
        "weights": weights,
        "recipe": recipe,
    }
    try:
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{content} cannot be a signature: {error}. Use finite numbers, text, lists and dicts"
        ) from error
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return {"digest": digest, **json.loads(canonical)}


def fingerprint(name: str, statistics: Any) -> str:
    """The fingerprint of the rules and constants that a measurement's values depend on.

    Args:
        name: of the measurement.
        statistics: all constants that its summary reads, a dataclass or a namespace.
    """
    content = json.dumps([name, statistics], sort_keys=True, allow_nan=False, default=vars)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


Device = tuple[str, str | None]
"""The kind of a device, such as ``"cuda"``, and its name if it is a GPU."""


def computing_on(device: str) -> Device:
    """The device that this process uses if ``device`` is asked for: the CPU if there is no GPU."""
    kind = torch.device(device).type
    if kind != "cuda":
        return kind, None
    return (
        (kind, torch.cuda.get_device_name(device)) if torch.cuda.is_available() else ("cpu", None)
    )


def provenance(
    command: str, seconds: float, devices: Iterable[Device] = (("cpu", None),)
) -> dict[str, Any]:
    """Where and with what a result was measured; not part of the signature.

    Args:
        devices: those that computed the result, see :func:`computing_on`.
    """
    kinds, gpus = zip(*devices, strict=True) if (devices := [*devices]) else ((), ())
    cpu = platform.processor() or platform.machine()
    if (info := Path("/proc/cpuinfo")).is_file():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    versions = {
        name: importlib.metadata.version(name)
        for name in ("torch", "transformers", "numpy", "scipy", "tokenizers")
    }
    return {
        "command": command,
        "device": ", ".join(sorted({*kinds})) or None,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "hardware": {
            "cpu": cpu,
            "cores": os.cpu_count(),
            "gpu": ", ".join(sorted({name for name in gpus if name})) or None,
        },
        "packages": versions,
        "python": platform.python_version(),
        "seconds": round(seconds, 1),
    }


# --- as text: plain values, and JSON with readable diffs ------------------------------------------


def plain(value: Any, where: str = "value") -> Any:
    """``value`` as stored in JSON: plain types, 6 significant digits, None for NaN and infinities.

    >>> plain({"p": 0.123456789, "gain": float("nan"), "at": (1, 2)})
    {'p': 0.123457, 'gain': None, 'at': [1, 2]}
    """
    if hasattr(value, "tolist"):  # numpy and torch, arrays and scalars
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        # Adding 0.0 turns -0.0 into 0.0: a sign that flips between machines is not a difference.
        return float(f"{value:.6g}") + 0.0 if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {str(key): plain(item, f"{where}.{key}") for key, item in value.items()}
    raise TypeError(f"{where} is a {type(value).__name__}. Use numbers, text, None, lists or dicts")


def layout(node: Any, depth: int = 0, in_list: bool = False) -> str:
    """JSON with sorted keys, and one record or list of numbers per line."""

    def scalars(items):
        return not any(isinstance(item, list | dict) for item in items)

    short = (
        scalars(node)
        if isinstance(node, list)
        else in_list
        and isinstance(node, dict)
        and all(
            scalars(item) if isinstance(item, list) else scalars([item]) for item in node.values()
        )
    )
    if short or not node or not isinstance(node, list | dict):
        return json.dumps(node, sort_keys=True, ensure_ascii=False, allow_nan=False)
    if isinstance(node, list):
        lines, ends = [layout(item, depth + 1, True) for item in node], "[]"
    else:
        lines, ends = (
            [
                f"{json.dumps(key, ensure_ascii=False)}: {layout(node[key], depth + 1)}"
                for key in sorted(node)
            ],
            "{}",
        )
    indent = "\n" + " " * (depth + 1)
    return ends[0] + indent + ("," + indent).join(lines) + "\n" + " " * depth + ends[1]
