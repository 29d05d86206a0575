"""Figures 3a, 4 and 6d (sections 4.2 and 5, appendix B): heads removed together.

Figure 3a removes heads of all kinds in one order, Figure 4 those of one kind alone; Figure 6d is
Figure 3a's importance curve for the second language pair.
"""

from __future__ import annotations

import numpy as np
import torch

from headprune_lib import stats
from headprune_lib.ablation import one_head_masks
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.iterative import random_order
from headprune_lib.experiments.outcomes import MILLINAT
from headprune_lib.experiments.records import (
    difference_record,
    interval_record,
    prunable_record,
)
from headprune_lib.experiments.translation.outcomes import (
    KINDS,
    TranslationSetting,
    all_counts,
    first_verses,
    importance,
    mean_losses,
    sweep,
    sweep_heads,
)
from headprune_lib.heads import HeadTensors
from headprune_lib.journal import Arrays, Journal
from headprune_lib.orders import Head, order_mask, prune_order, prune_schedule
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.scoring import normalize_l2
from headprune_lib.translation.bleu import corpus_bleu
from headprune_lib.translation.verses import Pairs
from headprune_lib.verdicts import C4_REMOVED

_RESAMPLES, _SEED = 5_000, 0

Orders = dict[str, list[Head]]


def _measure_figure3a(profile: Profile, journal: Journal, get: Get) -> Measurement:
    setting = TranslationSetting.of(profile, profile.translation_task)
    plain = importance(setting, journal, normalize=None)
    valid = sweep_heads(setting, setting.pairs("valid"), one_head_masks(setting.model), journal,
                        "one head cut (valid)")
    orders = {
        "importance": prune_order(normalize_l2(plain)),
        "importance unnormalised": prune_order(plain),
        "oracle": prune_order(oracle_scores(
            first_verses(get("table1", profile).raw, profile.n_verses))),
        "oracle leak-free": prune_order(oracle_scores(valid)),
    }
    orders |= _random(orders["importance"], profile.translation_orders)
    return _along(setting, setting.headline, orders, plain, journal)


