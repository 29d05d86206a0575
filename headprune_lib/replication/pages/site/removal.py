"""Stored pruning curves as data for the interactive picture (``explorer.js``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headprune_lib.replication import store
from headprune_lib.replication.claims.rules import share_judged, task_judged
from headprune_lib.replication.lazy import selection, torch
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.measurements.orders import n_cut
from headprune_lib.replication.measurements.single_heads import one_by_one_scores
from headprune_lib.replication.order_names import parse_part
from headprune_lib.replication.pages.frames import raw_importance
from headprune_lib.replication.pages.tables.markup import shown_orders
from headprune_lib.replication.published import published_task
from headprune_lib.replication.store import Key, Result, plain
from headprune_lib.replication.store.packing import KINDS, heads_array
from headprune_lib.replication.titles import order_title, spelled

MEASURED = ("pruning_curve", "which_first")
MAIN_TASK = "mnli"
SHOWN_SHARE = 0.4
"""Share removed that the picture starts with."""

# A metric's name on the page, the factor for its stored scores, and its unit.
_METRICS = {
    "accuracy": ("accuracy", 100, "%"),
    "BLEU": ("BLEU", 1, ""),
    "matthews": ("Matthews correlation × 100", 100, ""),
    "f1": ("F1 × 100", 100, ""),
}


def removal_data(results: Iterable[Result]) -> list[dict[str, Any]]:
    """The data of the picture, one entry per pruning curve or comparison of orders.

    ``orders`` have ``mean`` and ``interval`` at each of ``shares``, and ``heads``: numbers of heads
    in the order of removal, counted over the grids ``kinds`` (name, layers, heads) one after
    another; None if a stored curve does not say which heads were removed.
    """
    return [plain(_entry(result)) for result in results]


def first_shown(data: Sequence[Mapping[str, Any]]) -> int:
    """Index of the entry shown first: the paper's main task, on the model with most heads."""
    curves = [i for i, entry in enumerate(data) if entry["measured"] == "pruning_curve"]
    main = [i for i in curves if data[i]["task"] == spelled(MAIN_TASK)]
    return max(main or curves or range(len(data)), key=lambda i: (data[i]["removed"][-1], -i))


def _entry(result: Result) -> dict[str, Any]:
    shares = [float(share) for share in result.values["shares"]]
    kinds = _grids(result)
    places = (
        (kind, layer, head)
        for kind, layers, heads in kinds
        for layer in range(layers)
        for head in range(heads)
    )
    numbers = {place: number for number, place in enumerate(places)}
    n = sum(layers * heads for _, layers, heads in kinds)
    word, scale, unit = _METRICS[result.metric]
    compared = result.measurement == "which_first"
    return {
        "id": f"{result.measurement}/{result.task}.{result.model}",
        "measured": result.measurement,
        "model": f"{spelled(result.model)} ({n} heads)",
        "task": f"{spelled(result.task)}{' (all orders compared)' if compared else ''}",
        "metric": word,
        "unit": unit,
        "examples": result.n_examples,
        "chance": scale * result.values["chance"],
        "kinds": kinds,
        "shares": shares,
        "removed": [n_cut(n, share) for share in shares],
        "paper": _paper(result),
        "orders": [
            {
                "name": name,
                "title": order_title(name),
                "mean": [round(scale * score, 3) for score in mean],
                "interval": ends and [[round(scale * end, 3) for end in pair] for pair in ends],
                "trainings": trainings,
                "heads": _numbered(heads_that_go(result, part), numbers),
            }
            for name, part, mean, ends, trainings in _orders(result)
        ],
    }


def _paper(result: Result) -> dict[str, Any]:
    half = half_of(result)
    judged = task_judged(result.task, half)
    name = {"wmt": "WMT14", "iwslt": "IWSLT14"}.get(judged, spelled(judged))
    if judged != published_task(result.task):
        name += (
            ", whose sentences come from reviews" if result.task == "reviews" else ", the nearest"
        )
    return {"share": share_judged(result.task, half), "task": name}


def _grids(result: Result) -> list[tuple[str, int, int]]:
    """Kind, layers and heads of each grid, in the order in which heads are numbered."""
    order = result.parts["importance"].raw["order"][0]
    if order.shape[1] == 2:
        return [("self", *(order.max(0) + 1).tolist())]
    by_kind = {number: order[order[:, 0] == number, 1:] for number in np.unique(order[:, 0])}
    return [(KINDS[number], *(heads.max(0) + 1).tolist()) for number, heads in by_kind.items()]


def _orders(
    result: Result,
) -> Iterator[tuple[str, str, list[float], list[list[float]] | None, int]]:
    """Yield each order's name, part with its heads, scores, intervals, and number of trainings.

    Of compared orders, controls are left out: they are measured only up to half of the heads. The
    part is that of the order's first training.
    """
    if "curves" in result.values:
        for name in shown_orders(result.values):
            curve = result.values["curves"][name]
            part = "importance" if name == "importance main" else name
            yield name, part, curve["mean"], curve["interval"], len(curve["runs"])
        return
    for name, order in result.values["orders"].items():
        if len(order["score"]) < len(result.values["shares"]):
            continue
        trainings = order["trainings"]
        of_order = [part for part in result.parts if parse_part(part).curve == name]
        part = next(p for p in of_order if result.parts[p].runs[0]["seed"] == trainings[0])
        draws = result.parts[part].raw["order"] if name == "random" else trainings
        yield name, part, order["score"], None, len(draws)


def heads_that_go(result: Result, part: str) -> np.ndarray | None:
    """The heads (heads, 2 or 3) in the order of removal, as stored or derived from stored scores.

    With several runs, the order of the first. None if stored numbers do not determine it.
    """
    stored = result.parts[part].raw.get("order", ())
    if len(stored):
        return stored[0]
    scores = None
    if half_of(result) == "encoder" and part == "importance unnormalised":
        scores = {"self": torch.from_numpy(raw_importance(result))}
    elif half_of(result) == "encoder" and part == "oracle":
        single = store.stored(Key("one_head", result.task, result.model))
        scores = single and one_by_one_scores(single.raw)
    return heads_array(selection.rank_heads(scores)) if scores else None


def _numbered(
    order: np.ndarray | None, numbers: Mapping[tuple[str, int, int], int]
) -> list[int] | None:
    if order is None:
        return None
    return [
        numbers[KINDS[kind[0]] if kind else "self", layer, head]
        for *kind, layer, head in order.tolist()
    ]
