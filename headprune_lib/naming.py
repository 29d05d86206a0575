"""Names: what was probably meant by one given by hand, and what pages call models and tasks."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown(what: str, given: str, known: Iterable[str]) -> str:
    """The message for a name that is not known, with the nearest ones.

    >>> unknown("task", "review", ["reviews", "amazon"])
    "unknown task 'review': did you mean reviews? Known: amazon, reviews"
    """
    known = sorted(known)
    near = difflib.get_close_matches(str(given), known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"unknown {what} {given!r}: {hint}Known: {', '.join(known) or 'none'}"


_SPELLED = {"minilm": "MiniLM", "mpnet": "MPNet", "sst2": "SST-2", "cola": "CoLA", "mrpc": "MRPC",
            "snli": "SNLI", "mnli": "MNLI", "sick": "SICK", "amazon": "Amazon", "nyt": "NYT"}


def spelled(name: str) -> str:
    """A model or a task as pages call it.

    >>> spelled("sst2"), spelled("reviews")
    ('SST-2', 'reviews')
    """
    return _SPELLED.get(name, name)
