"""The encoder on the paper's tasks: stored results of several profiles beside one another."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from headprune_lib import results, stats
from headprune_lib.comparison.pages import estimate, points
from headprune_lib.comparison.published import paper
from headprune_lib.data import TASKS
from headprune_lib.naming import spelled
from headprune_lib.orders import prune_order
from headprune_lib.results import Result
from headprune_lib.scoring import normalize_l2
from headprune_lib.verdicts import C3_TOLERANCE

# Profile -> the tasks of its results (None: an artifact's main one); the larger encoder first.
_TASKS: dict[str, tuple[str | None, ...]] = {
    "base": (None, "snli"), "default": (None, "sst2", "snli", "cola", "mrpc")}
_PUBLISHED = {"sst2": ("figure6", "sst2"), "cola": ("figure6", "cola"), "mrpc": ("figure6", "mrpc"),
              **dict.fromkeys(("mnli", "snli"), ("figure3", "bert_mnli"))}
_REMOVED = (0.2, 0.4, 0.6)


def published_share(task: str) -> float | None:
    """The share of heads that goes in the paper on a task, MNLI's for SNLI; None where it has none."""
    if task not in _PUBLISHED:
        return None
    artifact, name = _PUBLISHED[task]
    return paper(artifact)[name]


def on_tasks(*artifacts: str) -> list[Result]:
    """The stored results of artifacts on every task, those of the larger encoder first."""
    found = [results.stored(artifact, profile, task) for profile, tasks in _TASKS.items()
             for artifact in artifacts for task in tasks]
    # The main task of an artifact may be asked for twice, with and without its name.
    return list({(one.profile, one.artifact, one.task): one for one in found if one}.values())


def pruned_tasks() -> list[Result]:
    """The stored pruning curves of all models and tasks, those of the larger encoder first."""
    return on_tasks("figure3b", "figure6b", "figure6c")


def heads_tasks_table(found: list[Result]) -> pd.DataFrame:
    """Figure 1b: one row a model and task, how many heads can go one by one."""
    rows = []
    for result in found:
        counts, heads = result.values["counts"], result.values["heads"]
        worst = min(heads, key=lambda head: head["delta"])
        rows.append({
            "model and task": result.setting,
            "accuracy": f"{result.values['baseline']['accuracy']:.3f}",
            "heads removable": f"{counts['removable']} of {counts['heads']}",
            "significant losses (Holm)": counts["significant_losses"],
            "any, not corrected": counts["raw_losses"] + counts["raw_gains"],
            "worst cut (points)": f"layer {worst['layer'] + 1}, head {worst['head'] + 1}: "
                                  f"{points(worst['delta'], worst['interval'])}",
        })
    return pd.DataFrame(rows)


def side_by_side(table: Callable[[Result], pd.DataFrame], found: list[Result]) -> pd.DataFrame:
    """One artifact's table for several results, below one another, model and task in front."""
    tables = {result.setting: table(result) for result in found}
    return pd.concat(tables, names=["model and task"]).reset_index("model and task")


def scores_table(curves: list[Result]) -> pd.DataFrame:
    """One row a model and task: what was scored on how much, uncut and by chance."""
    rows = []
    for result in curves:
        curve = result.values["curves"]["importance"]
        rows.append({
            "model and task": result.setting,
            "score": TASKS[result.task].metric,
            "examples": result.n_examples,
            "fine-tunings": len(curve["runs"]),
            "uncut": f"{curve['mean'][0]:.3f}",
            "chance": f"{result.values['chance']:.3f}",
            "accuracy": f"{curve.get('accuracy', curve['mean'])[0]:.3f}",
        })
    return pd.DataFrame(rows)


def kept_above_chance(result: Result) -> np.ndarray:
    """What a pruning curve by importance keeps of the uncut score above chance, a value a step."""
    scores, chance = np.array(result.values["curves"]["importance"]["mean"]), result.values["chance"]
    return (scores - chance) / (scores[0] - chance)


def tasks_table(curves: list[Result]) -> pd.DataFrame:
    """One row a model and task: the share that can go by importance, and what is kept beyond it."""
    rows, tolerance = [], f"{C3_TOLERANCE:.0%}"
    for result in curves:
        above = result.values["curves"]["importance"]["mean"][0] - result.values["chance"]
        prunable, published = result.values["prunable"], published_share(result.task)
        share = prunable["importance"][tolerance]
        shares, kept = result.values["shares"], kept_above_chance(result)
        row = {
            "model and task": result.setting,
            f"{tolerance} in points": f"{100 * C3_TOLERANCE * above:.2f}",
            "can go (95% interval)": estimate(share["share"], share["interval"], ".0%"),
            "random order": f"{prunable['random'][tolerance]['share']:.0%}",
            "the paper": "–" if published is None else f"{published:.0%}",
        }
        for removed in _REMOVED:
            at = min(range(len(shares)), key=lambda i, to=removed: abs(shares[i] - to))
            row[f"kept at {removed:.0%}"] = f"{kept[at]:.1%}"
        rows.append(row)
    return pd.DataFrame(rows)


def agreement_tasks_table(found: list[Result]) -> pd.DataFrame:
    """One row a model and task: how alike the importance of heads is after several fine-tunings."""
    rows = []
    for result in found:
        pairs = result.values["pairs"]
        ranks, common = ([pair[name] for pair in pairs] for name in ("spearman", "shared_least"))
        rows.append({
            "model and task": result.setting,
            "pairs of fine-tunings": len(pairs),
            "Spearman, mean": f"{result.values['mean_spearman']:.2f}",
            "lowest and highest": f"{min(ranks):.2f}, {max(ranks):.2f}",
            "ten least important in common": " to ".join(map(str, sorted({min(common), max(common)}))),
            "by chance": f"{result.values['shared_least_by_chance']:.1f}",
        })
    return pd.DataFrame(rows)


def importance_across_tasks(curves: list[Result]) -> pd.DataFrame:
    """How I_h after fine-tuning on one task ranks the heads of the same model after another.

    ``curves`` are pruning curves, the first fine-tuning of each.
    """
    rows = []
    ranked = [(result, normalize_l2({"self": torch.from_numpy(result.raw["scores"])}))
              for result in curves]
    for (one, x), (two, y) in itertools.combinations(ranked, 2):
        if one.model != two.model:
            continue
        found = stats.correlation(x["self"].flatten().numpy(), y["self"].flatten().numpy(), "spearman")
        least = [set(prune_order(side)[: side["self"].numel() // 5]) for side in (x, y)]
        rows.append({
            "model": spelled(one.model),
            "tasks": f"{spelled(one.task)}, {spelled(two.task)}",
            "Spearman (95% interval)": estimate(found.value, (found.low, found.high)),
            "least important fifth in common": f"{len(least[0] & least[1])} of {len(least[0])}",
        })
    return pd.DataFrame(rows)
