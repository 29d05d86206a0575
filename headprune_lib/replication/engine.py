"""Where units of work run: one after the other, each finished one kept in a journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tqdm import tqdm

from headprune_lib.replication.store.files import Arrays
from headprune_lib.replication.store.journal import Journal

Unit = Callable[[], Arrays]
"""One mask, or one head of a sweep, on one set of examples."""


def run_units(units: Mapping[str, Unit], journal: Journal, title: str) -> dict[str, Arrays]:
    """The outcome of every unit, from the journal or computed now, with a bar and the time left.

    Args:
        units: by key; what a unit depends on and the journal's folder does not tell (the hash of
            weights trained on this machine) belongs in its key.
        title: of the progress bar.
    """
    todo = sum(not journal.done(key) for key in units)
    found = {}
    with tqdm(total=todo, desc=title, unit="part", disable=not todo) as bar:
        for key, unit in units.items():
            fresh = not journal.done(key)
            found[key] = journal.unit(key, unit)
            bar.update(fresh)
    return found
