"""Measure a result's parts again, on the same weights, and on as many texts as minutes allow.

A part is measured by the measurement itself (:attr:`Measurement.measure`) with the stored result's
profile, so nothing here knows what a part contains. Texts are drawn at random: an axis that is
shorter than the stored one is that of the texts.

The bounds are for the same weights that a result was measured on. Another processor sometimes
rounds differently: a few predictions under a mask, or one translation in a hundred, may differ.
"""

from __future__ import annotations

import dataclasses
import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headprune_lib.replication import stats, store
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.data import MissingData, file_sha256
from headprune_lib.replication.lazy import setups
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.base import Context
from headprune_lib.replication.measurements.obtaining import (
    HALF_OF,
    OtherWeights,
    half_of,
    results_folder,
)
from headprune_lib.replication.metrics import MILLINAT, coarse
from headprune_lib.replication.models.pretrained import LANGUAGE_MODELS
from headprune_lib.replication.paths import models_root
from headprune_lib.replication.profiles import Profile, load_profile
from headprune_lib.replication.store import Arrays, Journal, Key, Measured, Part, Result
from headprune_lib.replication.titles import setting

ANSWERS, OF = 2, 300
"""The number of predictions under a mask that may differ, and out of how many."""
NATS = 0.01
"""How far a loss may be off."""
PASSAGE = 0.02
"""How far the loss of a passage of hundreds of tokens may be off."""
TRANSLATIONS, NGRAMS = 0.01, 0.005
"""The shares of a mask's translations, and of their n-grams, that may differ; at least one may."""
RELATIVE = 1e-3
"""How far a score may be off, as a share of the largest one of its layer."""
PLACES = 2
"""Places of an order that may have another head: two with nearly equal scores may swap. Had more
than rounding moved them, the outcomes of the masks between the two would differ as well."""
GATE = 0.02
"""How far a gate that is fitted again may be off."""


@dataclass(frozen=True)
class Quantity:
    """One row of a verification's report."""

    name: str
    stored: str
    found: str
    bound: str
    agrees: bool


class Off(NamedTuple):
    """A difference between two arrays: its kind, its size, and the largest size allowed."""

    what: str
    off: float
    most: float

    @property
    def agrees(self) -> bool:
        """Whether the difference is no larger than allowed."""
        return bool(self.off <= self.most)

    def __str__(self) -> str:
        return f"{self.off:.3g} {self.what} (at most {self.most:.3g})"


OVER_TEXTS = re.compile(r"log_loss$|truncated$")
"""Outcomes that are means or sums over all texts."""
OF_A_MACHINE = re.compile(r"(seconds|memory|file|bfloat16)$")
"""Outcomes that differ between machines, or from run to run."""


def compared(stored: Arrays, found: Arrays, passages: bool = False) -> dict[str, list[Off]]:
    """The differences of each stored array of a part from the one that was measured again.

    Args:
        stored, found: on the same texts.
        passages: whether losses are sums over the tokens of passages.

    Returns:
        the differences by name, without outcomes that depend on the machine.
    """
    before, now = _absolute(stored), _absolute(found)
    differences = {}
    for name in stored:
        if OF_A_MACHINE.search(name):
            continue
        if name not in found or stored[name].shape != found[name].shape:
            shape = found[name].shape if name in found else "none"
            differences[name] = [Off(f"other shape, {shape} for {stored[name].shape}", 1, 0)]
            continue
        rule = next(rule for pattern, rule in _RULES if re.search(pattern, name))
        # how far rounding in the file may have moved a number
        slack = np.abs(stored[name]) / 16 if _is_coarse(stored[name]) else 0
        nats = PASSAGE if passages else NATS
        differences[name] = [*rule(before[name], now[name], slack, nats)]
    return differences


def _is_coarse(values: np.ndarray) -> bool:
    """Whether stored integers are rounded to five binary digits, each to either neighbour."""
    whole = values.dtype.kind == "i" and values.size and np.abs(values).max() > 32
    return bool(whole and np.array_equal(np.rint(coarse(values)), values))


def _absolute(raw: Arrays) -> Arrays:
    """Raw outcomes, with changes from the unmasked model added back to its outcomes."""
    absolute = dict(raw)
    for name in [name for name in raw if name.endswith("_change")]:
        uncut = raw.get(f"{name.removesuffix('_change')}_uncut")
        if uncut is not None:
            uncut = np.expand_dims(uncut, 1) if "updates" in raw else uncut  # by checkpoint
            absolute[name] = uncut.astype(int) + raw[name]
    return absolute


def _few(n: int) -> int:
    """How many of ``n`` translations may differ."""
    return max(1, math.floor(TRANSLATIONS * n))


