"""Numbers of the page "Along training"."""

from __future__ import annotations

import numpy as np

from headprune_lib.replication.measurements.along_training import translating
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, signed
from headprune_lib.replication.pages.values import step_at
from headprune_lib.replication.store.results import Result


def training_dynamics(figure5: Result) -> Numbers:
    """Figure 5: of the first training the first checkpoint, the last, and the one that keeps most.

    The untrained model is none of them: it has no BLEU to keep.
    """
    values = figure5.values
    points = [point for point in values["trainings"][0]["checkpoints"] if point["updates"]]
    cut = step_at(values["shares"], values["removed"])
    first, last, best = points[0], points[-1], max(points, key=lambda point: point["kept"][cut])
    return {
        "cut": 100 * values["shares"][cut],
        "n": figure5.n_examples,
        "first_epoch": f"{first['epoch']:.3g}",
        "best_epoch": f"{best['epoch']:.3g}",
        "last_epoch": f"{last['epoch']:.3g}",
        "first_kept": 100 * first["kept"][cut],
        "best_kept": 100 * best["kept"][cut],
        "last_kept": 100 * last["kept"][cut],
        "first_bleu": first["bleu"][0],
        "last_bleu": last["bleu"][0],
        "first_cost": first["loss"][cut] - first["loss"][0],
        "last_cost": last["loss"][cut] - last["loss"][0],
        "first_gini": first["gini"],
        "last_gini": last["gini"],
        "first_within": first["gini_within"],
        "most_within": max(point["gini_within"] for point in points),
        "last_within": last["gini_within"],
    }


_SHOWN = {
    "kept": ("kept_at", 100, ".0f"),
    "unnormalised": ("kept_unnormalised", 100, ".0f"),
    "random": ("kept_random", 100, ".0f"),
    "cost": ("added_loss", 1, ".2f"),
    "random_cost": ("added_loss_random", 1, ".2f"),
    "within": ("gini_within", 1, ".2f"),
}
"""Name -> what a checkpoint has, times what, and how it is written."""


def several_trainings(figure5: Result | None, prefix: str) -> Numbers:
    """Figure 5 of a model that was trained several times, as text: means over trainings, slopes.

    Of the checkpoints the first that translates anything to speak of, and the last. ``not
    measured`` where there is no result, or no random orders.

    Args:
        prefix: begins the name of each number.
    """
    values = figure5.values if figure5 else {"trainings": []}
    learned = [translating(training["checkpoints"]) for training in values["trainings"]]
    trainings = [points for points in learned if points]
    found: Numbers = {
        "n": f"{figure5.n_examples}" if figure5 else NOT_MEASURED,
        "trainings": f"{len(trainings)}" if trainings else NOT_MEASURED,
    }
    for place, i in (("first", 0), ("last", -1)):
        points = [training[i] for training in trainings]
        found[f"{place}_epoch"] = _mean([point["epoch"] for point in points], 1, ".3g")
        found[f"{place}_bleu"] = _mean([point["bleu"][0] for point in points], 1, ".1f")
        for name, (key, scale, form) in _SHOWN.items():
            found[f"{place}_{name}"] = _mean([point[key] for point in points], scale, form)
    for name in ("kept", "loss", "gini"):
        slope = values.get("slopes", {}).get(name)
        told = signed(slope["difference"], slope["interval"], ".3f") if slope else NOT_MEASURED
        found[f"{name}_slope"] = told
    return {f"{prefix}_{name}": value for name, value in found.items()}


def _mean(values: list[float | None], scale: float, form: str) -> str:
    there = [value for value in values if value is not None]
    if not there or len(there) < len(values):
        return NOT_MEASURED
    return f"{scale * np.mean(there):{form}}"
