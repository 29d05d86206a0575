"""The census: every model type of transformers, tiny and random, tested against every law.

Each is tested in a process of its own.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import resource
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from census.laws import LAWS, ask
from census.tiny import build
from headprune_lib.discovery import discovered
from headprune_lib.messages import one_line, quiet
from headprune_lib.specs import UnknownArchitecture

COLUMNS = ("model type", "class", "outcome", *LAWS, "kinds", "seconds")
"""Columns of the table: a type's outcome, its answer to each law, and its kinds of heads."""

PASSED, REFUSED, WITHOUT = "passed", "refused", "no attention"
NOT_BUILT, WRONG = "not built", "wrong"
Row = dict[str, str]


def model_types() -> list[str]:
    """Every type for which the installed transformers has a configuration, sorted by name."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return sorted(CONFIG_MAPPING_NAMES)


_JOBS, _SECONDS = 2, 90
_GIGABYTES = 6
"""Address space that a type may take beyond that of the parent process."""


def take(types: Iterable[str]) -> Iterator[Row]:
    """Yield one row per type, in their order, with two types at a time.

    Each is tested in a forked process, which is killed if it takes too long or too much memory.
    """
    context = multiprocessing.get_context("fork")
    waiting, running = list(types), {}
    while waiting or running:
        while waiting and len(running) < _JOBS:
            name = waiting.pop(0)
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_asked, args=(name, theirs))
            process.start()
            theirs.close()
            running[ours] = name, process
        # the oldest is waited for; the others go on meanwhile
        pipe = next(iter(running))
        name, process = running.pop(pipe)
        try:
            done = pipe.poll(_SECONDS)
            row = pipe.recv() if done else _not_built(name, f"more than {_SECONDS} s")
        except EOFError:
            row = _not_built(name, f"more than {_GIGABYTES} GB, or a crash")
        process.kill()
        process.join()
        yield row


def _asked(name: str, pipe: Connection) -> None:
    # A forked process has none of its parent's threads, and would wait for them.
    torch.set_num_threads(1)
    # A forked process begins with its parent's address space, whatever the parent has loaded.
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + _GIGABYTES * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    pipe.send(row_of(name))
    pipe.close()


@quiet()
def row_of(name: str) -> Row:
    """The outcome of one type; errors are recorded, not raised."""
    start = time.perf_counter()
    try:
        model = build(name)
    except Exception as error:
        return _not_built(name, _named(error))
    row, unasked = {"model type": name, "class": type(model).__name__}, list[str]()
    try:
        answers = ask(model, unasked)
        blocks, refused = discovered(model)
    except UnknownArchitecture as error:
        seen = str(error).partition("seen and refused: ")[2].partition(" Known: ")[0]
        if seen:
            return {**row, "outcome": f"{REFUSED}: {_short(seen)}"}
        return {**row, "outcome": WITHOUT}
    except Exception as error:
        if isinstance(error, LookupError) and not isinstance(error, IndexError | KeyError):
            return {**row, "outcome": f"{NOT_BUILT}: {_short(str(error))}"}
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return {**row, "outcome": f"{WRONG}: {_named(error)} ({where})"}
    kinds: dict[str, list[str]] = {}
    for block in blocks:
        kinds.setdefault(block.kind, []).append(str(block.n_heads))
    return {
        **row,
        "outcome": _outcome(answers, refused, unasked),
        **{law: _short(answer) for law, answer in answers.items()},
        "kinds": "; ".join(f"{kind} {'+'.join(heads)}" for kind, heads in kinds.items()),
        "seconds": f"{time.perf_counter() - start:.1f}",
    }


def _outcome(answers: Mapping[str, str], refused: Mapping[str, str], unasked: Sequence[str]) -> str:
    if any(answer.startswith("no: ") for answer in answers.values()):
        return WRONG
    if any(answer.startswith("refused: ") for answer in answers.values()):
        return f"{REFUSED} in part"
    if refused:
        reasons = "; ".join(dict.fromkeys(refused.values()))
        return f"{PASSED} in part: {len(refused)} modules not taken, {_short(reasons)}"
    if unasked:
        return f"{PASSED} in part: {_short(unasked[0])}"
    return PASSED


def _not_built(name: str, why: str) -> Row:
    return {"model type": name, "outcome": f"{NOT_BUILT}: {_short(why)}"}


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(error, 2000)}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 160 else f"{text[:159]}…"


def tally(rows: Iterable[Row]) -> dict[str, int]:
    """The number of types with each outcome, the most frequent first; reasons are left out."""
    counts = Counter(row["outcome"].partition(":")[0] for row in rows)
    return dict(counts.most_common())


def write(rows: Iterable[Row], path: Path) -> None:
    """Write the table as CSV, a line per type in order of names; the whole file, or nothing."""
    part = path.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: row["model type"]))
    part.replace(path)


def read(path: Path) -> list[Row]:
    """The rows that :func:`write` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
