"""Results: what a measurement found, how it was made, and where it is kept.

A result is a pair of files, ``<artifact>.json`` (values, runs, signature, provenance) and
``<artifact>.npz`` (the raw outcome of every example under every mask). A change of statistics is
computed again from the raw outcomes; only a change of the signature needs a new measurement::

    result = obtain("figure1b", "default", "reviews", signature, STATISTICS, measure, summarise)
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from . import profiles
from .journal import Arrays, Journal, npz_arrays, npz_bytes, replace_files, set_aside
from .naming import spelled
from .paths import cache_root, results_root


class ResultDamaged(ValueError):
    """A stored result cannot be read; its files were set aside under another name."""


@dataclass
class Result:
    """One table or figure, measured. Floats keep 6 significant digits in the file.

    ``runs`` has one entry a seed, ``raw`` the outcomes that ``values`` were computed from (kept in
    the .npz), ``statistics`` the version of the code that computed ``values`` from ``raw``.
    """

    artifact: str
    profile: str
    task: str
    model: str
    dataset: str
    n_examples: int
    metric: str
    unit: str
    runs: list[dict[str, Any]]
    values: dict[str, Any]
    signature: dict[str, Any]
    provenance: dict[str, Any]
    statistics: int = 1
    raw_sha256: str = ""
    raw: Arrays = field(default_factory=dict, repr=False)

    @property
    def setting(self) -> str:
        """Model and task as pages call them, such as ``MPNet, SST-2``."""
        return f"{spelled(self.model)}, {spelled(self.task)}"

    def to_json(self) -> str:
        """The text of the JSON file: sorted keys, one record or list of numbers a line.

        NaN and infinities become ``null``: strict JSON has no word for them. Whoever needs to tell
        them apart finds them in ``raw``. Raises TypeError for a value JSON cannot hold.
        """
        content = {name: plain(getattr(self, name), name) for name in _JSON_FIELDS}
        # Parameters must be readable as they were hashed, so they are not shortened.
        content["signature"] = self.signature
        return _layout(content) + "\n"


_JSON_FIELDS = tuple(f.name for f in fields(Result) if f.name != "raw")


@dataclass
class Measurement:
    """What ``measure`` hands to :func:`obtain`: raw outcomes, and what they were measured on."""

    raw: Arrays
    runs: list[dict[str, Any]]
    model: str
    dataset: str
    n_examples: int
    metric: str
    unit: str
    weights_sha256: str | dict[str, str] | None = None


# --- text -----------------------------------------------------------------------------------------


def plain(value: Any, where: str = "value") -> Any:
    """``value`` as JSON holds it: plain types, 6 significant digits, None for NaN and infinities.

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
    raise TypeError(f"{where} is a {type(value).__name__}; a result holds numbers, text, "
                    "None, lists and dicts")


def _layout(node: Any, depth: int = 0, in_list: bool = False) -> str:
    def scalars(items):
        return not any(isinstance(item, list | dict) for item in items)

    short = scalars(node) if isinstance(node, list) else in_list and isinstance(node, dict) and all(
        scalars(item) if isinstance(item, list) else scalars([item]) for item in node.values())
    if short or not node or not isinstance(node, list | dict):
        return json.dumps(node, sort_keys=True, ensure_ascii=False, allow_nan=False)
    if isinstance(node, list):
        lines, ends = [_layout(item, depth + 1, True) for item in node], "[]"
    else:
        lines, ends = [f"{json.dumps(key, ensure_ascii=False)}: {_layout(node[key], depth + 1)}"
                       for key in sorted(node)], "{}"
    indent = "\n" + " " * (depth + 1)
    return ends[0] + indent + ("," + indent).join(lines) + "\n" + " " * depth + ends[1]


def make_signature(measurement_version: int, parameters: dict[str, Any], data: dict[str, str],
                   weights: dict[str, str], recipe: dict[str, Any]) -> dict[str, Any]:
    """What a stored result must agree with to be used, and its SHA-256 ``digest``.

    ``data`` and ``weights`` map file names to registered checksums, ``recipe`` is the training
    recipe. Raises ValueError for what JSON cannot hold (NaN, a path, a tensor).
    """
    content = {"measurement": measurement_version, "parameters": parameters, "data": data,
               "weights": weights, "recipe": recipe}
    try:
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"a signature holds finite numbers, text, lists and dicts: {error}; "
                         f"given {content}") from error
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    return {"digest": digest, **json.loads(canonical)}


