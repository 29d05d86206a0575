"""Tables of the encoder half, the paper's values beside ours."""

from __future__ import annotations

import pandas as pd

from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled

__all__ = [
    "sizes_table",
]


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
