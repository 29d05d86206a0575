"""Numbers of the page "Iterative pruning"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import C3_KEPT, SHOWN_TOLERANCE
from headprune_lib.replication.claims.questions import strata
from headprune_lib.replication.claims.rules import kept_at, share_judged
from headprune_lib.replication.pages.numbers.judged import power_of, word_of
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.page import pick
from headprune_lib.replication.pages.tables.pages import (
    NOT_MEASURED,
    estimate,
    judged_text,
    kept_text,
    number,
    points,
    signed,
)
from headprune_lib.replication.pages.values import prunable_at, raw_importance, step_at
from headprune_lib.replication.store.results import Result
from headprune_lib.selection import prune_schedule, rank_heads

Values = Mapping[str, Any] | None
"""The values of a pruning curve; None where it was not measured."""

# Order -> what its keys begin with.
_KEYS = {
    "oracle": "oracle",
    "oracle leak-free": "leak",
    "importance unnormalised": "plain",
    "importance rescored": "again",
    "random": "chance",
}


def iterative_pruning(
    figure3b: Result,
    figure3a: Result,
    figure6d: Result,
    curves: Mapping[str, Result],
    one_head: Mapping[str, Result],
) -> Numbers:
    """Figures 3b, 3a and 6d, and the pruning curves of all models and tasks.

    Keys that end in ``_early`` are of the part of the curve that C8 is judged on, and those that
    end in ``kept`` of the share removed that C3 is judged at.

    Args:
        curves: name -> pruning curve of an encoder, or of another smaller translator.
        one_head: name -> result of Figure 1b.
    """
    mnli = pick(curves, "minilm", "mnli")
    return {
        **_classifier(figure3b),
        **(_mnli(mnli, pick(one_head, "minilm", "mnli")) if mnli else {}),
        **_twelve_layers(pick(curves, "mpnet", "sst2")),
        **_tasks(curves),
        **_translator(figure3a),
        **_smaller_translators(figure6d, curves),
    }


def _classifier(figure3b: Result) -> Numbers:
    """Of most benchmarks only importance and random orders are measured."""
    values = figure3b.values
    return {
        "judged": f"{share_judged(figure3b.task, 'encoder'):.0%}",
        "kept": _kept(figure3b),
        "power": power_of(figure3b, "C3"),
        "share": _share(values),
        "seeds": len(values["curves"]["importance"]["runs"]),
        "orders": len(values["curves"]["random"]["runs"]),
        "random_share": _share_alone(values, "random"),
        "main_share": _share_alone(values, "importance main"),
        **_areas("", values, points, ("oracle", "oracle leak-free", "importance unnormalised")),
    }


def _mnli(curve: Result, one_head: Result | None) -> Numbers:
    """The paper's own task and test set: all pairs, and apart by how hard BERT-base finds them."""
    values = curve.values
    importance = values["curves"]["importance"]
    keys = ("n", "accuracy", "kept", "removable")
    told = dict.fromkeys([f"{group}_{key}" for group in ("easy", "hard") for key in keys])
    for prefix, group in zip(("easy", "hard"), strata(curve, one_head)[1:], strict=False):
        told |= {
            f"{prefix}_n": f"{group.n:,}",
            f"{prefix}_accuracy": f"{group.uncut.value:.1%}",
            f"{prefix}_kept": judged_text(group.together, ".1%"),
            f"{prefix}_removable": judged_text(group.one_at_a_time, ".0%"),
        }
    return {key: text or NOT_MEASURED for key, text in told.items()} | {
        "mnli_n": _examples(curve),
        "mnli_seeds": len(importance["runs"]),
        "mnli_accuracy": number(100 * importance["mean"][0], ".1f"),
        "mnli_kept": _kept(curve),
        "mnli_word": word_of(curve, "C3"),
        "mnli_power": power_of(curve, "C3"),
        "mnli_share": _share(values),
        "mnli_random": _share_alone(values, "random"),
        "mnli_c8_word": word_of(curve, "C8"),
        "mnli_c8_power": power_of(curve, "C8"),
        **{
            f"mnli_{key}_early": _area(values, "early_area_differences", order, points)
            for order, key in _KEYS.items()
            if key in ("leak", "plain")
        },
    }


