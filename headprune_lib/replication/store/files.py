"""Files that survive a kill: arrays with reproducible bytes, all-or-nothing writes, a journal."""

from __future__ import annotations

import bz2  # a Python without bz2 or lzma must fail here, not take results for damaged files
import contextlib
import io
import lzma
import os
import shutil
import sys
import tempfile
import time
import urllib.parse
import uuid
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

Arrays = dict[str, np.ndarray]


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays with a prefix added to their names."""
    return {f"{prefix}{name}": values for name, values in arrays.items()}


def unprefixed(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays whose names begin with a prefix, under their names without it."""
    return {
        name.removeprefix(prefix): values
        for name, values in arrays.items()
        if name.startswith(prefix)
    }


_held: ContextVar[frozenset[Path]] = ContextVar("_held", default=frozenset())
_SILENT = 10  # seconds of waiting before a message
_LEAST_FREE = 100_000_000  # bytes; a part of a result takes a few MB, a small checkpoint 100


def check_writable(*folders: Path) -> None:
    """Raises OSError if a folder cannot be made or written to, or its disk is almost full."""
    for folder in folders:
        nearest = next(each for each in (folder, *folder.parents) if each.exists())
        why = ""
        try:
            # permissions alone do not tell for every folder
            tempfile.TemporaryFile(dir=nearest).close()
            if (free := shutil.disk_usage(nearest).free) < _LEAST_FREE:
                why = f"{free / 1e6:.0f} MB are free, {_LEAST_FREE / 1e6:.0f} are needed"
        except OSError as error:
            why = error.strerror
        if why:
            raise OSError(
                f"{folder} cannot be written to ({why}). Give another folder, or set "
                "HEADPRUNE_RESULTS, HEADPRUNE_CACHE or HEADPRUNE_MODELS"
            )


