"""Tables beyond the paper: others' measurements, other criteria, retraining, a language model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy

from headprune_lib.cli.criteria import known_criteria
from headprune_lib.replication import stats
from headprune_lib.replication.bench import SCORES_BY, read_runs
from headprune_lib.replication.claims import questions
from headprune_lib.replication.claims.questions import Contrast, above_chance
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.data import whole_task
from headprune_lib.replication.formatting import estimate, p_text, points, signed
from headprune_lib.replication.lazy import scoring, selection, torch
from headprune_lib.replication.measurements import scores
from headprune_lib.replication.pages.frames import raw_importance
from headprune_lib.replication.pages.tables.markup import kept_text
from headprune_lib.replication.published import (
    independent_grids,
    masked_tasks,
    paper,
    published_orders,
    ranks_alike,
)
from headprune_lib.replication.store.packing import KINDS
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import order_title, spelled


@dataclass(frozen=True)
class Grid:
    """One laboratory's measured effect of each cut; ``values`` is (layers, heads)."""

    lab: str
    task: str
    kind: str
    values: np.ndarray
    p: np.ndarray | None = None


def grid(lab: str, task: str, what: str = "effects", kind: str = "self") -> Grid:
    """One grid of a laboratory, ``"Silent-Zebra"`` or ``"ljj7975"``; KeyError if there is none.

    ``what`` is ``"effects"`` of single cuts, or ``"all_but_one"``.
    """
    asked = (lab, task, what, kind)
    for entry in independent_grids():
        if tuple(entry[name] for name in ("lab", "task", "what", "kind")) == asked:
            p = entry.get("p")
            return Grid(lab, task, kind, np.array(entry["values"]), p and np.array(p))
    raise KeyError(f"no grid of {what} by {lab} on {task}, kind {kind}")


def published_wmt() -> Grid:
    """The paper's Table 1."""
    return Grid("the paper", "WMT en-fr", "enc-enc", np.array(paper("table1")["delta_bleu"]))


def measured_twice() -> list[tuple[str, Grid, Grid]]:
    """Pairs of grids of one model's heads, with what differs between the two."""
    zebra, other = "Silent-Zebra", "ljj7975"
    pairs = [("the test set: matched, mismatched", zebra, "MNLI", zebra, "MNLI mismatched")]
    pairs += [("the fine-tuning", zebra, task, other, task) for task in ("MNLI", "SST-2", "CoLA")]
    for where, lab, tasks in (
        ("in one laboratory", zebra, ("MNLI SST-2", "MNLI CoLA", "SST-2 CoLA")),
        ("in another laboratory", other, ("MNLI SST-2", "MNLI CoLA", "MNLI MRPC")),
    ):
        pairs += [(f"the task, {where}", lab, one, lab, two) for one, two in map(str.split, tasks)]
    twice = [(what, grid(lab, one), grid(again, two)) for what, lab, one, again, two in pairs]
    news, forum = (
        {kind: grid(zebra, text, kind=kind) for kind in KINDS}
        for text in ("WMT en-fr", "MTNT en-fr")
    )
    twice += [("laboratory and test set, same weights", published_wmt(), news["enc-enc"])]
    pooled = [
        Grid(zebra, of["enc-enc"].task, "all kinds", np.stack([of[kind].values for kind in KINDS]))
        for of in (news, forum)
    ]
    texts = "the test set: news, web forum"
    twice += [(texts, news[kind], forum[kind]) for kind in KINDS]
    return [*twice, (texts, *pooled)]


def correlated_twice() -> pd.DataFrame:
    """One row per pair of :func:`measured_twice`, with both correlations of effects over heads."""
    rows = []
    for differs, first, second in measured_twice():
        effects = first.values.ravel(), second.values.ravel()
        rows.append(
            {
                "what differs": differs,
                "text": ", ".join(dict.fromkeys((first.task, second.task))),
                "kind": first.kind,
                "Pearson r": stats.correlation(*effects, "pearson"),
                "Spearman": stats.correlation(*effects, "spearman"),
            }
        )
    return pd.DataFrame(rows)


def layers_again_table() -> pd.DataFrame:
    """Change of the score with each layer's best head alone, by the paper and by others."""
    bert, wmt = paper("table3")["delta_accuracy_percent"], paper("table2")
    settings = [("BERT, MNLI (points)", "MNLI", "self", 100, bert)]
    settings += [
        ("WMT en-fr (BLEU)", "WMT en-fr", kind, 1, wmt[kind]["delta_bleu"]) for kind in KINDS
    ]
    rows = []
    for model, task, kind, scale, published in settings:
        again = scale * grid("Silent-Zebra", task, "all_but_one", kind).values.max(1)
        for layer, (theirs, best) in enumerate(zip(published, again, strict=True), 1):
            rows.append((model, kind, layer, f"{theirs:+.2f}", f"{best:+.2f}"))
    return pd.DataFrame(rows, columns=["model", "kind", "layer", "the paper", "again"])


