"""Tables of a language model: perplexity by order and share, answers, and training again."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from headprune_lib.replication.claims import questions
from headprune_lib.replication.measurements.language_curve import ORDERS
from headprune_lib.replication.pages.tables.pages import estimate, kept_text, signed
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import order_title, spelled

__all__ = ["language_answers", "perplexity_table", "recovery_table"]


def language_answers(curves: Mapping[str, Result], heads: Mapping[str, Result]) -> pd.DataFrame:
    """One row a question and text: what was found and the answer by the rule.

    Args:
        curves: name -> result of ``language_curve``; heads: of ``language_heads``.
    """
    rows = []
    for result in curves.values():
        found = questions.redundancy(result.values)
        rows.append(
            {
                "question": f"{questions.LANGUAGE_SHARE:.0%} of the heads together, in the paper's order",
                "text": spelled(result.task),
                "found": f"{kept_text({'kept': found.kept, 'interval': found.interval})} kept",
                "the paper's redundancy": found.answer,
            }
        )
    for result in heads.values():
        one = questions.single_heads(result.values)
        rows.append(
            {
                "question": "one head at a time",
                "text": spelled(result.task),
                "found": f"{one.removable} of {one.heads} removable, {one.needed} needed",
                "the paper's redundancy": one.answer,
            }
        )
    return pd.DataFrame(rows)


def perplexity_table(curves: Mapping[str, Result]) -> pd.DataFrame:
    """One row an order and text: perplexity at each share removed, and loss beside the paper's order."""
    rows = []
    for result in curves.values():
        values = result.values
        for name in sorted(values["curves"], key=_place):
            curve = values["curves"][name]
            row = {"order": order_title(name), "text": spelled(result.task)}
            for step, share in enumerate(values["shares"]):
                found, interval = curve["perplexity"][step], curve["interval"][step]
                row[f"{share:.0%}"] = estimate(found, interval, ".1f" if found < 1000 else ",.0f")
            beside = values.get("differences", {}).get(name)
            row["loss a token beside the paper's order, mean over 0–50% (nats)"] = (
                signed(beside["difference"], beside["interval"]) if beside else ""
            )
            rows.append(row)
    return pd.DataFrame(rows)


def _place(order: str) -> int:
    """As the measurement lists its orders; others last."""
    return ORDERS.index(order) if order in ORDERS else len(ORDERS)


def recovery_table(found: Mapping[str, Result]) -> pd.DataFrame:
    """One row a share removed: heads and parameters gone, perplexity before and after training."""
    return pd.DataFrame(
        [
            {
                "heads removed": f"{one['removed']} ({one['share']:.0%})",
                "parameters (millions)": f"{one['left'] / 1e6:.1f}",
                "perplexity": estimate(one["pruned"], one["pruned_interval"], ".1f"),
                "after training again": estimate(one["tuned"], one["tuned_interval"], ".1f"),
            }
            for result in found.values()
            for one in result.values["recovered"]
        ]
    )
