"""Measure a result's parts again, on the very weights, and on as many texts as minutes allow.

What measures a part is the measurement itself (:attr:`Measurement.measure`), with a profile as the
stored one's: so nothing here knows what a part holds. Texts are drawn; an axis that is shorter than
the stored one is that of the texts.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from headprune_lib.replication import store
from headprune_lib.replication.data import MissingData
from headprune_lib.replication.lazy import setups
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.base import Context
from headprune_lib.replication.measurements.halves import HALF_OF, half_of
from headprune_lib.replication.measurements.obtaining import OtherWeights, results_folder, sha256_of
from headprune_lib.replication.models.pretrained import LANGUAGE_MODELS
from headprune_lib.replication.paths import models_root
from headprune_lib.replication.profiles import Profile, load_profile
from headprune_lib.replication.store import Arrays, Journal, Key, Measured, Part, Result
from headprune_lib.replication.titles import setting
from headprune_lib.replication.verification.compare import (
    OVER_TEXTS,
    Quantity,
    compared,
    means_follow,
)

OUTCOMES = {"encoder": 16_000, "translation": 2_048, "language": 200}
"""How many outcomes of a mask on a text are measured again of a part, if its masks allow."""
LEAST = {"encoder": 16, "translation": 16, "language": 4}
"""Texts in any case."""


class NotAtHand(FileNotFoundError):
    """The weights of a result, or its text, are not here; the message says which."""


def found_again(
    result: Result,
    profile: Profile,
    folder: Path,
    *,
    drawn_seed: int = 0,
    n_texts: int | None = None,
) -> list[Quantity]:
    """What every part gives that is measured again, of the trainings at hand.

    Args:
        profile: that the result was measured with; nothing is trained.
        folder: of journals, which are gone afterwards.
        drawn_seed: what texts are drawn with.
        n_texts: of each set, at most; as many as :data:`OUTCOMES` allows if None.

    Raises:
        NotAtHand: no part's weights, or their text, are here; the message says why the first is not.
        OtherWeights: committed weights are not those that it was measured on.
    """
    quantities, reasons = [], []
    drawn = _drawn(result, drawn_seed, n_texts)
    journals = {rows: Journal(folder / f"{rows.seed} {rows.most}") for rows in drawn.values()}
    for name, part in result.parts.items():
        reason, *others = (missing(result, run, profile) for run in part.runs)
        if reason:  # of a part with several runs the first one gives more than a row
            reasons.append(reason)
            continue
        chosen = [0, *(i for i, other in enumerate(others, 1) if not other)]
        rows = drawn[name]
        try:
            quantities += _compared(result, name, chosen, profile, journals[rows], rows)
        except MissingData as error:
            reasons.append(f"a text that {result.measurement} reads is not here ({error})")
    if not quantities:
        raise NotAtHand(reasons[0])
    Journal(folder).finish()  # with those inside
    return quantities


def profile_of(result: Result) -> Profile:
    """The profile that a committed result was measured with, on its task with its model."""
    names = {
        "encoder": {"task": result.task, "model": result.model},
        "translation": {"translation_model": result.model},
        "language": {"language_task": result.task, "language_model": result.model},
    }
    return load_profile(result.profile, **names[half_of(result.key)])


@dataclass(frozen=True)
class _Rows:
    """Positions of ``most`` texts, at most, that are drawn of any number; each process the same."""

    seed: int
    most: int

    def __call__(self, n: int) -> Sequence[int]:
        if n <= self.most:
            return range(n)
        return sorted(random.Random(f"{self.seed} {n}").sample(range(n), self.most))


def _drawn(result: Result, seed: int, n_texts: int | None) -> dict[str, _Rows]:
    """The texts of each part: all, or as many as the part with the most masks allows.

    Parts with the same texts share a journal, and what it knows of the model.
    """
    half = half_of(result.key)
    several = {name: n_texts or _n_texts(half, part) for name, part in result.parts.items()}
    enough = [n for n in several.values() if n >= result.n_examples]
    return {
        name: _Rows(seed, min(enough if n >= result.n_examples else several.values()))
        for name, n in several.items()
    }


def _n_texts(half: str, part: Part) -> int:
    """How many texts a part is measured on again: fewer, the more masks it has."""
    masks = [1]
    for name, values in part.raw.items():
        if any(word in name for word in ("correct", "counts", "loss")):
            masks.append(int(np.prod(values.shape[: -2 if "counts" in name else -1])))
    return max(LEAST[half], OUTCOMES[half] // max(masks))


# --- the weights at hand --------------------------------------------------------------------------


def missing(result: Result, run: dict[str, Any], profile: Profile) -> str:
    """Why the weights of a result's run are not at hand; empty where they are.

    Args:
        run: seed and hash of a training, with the epoch or update if within it.

    Raises:
        OtherWeights: the committed weights are not those that it was measured on.
    """
    half = half_of(result.key)
    if half == "language":
        model = LANGUAGE_MODELS[result.model]
        return "" if model.at_hand else f"{model.title} was not fetched here"
    if "weights_sha256" not in run:
        return f"the weights behind {result.measurement} were scored and not committed"
    try:
        path = HALF_OF[half].weights_at_hand(profile, result.task, run)
    except MissingData:
        return f"the text of {result.task} is not here: name its folder in HEADPRUNE_DATA"
    if path is None:
        within = [f", after {name} {run[name]}" for name in ("epoch", "update") if name in run]
        which = f"{setting(result)}, seed {run['seed']}{''.join(within)}"
        return f"the weights of {which}, are not committed"
    if (digest := sha256_of(path)) == run["weights_sha256"]:
        return ""
    message = (
        f"{path} has SHA-256 {digest}, {result.measurement} of {setting(result)} was measured "
        f"on {run['weights_sha256']}"
    )
    if path.parent == models_root():
        raise OtherWeights(message)
    return f"{message}, which is not committed"


# --- measuring again ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Again(Context):
    """What measuring a part again may use.

    Attributes:
        stored: its outcomes, of the trainings at hand; empty where it goes on from its own.
        computed: what was computed of those that it goes on from.
        taken: names of those that it took without computing them.
    """

    stored: Arrays = dataclasses.field(default_factory=dict)
    computed: Arrays = dataclasses.field(default_factory=dict)
    taken: set[str] = dataclasses.field(default_factory=set)

    def settled(
        self, names: Sequence[str], compute: Callable[[], Arrays], *, costly: bool = False
    ) -> Arrays:
        """The stored outcomes of these names; see :meth:`Context.settled`."""
        known = {
            name: values
            for name, values in self.stored.items()
            if any(fnmatchcase(name, pattern) for pattern in names)
        }
        if costly and known:
            self.taken.update(known)
            return known
        arrays = compute()
        self.computed.update(arrays)
        for name in known.keys() & arrays.keys():  # of some results the first run's alone
            if known[name].ndim and len(known[name]) < len(arrays[name]):
                known[name] = np.concatenate([known[name], arrays[name][len(known[name]) :]])
        return arrays | known


def measured_again(
    result: Result,
    name: str,
    own: Sequence[int],
    profile: Profile,
    journal: Journal,
    stored: Arrays,
) -> tuple[Again, Measured]:
    """A part that is measured again on some of its runs; what it needs is taken as it is stored.

    Args:
        own: places of the runs.
        stored: outcomes that measuring goes on from, in place of what it computes.
    """
    half, measurement = half_of(result.key), MEASUREMENTS[result.measurement]
    part, root = result.parts[name], results_folder(profile)
    if len(part.runs) > 1:
        profile = dataclasses.replace(profile, seeds=[part.runs[i]["seed"] for i in own])

    def get(needed: str, _parts: Sequence[str] | None = None) -> Result:
        return store.load(Key(needed, result.task, result.model), root)

    context = Again(half, profile, result.task, journal, get, stored)
    return context, measurement.measure(context, name)


def _compared(
    result: Result, name: str, chosen: list[int], profile: Profile, journal: Journal, rows: _Rows
) -> Iterator[Quantity]:
    """A part beside itself, measured again on some texts."""
    part = result.parts[name]
    stored = own_rows(part, chosen)
    with setups.on_some_texts(rows):
        context, measured = measured_again(result, name, chosen, profile, journal, stored)
    runs, computed = [part.runs[i] for i in chosen], measured.raw | context.computed
    for what, values in stored.items():  # of some results the first run's alone
        if len(chosen) > 1 and what in computed and values.shape[:1] == (1,):
            computed[what] = computed[what][:1]
    sliced = {what: _on_rows(values, computed.get(what), rows) for what, values in stored.items()}
    of_all = all(sliced[what].shape == stored[what].shape for what in stored)
    left_out = [] if of_all else [what for what in stored if OVER_TEXTS.search(what)]
    differences = compared(
        {what: values for what, values in sliced.items() if what not in left_out},
        computed,
        passages=half_of(result.key) == "language",
    )
    if store.plain(measured.runs, "runs") != runs:
        yield Quantity(f"{name}: trainings", str(runs), str(measured.runs), "equal", agrees=False)
    agreeing = [
        what for what, offs in differences.items() if all(difference.agrees for difference in offs)
    ]
    for what in [what for what in differences if what not in agreeing]:
        differing = "; ".join(
            str(difference) for difference in differences[what] if not difference.agrees
        )
        yield Quantity(f"{name}: {what}", "", f"differs by {differing}", "", agrees=False)
    off = {
        what: [str(difference) for difference in differences[what] if difference.off]
        for what in agreeing
    }
    same = sum(not differing for differing in off.values())
    remarks = [f"{same} arrays the same"] if same else []
    remarks += [
        f"{what} off by {', '.join(differing)}" for what, differing in off.items() if differing
    ]
    remarks += [f"as stored: {', '.join(sorted(context.taken))}"] if context.taken else []
    remarks += [f"of all texts, not compared: {', '.join(left_out)}"] if left_out else []
    n = len(rows(result.n_examples))
    title = f"{name}, {n} of {result.n_examples} texts"
    yield Quantity(title, "", "; ".join(remarks), "each its own", bool(differences))
    if (means := means_follow(name, part.raw)) is not None:
        yield means


def own_rows(part: Part, own: Sequence[int]) -> Arrays:
    """The outcomes of some of a part's runs, which are rows where it has several.

    Scores (layer, head) are of the first run alone.
    """
    n = len(part.runs)

    def has_runs(name: str, values: np.ndarray) -> bool:
        return values.shape[:1] == (n,) and not (name == "scores" and values.ndim == 2)

    return {
        name: values[list(own)] if n > 1 and has_runs(name, values) else values
        for name, values in part.raw.items()
    }


def _on_rows(stored: np.ndarray, found: np.ndarray | None, rows: _Rows) -> np.ndarray:
    """Stored outcomes on the texts that were drawn: along each axis that is shorter now."""
    if found is None or stored.ndim != found.ndim:
        return stored
    for axis, n in enumerate(stored.shape):
        if found.shape[axis] < n and found.shape[axis] == len(rows(n)):
            stored = stored.take(rows(n), axis)
    return stored
