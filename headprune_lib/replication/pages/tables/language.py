"""Tables of a language model: perplexity by order and share, answers, and training again."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from headprune_lib.replication.claims import questions
from headprune_lib.replication.pages.tables.pages import estimate, kept_text
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled

__all__ = ["language_answers", "recovery_table"]


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