@dataclass(frozen=True)
class Alike:
    """Spearman correlations, over heads, of importance after fine-tuning on a task.

    Attributes:
        seeds: between every two fine-tunings on the task.
        others: other task -> mean over pairs of fine-tunings, one on each task, of different seeds.
        means: between the mean over seeds and that on each other task.
    """

    task: str
    seeds: np.ndarray
    others: dict[str, float]
    means: np.ndarray

    @property
    def nearest(self) -> str:
        """The other task that agrees best."""
        return max(self.others, key=lambda task: self.others[task])


def alike() -> Iterator[Alike]:
    """Yield the correlations of one task after another."""
    tasks = masked_tasks()
    means = scipy.stats.spearmanr([task.importance.mean(0) for task in tasks], axis=1).statistic
    for i, task in enumerate(tasks):
        others = {
            other.task: float(ranks_alike(task.importance, other.importance).mean())
            for other in tasks
            if other is not task
        }
        yield Alike(task.task, ranks_alike(task.importance), others, np.delete(means[i], i))


def alike_by_others() -> pd.DataFrame:
    """One row per task: how alike importance is after two fine-tunings on it, and on two tasks."""
    return pd.DataFrame(
        [
            {
                "BERT-base on": task.task,
                "two seeds, mean": f"{task.seeds.mean():.2f}",
                "lowest and highest": f"{task.seeds.min():.2f}, {task.seeds.max():.2f}",
                "another task, mean": f"{np.mean([*task.others.values()]):.2f}",
                "nearest task": f"{task.others[task.nearest]:.2f} ({task.nearest})",
                "means over seeds": f"{task.means.min():.2f} to {task.means.max():.2f}",
            }
            for task in alike()
        ]
    )


def others_board() -> pd.DataFrame:
    """Share kept: a row per order and laboratory, a column per task, sorted by the first task."""
    kept: dict[tuple[str, str], dict[str, str]] = {}
    for one in sorted(published_orders(), key=lambda one: (one.task, -one.area)):
        row = {"order": one.order, "measured by": one.who}
        kept.setdefault((one.order, one.who), row)[spelled(one.task)] = f"{one.area:.1%}"
    return pd.DataFrame(kept.values()).fillna("–")


def agreement_tasks_table(shown: Mapping[str, Result]) -> pd.DataFrame:
    """One row per model and task: how alike the importance of heads is between fine-tunings."""
    rows = []
    for name, result in shown.items():
        pairs = result.values["pairs"]
        ranks, common = ([pair[name] for pair in pairs] for name in ("spearman", "shared_least"))
        rows.append(
            {
                "model and task": name,
                "pairs": len(pairs),
                "Spearman, mean": f"{result.values['mean_spearman']:.2f}",
                "lowest and highest": f"{min(ranks):.2f}, {max(ranks):.2f}",
                "least ten in common": " to ".join(map(str, sorted({min(common), max(common)}))),
                "by chance": f"{result.values['shared_least_by_chance']:.1f}",
            }
        )
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Pair:
    """I_h of one model after its first fine-tunings on two tasks, normalised by layer.

    ``importance`` has shape (2, heads). ``common`` is the number of heads in both least important
    fifths, ``by_chance`` the number expected of random orders.
    """

    model: str
    tasks: tuple[str, str]
    importance: np.ndarray
    common: int
    by_chance: float