def _measure_figure4(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    setting = TranslationSetting.of(profile, profile.translation_task)
    plain = importance(setting, journal, normalize=None)
    orders: Orders = {}
    for kind in KINDS:
        own = [head for head in prune_order(normalize_l2(plain)) if head[0] == kind]
        orders[f"{kind} importance"] = own
        orders |= _random(own, profile.translation_orders, f"{kind} ")
    return _along(setting, setting.pairs("test"), orders, plain, journal)


def _measure_figure6d(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    setting = TranslationSetting.of(profile, profile.training_task)
    plain = importance(setting, journal, normalize=None)
    orders = {"importance": prune_order(normalize_l2(plain))}
    orders |= _random(orders["importance"], profile.translation_orders)
    return _along(setting, setting.pairs("test"), orders, plain, journal)


def _random(heads: list[Head], draws: int, prefix: str = "") -> Orders:
    return {f"{prefix}random/{draw}": random_order(heads, draw) for draw in range(draws)}


def oracle_scores(raw: Arrays) -> HeadTensors:
    """What cutting a head alone costs: BLEU lost, ties broken by loss (section 4.2)."""
    uncut, cuts = all_counts(raw)
    lost = corpus_bleu(uncut.sum(0)) - corpus_bleu(cuts.sum(1))
    # far below what a changed n-gram does to BLEU
    tie = 1e-9 * np.tanh(raw["draft_loss_change"].mean(-1) / MILLINAT)
    scores = {}
    for number, kind in enumerate(KINDS):
        rows = raw["heads"][:, 0] == number
        layers, heads = raw["heads"][rows, 1], raw["heads"][rows, 2]
        grid = torch.full((int(layers.max()) + 1, int(heads.max()) + 1), torch.nan,
                          dtype=torch.float64)
        grid[layers.astype(int), heads.astype(int)] = torch.from_numpy((lost + tie)[rows])
        scores[kind] = grid
    return scores


def _along(setting: TranslationSetting, pairs: Pairs, orders: Orders, scores: HeadTensors,
           journal: Journal) -> Measurement:
    """Outcomes along every order; its first step is the unmasked model.

    Orders of the same heads end with the same mask, which is measured once.
    """
    steps, cuts, rows = setting.profile.steps, {}, []
    for order in orders.values():
        schedule = prune_schedule(len(order), steps)
        for step in range(1, steps + 1):
            cut = frozenset(order[: schedule[step]])
            cuts.setdefault(cut, order_mask(setting.model, order, schedule[step]))
            rows.append(list(cuts).index(cut))
    raw = sweep(setting, pairs, list(cuts.values()), journal, "pruning curves")
    raw |= {name: values[rows] for name, values in raw.items() if name.endswith("_change")}
    raw |= {"orders": np.repeat(list(orders), steps), "shares": np.arange(steps + 1) / steps,
            **{f"scores {kind}": values.numpy() for kind, values in scores.items()}}
    return setting.measurement(mean_losses(raw), len(pairs))


def _curves(raw: Arrays) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """BLEU (runs, steps + 1) of each order, and resampled mean curves (resamples, steps + 1)."""
    uncut, cuts = all_counts(raw)
    members: dict[str, list[np.ndarray]] = {}
    for order in dict.fromkeys(map(str, raw["orders"])):
        curve = np.concatenate([uncut[None], cuts[raw["orders"] == order]])
        members.setdefault(order.split("/")[0], []).append(curve)
    counts = {name: np.stack(runs) for name, runs in members.items()}
    return ({name: corpus_bleu(runs.sum(2)) for name, runs in counts.items()},
            stats.bootstrap_curves(counts, _RESAMPLES, _SEED, corpus_bleu))


def _summarise(raw: Arrays, _runs: list[dict]) -> dict:
    shares, (found, drawn) = raw["shares"], _curves(raw)
    values = {
        "shares": shares, "chance": 0.0,
        "curves": {name: {"mean": runs.mean(0), "runs": runs,
                          "interval": interval_record(drawn[name]).T}
                   for name, runs in found.items()},
        "prunable": {name: prunable_record(shares, runs.mean(0), drawn[name], 0.0)
                     for name, runs in found.items()},
        "scores": {kind: raw[f"scores {kind}"] for kind in KINDS},
    }
    if "importance" in found:
        values["area_differences"] = {
            other: _difference(found, drawn, "importance", other,
                               lambda curve: stats.area_under_curve(shares, curve))
            for other in found if other != "importance"}
    return values


def _summarise_figure4(raw: Arrays, runs: list[dict]) -> dict:
    found, drawn = _curves(raw)
    at = int(np.flatnonzero(np.isclose(raw["shares"], C4_REMOVED))[0])
    differences = {  # at each share removed
        f"enc-dec minus {other}": [
            _difference(found, drawn, "enc-dec importance", f"{other} importance",
                        lambda curve, step=step: curve[..., step])
            for step in range(len(raw["shares"]))]
        for other in ("enc-enc", "dec-dec")}
    return {
        **_summarise(raw, runs),
        "left_at": C4_REMOVED,
        "differences": {name: along[at] for name, along in differences.items()},
        "differences_along": differences,
    }


def _difference(found: dict, drawn: dict, one: str, other: str, statistic) -> dict:
    """A statistic of one mean curve minus that of another, paired."""
    return difference_record(statistic(found[one].mean(0)) - statistic(found[other].mean(0)),
                             statistic(drawn[one]) - statistic(drawn[other]))


def _parameters(profile: Profile) -> dict:
    return {"n_verses": profile.n_verses, "n_headline": profile.n_headline, "steps": profile.steps,
            "random_orders": profile.translation_orders}


ARTIFACTS = (
    Artifact("figure3a", 2, 2, _parameters, _measure_figure3a, _summarise, needs=("table1",),
             translates=lambda profile: (profile.translation_task,)),
    Artifact("figure4", 2, 2, _parameters, _measure_figure4, _summarise_figure4,
             translates=lambda profile: (profile.translation_task,)),
    Artifact("figure6d", 2, 2, _parameters, _measure_figure6d, _summarise,
             translates=lambda profile: (profile.training_task,)),
)
