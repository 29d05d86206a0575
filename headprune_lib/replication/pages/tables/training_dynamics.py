"""Tables of Figure 5: checkpoints of trainings, and what grows along them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, estimate, signed
from headprune_lib.replication.store.results import Result

__all__ = [
    "checkpoints_table",
    "slopes_table",
]


def checkpoints_table(figure5: Result) -> pd.DataFrame:
    """One row a checkpoint of each training: BLEU, what is kept at 40% removed, unevenness."""
    values = figure5.values
    several = values["n_trainings"] > 1
    return pd.DataFrame(
        [
            {
                **({"training": training["seed"]} if several else {}),
                **_checkpoint(point, f"{values['removed']:.0%}"),
            }
            for training in values["trainings"]
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
    "kept": "BLEU kept above random orders",
    "loss": "loss that random orders add above importance's",
    "gini": "Gini coefficient within layers",
}


def slopes_table(shown: Mapping[str, Result]) -> pd.DataFrame:
    """One row a model and measure: how it grows by the logarithm of the updates, and in each training.

    Args:
        shown: name -> result; one without random orders has a row that says so.
    """
    rows = []
    for name, result in shown.items():
        slopes = result.values.get("slopes", {})
        for measure, label in _SLOPES.items():
            found = slopes.get(measure)
            rows.append(
                {
                    "model": name,
                    "measure": label,
                    "trainings": result.values["n_trainings"],
                    "growth by ln(updates)": _slope(found) if found else NOT_MEASURED,
                    "each training": ", ".join(signed(run, form=".3f") for run in found["runs"])
                    if found
                    else "",
                }
            )
    return pd.DataFrame(rows)


def _slope(found: Mapping[str, Any]) -> str:
    return signed(found["difference"], found["interval"], ".3f")