def pairs_of_tasks(curves: Mapping[str, Result]) -> list[Pair]:
    """Every two pruning curves of one model fine-tuned on different tasks.

    Tasks that are part of another, such as ``snli-held``, are skipped: they share its fine-tunings.
    """
    ranked = [
        (result, scoring.normalize_l2({"self": torch.from_numpy(raw_importance(result))}))
        for result in curves.values()
        if result.task == whole_task(result.task)
    ]
    pairs = []
    for (first, x), (second, y) in itertools.combinations(ranked, 2):
        if first.model != second.model or first.task == second.task:
            continue
        heads = x["self"].numel()
        least = [set(selection.rank_heads(side)[: heads // 5]) for side in (x, y)]
        pairs.append(
            Pair(
                first.model,
                (first.task, second.task),
                np.stack([side["self"].flatten().numpy() for side in (x, y)]),
                len(least[0] & least[1]),
                len(least[0]) ** 2 / heads,
            )
        )
    return pairs


def passes_of_criteria(path: Path) -> dict[str, float]:
    """Criterion -> cost of its scores in forward passes, as ``headprune bench criteria`` stored it."""
    rows = [row for run in read_runs(path)[:1] for row in run["rows"]]
    return {row["what"].removeprefix(SCORES_BY): row["ratio"] for row in rows}


def contrasts_table(contrasts: Iterable[Contrast]) -> pd.DataFrame:
    """One row per contrast: the difference over all tasks, p, its word, its loss and control."""
    return pd.DataFrame(
        [
            {
                "contrast": contrast.name,
                "more kept (points)": points(contrast.value, contrast.interval, ".1f"),
                "p (Holm)": p_text(contrast.p_holm),
                "word": contrast.word,
                "less loss added (nats)": _triple(contrast.loss, ".4f"),
                "above its control (points)": _triple(contrast.control, ".1f", 100),
                "models": len(contrast.tasks),
            }
            for contrast in contrasts
            if contrast.word != "not run"
        ]
    )


def _triple(found: tuple[float, float, float] | None, form: str, scale: float = 1) -> str:
    return "–" if found is None else signed(found[0], found[1:], form, scale)


def leaderboard_rows(found: Mapping[str, Result]) -> list[dict[str, Any]]:
    """One row per model and order, the order that keeps most first.

    ``area`` is the share of the metric above chance that is kept, averaged over 0 to 50% of the
    heads removed, and ``added_loss`` the increase of the loss in nats; both have 95% intervals. If
    the uncut model is not ``above_chance`` in every resample, the share says nothing, and the order
    that adds least loss comes first.
    """
    rows = []
    for name, result in found.items():
        orders, comparable = result.values["orders"], above_chance(result.values)
        for order in sorted(orders, key=lambda order: _rank(orders[order], comparable)):
            numbers, criterion = orders[order], order.partition(" ")[0]
            rows.append(
                {
                    "measured_on": name,
                    "task": result.task,
                    "model": result.model,
                    "order": order,
                    "title": order_title(order),
                    "above_chance": comparable,
                    "area": numbers["area"]["value"],
                    "area_low": numbers["area"]["interval"][0],
                    "area_high": numbers["area"]["interval"][1],
                    "added_loss": numbers["added_loss"]["value"],
                    "added_loss_low": numbers["added_loss"]["interval"][0],
                    "added_loss_high": numbers["added_loss"]["interval"][1],
                    "texts": result.n_examples,
                    "trainings": len(numbers["trainings"]),
                    "cost": shown(criterion).cost if criterion in known_criteria() else "",
                }
            )
    return rows


def _rank(order: Mapping[str, Any], comparable: bool) -> float:
    return -order["area"]["value"] if comparable else order["added_loss"]["value"]


def between_trainings(order: str, stability: Result, agreement: Result | None) -> float | None:
    """Mean rank correlation of a criterion's scores between fine-tunings; None for a single one.

    For importance, ``agreement`` has the scores of all fine-tunings.
    """
    stored = stability.values["criteria"][order]["mean_trainings"]
    if stored is not None or agreement is None or order not in ("importance", scores.PLAIN):
        return stored
    if order == "importance":
        return agreement.values["mean_spearman"]
    flat = agreement.raw["scores"].reshape(len(agreement.raw["scores"]), -1)
    pairs = [scipy.stats.spearmanr(*pair).statistic for pair in itertools.combinations(flat, 2)]
    return float(np.mean(pairs)) if pairs else None


def leads_table(values: Mapping[str, Any], metric: str = "accuracy") -> pd.DataFrame:
    """One row per order, share and way of training in ``recovery``: its lead over random orders."""
    unit = {"accuracy": "points", "BLEU": "BLEU"}[metric]

    def text(change: Mapping[str, Any], form: str = ".2f", scale: float = 100) -> str:
        return signed(change["difference"], change["interval"], form, scale)

    return pd.DataFrame(
        [
            {
                "order": order_title(lead["order"]),
                "removed": f"{lead['share']:.0%}",
                "trained": lead["way"],
                f"lead before ({unit})": text(lead["before"]),
                f"lead after ({unit})": text(lead["after"]),
                "loss minus random's, after (nats)": text(lead["loss_after"], ".3f", 1),
            }
            for lead in values["leads"]
        ]
    )


def language_answers(curves: Mapping[str, Result], heads: Mapping[str, Result]) -> pd.DataFrame:
    """One row per question and text: the finding, and the answer by the rule."""
    rows = []
    question = f"{questions.LANGUAGE_SHARE:.0%} of the heads together, in the paper's order"
    for result in curves.values():
        together = questions.redundancy(result.values)
        kept = kept_text({"kept": together.kept, "interval": together.interval})
        rows.append((question, spelled(result.task), f"{kept} kept", together.answer))
    for result in heads.values():
        alone = questions.single_heads(result.values)
        found = f"{alone.removable} of {alone.heads} removable, {alone.needed} needed"
        rows.append(("one head at a time", spelled(result.task), found, alone.answer))
    return pd.DataFrame(rows, columns=["question", "text", "found", "by our rule"])


def recovery_table(found: Mapping[str, Result]) -> pd.DataFrame:
    """One row per share removed: heads and parameters removed, perplexity before and after training."""
    return pd.DataFrame(
        [
            {
                "heads removed": f"{row['removed']} ({row['share']:.0%})",
                "parameters (millions)": f"{row['left'] / 1e6:.1f}",
                "perplexity": estimate(row["pruned"], row["pruned_interval"], ".1f"),
                "after training again": estimate(row["tuned"], row["tuned_interval"], ".1f"),
            }
            for result in found.values()
            for row in result.values["recovered"]
        ]
    )
