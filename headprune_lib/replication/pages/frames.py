"""A result's values as a table: one row per head, layer, cut, batch size or step of a curve.

The site ships each table as the CSV file of its result, and the notebooks show and plot it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from headprune_lib.replication.bounds import SHOWN_TOLERANCE
from headprune_lib.replication.measurements.estimates import tolerance_key
from headprune_lib.replication.store import Result

_LISTS = ("heads", "layers", "cuts", "pairs", "recipes", "recovered", "rows")


def frame(result: Result) -> pd.DataFrame:
    """The table of a result; layers and heads count from 0, an interval takes two columns.

    Args:
        result: of any measurement. For a pruning curve a row is a step of an order: ``removed``
            (share of the heads), ``mean`` score, ``interval_low`` and ``interval_high``, ``kept``
            (share of the score above chance) with its interval, and the score of every run. For
            trainings a row is a checkpoint, and ``bleu`` is that of the unpruned model.
    """
    return pd.DataFrame(_rows(result.values))


def _rows(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    for name in _LISTS:
        if name in values:
            return list(map(dict, map(_flat, values[name])))
    if "criteria" in values:
        return [
            {"criterion": criterion, **row}
            for criterion, entry in values["criteria"].items()
            for row in (_sizes(entry) if isinstance(entry, list) else _correlations(entry))
        ]
    if "trainings" in values:
        return [
            {"training": training["seed"], "bleu": point["bleu"][0], **dict(_flat(point))}
            for training in values["trainings"]
            for point in training["checkpoints"]
        ]
    if "curves" in values:
        return [
            {"order": order, "removed": share, "mean": curve["mean"][step]}
            | _at(step, curve, values.get("kept", {}).get(order, {}))
            | {f"run {i}": run[step] for i, run in enumerate(curve["runs"], start=1)}
            for order, curve in values["curves"].items()
            for step, share in enumerate(values["shares"])
        ]
    if "orders" in values:
        return [
            {"order": order, "removed": share, "kept": kept}
            for order, entry in values["orders"].items()
            for share, kept in zip(values["shares"], entry["kept"], strict=False)
        ]
    if "finetuned" in values:
        return [
            {"model": model, **dict(_flat(row))}
            for model in ("finetuned", "shape")
            for row in values[model]["speed"]
        ]
    return list(map(dict, values.get("curve", [])))


def _at(step: int, curve: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """A curve's values at a step besides its mean, with intervals as two columns.

    A language model's interval is that of its perplexity; its share kept is in the curve itself.
    """
    if "perplexity" in curve:
        columns = {"perplexity": curve["perplexity"], "perplexity_interval": curve["interval"]}
        columns |= {"kept": curve["kept"], "kept_interval": curve["kept_interval"]}
    else:
        columns = {"interval": curve["interval"]} if "interval" in curve else {}
        columns |= {"kept": kept["kept"], "kept_interval": kept["interval"]} if kept else {}
    return dict(_flat({name: column[step] for name, column in columns.items()}))


def _sizes(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row per number of sentences: scores on them compared with scores on all."""
    for row in rows:
        yield {"sentences": row["n"], "between": row["between"]} | {
            f"{name} {field}": value
            for name in ("with_all", "area", "lost")
            for field, value in _flat(row[name])
        }


def _correlations(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One row per domain or effect of single heads: its rank correlation with the scores."""
    effects = {name: found[name] for name in ("effect", "given_layer", "given_both")}
    for name, correlation in {**found["domains"], **effects}.items():
        if correlation:
            yield {"with": name, **dict(_flat(correlation))}


def _flat(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the single values of a row; an interval becomes two, longer lists stay in the JSON.

    Mappings named ``before`` and ``after`` are flattened field by field.
    """
    for name, value in row.items():
        if isinstance(value, list):
            if name.endswith("interval") and len(value) == 2:
                yield from (
                    (f"{name}_{end}", field)
                    for end, field in zip(("low", "high"), value, strict=True)
                )
        elif not isinstance(value, Mapping):
            yield name, value
        elif name in ("before", "after"):
            yield from ((f"{name}_{inner}", field) for inner, field in _flat(value))


def prunable_at(
    values: Mapping[str, Any], order: str = "importance", tolerance: float = SHOWN_TOLERANCE
) -> dict[str, Any]:
    """The share of heads that can be removed in an order, ``{"share", "interval"}``.

    Args:
        values: the values of a pruning curve's result.
        order: such as ``"importance"`` or ``"random"``.
        tolerance: the loss that counts as none, as a share of the model's score above chance.

    Raises:
        KeyError: the order, or the tolerance, was not measured; the message names those that were.
    """
    prunable = values["prunable"]
    if order not in prunable:
        raise KeyError(f"order {order!r} was not measured. Use one of {', '.join(prunable)}")
    if (key := tolerance_key(tolerance)) not in prunable[order]:
        raise KeyError(f"no share at a loss of {key}. Use one of {', '.join(prunable[order])}")
    return prunable[order][key]


def step_at(shares: Sequence[float], removed: float) -> int:
    """The step of a pruning schedule that is nearest to a share removed.

    >>> step_at([0.0, 0.1, 0.2, 0.3], 0.2)
    2
    """
    return min(range(len(shares)), key=lambda step: abs(shares[step] - removed))


def raw_importance(curve: Result) -> np.ndarray:
    """Unnormalised I_h of the first training behind a pruning curve, (layer, head)."""
    return curve.parts["importance"].raw["scores"]
