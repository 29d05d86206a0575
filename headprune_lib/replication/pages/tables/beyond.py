"""Tables beyond the paper: what others measured, other criteria, training again, a language model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats
import torch

from headprune_lib.criteria import CRITERIA
from headprune_lib.discovery import KINDS
from headprune_lib.replication.bench import SCORES_BY, read_runs
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.claims import questions
from headprune_lib.replication.claims.questions import Contrast, above_chance
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.data import whole_task
from headprune_lib.replication.measurements import scores
from headprune_lib.replication.measurements.contrasts import CONTRASTS
from headprune_lib.replication.order_names import parse_part, read_name
from headprune_lib.replication.pages.frames import raw_importance
from headprune_lib.replication.pages.tables.markup import (
    NOT_ABOVE_CHANCE,
    NOT_MEASURED,
    estimate,
    kept_text,
    number,
    p_text,
    points,
    signed,
)
from headprune_lib.replication.published import (
    MaskedTask,
    five_seeds,
    independent_grids,
    masked_tasks,
    paper,
    published_orders,
    ranks_alike,
    said_of_training,
    trained_methods,
)
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import ROLES, order_title, spelled
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import rank_heads

__all__ = [
    "agreement_tasks_table",
    "alike",
    "alike_by_others",
    "between_trainings",
    "contrasts_by_model",
    "contrasts_table",
    "costs_of_criteria",
    "entropy_over_seeds",
    "grid",
    "known_of_heads_table",
    "language_answers",
    "layers_again_table",
    "leaderboard",
    "leads_table",
    "masked_by_others",
    "measured_twice",
    "once_or_again",
    "others_board",
    "pairs_of_tasks",
    "passes_of_criteria",
    "published_wmt",
    "recovery_table",
    "roles_table",
    "stability_table",
    "trained_board",
]


@dataclass(frozen=True)
class Grid:
    """The effect of each cut that one laboratory measured, ``values`` (layers, heads)."""

    lab: str
    task: str
    kind: str
    values: np.ndarray
    p: np.ndarray | None = None


def grid(lab: str, task: str, what: str = "effects", kind: str = "self") -> Grid:
    """One grid of the project's copy of the reproductions' numbers.

    Args:
        lab: ``"Silent-Zebra"`` or ``"ljj7975"``, their repositories' owners.
        task: such as ``"MNLI"`` or ``"WMT en-fr"``.
        what: ``"effects"`` of one cut, or ``"all_but_one"``.
        kind: of attention.

    Raises:
        KeyError: there is no such grid.
    """
    for entry in independent_grids():
        if (entry["lab"], entry["task"], entry["what"], entry["kind"]) == (lab, task, what, kind):
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
    pairs += [("the fine-tuning", zebra, one, other, one) for one in ("MNLI", "SST-2", "CoLA")]
    for where, lab, tasks in (
        ("in one laboratory", zebra, ("MNLI SST-2", "MNLI CoLA", "SST-2 CoLA")),
        ("in another laboratory", other, ("MNLI SST-2", "MNLI CoLA", "MNLI MRPC")),
    ):
        pairs += [(f"the task, {where}", lab, one, lab, two) for one, two in map(str.split, tasks)]
    found = [(what, grid(lab, one), grid(again, two)) for what, lab, one, again, two in pairs]
    news = {kind: grid(zebra, "WMT en-fr", kind=kind) for kind in KINDS}
    found += [("laboratory and test set, same weights", published_wmt(), news["enc-enc"])]
    found += [
        ("the test set: news, web forum", news[kind], grid(zebra, "MTNT en-fr", kind=kind))
        for kind in KINDS
    ]
    return found


def layers_again_table() -> pd.DataFrame:
    """Each layer's best head alone, in the paper and again by others: change of the score."""
    settings = [
        ("BERT, MNLI (points)", "MNLI", "self", 100, paper("table3")["delta_accuracy_percent"])
    ]
    settings += [
        ("WMT en-fr (BLEU)", "WMT en-fr", kind, 1, paper("table2")[kind]["delta_bleu"])
        for kind in KINDS
    ]
    rows = []
    for model, task, kind, scale, published in settings:
        again = scale * grid("Silent-Zebra", task, "all_but_one", kind).values.max(1)
        rows += [
            {
                "model": model,
                "kind": kind,
                "layer": layer,
                "the paper": f"{theirs:+.2f}",
                "again": f"{best:+.2f}",
            }
            for layer, (theirs, best) in enumerate(zip(published, again, strict=True), 1)
        ]
    return pd.DataFrame(rows)


