"""Tables of the encoder half, the paper's values beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from headprune_lib.replication.pages.tables import pages
from headprune_lib.replication.pages.tables.pages import estimate, points
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled

__all__ = [
    "domains_table",
    "orders_table",
    "sizes_table",
]


def domains_table(figure2b: Result) -> pd.DataFrame:
    """One row a domain and measure: correlation of effects, reliabilities, ceiling."""
    values, rows = figure2b.values, []
    for domain, measures in values["correlations"].items():
        for measure, found in measures.items():
            rows.append(
                {
                    "domain": spelled(domain),
                    "accuracy there": f"{values['baselines'][domain]['accuracy']:.3f}",
                    "effect on": measure,
                    "Spearman (95% interval)": _correlation(found["spearman"]),
                    "with any one head left out": " to ".join(
                        f"{r:.2f}" for r in found["left_out"]
                    ),
                    "Pearson (95% interval)": _correlation(found["pearson"]),
                    "reliability here, there": ", ".join(f"{r:.2f}" for r in found["reliability"]),
                    "ceiling": f"{found['ceiling']:.2f}",
                }
            )
    return pd.DataFrame(rows)


def _correlation(found: Mapping[str, Any]) -> str:
    return estimate(found["r"], found["interval"])


def orders_table(figure3b: Result | None) -> pd.DataFrame:
    """Figure 3b: one row an order of removal, none if it was not measured."""
    if figure3b is None:
        return pd.DataFrame()
    return pages.orders_table(figure3b.values, "points", points)


def sizes_table(table4: Result) -> pd.DataFrame:
    """Parameters, attention's share of them, file and memory, before and after."""
    rows = []
    for model in ("finetuned", "shape"):
        values = table4.values[model]
        for i, variant in enumerate(values["columns"]):
            rows.append(
                {
                    "model": {"finetuned": spelled(table4.model)}.get(model, "BERT-base's shape"),
                    "variant": variant,
                    "parameters (M)": f"{values['parameters'][i] / 1e6:.1f}",
                    "in attention": f"{values['attention'][i] / values['parameters'][i]:.0%}",
                    "file (MB)": f"{values['file'][i] / 1e6:.1f}",
                    "memory to load and run one batch (MB)": f"{values['memory'][i] / 1e6:.0f}",
                }
            )
    return pd.DataFrame(rows)