def _twelve_layers(curve: Result | None) -> Numbers:
    values = curve and curve.values
    again = values and values["area_differences"].get("importance rescored")
    return {
        **_plain(curve, 0.6),
        "mpnet_kept": _kept(curve),
        "mpnet_c8_power": power_of(curve, "C8"),
        "mpnet_share": _share(values),
        "mpnet_random": _share_alone(values, "random"),
        **_areas("mpnet_", values, points, _KEYS, whole=False),
        "mpnet_level": _share_alone(values, "importance unnormalised"),
        "mpnet_again": number(again and -100 * again["difference"], ".2f"),
    }


def _plain(curve: Result | None, removed: float) -> Numbers:
    """The order of scores that are not normalised: layers it has cut whole, and accuracy there."""
    if curve is None or (plain := curve.values["curves"].get("importance unnormalised")) is None:
        return dict.fromkeys(("mpnet_gone", "mpnet_gone_accuracy", "mpnet_constant"), NOT_MEASURED)
    scores, step = raw_importance(curve), step_at(curve.values["shares"], removed)
    layers, heads = scores.shape
    n_cut = prune_schedule(scores.size, len(curve.values["shares"]) - 1)[step]
    cut = rank_heads({"self": torch.from_numpy(scores)})[:n_cut]
    of_layer = Counter(layer for _, layer, _ in cut)
    gone = [str(layer + 1) for layer in range(layers) if of_layer[layer] == heads]
    return {
        "mpnet_gone": f"{'layer' if len(gone) == 1 else 'layers'} {' and '.join(gone)}"
        if gone
        else "no layer",
        "mpnet_gone_accuracy": f"{100 * plain['mean'][step]:.1f}",
        "mpnet_constant": f"{100 * curve.values['chance']:.1f}",
    }


def _tasks(curves: Mapping[str, Result]) -> Numbers:
    """Keys are model, task, and what."""
    numbers: Numbers = {}
    for model in ("mpnet", "minilm"):
        for task in ("sst2", "snli", "cola", "mrpc"):
            numbers[f"{model}_{task}_kept"] = _kept(pick(curves, model, task))
        for task in ("cola", "mrpc"):
            numbers[f"{model}_{task}_power"] = power_of(pick(curves, model, task), "C3")
        numbers[f"{model}_mrpc_tolerated"] = _tolerated(_of(curves, model, "mrpc"))
        numbers[f"{model}_cola_uncut"] = _uncut(_of(curves, model, "cola"))
    return numbers | {
        "held_kept": _kept(pick(curves, "minilm", "snli-held")),
        "held_pairs": _examples(pick(curves, "minilm", "snli-held")),
        "mpnet_held_kept": _kept(pick(curves, "mpnet", "snli-held")),
        "mpnet_held_pairs": _examples(pick(curves, "mpnet", "snli-held")),
        **{
            f"{prefix}held_leak_early": _area(
                _of(curves, model, "snli-held"),
                "early_area_differences",
                "oracle leak-free",
                points,
            )
            for prefix, model in (("", "minilm"), ("mpnet_", "mpnet"))
        },
        "sst2_singly": _singly(_of(curves, "minilm", "sst2")),
        "cola_singly": _singly(_of(curves, "minilm", "cola")),
        "mrpc_lost": _lost(_of(curves, "mpnet", "mrpc"), 0.3),
    }


def _examples(curve: Result | None) -> str:
    return f"{curve.n_examples:,}" if curve else NOT_MEASURED


