"""A result as it is asked for: the stored one where it fits, and what is missing measured."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headprune_lib.replication.store.files import Arrays, locked
from headprune_lib.replication.store.results import (
    Key,
    Part,
    Result,
    ResultDamaged,
    load,
    part_path,
    save,
)
from headprune_lib.replication.store.text import plain


@dataclass(frozen=True)
class Measured:
    """What measuring a part gave: raw outcomes, and what they were measured on."""

    raw: Arrays
    runs: list[dict[str, Any]]
    dataset: str
    n_examples: int
    metric: str
    unit: str


Outcomes = dict[str, Arrays]
"""The raw outcomes of every part, by its name."""


@dataclass(frozen=True)
class Wanted:
    """A result as it is asked for.

    Attributes:
        signatures: of the parts that it must have, by name.
        statistics: fingerprint of what ``summarise`` depends on besides the outcomes.
        measure: gives a part; ``(name) -> (Measured, provenance)``.
        summarise: ``(outcomes, runs of the parts) -> values``, without model or data.
        command: what measures it, for messages.
        check: raises where a stored part, though its signature fits, must not be used.
        begin: told the names of the parts to be measured, before the first of them is.
    """

    key: Key
    profile: str
    signatures: Mapping[str, dict[str, Any]]
    statistics: str
    measure: Callable[[str], tuple[Measured, dict[str, Any]]]
    summarise: Callable[[Outcomes, dict[str, list[dict[str, Any]]]], dict[str, Any]]
    command: str = ""
    check: Callable[[str, Part], None] = lambda _name, _part: None
    begin: Callable[[list[str]], None] = lambda _missing: None


def obtain(wanted: Wanted, *, fresh: bool = False, root: Path | None = None) -> Result:
    """The stored result if the signatures of its parts match; what is missing is measured and saved.

    Stored parts that are not asked for stay, if they were measured on the same examples. If only
    the statistics changed, values are computed anew from the stored outcomes. A damaged result, or a
    part of it, is set aside with a warning and measured again. ``fresh`` measures all parts that are
    asked for. The result is returned as read back, so that a page does not differ between the
    machine that measured and the next.
    """
    kept = _kept(wanted, root)
    parts = _usable(kept, wanted, fresh, root) if kept else {}
    missing = [name for name in wanted.signatures if name not in parts]
    if (
        kept
        and not missing
        and set(parts) == set(kept.parts)
        and (kept.statistics == wanted.statistics)
    ):
        return kept
    parts = _readable(parts)
    missing = [name for name in wanted.signatures if name not in parts]
    about = kept and {name: getattr(kept, name) for name in _ABOUT}
    measured = {}
    if missing:
        wanted.begin(missing)
    for name in missing:
        found, provenance = wanted.measure(name)
        measured[name] = Part(
            wanted.signatures[name], plain(found.runs, "runs"), provenance, found.raw
        )
        about = {name: getattr(found, name) for name in _ABOUT}
    # Another process may have stored parts since, or be about to: nobody else stores this result
    # between our reading it again and our having saved it.
    with locked(wanted.key.path(root)):
        if kept := _kept(wanted, root):
            parts |= _readable(_usable(kept, wanted, fresh, root))
            for name in measured.keys() & kept.parts.keys():
                measured[name].provenance = again(measured[name].provenance, kept.parts[name])
        parts |= measured
        parts = {
            name: parts[name]
            for name in sorted(parts, key=list(dict.fromkeys([*wanted.signatures, *parts])).index)
        }
        values = wanted.summarise(
            {name: part.raw for name, part in parts.items()},
            {name: part.runs for name, part in parts.items()},
        )
        save(
            Result(
                *wanted.key,
                profile=wanted.profile,
                values=values,
                statistics=wanted.statistics,
                parts=parts,
                **about,
            ),
            root,
        )
        return load(wanted.key, root)


def again(provenance: dict[str, Any], before: Part) -> dict[str, Any]:
    """The provenance of a part that takes the place of one by the same name.

    It says when that was measured first: what was seen then has been seen.
    """
    first = before.provenance.get("first_measured", before.provenance["date"])
    return {**provenance, "first_measured": first}


_ABOUT = ("dataset", "n_examples", "metric", "unit")


def _kept(wanted: Wanted, root: Path | None) -> Result | None:
    try:
        return load(wanted.key, root, wanted.command)
    except FileNotFoundError:
        return None
    except ResultDamaged as error:
        warnings.warn(str(error), stacklevel=3)
        return None


def _usable(kept: Result, wanted: Wanted, fresh: bool, root: Path | None) -> dict[str, Part]:
    """The stored parts that can stay."""
    shared = [_shared(signature) for signature in wanted.signatures.values()]
    usable = {}
    for name, part in kept.parts.items():
        if name in wanted.signatures:
            digest = wanted.signatures[name]["digest"]
            usable[name] = not fresh and part.signature.get("digest") == digest
        else:
            usable[name] = all(_shared(part.signature) == one for one in shared)
    path = wanted.key.path(root)
    found = {
        name: part
        for name, part in kept.parts.items()
        if usable[name] and part_path(path, name).exists()  # or it was damaged, and set aside
    }
    for name, part in found.items():
        wanted.check(name, part)
    return found


def _readable(parts: Mapping[str, Part]) -> dict[str, Part]:
    """The parts whose outcomes can be read; those of the others are set aside, with a warning."""
    found = {}
    for name, part in parts.items():
        try:
            _ = part.raw
        except ResultDamaged as error:
            warnings.warn(str(error), stacklevel=4)
        else:
            found[name] = part
    return found


def _shared(signature: Mapping[str, Any]) -> list[Any]:
    """What the parts of one result have in common: parameters, text and pretrained weights."""
    return [signature.get(name) for name in ("measurement", "parameters", "data", "weights")]
