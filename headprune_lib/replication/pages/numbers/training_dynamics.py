"""Numbers of the page "Along training"."""

from __future__ import annotations

from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.values import step_at
from headprune_lib.replication.store.results import Result


def training_dynamics(figure5: Result) -> Numbers:
    """Figure 5: the first checkpoint, the last, and the one that keeps most of its BLEU."""
    values, points = figure5.values, figure5.values["checkpoints"]
    cut = step_at(values["shares"], values["kept_at"])
    first, last, best = points[0], points[-1], max(points, key=lambda point: point["kept"][cut])
    return {
        "cut": 100 * values["shares"][cut],
        "n": figure5.n_examples,
        "first_epoch": first["epoch"],
        "best_epoch": best["epoch"],
        "last_epoch": last["epoch"],
        "first_kept": 100 * first["kept"][cut],
        "best_kept": 100 * best["kept"][cut],
        "last_kept": 100 * last["kept"][cut],
        "first_bleu": first["bleu"][0],
        "last_bleu": last["bleu"][0],
        "first_cost": first["loss"][cut] - first["loss"][0],
        "last_cost": last["loss"][cut] - last["loss"][0],
        "first_gini": first["gini"],
        "last_gini": last["gini"],
    }
