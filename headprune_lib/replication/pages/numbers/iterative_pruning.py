"""Numbers of the page "Iterative pruning"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch

from headprune_lib.orders import prune_order, prune_schedule
from headprune_lib.replication import stats
from headprune_lib.replication.claims.rules import C3_TOLERANCE
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.page import pick
from headprune_lib.replication.pages.tables.pages import (
    NOT_MEASURED,
    estimate,
    number,
    points,
)
from headprune_lib.replication.pages.values import prunable_at, raw_importance, step_at
from headprune_lib.replication.store.results import Result

Values = Mapping[str, Any] | None
"""The values of a pruning curve; None where it was not measured."""


def iterative_pruning(
    figure3b: Result, figure3a: Result, figure6d: Result, curves: Mapping[str, Result]
) -> Numbers:
    """Figures 3b, 3a and 6d, and the pruning curves of all models and tasks.

    Args:
        curves: name -> pruning curve of an encoder.
    """
    return {
        **_classifier(figure3b.values),
        **_twelve_layers(pick(curves, "mpnet", "sst2")),
        **_tasks(curves),
        **_translator(figure3a),
        **_smaller_translator(figure6d),
    }


def _classifier(values: Mapping[str, Any]) -> Numbers:
    """Of most benchmarks only importance and random orders are measured."""
    return {
        "share": _share(values),
        "seeds": len(values["curves"]["importance"]["runs"]),
        "orders": len(values["curves"]["random"]["runs"]),
        "random_share": _share_alone(values, "random"),
        "main_share": _share_alone(values, "importance main"),
        "oracle": number(_area(values, "oracle"), ".2f"),
        "random_area": number(_area(values, "random"), ".2f"),
        "leak_free": _area_estimate(values, "oracle leak-free"),
    }


def _twelve_layers(curve: Result | None) -> Numbers:
    values = curve and curve.values
    again = _area(values, "importance rescored")
    return {
        **_plain(curve, 0.6),
        "mpnet_share": _share(values),
        "mpnet_random": _share_alone(values, "random"),
        "mpnet_oracle": _area_estimate(values, "oracle"),
        "mpnet_leak": _area_estimate(values, "oracle leak-free"),
        "mpnet_chance": _area_estimate(values, "random"),
        "mpnet_plain": _share_alone(values, "importance unnormalised"),
        "mpnet_again": number(None if again is None else -again, ".2f"),
    }


def _plain(curve: Result | None, removed: float) -> Numbers:
    """The order of scores that are not normalised: layers it has cut whole, and accuracy there."""
    if curve is None or (plain := curve.values["curves"].get("importance unnormalised")) is None:
        return dict.fromkeys(("mpnet_gone", "mpnet_gone_accuracy", "mpnet_constant"), NOT_MEASURED)
    scores, step = raw_importance(curve), step_at(curve.values["shares"], removed)
    layers, heads = scores.shape
    n_cut = prune_schedule(scores.size, len(curve.values["shares"]) - 1)[step]
    cut = prune_order({"self": torch.from_numpy(scores)})[:n_cut]
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
    """Keys are model, task, and what: ``_2`` and ``_5`` the share that goes at that loss in %."""

    def share(model: str, task: str, tolerance: float = C3_TOLERANCE) -> str:
        return _share(_of(curves, model, task), tolerance)

    return {
        "minilm_reviews_2": share("minilm", "reviews"),
        "minilm_sst2_2": share("minilm", "sst2"),
        "sst2_singly": _singly(_of(curves, "minilm", "sst2")),
        "minilm_snli_2": share("minilm", "snli"),
        "minilm_cola_2": share("minilm", "cola"),
        "cola_singly": _singly(_of(curves, "minilm", "cola")),
        "minilm_mrpc_2": share("minilm", "mrpc"),
        "mpnet_cola_2": share("mpnet", "cola"),
        "mpnet_snli_2": share("mpnet", "snli"),
        "mpnet_sst2_2": share("mpnet", "sst2"),
        "mrpc_lost": _lost(_of(curves, "mpnet", "mrpc"), 0.3),
        "minilm_cola_uncut": _uncut(_of(curves, "minilm", "cola")),
        "mpnet_cola_uncut": _uncut(_of(curves, "mpnet", "cola")),
        "mpnet_mrpc_rule": _rule(_of(curves, "mpnet", "mrpc")),
        "minilm_mrpc_rule": _rule(_of(curves, "minilm", "mrpc")),
        "mpnet_mrpc_5": share("mpnet", "mrpc", 0.05),
        "minilm_mrpc_5": share("minilm", "mrpc", 0.05),
        "minilm_cola_5": share("minilm", "cola", 0.05),
    }


def _translator(figure3a: Result) -> Numbers:
    values = figure3a.values
    return {
        "bleu_share": _share(values),
        "n_curve": figure3a.n_examples,
        "bleu_random": _share_alone(values, "random"),
        "bleu_oracle": values["area_differences"]["oracle"]["difference"],
        "bleu_random_area": values["area_differences"]["random"]["difference"],
    }


def _smaller_translator(figure6d: Result) -> Numbers:
    values = figure6d.values
    bleu = values["curves"]["importance"]["mean"]
    kept = {
        f"deen_{100 * removed:.0f}": 100 * bleu[step_at(values["shares"], removed)] / bleu[0]
        for removed in (0.1, 0.2, 0.3, 0.4)
    }
    return {
        "deen_bleu": bleu[0],
        "n_deen": figure6d.n_examples,
        "deen_heads": sum(len(layer) for kind in values["scores"].values() for layer in kind),
        **kept,
        "deen_share": _share(values),
    }


def _of(curves: Mapping[str, Result], model: str, task: str) -> Values:
    found = pick(curves, model, task)
    return found and found.values


def _share(values: Values, tolerance: float = C3_TOLERANCE) -> str:
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


def _area(values: Values, order: str) -> float | None:
    """Mean accuracy along the curve, importance minus this order, in points."""
    found = values and values["area_differences"].get(order)
    return 100 * found["difference"] if found else None


def _area_estimate(values: Values, order: str) -> str:
    """As :func:`_area`, with its interval."""
    found = values and values["area_differences"].get(order)
    return points(found["difference"], found["interval"]) if found else NOT_MEASURED


def _singly(values: Values) -> str:
    """The share that goes after each fine-tuning, from the smallest."""
    if values is None:
        return NOT_MEASURED
    found = stats.prunable_share(
        values["shares"], values["curves"]["importance"]["runs"], values["chance"], C3_TOLERANCE
    )
    return ", ".join(f"{share:.0%}" for share in sorted(found))


def _uncut(values: Values) -> str:
    """The score with all heads."""
    return number(values and values["curves"]["importance"]["mean"][0], ".2f")


def _rule(values: Values) -> str:
    """The loss that counts as none, in points of the score."""
    if values is None:
        return NOT_MEASURED
    uncut = values["curves"]["importance"]["mean"][0]
    return f"{100 * C3_TOLERANCE * (uncut - values['chance']):.1f}"


def _lost(values: Values, removed: float) -> str:
    """Points of the score lost with a share of the heads removed by importance."""
    if values is None:
        return NOT_MEASURED
    scores = values["curves"]["importance"]["mean"]
    return f"{100 * (scores[0] - scores[step_at(values['shares'], removed)]):.1f}"