def _equal(stored: np.ndarray, found: np.ndarray, *_: Any) -> Iterator[Off]:
    yield Off("numbers", int((stored != found).sum()), 0)


def _answers(stored: np.ndarray, found: np.ndarray, *_: Any) -> Iterator[Off]:
    """Compare whether predictions are correct, (..., n)."""
    other = int((stored != found).sum(-1).max())
    yield Off("answers of a mask", other, ANSWERS * math.ceil(stored.shape[-1] / OF))


def _translations(stored: np.ndarray, found: np.ndarray, *_: Any) -> Iterator[Off]:
    """Compare packed n-gram counts (..., n, 5): :func:`~headprune_lib.replication.metrics.pack`."""
    n, off = stored.shape[-2], np.abs(stored.astype(int) - found)
    yield Off("translations of a mask", int(off.any(-1).sum(-1).max()), _few(n))
    lost = off.sum((-2, -1)) / np.maximum(stored.astype(int).sum((-2, -1)), 1)
    yield Off("of a mask's n-grams", float(lost.max()), max(NGRAMS, 1 / n))


def _texts(stored: np.ndarray, found: np.ndarray, *_: Any) -> Iterator[Off]:
    """Compare translations as text."""
    yield Off("translations", int((stored != found).sum()), _few(len(stored)))


def _losses(
    stored: np.ndarray, found: np.ndarray, slack: Any, nats: float, *, drafts: bool = False
) -> Iterator[Off]:
    """Compare losses in thousandths of a nat, (..., n)."""
    off = (np.abs(stored.astype(float) - found) - slack).clip(0) / MILLINAT
    if drafts:  # rounding may have changed a draft, and so its loss
        other = int((off > nats).sum(-1).max())
        yield Off(f"losses of a mask by over {nats} nats", other, _few(off.shape[-1]))
    else:
        yield Off("nats", float(off.max()), nats)


def _numbers(most: float, unit: str) -> Callable[..., Iterator[Off]]:
    """A rule for numbers that differ by no more than ``most`` each."""

    def compare(stored: np.ndarray, found: np.ndarray, *_: Any) -> Iterator[Off]:
        yield Off(unit, float(np.abs(stored - found).max()), most)

    return compare


def _scores(stored: np.ndarray, computed: np.ndarray, *_: Any) -> Iterator[Off]:
    """Compare floats relative to the largest along the last axis (float16: to each stored one)."""
    if stored.dtype.kind != "f" or not stored.size:
        yield from _equal(stored, computed)
        return
    rough = stored.dtype == np.float16  # rounded to five binary digits, to either neighbour
    stored, computed = stored.astype(float), computed.astype(float)
    largest = np.abs(stored) if rough else np.nanmax(np.abs(stored), -1, keepdims=True, initial=0)
    same = (stored == computed) | (np.isnan(stored) & np.isnan(computed))
    off = np.where(same, 0, np.abs(stored - computed) / np.maximum(largest, 1e-12))
    off = np.where(np.isnan(off), np.inf, off)
    yield Off("of the largest", float(off.max()), RELATIVE + rough / 16)
    yield Off("of the numbers", float((off > RELATIVE).mean()), TRANSLATIONS)


def _orders(stored: np.ndarray, found: np.ndarray, *_: Any) -> Iterator[Off]:
    """Compare orders (..., heads, 2 or 3): the same heads in each run, at most two out of place."""
    rows = [values.reshape(-1, *values.shape[-2:]).tolist() for values in (stored, found)]
    others = [sorted(order) != sorted(other) for order, other in zip(*rows, strict=True)]
    yield Off("runs of other heads", sum(others), 0)
    elsewhere = (stored != found).any(-1).sum(-1)
    yield Off("heads of a run elsewhere", int(elsewhere.max(initial=0)), PLACES)


_RULES = (
    ("counts", _translations),
    ("^beam ", _texts),
    ("correct", _answers),
    ("log_loss$", _numbers(NATS, "nats")),
    ("draft_loss", partial(_losses, drafts=True)),
    ("loss", _losses),
    ("^gates ", _numbers(GATE, "of a gate")),
    ("^order$", _orders),
    ("", _scores),
)
"""Pattern in an array's name -> the rule to compare the array; the first match counts."""


