"""What pages call models and tasks."""

from __future__ import annotations

from headprune_lib.replication.data import TASKS
from headprune_lib.replication.pretrained import BASES
from headprune_lib.replication.store import Result


def spelled(name: str) -> str:
    """A model or a task as pages call it: what its own entry says, else its name.

    >>> spelled("sst2"), spelled("mpnet"), spelled("reviews")
    ('SST-2', 'MPNet', 'reviews')
    """
    entry = TASKS.get(name) or BASES.get(name)
    return entry.short or name if entry else name


def setting(result: Result) -> str:
    """Model and task of a result as pages call them, such as ``MPNet, SST-2``."""
    return f"{spelled(result.model)}, {spelled(result.task)}"
