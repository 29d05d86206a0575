"""Tables of the encoder half, the paper's values beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from headprune_lib.replication.pages.tables import pages
from headprune_lib.replication.pages.tables.pages import estimate, p_text, points
from headprune_lib.replication.published import paper
from headprune_lib.replication.stats.bounds import DELTA
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled

__all__ = [
    "domains_table",
    "layers_table",
    "orders_table",
    "sizes_table",
    "speed_table",
]


def layers_table(table3: Result | None, table6: Result | None) -> pd.DataFrame:
    """Tables 3 and 6 side by side: one row a layer, none if a side was not measured.

    Changes of accuracy are in points.
    """
    rows: list[dict] = []
    if table3 is None or table6 is None:
        return pd.DataFrame(rows)
    for ours, free in zip(table3.values["layers"], table6.values["layers"], strict=True):
        rows.append(
            {
                "layer": ours["layer"] + 1,
                "best head (test)": ours["head"] + 1,
                "Table 3: change (95% interval)": points(ours["delta"], ours["interval"]),
                "best head (train)": free["head"] + 1,
                "Table 6: change (95% interval)": points(free["delta"], free["interval"]),
                "p (Table 6)": p_text(free["p"]),
                "p, Holm": p_text(free["p_holm"]),
                "within 1 point": "yes"
                if free["removable"]
                else "no"
                if free["interval"][1] < -DELTA
                else "open",
            }
        )
    return pd.DataFrame(rows)


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


def speed_table(table4: Result, model: str) -> pd.DataFrame:
    """Table 4: examples a second, mean ± s.d. of the runs, and the paired ratio."""
    published = paper("table4")
    ratios = {
        size: pruned / original
        for size, original, pruned in zip(
            published["batch_size"],
            published["original"]["mean"],
            published["pruned50"]["mean"],
            strict=True,
        )
    }
    return pd.DataFrame(
        [
            {
                "batch": row["batch_size"],
                "unpruned (examples/s)": f"{row['mean'][0]:.1f} ± {row['sd'][0]:.1f}",
                "half removed (examples/s)": f"{row['mean'][1]:.1f} ± {row['sd'][1]:.1f}",
                "times as fast (95% interval)": estimate(row["ratio"], row["interval"]),
                "paper": f"{ratios[row['batch_size']]:.2f}" if row["batch_size"] in ratios else "–",
            }
            for row in table4.values[model]["speed"]
        ]
    )


def sizes_table(table4: Result) -> pd.DataFrame:
    """Parameters, attention's share of them, file and memory, before and after."""
    rows = []
    for model in ("finetuned", "shape"):
        values = table4.values[model]
        for i, variant in enumerate(values["columns"]):
            rows.append(
                {
                    "model": model,
                    "variant": variant,
                    "parameters (M)": f"{values['parameters'][i] / 1e6:.1f}",
                    "in attention": f"{values['attention'][i] / values['parameters'][i]:.0%}",
                    "file (MB)": f"{values['file'][i] / 1e6:.1f}",
                    "memory to load and run one batch (MB)": f"{values['memory'][i] / 1e6:.0f}",
                }
            )
    return pd.DataFrame(rows)
