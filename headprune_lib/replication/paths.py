"""Where the project keeps its files; environment variables move the folders it writes to."""

from __future__ import annotations

import os
from pathlib import Path


def project_root() -> Path:
    """The checkout that this library is part of, whatever the working directory."""
    return Path(__file__).resolve().parent.parent.parent


def absolute(path: str | Path) -> Path:
    """A path as the current folder and home make it: it holds in another folder, too."""
    return Path(path).expanduser().resolve()


def _folder(variable: str, default: Path) -> Path:
    # An empty variable counts as unset: `HEADPRUNE_RESULTS= make book` must not write to ".".
    value = os.environ.get(variable)
    return absolute(value) if value else default


def results_root() -> Path:
    """Result files, one folder a profile: ``$HEADPRUNE_RESULTS`` or ``data/results``."""
    return _folder("HEADPRUNE_RESULTS", project_root() / "data" / "results")


def bench_path(half: str = "encoder", folder: str = "") -> Path:
    """The figures of ``headprune bench``, beside the results; ``folder`` is the profile's."""
    return results_root() / folder / f"bench.{half}.json"


def models_root() -> Path:
    """Committed weights: ``$HEADPRUNE_MODELS`` or ``data/models``."""
    return _folder("HEADPRUNE_MODELS", project_root() / "data" / "models")


def cache_root() -> Path:
    """Journals and the weights of further seeds: ``$HEADPRUNE_CACHE`` or ``~/.cache/headprune``."""
    return _folder("HEADPRUNE_CACHE", Path.home() / ".cache" / "headprune")


def reference_root() -> Path:
    """Published values and those of independent reproductions: ``data/reference``."""
    return project_root() / "data" / "reference"
