"""What the checkpoints of trainings say: BLEU kept, added loss and unevenness, and their slopes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict

import numpy as np
import scipy.stats

from headprune_lib.discovery import KINDS
from headprune_lib.replication import stats
from headprune_lib.replication.measurements.effects import sacrebleus_own
from headprune_lib.replication.measurements.records import interval_record
from headprune_lib.replication.stats.bleu import corpus_bleu
from headprune_lib.replication.stats.bounds import C5_REMOVED, LEAST_BLEU
from headprune_lib.replication.stats.losses import MILLINAT
from headprune_lib.replication.store import Arrays, Outcomes
from headprune_lib.replication.translation.outcomes import all_counts
from headprune_lib.replication.translation.translator import BESIDE

TRAINING = "training "
"""Begins the name of a part, before the seed."""

SHARED = ("reference_lengths", f"{BESIDE}reference_lengths", "reference_pieces", "further")
"""Outcomes that all checkpoints of a training have in common."""


@dataclass(frozen=True)
class Statistics:
    """``removed`` is the share of the heads at which orders and checkpoints are compared.

    ``least_bleu`` is what an unpruned checkpoint must reach to count in the slopes of the BLEU kept:
    below it the ratio is noise. ``least_trainings`` is how many an interval over them takes.
    """

    removed: float = C5_REMOVED
    least_bleu: float = LEAST_BLEU
    least_trainings: int = 3
    resamples: int = 5_000
    seed: int = 0


class Slope(TypedDict):
    """Mean over trainings of a slope over ln(updates), and each training's.

    The 95% t interval is over trainings and, of the BLEU kept, over verses, with Satterthwaite's
    degrees of freedom (``freedom``, and the standard ``error``); None of fewer than three.
    """

    difference: float
    interval: list[float] | None
    error: float | None
    freedom: float | None
    runs: list[float]


class Values(TypedDict, total=False):
    """What a page says of all trainings.

    ``trainings`` holds the checkpoints of each, in order of updates. ``slopes`` are of the share of
    BLEU kept by importance, by random orders and of their difference (``importance``, ``random``
    and ``kept``, checkpoints of at least ``least_bleu`` BLEU), of the loss that random orders add
    above importance's (``loss``) and of the Gini coefficient within layers (``gini``), the untrained
    model left out; there are none where random orders were not measured.
    """

    shares: np.ndarray
    removed: float
    trainings: list[dict[str, Any]]
    n_trainings: int
    log_range: float
    slopes: dict[str, Slope]


def seed_in(part: str) -> int:
    """The seed that a part is named after.

    Raises:
        ValueError: the name is no training's.
    """
    prefix, _, seed = part.partition(TRAINING)
    if prefix or not seed.isdecimal():
        raise ValueError(f"no training is called {part!r}; give a name such as 'training 2'")
    return int(seed)


Record = dict[str, Any]
"""A checkpoint's numbers.