def npz_bytes(arrays: Arrays) -> bytes:
    """The content of an .npz file, a third smaller than numpy's own, and the same bytes each time.

    It depends on neither the clock nor the order of the names. Raises ValueError for object arrays.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(arrays):
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.create_system = 3
            member.compress_type, content = _smallest(arrays[name])
            archive.writestr(member, content)
    return buffer.getvalue()


def _smallest(array: np.ndarray) -> tuple[int, bytes]:
    """The kind of compression and the .npy content, in C or Fortran order, that give fewest bytes.

    Neighbours along one axis of an outcome are often alike (an example under one mask after
    another), and which axis that is differs from array to array.
    """
    contents = []
    for order in ("C", "F"):
        content = io.BytesIO()
        np.lib.format.write_array(content, np.asarray(array, order=order), allow_pickle=False)
        contents.append(content.getvalue())
    # once if both orders are the same, as for vectors: most arrays in a journal
    sizes = {
        (kind, content): len(module.compress(content))
        for content in dict.fromkeys(contents)
        for kind, module in ((zipfile.ZIP_LZMA, lzma), (zipfile.ZIP_BZIP2, bz2))
    }
    return min(sizes, key=lambda way: sizes[way])


def npz_arrays(content: bytes) -> Arrays:
    """The arrays of an .npz file. Raises ValueError if it is corrupt, or holds pickled objects."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            # in C order however it was stored, so that sums over it do not differ by rounding
            return {name: np.asarray(archive[name], order="C") for name in archive.files}
    except Exception as error:  # zipfile, zlib and numpy each raise their own on arbitrary bytes
        raise ValueError(f"not a readable .npz: {error}") from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Inside, no other thread or process is inside ``locked`` of the same file or folder.

    The operating system releases the lock of a process that dies. An inner lock on the same path
    changes nothing. The hidden file ``.<name>.lock`` next to the path is never removed: removing it
    would let two processes in.
    """
    if path in _held.get():
        yield
        return
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    while not lock.is_locked:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=_SILENT)
        except Timeout:
            sys.stderr.write(f"waiting for another process to finish {path}\n")
            lock.acquire()
        except FileNotFoundError:  # the folder was removed meanwhile, as a finished journal is
            continue
    token = _held.set(_held.get() | {path})
    try:
        yield
    finally:
        _held.reset(token)
        lock.release()


def replace_files(files: dict[Path, bytes]) -> None:
    """Write all files or none: each is complete on disk before the first takes its place.

    A file that already has its content is left alone.
    """
    files = {
        path: content
        for path, content in files.items()
        if not path.exists() or path.read_bytes() != content
    }
    # hidden and uniquely named: two writers, on machines that share a folder, never share a file
    token = uuid.uuid4().hex[:12]
    staged = {path: path.with_name(f".{path.name}.{token}.tmp") for path in files}
    old: dict[Path, bytes | None] = {}
    path = Path()
    try:
        for path, temporary in staged.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(files[path])
                file.flush()
                os.fsync(file.fileno())
        for path, temporary in staged.items():
            previous = path.read_bytes() if path.exists() else None
            os.replace(temporary, path)
            old[path] = previous
    except BaseException as error:
        failed = path
        for path, content in old.items():
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content)
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise type(error)(
                error.errno, f"cannot be written ({error.strerror})", str(failed)
            ) from error
        raise
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


def set_aside(*paths: Path) -> list[Path]:
    """Rename files to ``<name>.damaged-1`` (``-2``, …), all with one number; returns the paths."""
    number = 1
    while any(path.with_name(f"{path.name}.damaged-{number}").exists() for path in paths):
        number += 1
    return [
        path.rename(path.with_name(f"{path.name}.damaged-{number}"))
        for path in paths
        if path.exists()
    ]


# --- the finished units of a long measurement -----------------------------------------------------


class UnitsFailed(RuntimeError):
    """Some units could not be computed; the others are in the journal.

    Args:
        title: of the sweep that the units belong to.
        failed: key of each unit -> why it failed.
        folder: of the journal.
    """

    def __init__(self, title: str, failed: Mapping[str, str], folder: Path):
        reasons = "; ".join(f"{key!r}: {why}" for key, why in failed.items())
        super().__init__(
            f"{len(failed)} of the units of {title!r} failed: {reasons}. The others are kept in "
            f"{folder}. Run the same command again to compute only what is missing"
        )
        self.failed = dict(failed)


class Journal:
    """The finished units of a long measurement, one file each, so that a killed run resumes.

    An existing folder belongs to a run that was interrupted, since :meth:`finish` removes it.
    So an interrupted fresh run resumes too, and a completed run is never mistaken for part of one.
    """

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self.resumed_seconds = 0.0  # spent on resumed units by earlier processes
        self._counted: set[str] = set()  # a unit may be asked for twice
        self._until = 0.0

    def lap(self) -> float:
        """Seconds since the last lap, and those of earlier processes for units resumed since.

        So the laps of parts that are measured side by side add up to the whole.
        """
        before, self._until = self._until, time.perf_counter() + self.resumed_seconds
        return self._until - before

    def unit(self, key: str, function: Callable[[], Arrays]) -> Arrays:
        """The arrays of unit ``key``: from the journal, or else from ``function()``.

        Whatever a unit depends on that is not in the signature (the hash of weights trained on this
        machine) belongs in the key. A damaged file is set aside, and the unit measured again.
        """
        if (kept := self._kept(key)) is not None:
            return kept
        with locked(self._path(key)):  # another run of the same measurement may be computing it
            if (kept := self._kept(key)) is not None:
                return kept
            start = time.perf_counter()
            arrays = {name: np.asarray(array) for name, array in function().items()}
            self.keep(key, arrays, time.perf_counter() - start)
            return arrays

    def _kept(self, key: str) -> Arrays | None:
        path = self._path(key)
        try:
            arrays = npz_arrays(path.read_bytes())
            seconds = float(arrays.pop("seconds of this unit"))
        except FileNotFoundError:
            return None
        except (KeyError, ValueError) as error:
            warnings.warn(
                f"{path} is damaged ({error}). It was set aside as "
                f"{', '.join(map(str, set_aside(path)))}, and this unit is measured again.",
                stacklevel=3,
            )
            return None
        if key not in self._counted:
            self.resumed_seconds += seconds
            self._counted.add(key)
        return arrays

    def keep(self, key: str, arrays: Arrays, seconds: float) -> None:
        """Write a unit that was computed during this run."""
        self.computed(key)
        content = npz_bytes({**arrays, "seconds of this unit": np.asarray(seconds)})
        # Another run of the same measurement may just have finished, and removed the folder.
        with contextlib.suppress(FileNotFoundError):
            replace_files({self._path(key): content})

    def computed(self, key: str) -> None:
        """Note that a unit was computed in this run: no earlier process spent its seconds."""
        self._counted.add(key)

    def done(self, key: str) -> bool:
        """Whether ``unit(key, …)`` would find its file (for a progress bar's estimate)."""
        return self._path(key).exists()

    def _path(self, key: str) -> Path:
        return self.folder / f"{urllib.parse.quote(key, safe='')}.npz"

    def finish(self) -> None:
        """Remove the journal; call it once the result is saved."""
        shutil.rmtree(self.folder, ignore_errors=True)