def provenance(command: str, weights_sha256: str | dict[str, str] | None,
               seconds: float) -> dict[str, Any]:
    """Where and with what a result was measured; not part of the signature."""
    cpu = platform.processor() or platform.machine()
    if (info := Path("/proc/cpuinfo")).is_file():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    versions = {name: importlib.metadata.version(name)
                for name in ("torch", "transformers", "numpy", "scipy", "tokenizers")}
    return {
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "hardware": {"cpu": cpu, "cores": os.cpu_count(),
                     "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None},
        "packages": versions,
        "python": platform.python_version(),
        "seconds": round(seconds, 1),
        "weights_sha256": weights_sha256,
    }


# --- files ----------------------------------------------------------------------------------------


def result_path(artifact: str, profile: str, task: str | None = None,
                root: Path | None = None) -> Path:
    """The JSON file of a result; ``task=None`` is the profile's main task."""
    suffix = "" if task is None or task in profiles.main_tasks(profile, artifact) else f".{task}"
    return (root or results_root()) / profile / f"{artifact}{suffix}.json"


def _command(artifact: str, profile: str, path: Path, task: str | None) -> str:
    """What measures a result; its file names the task where it is not the profile's main one."""
    command = f"headprune reproduce {artifact} --profile {profile}"
    return command if path.name == f"{artifact}.json" else f"{command} --task {task}"


def save(result: Result, root: Path | None = None) -> Path:
    """Write the pair of files, whole or not at all; returns the path of the JSON file.

    Sets ``result.raw_sha256``. When writing fails the files of before are still there.
    """
    path = result_path(result.artifact, result.profile, result.task, root)
    content = npz_bytes(result.raw)
    result.raw_sha256 = hashlib.sha256(content).hexdigest()
    # The raw outcomes first: killed between the two, the sum in the old JSON no longer fits, which
    # `load` notices; the other way round the new JSON would speak of outcomes that are not there.
    replace_files({path.with_suffix(".npz"): content, path: result.to_json().encode()})
    return path


def load(artifact: str, profile: str, task: str | None = None, root: Path | None = None) -> Result:
    """The stored result, its raw outcomes included. ``task=None``: the profile's main task.

    Raises FileNotFoundError if there is none, and ResultDamaged if its files are corrupt,
    truncated or do not belong together; these are then kept as ``<name>.damaged-1``.
    """
    path = result_path(artifact, profile, task, root)
    command = _command(artifact, profile, path, task)
    if not path.exists():
        raise FileNotFoundError(f"no stored result {path}; measure it with: {command}")
    raw_path = path.with_suffix(".npz")
    broken = path
    try:
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict) or set(content) != set(_JSON_FIELDS):
            raise ValueError(f"expected an object with the keys {', '.join(_JSON_FIELDS)}")
        if not all(isinstance(content[k], dict) for k in ("values", "signature", "provenance")):
            raise ValueError("values, signature and provenance must be objects")
        broken = raw_path
        if not raw_path.exists():
            raise ValueError("missing; the .json needs it")
        raw = raw_path.read_bytes()
        if hashlib.sha256(raw).hexdigest() != content["raw_sha256"]:
            raise ValueError("its SHA-256 is not the one that the .json names")
        return Result(**content, raw=npz_arrays(raw))
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError are among them
        kept = ", ".join(str(p) for p in set_aside(path, raw_path))
        raise ResultDamaged(f"{broken} is damaged ({error}). Set aside as {kept}; it will be "
                            f"measured again by: {command}") from error


def stored(artifact: str, profile: str, task: str | None = None) -> Result | None:
    """As :func:`load`, None where there is no such result; whatever its signature."""
    try:
        return load(artifact, profile, task)
    except FileNotFoundError:
        return None


# --- measuring ------------------------------------------------------------------------------------


def obtain(artifact: str, profile: str, task: str, signature: dict[str, Any],
           statistics_version: int, measure: Callable[[Journal], Measurement],
           summarise: Callable[[Arrays, list[dict[str, Any]]], dict[str, Any]],
           fresh: bool = False, command: str = "", root: Path | None = None) -> Result:
    """The stored result if its signature matches, otherwise a new one, measured and saved.

    If only the statistics changed, ``summarise(raw, runs)`` computes the values anew from the
    stored outcomes. A damaged result is set aside with a warning and measured again. ``fresh``
    measures in any case. The result is returned as read back, so that a page does not differ
    between the machine that measured and the next. ``command`` goes to the provenance.
    """
    kept = None
    if not fresh:
        try:
            kept = load(artifact, profile, task, root)
        except FileNotFoundError:
            pass
        except ResultDamaged as error:
            warnings.warn(str(error), stacklevel=2)
    if kept is not None and kept.signature.get("digest") == signature["digest"]:
        if kept.statistics != statistics_version:
            kept.values = summarise(kept.raw, kept.runs)
            kept.statistics = statistics_version
            save(kept, root)
            kept = load(artifact, profile, task, root)
        return kept

    path = result_path(artifact, profile, task)
    journal = Journal(cache_root() / "journals" / profile / f"{path.stem}-{signature['digest'][:16]}")
    start = time.perf_counter()
    found = measure(journal)
    seconds = time.perf_counter() - start + journal.resumed_seconds
    runs = plain(found.runs, "runs")  # as a later change of statistics will see them
    result = Result(
        artifact, profile, task, found.model, found.dataset, found.n_examples, found.metric,
        found.unit, runs, summarise(found.raw, runs), signature,
        provenance(command or _command(artifact, profile, path, task),
                   found.weights_sha256, seconds), statistics_version, raw=found.raw)
    save(result, root)
    journal.finish()
    return load(artifact, profile, task, root)