``bleu``, ``kept`` (share of the unpruned BLEU) and ``loss`` (nats a piece of the references) run
along the curve in the paper's order (steps + 1,). At the one share removed stand ``kept_at`` and
``added_loss`` of that order, ``kept_unnormalised``, ``kept_random`` and their ``added_loss_``, None
where they were not measured; of random orders the mean. ``sacrebleu`` is BLEU in sacrebleu's own
way, where ``bleu`` is of Moses' tokens. ``gini`` is over all heads, ``gini_within``
the mean over layers of all kinds. ``<name>_interval`` is from a bootstrap over verses. ``settled`` is
Spearman's correlation of normalised importance with that of the training's last checkpoint.
"""


def values_of(outcomes: Outcomes, statistics: Statistics) -> Values:
    """What the outcomes of all trainings that are there say; one is enough."""
    outcomes = dict(sorted(outcomes.items(), key=lambda part: seed_in(part[0])))
    shares = next(iter(outcomes.values()))["shares"]
    at = int(np.flatnonzero(np.isclose(shares, statistics.removed))[0])
    trainings, texts = [], []
    for part, raw in outcomes.items():
        points = [outcomes_of(raw, i) for i in range(len(raw["updates"]))]
        checkpoints = [_checkpoint(point, at, statistics) for point in points]
        importance = [_normalised(point) for point in points]
        for checkpoint, scores in zip(checkpoints, importance, strict=True):
            checkpoint["settled"] = float(scipy.stats.spearmanr(scores, importance[-1]).statistic)
        trainings.append({"seed": seed_in(part), "checkpoints": checkpoints})
        texts.append([_influences(point, at) for point in points])
    values: Values = {
        "shares": shares,
        "removed": statistics.removed,
        "trainings": trainings,
        "n_trainings": len(trainings),
        "log_range": float(np.mean([np.ptp(_log_updates(_trained(one))) for one in trainings])),
    }
    found = slopes(trainings, statistics, texts)
    return {**values, "slopes": found} if found else values


def outcomes_of(raw: Arrays, i: int) -> Arrays:
    """Those of one checkpoint of a training, counted from 0."""
    return {
        name: values if name in (*SHARED, "shares") else values[i] for name, values in raw.items()
    }


def _checkpoint(raw: Arrays, at: int, statistics: Statistics) -> Record:
    along, draws = len(raw["shares"]), (statistics.resamples, statistics.seed)
    uncut, cuts = all_counts(raw)
    systems = np.concatenate([uncut[None], cuts])  # (1 + M, verses, 10)
    bleu = corpus_bleu(systems.sum(1))
    kept, drawn_kept = _kept(bleu), _kept(stats.bootstrap_scores(corpus_bleu, systems, *draws))
    losses = _losses(raw)  # (1 + M, verses, 2)
    loss, drawn_loss = _per_piece(losses.sum(1)), stats.bootstrap_scores(_per_piece, losses, *draws)
    record: Record = {
        "updates": int(raw["updates"]),
        "epoch": float(raw["epochs"]),
        "bleu": bleu[:along],
        "kept": kept[:along],
        "loss": loss[:along],
    }
    if (beside := sacrebleus_own(raw)) is not None:
        record["sacrebleu"] = beside[:along]
    for order, rows in _compared(raw, at).items():
        suffix = f"_{order}" if order else ""
        record |= _estimate(f"kept{suffix or '_at'}", kept[rows], drawn_kept[:, rows])
        record |= _estimate(
            f"added_loss{suffix}", loss[rows] - loss[0], drawn_loss[:, rows] - drawn_loss[:, :1]
        )
    each = np.concatenate([raw[f"each {kind}"] for kind in KINDS], axis=1).astype(float)
    for name, statistic in (("gini", _gini), ("gini_within", gini_within)):
        shaped = partial(_shaped, statistic, each.shape[1:])
        flat = each.reshape(1, len(each), -1)
        drawn = stats.bootstrap_scores(shaped, flat, *draws)[:, 0]
        record |= {name: statistic(each.mean(0)), f"{name}_interval": interval_record(drawn)}
    return record


def _normalised(raw: Arrays) -> np.ndarray:
    """Importance of every head over the l2 norm of its layer, flat."""
    each = np.concatenate([raw[f"each {kind}"] for kind in KINDS], axis=1).astype(float).mean(0)
    norm = np.linalg.norm(each, axis=-1, keepdims=True)
    return np.divide(each, norm, out=np.zeros_like(each), where=norm > 0).ravel()


def _influences(raw: Arrays, at: int) -> dict[str, np.ndarray]:
    """Name of a slope -> what each verse contributes to its share of BLEU kept, (verses,)."""
    uncut, cuts = all_counts(raw)
    systems = np.concatenate([uncut[None], cuts]).astype(float)
    bleu, of_texts = corpus_bleu(systems.sum(1)), stats.text_influences(corpus_bleu, systems)
    if bleu[0] <= 0:
        return {name: np.zeros(len(uncut)) for name in ("importance", "random", "kept")}
    kept = (of_texts - (bleu / bleu[0])[:, None] * of_texts[0]) / bleu[0]
    rows = _compared(raw, at)
    found = {"importance": kept[at]}
    if rows["random"]:
        found["random"] = kept[rows["random"]].mean(0)
        found["kept"] = found["importance"] - found["random"]
    return found


def _compared(raw: Arrays, at: int) -> dict[str, list[int]]:
    """Order -> its rows among the unmasked model and all masks, at the share that is compared."""
    names = [str(name).partition(" ")[0] for name in raw["further"]]
    first = len(raw["shares"])
    return {"": [at]} | {
        order: [first + i for i, name in enumerate(names) if name == order]
        for order in ("unnormalised", "random")
    }


def _estimate(name: str, values: np.ndarray, drawn: np.ndarray) -> Record:
    """The mean over an order's masks (M,) with the interval of its draws (resamples, M)."""
    if not len(values):
        return {name: None, f"{name}_interval": None}
    return {name: values.mean(), f"{name}_interval": interval_record(drawn.mean(1))}


