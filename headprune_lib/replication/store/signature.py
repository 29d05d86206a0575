"""Signature and provenance: what a stored result depends on, and where it was measured."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headprune_lib.replication.lazy import torch


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
