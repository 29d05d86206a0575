"""Tables of Figure 5: checkpoints of trainings, and what grows along them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from headprune_lib.replication.measurements.along_training import GROWING, translating
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, estimate, signed
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled

__all__ = [
    "checkpoints_table",
    "slopes_table",
]


def checkpoints_table(*figures: Result) -> pd.DataFrame:
    """One row a checkpoint of each training: BLEU, what is kept at 40% removed, unevenness.

    Args:
        figures: results of Figure 5; of more than one, the model stands before each row.
    """
    return pd.DataFrame(
        [
            {
                **({"model": spelled(figure5.model)} if len(figures) > 1 else {}),
                **({"training": training["seed"]} if figure5.values["n_trainings"] > 1 else {}),
                **_checkpoint(point, f"{figure5.values['removed']:.0%}"),
            }
            for figure5 in figures
            for training in figure5.values["trainings"]
            for point in training["checkpoints"]
        ]
    )


def _checkpoint(point: Mapping[str, Any], removed: str) -> dict[str, Any]:
    kept = {
        f"kept with {removed} removed": "kept_at",
        "not normalised": "kept_unnormalised",
        "random": "kept_random",
    }
    ginis = {"Gini coefficient of importance": "gini", "within layers": "gini_within"}
    measured = {label: name for label, name in kept.items() if point[name] is not None}
    return {
        "epoch": f"{point['epoch']:.3g}",
        "updates": point["updates"],
        "BLEU": f"{point['bleu'][0]:.1f}",
        **({"sacrebleu’s": f"{point['sacrebleu'][0]:.1f}"} if "sacrebleu" in point else {}),
        **{label: _with_interval(point, name, ".0%") for label, name in measured.items()},
        **{label: _with_interval(point, name, ".3f") for label, name in ginis.items()},
    }


def _with_interval(point: Mapping[str, Any], name: str, form: str) -> str:
    return estimate(point[name], point[f"{name}_interval"], form)


_SLOPES = {
    "kept": "share of BLEU kept by importance, above random orders",
    "loss": "loss that random orders add above importance's (nats a piece)",
    "gini": "Gini coefficient of importance, within layers",
}
"""Name of a slope -> what grows."""


def slopes_table(shown: Mapping[str, Result]) -> pd.DataFrame:
    """One row a model and measure: how it grows by the logarithm of the updates, and in each training.

    Beside it what it is at the first checkpoint that translates and at the last, in the mean over
    trainings.

    Args:
        shown: name -> result; one without random orders has a row that says so.
    """
    return pd.DataFrame(
        [
            {
                "model": name,
                "measure": label,
                "trainings": result.values["n_trainings"],
                **_growth(result.values, measure),
            }
            for name, result in shown.items()
            for measure, label in _SLOPES.items()
        ]
    )


def _growth(values: Mapping[str, Any], measure: str) -> dict[str, str]:
    slope = values.get("slopes", {}).get(measure)
    if not slope:
        return {"first": "", "last": "", "growth by ln(updates)": NOT_MEASURED, "each training": ""}
    trainings = [translating(training["checkpoints"]) for training in values["trainings"]]
    ends = {
        end: [GROWING[measure](points[place]) for points in trainings if points]
        for end, place in (("first", 0), ("last", -1))
    }
    return {
        **{
            end: f"{np.mean(each):.2f}".replace("-", "−") if each else ""
            for end, each in ends.items()
        },
        "growth by ln(updates)": signed(slope["difference"], slope["interval"], ".3f"),
        "each training": ", ".join(signed(run, form=".3f") for run in slope["runs"]),
    }
