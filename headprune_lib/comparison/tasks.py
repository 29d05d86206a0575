"""The encoder on the paper's tasks: stored results of several profiles beside one another."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from headprune_lib import results
from headprune_lib.comparison.pages import estimate, points
from headprune_lib.comparison.published import paper
from headprune_lib.data import TASKS
from headprune_lib.results import Result

# Profile -> the tasks of its results (None: an artifact's main one); the larger encoder first.
_TASKS: dict[str, tuple[str | None, ...]] = {
    "base": (None, "snli"), "default": (None, "sst2", "snli", "cola", "mrpc")}
_MODELS = {"minilm": "MiniLM", "mpnet": "MPNet"}
_PUBLISHED = {"sst2": ("figure6", "sst2"), "cola": ("figure6", "cola"), "mrpc": ("figure6", "mrpc"),
              "snli": ("figure3", "bert_mnli")}
"""Where the paper's prunable share of a task is; MNLI's stands beside SNLI."""


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
            "model and task": setting_name(result),
            "examples": result.n_examples,
            "accuracy": f"{result.values['baseline']['accuracy']:.3f}",
            "heads": counts["heads"],
            "removable": counts["removable"],
            "significant losses (Holm)": counts["significant_losses"],
            "significant without correction": counts["raw_losses"] + counts["raw_gains"],
            "worst cut": f"layer {worst['layer'] + 1}, head {worst['head'] + 1}: "
                         f"{points(worst['delta'], worst['interval'])}",
        })
    return pd.DataFrame(rows)


def side_by_side(table: Callable[[Result], pd.DataFrame], found: list[Result]) -> pd.DataFrame:
    """One artifact's table for several results, below one another, model and task in front."""
    tables = {setting_name(result): table(result) for result in found}
    return pd.concat(tables, names=["model and task"]).reset_index("model and task")


def setting_name(result: Result) -> str:
    """Model and task in words, such as ``MPNet, cola``."""
    return f"{_MODELS.get(result.model, result.model)}, {result.task}"


def tasks_table(curves: list[Result]) -> pd.DataFrame:
    """One row a model and task: score uncut, chance, and the share that can go by importance."""
    rows = []
    for result in curves:
        curve, two = result.values["curves"]["importance"], result.values["prunable"]
        share = two["importance"]["2%"]
        published = _PUBLISHED.get(result.task)
        rows.append({
            "model and task": setting_name(result),
            "score": TASKS[result.task].metric,
            "examples": result.n_examples,
            "fine-tunings": len(curve["runs"]),
            "uncut": f"{curve['mean'][0]:.3f}",
            "accuracy": f"{curve.get('accuracy', curve['mean'])[0]:.3f}",
            "chance": f"{result.values['chance']:.3f}",
            "can go (95% interval)": estimate(share["share"], share["interval"], ".0%"),
            "in random order": f"{two['random']['2%']['share']:.0%}",
            "the paper": f"{paper(published[0])[published[1]]:.0%}" if published else "–",
        })
    return pd.DataFrame(rows)
