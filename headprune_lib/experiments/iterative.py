"""Figures 3b, 6b and 6c (section 4.2, appendix B): heads removed together, in one order or another.

Orders are scored once and heads are removed cumulatively, as in the paper; ``rescored`` measures
I_h again after each step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from headprune_lib import stats
from headprune_lib.data import TASKS
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.metrics import SCORES, Score
from headprune_lib.experiments.outcomes import (
    MILLINAT,
    Setting,
    evaluate,
    millinats,
    resumed,
    runs_of,
    sweep,
)
from headprune_lib.experiments.records import (
    difference_record,
    interval_record,
    prunable_record,
)
from headprune_lib.heads import HeadTensors, full_mask
from headprune_lib.journal import Arrays, Journal
from headprune_lib.masking import masked_heads
from headprune_lib.orders import Head, order_mask, prune_order, prune_schedule
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.scoring import head_importance, normalize_l2

_RESAMPLES, _SEED = 5_000, 0


def _measure(profile: Profile, journal: Journal, get: Get) -> Measurement:
    setting = Setting.of(profile)
    raw = _first_seed(setting, journal, get)
    settings = [setting]
    for seed in profile.seeds[1:]:
        other = Setting.of(profile, seed)
        settings.append(other)
        order = prune_order(importance(other, journal))
        part = curves(other, {f"importance/{seed}": _cut_along(other, order)}, journal)
        raw = {name: np.concatenate([raw[name], part[name]]) if name in part else raw[name]
               for name in raw}
    # Losses of single examples are most of the bytes, and only their mean is asked for: those along
    # the paper's order stay, for whoever measures one of its points again.
    loss = millinats(raw["loss"])
    raw |= {"log_loss": loss.mean(-1) / MILLINAT, "loss": loss[0]}
    labels, task = np.array(setting.test.labels, np.int8), TASKS[profile.task]
    if task.metric != "accuracy":
        raw = {**raw, "metric": np.array(task.metric)}
    raw = {**raw, "labels": labels, "shares": np.arange(profile.steps + 1) / profile.steps}
    return Measurement(raw, runs_of(settings), profile.model, f"{profile.task}/test", len(labels),
                       task.metric, SCORES[task.metric].unit,
                       {f"seed {s.seed}": s.weights_sha256 for s in settings})


def _first_seed(setting: Setting, journal: Journal, get: Get) -> Arrays:
    """Every order on the main fine-tuning, or I_h's alone and random ones."""
    profile = setting.profile
    if every := profile.orders == "every":
        setting.check_apart()
    plain = importance(setting, journal, normalize=None)
    scores = normalize_l2(plain)
    named: dict[str, list[Head]] = {"importance": prune_order(scores)}
    if every:
        test = get("figure1b", profile).raw
        train = sweep(setting, setting.selection, "one head", journal, f"{profile.task} (train)")
        named |= {
            "importance unnormalised": prune_order(plain),
            "importance reversed": prune_order(scores)[::-1],
            "oracle": prune_order(oracle_scores(test)),
            "oracle leak-free": prune_order(oracle_scores(train)),
        }
    orders = {f"{name}/{profile.seed}": _cut_along(setting, order)
              for name, order in named.items()}
    for draw in range(profile.random_orders):
        shuffled = random_order(named["importance"], draw)
        orders[f"random/{draw}"] = _cut_along(setting, shuffled)
    if every:
        orders[f"importance rescored/{profile.seed}"] = _cut_rescored(setting, journal)
    found = curves(setting, orders, journal)
    return {**found, "scores": plain["self"].numpy(),
            "order": np.array([head[1:] for head in named["importance"]], np.int16)}


def importance(setting: Setting, journal: Journal, *, mask: HeadTensors | None = None,
               normalize: str | None = "l2", key: str = "all heads") -> HeadTensors:
    """I_h of the setting's model on its scoring sentences, under ``mask`` if given."""
    def measure() -> Arrays:
        # a kernel with a fast backward pass; the same weights
        model = Setting.of(setting.profile, setting.seed, "eager").model
        batches = setting.batches(setting.scoring).batches
        with masked_heads(model, mask or full_mask(model)):
            return {"self": head_importance(model, batches, normalize=None)["self"].numpy()}

    unit, = resumed(journal, [f"{setting.weights_sha256[:12]} I_h {key}"], [measure],
                    f"importance, seed {setting.seed}, {key}")
    scores = {"self": torch.from_numpy(unit["self"])}
    return normalize_l2(scores) if normalize == "l2" else scores


def oracle_scores(raw: Arrays) -> HeadTensors:
    """What cutting a head alone costs: accuracy lost, ties broken by log-loss (section 4.2)."""
    layers, heads = raw["heads"].max(0) + 1
    lost = raw["correct_uncut"].sum() - raw["correct"].sum(-1).astype(float)
    tie = raw["loss_change"].mean(-1) / MILLINAT
    # an example is worth more than any difference of mean loss
    values = lost + 0.5 * np.tanh(tie)
    scores = torch.full((int(layers), int(heads)), torch.nan, dtype=torch.float64)
    scores[raw["heads"][:, 0], raw["heads"][:, 1]] = torch.from_numpy(values)
    return {"self": scores}


def random_order(heads: list[Head], draw: int) -> list[Head]:
    """A permutation that depends on the number of the draw alone."""
    return [heads[i] for i in np.random.default_rng(draw).permutation(len(heads))]


Masks = Callable[[int], HeadTensors]