def means_follow(part: str, raw: Arrays) -> Quantity | None:
    """Compare stored mean losses with the stored losses of texts; None if either is missing."""
    name = f"{part}: mean losses beside those of texts"
    if "log_loss" not in raw or not {"loss", "loss_area"} & {*raw}:
        return None
    if "loss" in raw:
        means = raw["loss"].mean(-1) / MILLINAT  # of all runs, or of the first only
        off = np.abs(raw["log_loss"][: len(means)] - means)
        return Quantity(name, "", f"off by {off.max():.1e} nats", "1e-9", bool((off < 1e-9).all()))
    inside = raw["shares"] <= ORDERS_UP_TO + 1e-9
    added = raw["log_loss"][:, inside] - raw["log_loss"][:, :1]
    area = MILLINAT * stats.area_under_curve(raw["shares"][inside], added)
    off, half = np.abs(area - raw["loss_area"].mean(-1)), np.abs(raw["loss_area"]).mean(-1) / 32
    bound = "what rounding moves each text's by"
    agrees = bool((off <= half + 0.5).all())  # and to whole thousandths
    return Quantity(name, "", f"off by {off.max() / MILLINAT:.4f} nats", bound, agrees)


# --- measuring on drawn texts ---------------------------------------------------------------------

OUTCOMES = {"encoder": 16_000, "translation": 2_048, "language": 200}
"""How many outcomes of a part, one per mask and text, are measured again (or ``LEAST`` texts)."""
LEAST = {"encoder": 16, "translation": 16, "language": 4}
"""The least number of texts that a part is measured on again."""


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
    """Measure all parts again, for the trainings at hand, and compare them with the stored ones.

    Args:
        profile: the one that the result was measured with; nothing is trained.
        folder: of journals, which are removed afterwards.
        drawn_seed: the seed for drawing texts.
        n_texts: maximum of texts per set; as many as :data:`OUTCOMES` allows if None.

    Raises:
        NotAtHand: every part lacks its weights or text here; the message says what the first lacks.
        OtherWeights: committed weights are not those that the result was measured on.
    """
    quantities, reasons = [], []
    for name, most in _most_texts(result, n_texts).items():
        reason, *others = (_missing(result, run, profile) for run in result.parts[name].runs)
        if reason:  # the first run is needed: some outcomes of a part are of it alone
            reasons.append(reason)
            continue
        chosen = [0, *(i for i, other in enumerate(others, 1) if not other)]
        journal = Journal(folder / f"{drawn_seed} {most}")
        rows = partial(_drawn, drawn_seed, most)
        try:
            quantities += _compared(result, name, chosen, profile, journal, rows)
        except MissingData as error:
            reasons.append(f"a text that {result.measurement} reads is not here ({error})")
    if not quantities:
        raise NotAtHand(reasons[0])
    Journal(folder).finish()  # also removes the journals inside
    return quantities


def not_at_hand(result: Result, profile: Profile) -> list[str]:
    """Why some of the weights that a result was measured on are not here; empty if all are."""
    runs = [run for part in result.parts.values() for run in part.runs]
    reasons = dict.fromkeys(_missing(result, run, profile) for run in runs)
    return [reason for reason in reasons if reason]


def profile_of(result: Result) -> Profile:
    """The profile that a committed result was measured with, for its task and model."""
    names = {
        "encoder": {"task": result.task, "model": result.model},
        "translation": {"translation_model": result.model},
        "language": {"language_task": result.task, "language_model": result.model},
    }
    return load_profile(result.profile, **names[half_of(result)])


def _drawn(seed: int, most: int, n: int) -> Sequence[int]:
    """At most ``most`` positions out of ``n``, the same in every process."""
    return range(n) if n <= most else sorted(random.Random(f"{seed} {n}").sample(range(n), most))


def _most_texts(result: Result, n_texts: int | None) -> dict[str, int]:
    """Part -> how many texts it is measured on: all, or as the part with the most masks allows.

    Parts with the same number share a journal, and the units in it.
    """
    half = half_of(result)
    several = {name: n_texts or _n_texts(half, part) for name, part in result.parts.items()}
    enough = [n for n in several.values() if n >= result.n_examples]
    return {
        name: min(enough if n >= result.n_examples else several.values())
        for name, n in several.items()
    }


