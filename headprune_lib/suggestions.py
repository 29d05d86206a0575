"""What was probably meant by a name that is not known."""

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
