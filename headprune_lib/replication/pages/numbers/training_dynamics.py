"""Numbers of the page "Along training"."""

from __future__ import annotations

from headprune_lib.replication.pages.numbers.types import Numbers
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