_METRICS = {"mcc": "Matthews correlation", "corr": "mean of Pearson and Spearman"}


@dataclass(frozen=True)
class Alike:
    """Spearman correlations over heads of importance after fine-tuning on a task.

    Attributes:
        seeds: of every two fine-tunings on the task.
        others: another task -> mean over every two fine-tunings, one on each, of different seeds.
        means: of the mean over seeds with that on each other task.
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
    """A task after the other."""
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
    """One row a task: how alike importance is after two fine-tunings on it, and on two tasks."""
    return pd.DataFrame(
        [
            {
                "BERT-base on": one.task,
                "two seeds, mean": f"{one.seeds.mean():.2f}",
                "lowest and highest": f"{one.seeds.min():.2f}, {one.seeds.max():.2f}",
                "with another task, mean": f"{np.mean([*one.others.values()]):.2f}",
                "nearest task": f"{one.others[one.nearest]:.2f} ({one.nearest})",
                "means over seeds, with another task": f"{one.means.min():.2f} to {one.means.max():.2f}",
            }
            for one in alike()
        ]
    )


def masked_by_others() -> pd.DataFrame:
    """One row a task: heads until 90% of the score is left, and what is left by other masks."""
    return pd.DataFrame([_masked(task) for task in masked_tasks()])


def _masked(task: MaskedTask) -> dict[str, str]:
    removed = task.removed

    def score(name: str) -> str:
        return f"{100 * task.scores[name][0]:.1f}"

    def before_and_after(name: str) -> str:
        return f"{score(name)} → {score(f'{name}_retrained')}"

    def ahead(suffix: str) -> str:
        lead, *interval = task.ahead_of_random(suffix)
        return points(lead, interval)

    return {
        "BERT-base on": f"{task.task}, {_METRICS.get(task.metric, 'accuracy')}",
        "heads removed (lowest to highest)": f"{removed.mean():.1f} ({removed.min()} to {removed.max()})",
        "all heads": score("no_mask"),
        "constant answer": score("freq_baseline"),
        "by importance": before_and_after("head"),
        "as many at random": before_and_after("head_random"),
        "importance minus random": ahead(""),
        "the same, fine-tuned": ahead("_retrained"),
        "the removed heads alone": before_and_after("head_invert"),
    }


def others_board() -> pd.DataFrame:
    """One row an order of a laboratory on a task, the one that keeps most first."""
    ordered = sorted(published_orders(), key=lambda one: (one.task, -one.area))
    return pd.DataFrame(
        [
            {
                "BERT-base on": spelled(one.task),
                "order": one.order,
                "measured by": one.who,
                "kept, mean over 0 to 50% removed": f"{one.area:.1%}",
                "kept at 50%": f"{np.interp(ORDERS_UP_TO, one.shares, one.kept):.1%}",
                "accuracy, all heads": f"{one.accuracy[0]:.2%}",
            }
            for one in ordered
        ]
    )


def entropy_over_seeds() -> pd.DataFrame:
    """One row a share removed: what entropy adds to importance in the mean of five fine-tunings."""
    return pd.DataFrame(
        [
            {
                "heads removed": f"{one['percent_removed']}%",
                "importance and entropy minus importance (points)": signed(one["points"]),
            }
            for one in five_seeds()
        ]
    )


def trained_board() -> pd.DataFrame:
    """One row a size of a method that trains; then what others say without numbers a size."""
    rows = [
        {
            "who": method["who"],
            "heads left": f"{one['left']} of {method['heads']}",
            "result": f"{one['score']:.2f} {method['metric']} (all heads: {method['whole']:.1f})",
        }
        for method in trained_methods()
        for one in method["pruned"]
    ]
    rows += [
        {"who": one["who"], "heads left": "", "result": one["says"]} for one in said_of_training()
    ]
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


def leaderboard(found: Mapping[str, Result]) -> pd.DataFrame:
    """One row an order of a task, the one that keeps most first; a column for fitted gates.

    Args:
        found: name of task and model -> result of ``which_first``.
    """
    rows = leaderboard_rows(found)
    fitted = {
        (row["measured_on"], parse_part(row["order"], "tuned").order): _interval(row, "area", ".1%")
        for row in rows
        if parse_part(row["order"], "tuned").tuned
    }
    table = pd.DataFrame(
        [
            {
                "measured on": row["measured_on"],
                "order": row["title"],
                "kept, mean over 0 to 50% removed": _interval(row, "area", ".1%")
                if row["above_chance"]
                else NOT_ABOVE_CHANCE,
                "loss added (nats)": _interval(row, "added_loss", ".3f"),
                "trainings": row["trainings"],
                **(
                    {"kept, gates fitted": fitted.get((row["measured_on"], row["order"]), "")}
                    if fitted
                    else {}
                ),
            }
            for row in rows
            if not parse_part(row["order"], "tuned").tuned
        ]
    )
    table.attrs["prose"] = True  # two columns of words
    return table


def once_or_again(found: Mapping[str, Result]) -> pd.DataFrame:
    """Absolute value of each example's derivative or of a batch's, scored once or at each step.

    One row a model that has all four orders.

    Args:
        found: name of task and model -> result of ``which_first``.
    """
    ways = {
        f"{whose}, {when}": order
        for criterion, whose in (("importance", "an example's"), ("importance-batch", "a batch's"))
        for when, order in (("once", criterion), ("again", f"{criterion} rescored"))
    }
    return pd.DataFrame(
        [
            {"measured on": where}
            | {
                way: estimate(one["area"]["value"], one["area"]["interval"], ".1%")
                for way, order in ways.items()
                if (one := result.values["orders"][order])
            }
            for where, result in found.items()
            if {*ways.values()} <= {*result.values["orders"]}
        ]
    )


def passes_of_criteria(path: Path) -> dict[str, float]:
    """Criterion -> forward passes over the same text that its scores take.

    Args:
        path: what ``headprune bench criteria`` stored; empty if there is nothing.
    """
    rows = [row for run in read_runs(path)[:1] for row in run["rows"]]
    return {row["what"].removeprefix(SCORES_BY): row["ratio"] for row in rows}


def costs_of_criteria(path: Path) -> pd.DataFrame:
    """:func:`passes_of_criteria` as a table, the cheapest first."""
    if not (named := passes_of_criteria(path)):
        return pd.DataFrame()
    table = pd.DataFrame(
        [
            {
                "criterion": shown(name).label,
                "what it computes": shown(name).cost,
                "forward passes": f"{ratio:,.1f}" if ratio < 100 else f"{ratio:,.0f}",
            }
            for name, ratio in sorted(named.items(), key=lambda item: item[1])
        ]
    )
    table.attrs["prose"] = True
    return table


def _interval(row: Mapping[str, Any], name: str, form: str) -> str:
    return estimate(row[name], [row[f"{name}_low"], row[f"{name}_high"]], form)


def contrasts_table(contrasts: Iterable[Contrast]) -> pd.DataFrame:
    """One row a contrast: the difference over all tasks, p, its word, and what stands beside it."""
    return pd.DataFrame(
        [
            {
                "contrast": one.name,
                "more kept (points)": points(one.value, one.interval, ".1f"),
                "p (Holm)": p_text(one.p_holm),
                "word": one.word,
                "less loss added (nats)": _triple(one.loss, ".4f"),
                "above its control (points)": _triple(one.control, ".1f", 100),
                "models": len(one.tasks),
            }
            for one in contrasts
            if one.word != "not run"
        ]
    )


def contrasts_by_model(found: Mapping[str, Result]) -> pd.DataFrame:
    """One row a model, one column a contrast: the difference of areas in points."""
    return pd.DataFrame(
        [
            {"measured on": where} | {name: _of_model(result.values, name) for name in CONTRASTS}
            for where, result in found.items()
        ]
    )


def _of_model(values: Mapping[str, Any], name: str) -> str:
    if (one := values["contrasts"].get(name)) is None:
        return NOT_MEASURED
    if not above_chance(values):
        return NOT_ABOVE_CHANCE
    return points(one["area"]["value"], one["area"]["interval"], ".1f")


def _triple(found: tuple[float, float, float] | None, form: str, scale: float = 1) -> str:
    return "" if found is None else signed(found[0], found[1:], form, scale)


def leaderboard_rows(found: Mapping[str, Result]) -> list[dict[str, Any]]:
    """What is known of every order on every model, the order that keeps most first.

    ``area`` is the share of the metric above chance that is kept, mean over 0 to 50% of the heads
    removed, and ``added_loss`` what the loss grows by, in nats; both with their 95% interval. Where
    the uncut model is not ``above_chance`` in every resample, the share says nothing, and the order
    that adds least loss comes first.
    """
    rows = []
    for name, result in found.items():
        orders, comparable = result.values["orders"], above_chance(result.values)
        for order in sorted(orders, key=lambda one: _rank(orders[one], comparable)):
            one, criterion = orders[order], order.partition(" ")[0]
            rows.append(
                {
                    "measured_on": name,
                    "task": result.task,
                    "model": result.model,
                    "order": order,
                    "title": order_title(order),
                    "above_chance": comparable,
                    "area": one["area"]["value"],
                    "area_low": one["area"]["interval"][0],
                    "area_high": one["area"]["interval"][1],
                    "added_loss": one["added_loss"]["value"],
                    "added_loss_low": one["added_loss"]["interval"][0],
                    "added_loss_high": one["added_loss"]["interval"][1],
                    "texts": result.n_examples,
                    "trainings": len(one["trainings"]),
                    "cost": shown(criterion).cost if criterion in CRITERIA else "",
                }
            )
    return rows


def _rank(order: Mapping[str, Any], comparable: bool) -> float:
    return -order["area"]["value"] if comparable else order["added_loss"]["value"]


NO_TEXT = "reads no text"


def _in_order(criteria: Mapping[str, Any]) -> dict[str, Any]:
    """As the measurement names them, then others: a file has them by their names."""
    known = {name: criteria[name] for name in scores.CRITERIA if name in criteria}
    return {**known, **criteria}


def stability_table(stability: Result, agreement: Result | None) -> pd.DataFrame:
    """One row a criterion: rank correlation of its scores with those on other text, and of two
    fine-tunings in the mean.

    Args:
        agreement: scores of importance in several fine-tunings, if it was measured.
    """
    rows = []
    for name, found in _in_order(stability.values["criteria"]).items():
        reads = not shown(read_name(name).criterion.name).cost.startswith("none")
        row = {"criterion": order_title(name)}
        for domain, one in found["domains"].items():
            row[spelled(domain)] = estimate(one["r"], one["interval"]) if reads else NO_TEXT
        row["two fine-tunings"] = number(between_trainings(name, stability, agreement), ".2f")
        rows.append(row)
    return pd.DataFrame(rows)


def between_trainings(order: str, stability: Result, agreement: Result | None) -> float | None:
    """Mean rank correlation of a criterion's scores in two fine-tunings; None where there is one.

    Of importance other results hold the scores of all fine-tunings.
    """
    found = stability.values["criteria"][order]["mean_trainings"]
    if found is not None or agreement is None or order not in ("importance", scores.PLAIN):
        return found
    if order == "importance":
        return agreement.values["mean_spearman"]
    flat = agreement.raw["scores"].reshape(len(agreement.raw["scores"]), -1)
    pairs = [scipy.stats.spearmanr(*pair).statistic for pair in itertools.combinations(flat, 2)]
    return float(np.mean(pairs)) if pairs else None


def known_of_heads_table(values: Mapping[str, Any]) -> pd.DataFrame:
    """One row a criterion: its rank correlation with the effect of a head's absence, and what is
    left of it with others held fixed.

    Args:
        values: those of ``stability``.
    """

    def cell(found: Mapping[str, Any] | None) -> str:
        return "" if found is None else signed(found["r"], found["interval"])

    return pd.DataFrame(
        [
            {
                "criterion": order_title(name),
                "alone": cell(found["effect"]),
                "within layers": cell(found["given_layer"]),
                "within layers, importance held fixed": cell(found["given_both"]),
            }
            for name, found in _in_order(values["criteria"]).items()
            if found["effect"] is not None
        ]
    )


def roles_table(values: Mapping[str, Any]) -> pd.DataFrame:
    """One row a role: its rank correlation with the place in each order, the first to go first.

    Args:
        values: those of ``head_roles``.
    """
    return pd.DataFrame(
        [
            {"of a head": title}
            | {
                order_title(name): signed(one["ranks"][role]["r"], one["ranks"][role]["interval"])
                for name, one in values["orders"].items()
            }
            for role, title in ROLES.items()
        ]
    )


_WHEN = ("before", "after")
_UNITS = {"accuracy": "points", "BLEU": "BLEU"}
"""Of a lead, by the metric of the result."""


def leads_table(values: Mapping[str, Any], metric: str = "accuracy") -> pd.DataFrame:
    """One row an order, share and way of training: what it has more than random orders.

    Args:
        values: those of ``recovery``.
        metric: of that result.
    """
    return pd.DataFrame(
        [
            {
                "order": order_title(one["order"]),
                "removed": f"{one['share']:.0%}",
                "trained": one["way"],
                **{
                    f"lead {when} training ({_UNITS[metric]})": points(
                        one[when]["difference"], one[when]["interval"]
                    )
                    for when in _WHEN
                },
                **{
                    f"loss beside random's, {when} (nats)": signed(
                        one[f"loss_{when}"]["difference"], one[f"loss_{when}"]["interval"], ".3f"
                    )
                    for when in _WHEN
                },
            }
            for one in values["leads"]
        ]
    )


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