def _kept(bleu: np.ndarray) -> np.ndarray:
    """Shares of the first BLEU of each row, 0 where that is 0."""
    return np.divide(bleu, bleu[..., :1], out=np.zeros_like(bleu), where=bleu[..., :1] > 0)


def _losses(raw: Arrays) -> np.ndarray:
    """Nats and pieces of every reference (1 + M, verses, 2), of the unmasked model first."""
    uncut = raw["reference_loss_uncut"]
    nats = np.concatenate([uncut[None], uncut + raw["reference_loss_change"]]) / MILLINAT
    return np.stack([nats, np.broadcast_to(raw["reference_pieces"], nats.shape)], -1)


def _per_piece(sums: np.ndarray) -> np.ndarray:
    return sums[..., 0] / sums[..., 1]


def _gini(scores: np.ndarray) -> np.ndarray:
    """Over all heads: (..., layers of all kinds, heads) to (...)."""
    return stats.gini(scores.reshape(*scores.shape[:-2], -1))


def gini_within(scores: np.ndarray) -> np.ndarray:
    """The mean over layers of all kinds of each one's own: (..., layers, heads) to (...)."""
    return stats.gini(scores).mean(-1)


def _shaped(
    statistic: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...], flat: np.ndarray
) -> np.ndarray:
    return statistic(flat.reshape(*flat.shape[:-1], *shape))


def _trained(training: Record) -> list[Record]:
    """The checkpoints of a training but that of the untrained model."""
    return [point for point in training["checkpoints"] if point["updates"]]


def _log_updates(points: list[Record]) -> np.ndarray:
    return np.log([point["updates"] for point in points])


def slopes(
    trainings: list[Record],
    statistics: Statistics,
    texts: list[list[dict[str, np.ndarray]]] | None = None,
) -> dict[str, Slope]:
    """What grows along training, see ``Values``; none where random orders were not measured.

    Of the BLEU kept none either, where a training has fewer than two checkpoints that count.

    Args:
        texts: of each checkpoint of each training, what its verses contribute to a measure.
    """
    found: dict[str, Slope] = {}
    for name, of in GROWING.items():
        lines = []
        for i, training in enumerate(trainings):
            points = [
                (point, texts[i][j].get(name) if texts else None)
                for j, point in enumerate(training["checkpoints"])
                if point["updates"]
            ]
            if any(point["kept_random"] is None for point, _ in points):
                return {}
            if name in KEPT:
                points = [pair for pair in points if pair[0]["bleu"][0] >= statistics.least_bleu]
            lines.append(points)
        if all(len(points) > 1 for points in lines):
            found[name] = _slope(lines, of, statistics)
    return found


GROWING: dict[str, Callable[[Record], float]] = {
    "importance": lambda point: point["kept_at"],
    "random": lambda point: point["kept_random"],
    "kept": lambda point: point["kept_at"] - point["kept_random"],
    "loss": lambda point: point["added_loss_random"] - point["added_loss"],
    "gini": lambda point: point["gini_within"],
}
"""Name of a slope -> what a checkpoint has of it."""
KEPT = ("importance", "random", "kept")
"""Those of a share of BLEU, for which a checkpoint must translate."""


def translating(
    points: Iterable[Record],
) -> list[Record]:
    """The checkpoints that translate anything, which are shown: a BLEU of 1 with all heads."""
    return [point for point in points if point["bleu"][0] >= 1]


def _slope(
    lines: list[list[tuple[Record, np.ndarray | None]]],
    of: Callable[[Record], float],
    statistics: Statistics,
) -> Slope:
    runs, influences = [], []
    for points in lines:
        x = _log_updates([point for point, _ in points])
        weights = (x - x.mean()) / np.square(x - x.mean()).sum()
        runs.append(float(weights @ [of(point) for point, _ in points]))
        of_texts = [np.zeros(2) if verses is None else verses for _, verses in points]
        influences.append(weights @ np.stack(of_texts))
    if len(runs) < statistics.least_trainings:
        nothing = {"interval": None, "error": None, "freedom": None}
        return {"difference": float(np.mean(runs)), **nothing, "runs": runs}
    mean = stats.over_trainings(runs, influences)
    return {
        "difference": mean.value,
        "interval": [mean.low, mean.high],
        "error": mean.error,
        "freedom": mean.freedom,
        "runs": runs,
    }
