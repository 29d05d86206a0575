"""The encoder on several models and tasks: a table takes name -> result, and has a row a name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from headprune_lib.replication.claims.questions import strata
from headprune_lib.replication.claims.verdict import Judged
from headprune_lib.replication.data import whole_task
from headprune_lib.replication.pages.tables.pages import (
    estimate,
    judged_text,
    points,
    signed,
)
from headprune_lib.replication.pages.values import raw_importance
from headprune_lib.replication.store.results import Result
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import rank_heads

__all__ = [
    "agreement_tasks_table",
    "difficulty_table",
    "heads_tasks_table",
    "pairs_of_tasks",
    "recipes_table",
    "side_by_side",
]


def heads_tasks_table(shown: Mapping[str, Result]) -> pd.DataFrame:
    """Figure 1b: one row a model and task, how many heads can go one by one, and C1's power."""
    rows = []
    for name, result in shown.items():
        counts, heads = result.values["counts"], result.values["heads"]
        worst, removable = min(heads, key=lambda head: head["delta"]), result.values["removable"]
        rows.append(
            {
                "model and task": name,
                "accuracy": f"{result.values['baseline']['accuracy']:.3f}",
                "heads removable": f"{counts['removable']} of {counts['heads']}",
                "share (95% interval)": estimate(
                    counts["removable"] / counts["heads"], removable["removable_interval"], ".0%"
                ),
                "needed": removable["needed"],
                "power": f"{removable['power']:.2f}",
                "significant losses (Holm)": counts["significant_losses"],
                "not corrected, paired": counts["raw_losses"] + counts["raw_gains"],
                "unpaired, as the paper": counts["paper_losses"] + counts["paper_gains"],
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


def difficulty_table(curves: Mapping[str, Result], one_head: Mapping[str, Result]) -> pd.DataFrame:
    """One row a model and group of MNLI's pairs, by how many of 100 BERTs get them right.

    What C3's and C1's rules say of each group alone; a row without a curve of MNLI is left out.
    """
    return pd.DataFrame(
        [
            {
                "model and task": name,
                "pairs": group.name,
                "number": f"{group.n:,}",
                "BERT-base, mean of 100": f"{group.berts:.1%}",
                "accuracy, all heads": estimate(
                    group.uncut.value, (group.uncut.low, group.uncut.high), ".1%"
                ),
                "chance": f"{group.chance:.1%}",
                "kept above chance at the paper's share": judged_text(group.together, ".1%"),
                "C3's rule": _word(group.together),
                "heads removable one by one": judged_text(group.one_at_a_time, ".0%"),
                "C1's rule": _word(group.one_at_a_time),
            }
            for name, curve in curves.items()
            for group in strata(curve, one_head.get(name))
        ]
    )


def _word(judged: Judged) -> str:
    """A rule's word with its power, by which readers can tell how much it says."""
    return judged.word if judged.power is None else f"{judged.word} (power {judged.power:.2f})"


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
    """Every two pruning curves of one model after fine-tuning on different tasks.

    A task of held examples, such as ``snli-held``, has the fine-tunings of the whole one.
    """
    ranked = [
        (result, normalize_l2({"self": torch.from_numpy(raw_importance(result))}))
        for result in curves.values()
        if result.task == whole_task(result.task)
    ]
    pairs = []
    for (one, x), (two, y) in itertools.combinations(ranked, 2):
        if one.model != two.model or one.task == two.task:
            continue
        heads = x["self"].numel()
        least = [set(rank_heads(side)[: heads // 5]) for side in (x, y)]
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


def recipes_table(result: Result) -> pd.DataFrame:
    """One row a recipe of fine-tuning, from the shortest training to the longest.

    The score is shown in the task's own metric, and against the first row's.
    """
    return pd.DataFrame(
        [
            {
                "epochs": row["epochs"],
                "learning rate": f"{row['learning_rate']:g}",
                "batch": row["batch_size"],
                result.unit: estimate(row["score"], row["interval"]),
                "minus the first": ""
                if i == 0
                else signed(row["gain"]["difference"], row["gain"]["interval"]),
                "log-loss (nats)": estimate(row["log_loss"], row["log_loss_interval"]),
            }
            for i, row in enumerate(result.values["recipes"])
        ]
    )