def _translator(figure3a: Result) -> Numbers:
    values = figure3a.values
    orders = ("oracle", "oracle leak-free", "importance unnormalised")
    return {
        "bleu_kept": _kept(figure3a),
        "bleu_share": _share(values),
        "n_curve": figure3a.n_examples,
        "bleu_random": _share_alone(values, "random"),
        "bleu_c8_power": power_of(figure3a, "C8"),
        **_areas("bleu_", values, signed, orders),
    }


def _smaller_translators(figure6d: Result, curves: Mapping[str, Result]) -> Numbers:
    values = figure6d.values
    others = {"six": "post-norm-6", "pre": "pre-norm"}  # trained for six epochs both
    bleu = values["curves"]["importance"]["mean"]
    return {
        "deen_bleu": bleu[0],
        "n_deen": figure6d.n_examples,
        "deen_heads": sum(len(layer) for kind in values["scores"].values() for layer in kind),
        "deen_10": 100 * bleu[step_at(values["shares"], 0.1)] / bleu[0],
        "deen_kept": _kept(figure6d),
        "deen_40": 100 * bleu[step_at(values["shares"], 0.4)] / bleu[0],
        "deen_share": _share(values),
        **{
            f"deen_{name}_kept": _kept(pick(curves, model, figure6d.task))
            for name, model in others.items()
        },
    }


def _of(curves: Mapping[str, Result], model: str, task: str) -> Values:
    found = pick(curves, model, task)
    return found and found.values


def _share(values: Values, tolerance: float = SHOWN_TOLERANCE) -> str:
    """The share that goes in the order of importance, with its interval."""
    if values is None:
        return NOT_MEASURED
    found = prunable_at(values, tolerance=tolerance)
    return estimate(found["share"], found["interval"], ".0%")


def _share_alone(values: Values, order: str) -> str:
    """The share that goes in an order, without its interval."""
    if values is None or order not in values["prunable"]:
        return NOT_MEASURED
    return f"{prunable_at(values, order)['share']:.0%}"


def _kept(curve: Result | None) -> str:
    """What importance keeps of the score above chance at the share that C3 is judged at."""
    if curve is None:
        return NOT_MEASURED
    return kept_text(kept_at(curve))


def _areas(
    prefix: str,
    values: Values,
    shown: Callable[..., str],
    orders: Iterable[str],
    whole: bool = True,
) -> Numbers:
    """Mean score along the curve, importance minus each order: its first part, and the whole."""
    numbers: Numbers = {}
    for order in orders:
        key = prefix + _KEYS[order]
        numbers[f"{key}_early"] = _area(values, "early_area_differences", order, shown)
        if whole:
            numbers[key] = _area(values, "area_differences", order, shown)
    return numbers


def _area(values: Values, areas: str, order: str, shown: Callable[..., str]) -> str:
    found = values and values[areas].get(order)
    return shown(found["difference"], found["interval"]) if found else NOT_MEASURED


def _singly(values: Values) -> str:
    """The share that goes after each fine-tuning, from the smallest."""
    if values is None:
        return NOT_MEASURED
    found = stats.prunable_share(
        values["shares"], values["curves"]["importance"]["runs"], values["chance"], SHOWN_TOLERANCE
    )
    return ", ".join(f"{share:.0%}" for share in sorted(found))


def _uncut(values: Values) -> str:
    """The score with all heads."""
    return number(values and values["curves"]["importance"]["mean"][0], ".2f")


def _tolerated(values: Values) -> str:
    """The loss that C3's rule allows, in points of the score."""
    if values is None:
        return NOT_MEASURED
    uncut = values["curves"]["importance"]["mean"][0]
    return f"{100 * (1 - C3_KEPT) * (uncut - values['chance']):.1f}"


def _lost(values: Values, removed: float) -> str:
    """Points of the score lost with a share of the heads removed by importance."""
    if values is None:
        return NOT_MEASURED
    scores = values["curves"]["importance"]["mean"]
    return f"{100 * (scores[0] - scores[step_at(values['shares'], removed)]):.1f}"
