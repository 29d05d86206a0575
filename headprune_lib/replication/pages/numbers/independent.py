"""Numbers of the page "Do others find the same heads?"."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.independent import (
    ranks_of_same_weights,
    significant_again,
)
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED
from headprune_lib.replication.pages.tables.published_masks import alike
from headprune_lib.replication.pages.tables.tasks import pairs_of_tasks
from headprune_lib.replication.published import masked_tasks, ranks_alike
from headprune_lib.replication.store.results import Result


def independent(
    agreement: Result, shown: Mapping[str, Result], curves: Mapping[str, Result]
) -> Numbers:
    """What others found, how our fine-tunings agree, and how importance does from task to task.

    Args:
        agreement: of the page's own fine-tunings.
        shown: name -> agreement of fine-tunings, on all models and tasks.
        curves: name -> pruning curve of an encoder.
    """
    in_paper, again = significant_again()
    low, high = ranks_of_same_weights()
    values = agreement.values
    ranks, common = (
        [pair[name] for pair in values["pairs"]] for name in ("spearman", "shared_least")
    )
    return {
        "rank_low": low,
        "rank_high": high,
        "paper_count": in_paper,
        "again_count": again,
        "mean_rank": values["mean_spearman"],
        "low_rank": min(ranks),
        "high_rank": max(ranks),
        "common_low": min(common),
        "common_high": max(common),
        "by_chance": values["shared_least_by_chance"],
        **_alike(shown),
        "mpnet_common": _common("mpnet", curves),
        **_bert(),
    }


def _bert() -> Numbers:
    """How alike the importance of BERT-base's heads is, as others scored them."""
    tasks = list(alike())
    seeds = [task.seeds.mean() for task in tasks]
    others = [number for task in tasks for number in task.others.values()]
    means = [number for task in tasks for number in task.means]
    (entropy,) = (ranks_alike(one.entropy) for one in masked_tasks() if one.entropy is not None)
    return {
        "bert_seeds": f"{min(seeds):.2f} to {max(seeds):.2f}",
        "bert_tasks": f"{min(others):.2f} to {max(others):.2f}",
        "bert_means": f"{min(means):.2f} to {max(means):.2f}",
        "bert_n_tasks": len(tasks),
        "bert_nearer": sum(bool(task.others[task.nearest] > task.seeds.mean()) for task in tasks),
        "bert_entropy": f"{entropy.mean():.2f}",
    }


def _alike(shown: Mapping[str, Result]) -> Numbers:
    means = {name: result.values["mean_spearman"] for name, result in shown.items()}
    if not means:
        return dict.fromkeys(("least_alike", "least_alike_on", "most_alike"), NOT_MEASURED)
    least = min(means, key=lambda name: means[name])
    return {
        "least_alike": f"{means[least]:.2f}",
        "least_alike_on": least,
        "most_alike": f"{max(means.values()):.2f}",
    }


def _common(model: str, curves: Mapping[str, Result]) -> str:
    """Least important heads that two tasks have in common, as a multiple of chance's; mean of pairs."""
    times = [pair.common / pair.by_chance for pair in pairs_of_tasks(curves) if pair.model == model]
    return f"{mean(times):.1f}" if times else NOT_MEASURED