def _cut_along(setting: Setting, order: list[Head]) -> Masks:
    schedule = prune_schedule(len(order), setting.profile.steps)
    return lambda step: order_mask(setting.model, order, schedule[step])


def _cut_rescored(setting: Setting, journal: Journal) -> Masks:
    """Masks of the order that is scored again after each step, on the heads still there."""
    n_heads = sum(mask.numel() for mask in full_mask(setting.model).values())
    schedule = prune_schedule(n_heads, setting.profile.steps)

    def masks(step: int) -> HeadTensors:
        mask = full_mask(setting.model)
        for done in range(step):
            scores = importance(setting, journal, mask=mask, key=f"after step {done}")
            left = [h for h in prune_order(scores) if mask[h[0]][h[1], h[2]] == 1]
            for kind, layer, head in left[: schedule[done + 1] - schedule[done]]:
                mask[kind][layer, head] = 0
        return mask

    return masks


def curves(setting: Setting, orders: dict[str, Masks], journal: Journal) -> Arrays:
    """Outcomes along every order: ``curves`` (C,), ``correct`` and ``loss`` (C, steps + 1, n).

    Losses in nats. The two ends are the same for every order and measured once.
    """
    steps, weights = setting.profile.steps, setting.weights_sha256[:12]
    prepared = setting.batches(setting.test)
    keys, functions = [], []
    for name, masks in orders.items():
        for step in range(steps + 1):
            shared = {0: "no head cut", steps: "all heads cut"}.get(step, f"{name} step {step}")
            if f"{weights} {shared}" not in keys:
                keys.append(f"{weights} {shared}")
                functions.append(lambda masks=masks, step=step: evaluate(
                    setting, prepared, masks(step)))
    units = dict(zip(keys, resumed(journal, keys, functions,
                                   f"pruning curves, seed {setting.seed}"), strict=True))

    def stacked(name: str, outcome: str) -> np.ndarray:
        ends = {0: "no head cut", steps: "all heads cut"}
        return np.stack([units[f"{weights} {ends.get(step, f'{name} step {step}')}"][outcome]
                         for step in range(steps + 1)])

    return {"curves": np.array(list(orders)),
            **{outcome: np.stack([stacked(name, outcome) for name in orders])
               for outcome in ("correct", "loss")}}


def _summarise(raw: Arrays, _runs: list[dict]) -> dict:
    shares, labels = raw["shares"], raw["labels"]
    score = SCORES[str(raw.get("metric", "accuracy"))]
    members: dict[str, list[int]] = {}
    for i, name in enumerate(raw["curves"]):
        members.setdefault(str(name).split("/")[0], []).append(i)
    groups = {**members, "importance main": members["importance"][:1]}
    drawn = _drawn(score, {name: raw["correct"][rows] for name, rows in groups.items()}, labels)
    runs = {name: score(raw["correct"][rows], labels) for name, rows in groups.items()}
    chance = score.chance(labels)
    return {
        "shares": shares, "chance": chance,
        "curves": {name: _curve(raw, rows, runs[name], drawn[name])
                   for name, rows in groups.items()},
        "prunable": {name: prunable_record(shares, runs[name].mean(0), drawn[name], chance)
                     for name in groups},
        "area_differences": {
            other: _area_difference(shares, runs, drawn, other)
            for other in groups if other not in ("importance", "importance main")
        },
    }


def _drawn(score: Score, correct: dict[str, np.ndarray], labels: np.ndarray) -> dict:
    """Each order's curve on resampled test sets, name -> (resamples, steps + 1)."""
    if score is SCORES["accuracy"]:  # a plain mean; through its counts the sixth digit would change
        return stats.bootstrap_curves(correct, _RESAMPLES, _SEED)
    counts = {name: score.counts(curve, labels) for name, curve in correct.items()}
    return stats.bootstrap_curves(counts, _RESAMPLES, _SEED, score.of)


def _curve(raw: Arrays, rows: list[int], scores: np.ndarray, drawn: np.ndarray) -> dict:
    """Mean over runs with its bootstrap interval, every run, and the mean log-loss."""
    found = {
        "mean": scores.mean(0),
        "interval": interval_record(drawn).T,
        "runs": scores,
        "names": [str(raw["curves"][row]).split("/")[1] for row in rows],
        "log_loss": raw["log_loss"][rows].mean(0),
    }
    if "metric" in raw:  # accuracy beside a score that is not
        found["accuracy"] = raw["correct"][rows].mean((0, 2))
    return found


def _area_difference(shares, runs, drawn, other: str) -> dict:
    """Area under the main fine-tuning's I_h curve minus that of another order, paired."""
    def area(scores):
        return stats.area_under_curve(shares, scores)

    return difference_record(area(runs["importance main"].mean(0)) - area(runs[other].mean(0)),
                             area(drawn["importance main"]) - area(drawn[other]))


def _parameters(profile: Profile) -> dict:
    found = {"n_examples": profile.n_examples, "n_scoring": profile.n_scoring,
             "n_selection": profile.n_selection, "steps": profile.steps,
             "random_orders": profile.random_orders, "seeds": profile.seeds}
    if profile.orders != "every":
        found |= {"orders": profile.orders}
        del found["n_selection"]  # for the oracle alone
    return found


ARTIFACTS = tuple(
    Artifact(name, 2, 1, _parameters, _measure, _summarise, all_seeds=True,
             needs=("figure1b",))
    for name in ("figure3b", "figure6b", "figure6c")
)
