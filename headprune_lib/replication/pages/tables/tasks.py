"""The encoder on several models and tasks: a table takes name -> result, and has a row a name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from headprune_lib.orders import prune_order
from headprune_lib.replication import stats
from headprune_lib.replication.claims.rules import C3_TOLERANCE
from headprune_lib.replication.pages.tables.pages import estimate, points
from headprune_lib.replication.pages.tables.published import published_share, published_shares
from headprune_lib.replication.pages.values import (
    kept_above_chance,
    prunable_at,
    raw_importance,
    step_at,
)
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled
from headprune_lib.scoring import normalize_l2

__all__ = [
    "agreement_tasks_table",
    "heads_tasks_table",
    "importance_across_tasks",
    "scores_table",
    "side_by_side",
    "tasks_table",
]


def heads_tasks_table(shown: Mapping[str, Result]) -> pd.DataFrame:
    """Figure 1b: one row a model and task, how many heads can go one by one."""
    rows = []
    for name, result in shown.items():
        counts, heads = result.values["counts"], result.values["heads"]
        worst = min(heads, key=lambda head: head["delta"])
        rows.append(
            {
                "model and task": name,
                "accuracy": f"{result.values['baseline']['accuracy']:.3f}",
                "heads removable": f"{counts['removable']} of {counts['heads']}",
                "significant losses (Holm)": counts["significant_losses"],
                "any, not corrected": counts["raw_losses"] + counts["raw_gains"],
                "worst cut (points)": f"layer {worst['layer'] + 1}, head {worst['head'] + 1}: "
                f"{points(worst['delta'], worst['interval'])}",
            }
        )
    return pd.DataFrame(rows)


def side_by_side(
    table: Callable[[Result], pd.DataFrame], shown: Mapping[str, Result]
) -> pd.DataFrame:
    """One measurement's table for several results, below one another, model and task in front."""
    if not shown:
        return pd.DataFrame()
    tables = {name: table(result) for name, result in shown.items()}
    return pd.concat(tables, names=["model and task"]).reset_index("model and task")


def scores_table(curves: Mapping[str, Result]) -> pd.DataFrame:
    """One row a model and task: what was scored on how much, uncut and by chance."""
    rows = []
    for name, result in curves.items():
        curve = result.values["curves"]["importance"]
        rows.append(
            {
                "model and task": name,
                "score": result.metric,
                "examples": result.n_examples,
                "fine-tunings": len(curve["runs"]),
                "uncut": f"{curve['mean'][0]:.3f}",
                "chance": f"{result.values['chance']:.3f}",
                "accuracy": f"{curve.get('accuracy', curve['mean'])[0]:.3f}",
            }
        )
    return pd.DataFrame(rows)


def tasks_table(curves: Mapping[str, Result]) -> pd.DataFrame:
    """One row a model and task: the share that can go by importance, and what is kept beyond it.

    Columns ``kept at`` are the shares that the paper names for any of its tasks.
    """
    rows = []
    for name, result in curves.items():
        values, published = result.values, published_share(result.task)
        above = values["curves"]["importance"]["mean"][0] - values["chance"]
        share, kept = prunable_at(values), kept_above_chance(values)
        row = {
            "model and task": name,
            f"{C3_TOLERANCE:.0%} in points": f"{100 * C3_TOLERANCE * above:.2f}",
            "can go (95% interval)": estimate(share["share"], share["interval"], ".0%"),
            "random order": f"{prunable_at(values, 'random')['share']:.0%}",
            "the paper": "–" if published is None else f"{published:.0%}",
        }
        for removed in sorted(set(published_shares().values())):
            row[f"kept at {removed:.0%}"] = f"{kept[step_at(values['shares'], removed)]:.1%}"
        rows.append(row)
    return pd.DataFrame(rows)


def agreement_tasks_table(shown: Mapping[str, Result]) -> pd.DataFrame:
    """One row a model and task: how alike the importance of heads is after several fine-tunings."""
    rows = []
    for name, result in shown.items():
        pairs = result.values["pairs"]
        ranks, common = ([pair[name] for pair in pairs] for name in ("spearman", "shared_least"))
        rows.append(
            {
                "model and task": name,
                "pairs of fine-tunings": len(pairs),
                "Spearman, mean": f"{result.values['mean_spearman']:.2f}",
                "lowest and highest": f"{min(ranks):.2f}, {max(ranks):.2f}",
                "ten least important in common": " to ".join(
                    map(str, sorted({min(common), max(common)}))
                ),
                "by chance": f"{result.values['shared_least_by_chance']:.1f}",
            }
        )
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Pair:
    """I_h of one model after its first fine-tunings on two tasks, normalised by layer.

    ``importance`` is of shape (2, heads). ``fifth`` is how many heads the least important fifth
    has, ``common`` how many of them are the same, ``by_chance`` how many would be in orders drawn
    at random.
    """

    model: str
    tasks: tuple[str, str]
    importance: np.ndarray
    fifth: int
    common: int
    by_chance: float


def pairs_of_tasks(curves: Mapping[str, Result]) -> list[Pair]:
    """Every two pruning curves of one model on different tasks."""
    ranked = [
        (result, normalize_l2({"self": torch.from_numpy(raw_importance(result))}))
        for result in curves.values()
    ]
    pairs = []
    for (one, x), (two, y) in itertools.combinations(ranked, 2):
        if one.model != two.model or one.task == two.task:
            continue
        heads = x["self"].numel()
        least = [set(prune_order(side)[: heads // 5]) for side in (x, y)]
        pairs.append(
            Pair(
                one.model,
                (one.task, two.task),
                np.stack([side["self"].flatten().numpy() for side in (x, y)]),
                len(least[0]),
                len(least[0] & least[1]),
                len(least[0]) ** 2 / heads,
            )
        )
    return pairs


def importance_across_tasks(curves: Mapping[str, Result]) -> pd.DataFrame:
    """How I_h after fine-tuning on one task ranks the heads of the same model after another."""
    rows = []
    for pair in pairs_of_tasks(curves):
        found = stats.correlation(*pair.importance, "spearman")
        rows.append(
            {
                "model": spelled(pair.model),
                "tasks": ", ".join(map(spelled, pair.tasks)),
                "Spearman (95% interval)": estimate(found.value, (found.low, found.high)),
                "least important fifth in common": f"{pair.common} of {pair.fifth}",
            }
        )
    return pd.DataFrame(rows)
