"""The finished units of a long measurement, kept so that a killed run resumes."""

from __future__ import annotations

import contextlib
import shutil
import time
import urllib.parse
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from headprune_lib.replication.store.files import (
    Arrays,
    locked,
    npz_arrays,
    npz_bytes,
    replace_files,
    set_aside,
)


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
