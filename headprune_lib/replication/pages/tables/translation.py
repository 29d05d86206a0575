"""Tables of the translation half, the paper's values beside ours."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from headprune_lib.discovery import KINDS
from headprune_lib.replication.pages.tables.pages import estimate, signed
from headprune_lib.replication.pages.values import step_at
from headprune_lib.replication.published import paper
from headprune_lib.replication.store.results import Result

__all__ = [
    "differences_table",
    "heads_table",
    "quality_table",
    "samples_table",
]


def quality_table(quality: Mapping[str, Result]) -> pd.DataFrame:
    """One row a model and way of search: BLEU, without overlapping verses, chrF."""
    rows = []
    for task, result in quality.items():
        values = result.values
        for search in (name for name in values if name.startswith("beam ")):
            found = values[search]
            rows.append(
                {
                    "model": task,
                    "search": "greedy" if search == "beam 1" else search,
                    "BLEU (95% interval)": estimate(found["bleu"], found["bleu_interval"], ".1f"),
                    "without verses that share a 10-gram": f"{found['bleu_without_overlap']:.1f}",
                    "chrF": f"{found['chrf']:.1f}",
                    "verses": values["n"],
                    "of them sharing": values["n_overlap"],
                }
            )
    return pd.DataFrame(rows)


def samples_table(quality: Result) -> pd.DataFrame:
    """The first test verses of a model, what it makes of them, and the reference."""
    return pd.DataFrame(quality.values["samples"])[["source", "translation", "reference"]]


def heads_table(table1: Result) -> pd.DataFrame:
    """One row a kind: how many heads matter; the paper's counts for the one grid it shows."""
    published = paper("table1")["significant"]
    rows = []
    for kind in KINDS:
        found = table1.values["counts"][kind]
        rows.append(
            {
                "kind": kind,
                "heads": found["heads"],
                "removable": found["removable"],
                "significant losses, gains (Holm)": (
                    f"{found['significant_losses']}, {found['significant_gains']}"
                ),
                "by the paper's test": f"{found['paper_losses']}, {found['paper_gains']}",
                "paper": f"{len(published)} of 96 in all" if kind == "enc-enc" else "not shown",
            }
        )
    return pd.DataFrame(rows)


def differences_table(figure4: Result) -> pd.DataFrame:
    """One row a share removed that the rules show: BLEU left, *enc-dec* minus each other kind."""
    values = figure4.values
    return pd.DataFrame(
        [
            {
                "removed": f"{share:.0%}",
                **{
                    f"{name} (95% interval)": signed(found["difference"], found["interval"])
                    for name in (f"enc-dec minus {kind}" for kind in KINDS if kind != "enc-dec")
                    for found in [
                        values["differences_along"][name][step_at(values["shares"], share)]
                    ]
                },
            }
            for share in values["shown"]
        ]
    )
