"""Messages about unknown names, folders without a model, former names and errors."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def unknown(what: str, given: str, known: Iterable[str]) -> str:
    """The message for an unknown name, with the nearest known ones.

    >>> unknown("task", "review", ["reviews", "amazon"])
    "unknown task 'review': did you mean reviews? Known: amazon, reviews"
    >>> unknown("task", "x", ["reviews", "amazon"])
    "unknown task 'x'. Known: amazon, reviews"
    """
    known = sorted(known)
    near = difflib.get_close_matches(str(given), known, n=3, cutoff=0.4)
    hint = f": did you mean {' or '.join(near)}?" if near else "."
    return f"unknown {what} {given!r}{hint} Known: {', '.join(known) or 'none'}"


def check_folder(name: str, subfolder: str = "") -> None:
    """Raises FileNotFoundError for a missing folder or one without a model, not for a Hub name."""
    config = Path(name) / subfolder / "config.json"
    if Path(name).is_dir() and not config.is_file():
        raise FileNotFoundError(
            f"{config} is missing. Give a folder that save_pruned or save_pretrained has completed"
        )
    if not Path(name).is_dir() and (name.startswith((".", "/", "~")) or name.count("/") > 1):
        raise FileNotFoundError(f"no folder {name}")


def warn_of_former(name: str, new: str) -> None:
    """Warn that a name is a former one, at the line that calls the caller."""
    message = f"{name} is now called {new}. The former name will be removed in the next version"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def one_line(error: BaseException, most: int = 300) -> str:
    """An error's message on one line of at most ``most`` characters; its type if it is empty.

    >>> one_line(ValueError("no heads left")), one_line(KeyboardInterrupt())
    ('no heads left', 'KeyboardInterrupt')
    """
    return " ".join(str(error).split())[:most] or type(error).__name__


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch names it differently on each device."""
    message = f"{type(error).__name__} {error}"
    return "MemoryError" in message or "allocate memory" in message


@contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers' warnings (as of a new, intended head) and progress bars inside."""
    import transformers  # the command's own messages must not wait for it

    level = transformers.logging.get_verbosity()
    bars = transformers.logging.is_progress_bar_enabled()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)
        if bars:
            transformers.logging.enable_progress_bar()