def _n_texts(half: str, part: Part) -> int:
    """The number of texts that a part is measured on again: the more masks, the fewer texts."""
    masks = [1]
    for name, values in part.raw.items():
        if any(word in name for word in ("correct", "counts", "loss")):
            masks.append(int(np.prod(values.shape[: -2 if "counts" in name else -1])))
    return max(LEAST[half], OUTCOMES[half] // max(masks))


# --- the weights at hand --------------------------------------------------------------------------


def _missing(result: Result, run: dict[str, Any], profile: Profile) -> str:
    """The reason why the weights of a result's run are not at hand; empty if they are.

    Args:
        run: seed and hash of a training, and the epoch or update if it is a point within it.

    Raises:
        OtherWeights: the committed weights are not those that the result was measured on.
    """
    half = half_of(result)
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
    if (digest := file_sha256(path)) == run["weights_sha256"]:
        return ""
    message = (
        f"{path} has SHA-256 {digest}, and {result.measurement} of {setting(result)} was measured "
        f"on {run['weights_sha256']}"
    )
    if path.parent == models_root():
        raise OtherWeights(message)
    return f"{message}. Those weights are not committed"


# --- measuring again ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Again(Context):
    """The context for measuring a part again.

    Attributes:
        stored: outcomes of the trainings at hand to continue from; empty to use computed ones.
        computed: the outcomes to continue from that were computed.
        taken: names of the outcomes that were taken as stored, without computing them.
    """

    stored: Arrays = dataclasses.field(default_factory=dict)
    computed: Arrays = dataclasses.field(default_factory=dict)
    taken: set[str] = dataclasses.field(default_factory=set)

    def settled(
        self, names: Sequence[str], compute: Callable[[], Arrays], *, costly: bool = False
    ) -> Arrays:
        """The stored outcomes of these names, else computed ones; see :meth:`Context.settled`."""
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
        for name in known.keys() & arrays.keys():  # some results store only the first run's
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
    """Measure a part again on some of its runs; other results that it needs are taken as stored.

    Args:
        own: indices of the runs.
        stored: outcomes that measuring continues from, in place of those it computes.
    """
    half, measurement = half_of(result), MEASUREMENTS[result.measurement]
    part, root = result.parts[name], results_folder(profile)
    if len(part.runs) > 1:
        profile = dataclasses.replace(profile, seeds=[part.runs[i]["seed"] for i in own])

    def get(needed: str, _parts: Sequence[str] | None = None) -> Result:
        return store.load(Key(needed, result.task, result.model), root)

    context = Again(half, profile, result.task, journal, get, stored)
    return context, measurement.measure(context, name)


def _compared(
    result: Result,
    name: str,
    chosen: list[int],
    profile: Profile,
    journal: Journal,
    rows: setups.Rows,
) -> Iterator[Quantity]:
    """Compare a part with itself, measured again on some texts."""
    part = result.parts[name]
    stored = own_rows(part, chosen)
    with setups.on_some_texts(rows):
        context, measured = measured_again(result, name, chosen, profile, journal, stored)
    runs, computed = [part.runs[i] for i in chosen], measured.raw | context.computed
    for what, values in stored.items():  # some results store only the first run's
        if len(chosen) > 1 and what in computed and values.shape[:1] == (1,):
            computed[what] = computed[what][:1]
    sliced = {what: _on_rows(values, computed.get(what), rows) for what, values in stored.items()}
    of_all = all(sliced[what].shape == stored[what].shape for what in stored)
    left_out = [] if of_all else [what for what in stored if OVER_TEXTS.search(what)]
    differences = compared(
        {what: values for what, values in sliced.items() if what not in left_out},
        computed,
        passages=half_of(result) == "language",
    )
    if store.plain(measured.runs, "runs") != runs:
        yield Quantity(f"{name}: trainings", str(runs), str(measured.runs), "equal", agrees=False)
    remarks, same = [], 0
    for what, offs in differences.items():
        wrong = [str(difference) for difference in offs if not difference.agrees]
        rounded = [str(difference) for difference in offs if difference.off]
        if wrong:
            found = f"differs by {'; '.join(wrong)}"
            yield Quantity(f"{name}: {what}", "", found, "", agrees=False)
        elif rounded:
            remarks.append(f"{what} off by {', '.join(rounded)}")
        else:
            same += 1
    remarks = [f"{same} arrays the same", *remarks] if same else remarks
    remarks += [f"as stored: {', '.join(sorted(context.taken))}"] if context.taken else []
    remarks += [f"of all texts, not compared: {', '.join(left_out)}"] if left_out else []
    n = len(rows(result.n_examples))
    title = f"{name}, {n} of {result.n_examples} texts"
    yield Quantity(title, "", "; ".join(remarks), "each its own", bool(differences))
    if (means := means_follow(name, part.raw)) is not None:
        yield means


def own_rows(part: Part, own: Sequence[int]) -> Arrays:
    """The outcomes of some of a part's runs, which are rows if it has several.

    Scores (layer, head) are those of the first run only.
    """
    n = len(part.runs)

    def has_runs(name: str, values: np.ndarray) -> bool:
        return values.shape[:1] == (n,) and not (name == "scores" and values.ndim == 2)

    return {
        name: values[list(own)] if n > 1 and has_runs(name, values) else values
        for name, values in part.raw.items()
    }


def _on_rows(stored: np.ndarray, found: np.ndarray | None, rows: setups.Rows) -> np.ndarray:
    """Stored outcomes on the drawn texts, along each axis that is shorter in ``found``."""
    if found is None or stored.ndim != found.ndim:
        return stored
    for axis, n in enumerate(stored.shape):
        if found.shape[axis] < n and found.shape[axis] == len(rows(n)):
            stored = stored.take(rows(n), axis)
    return stored
