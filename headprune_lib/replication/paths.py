"""Folders of the project's files; environment variables move those that it writes to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

# Marks of a checkout of this project; a folder that only contains the package has neither.
_MARKS = ("_toc.yml", "data/reference")

_apart: ContextVar[Path | None] = ContextVar("_apart", default=None)


class MissingCheckout(FileNotFoundError):
    """No checkout was found; an installed wheel has neither the data nor the notebooks."""


def project_root() -> Path:
    """The checkout with ``data/`` and ``notebooks/``, whatever the working directory.

    It is ``$HEADPRUNE_ROOT``, or the one that this library is part of, or, for a library installed
    from a wheel, the nearest one from the working directory upwards.

    Raises:
        MissingCheckout: there is none; the message says how to name it.
    """
    if named := os.environ.get("HEADPRUNE_ROOT"):
        if _is_checkout(folder := absolute(named)):
            return folder
        raise MissingCheckout(
            f"HEADPRUNE_ROOT is {folder}, which is not a checkout of headprune: it lacks "
            f"{' or '.join(_MARKS)}"
        )
    here = Path.cwd()
    for folder in (Path(__file__).resolve().parents[2], here, *here.parents):
        if _is_checkout(folder):
            return folder
    raise MissingCheckout(
        "no checkout of headprune was found (a folder with "
        f"{' and '.join(_MARKS)}). Run this inside one, or set HEADPRUNE_ROOT to one"
    )


def _is_checkout(folder: Path) -> bool:
    return all((folder / mark).exists() for mark in _MARKS)


def absolute(path: str | Path) -> Path:
    """The absolute path, with ``~`` expanded, which stays valid in another working directory."""
    return Path(path).expanduser().resolve()


def _named(variable: str) -> Path | None:
    # An empty variable counts as unset: `HEADPRUNE_RESULTS= make book` must not write to ".".
    value = os.environ.get(variable)
    return absolute(value) if value else None


def results_root() -> Path:
    """Result files, one folder per profile: ``$HEADPRUNE_RESULTS`` or ``data/results``."""
    return _named("HEADPRUNE_RESULTS") or project_root() / "data" / "results"


def bench_path(half: str = "encoder", folder: str = "") -> Path:
    """File of ``headprune bench``'s figures among the results; ``folder`` is the profile's."""
    return results_root() / folder / f"bench.{half}.json"


def models_root() -> Path:
    """Committed weights: ``$HEADPRUNE_MODELS`` or ``data/models``."""
    if apart := _apart.get():
        return apart / "committed"  # a folder that is never created
    return _named("HEADPRUNE_MODELS") or project_root() / "data" / "models"


def cache_root() -> Path:
    """Journals and the weights of further seeds: ``$HEADPRUNE_CACHE`` or ``~/.cache/headprune``."""
    return _named("HEADPRUNE_CACHE") or Path.home() / ".cache" / "headprune"


def trained_root() -> Path:
    """Checkpoints and weights trained here: the cache, or the folder of :func:`trained_apart`."""
    return _apart.get() or cache_root()


@contextmanager
def trained_apart(folder: Path) -> Iterator[None]:
    """Within the context, train and look for models only in ``folder``, not among committed ones.

    A training can thus be repeated without touching the weights that something was measured on.
    """
    token = _apart.set(folder)
    try:
        yield
    finally:
        _apart.reset(token)


def reference_root() -> Path:
    """Published values and those of independent reproductions: ``data/reference``."""
    return project_root() / "data" / "reference"
