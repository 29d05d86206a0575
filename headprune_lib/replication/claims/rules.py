"""The rules that judge results by the paper's eight claims, a section each.

These are the third rules; ``claims.yml`` has them in words. The bounds were fixed on 22 November
2026 (the second rules): after the first results of this project were known, before those that are
marked *confirmatory*. How intervals, power and counts are computed was corrected on 27 November
2026, after all results so far.

Effects are cut minus uncut, as fractions of 1 or in BLEU. An interval is 95%, low and high; a t
interval over trainings comes with its standard ``error`` and degrees of ``freedom``. Sentences
count layers and heads from 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from headprune_lib.replication import bounds, stats
from headprune_lib.replication.claims import kept
from headprune_lib.replication.claims.kept import BERT_TASKS, kept_by_others
from headprune_lib.replication.claims.verdict import (
    NOT_RUN,
    NOTHING_TO_KEEP,
    Estimate,
    Judged,
    Record,
    Word,
    defined,
)
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.measurements.base import HALVES, Half
from headprune_lib.replication.measurements.estimates import Scored
from headprune_lib.replication.metrics import SCORES, corpus_bleu
from headprune_lib.replication.published import paper, published_shares, published_task
from headprune_lib.replication.stats import Z95, all_of, detectable, power_above, standard_error
from headprune_lib.replication.store import Arrays, Result
from headprune_lib.replication.store.packing import all_counts
from headprune_lib.replication.titles import BERT_SHAPE, spelled

LEAST_TRAININGS = 3
"""Fewer trainings do not show how trainings differ."""
TOLERATED = {"encoder": bounds.DELTA, "translation": bounds.DELTA_BLEU}
"""Half of the paper -> the largest loss that counts as none."""
# Shares such as 0.4 come out of sums as 0.39999...; they are meant to equal their bound.
_ROUNDING = 1e-9


def trainings_of(result: Result, name: str) -> list[Mapping[str, Any]]:
    """The values of each training: the first, if its values have ``name``, and further ones.

    Of two, only the first: the interval of their mean would have one degree of freedom.
    """
    first = [result.values] if name in result.values else []
    every = [*first, *result.values.get("further", {}).values()]
    return every if len(every) >= LEAST_TRAININGS else every[:1]


def decided(replicates: bool, differs: bool) -> Word:
    """The word by a rule that says when a result replicates the claim and when it differs."""
    return "replicates" if replicates else "differs" if differs else "undecided"


def by_sign(estimates: Sequence[Estimate], sign: int) -> Word:
    """Replicates if every interval lies on ``sign``'s side of 0, differs if one is on the other."""
    signed = [sorted(sign * end for end in each.interval) for each in estimates]
    return decided(all(low > 0 for low, _ in signed), any(high < 0 for _, high in signed))


def _units(half: Half, effect: float) -> str:
    """The effect relative to the tolerated loss that a typical interval could show, in words."""
    if half == "translation":
        return f"{effect:.2f} BLEU more or less than {bounds.DELTA_BLEU} BLEU"
    return f"{100 * effect:.2f} points more or less than {100 * bounds.DELTA:g} point of accuracy"


# C1: heads removed one at a time


def one_at_a_time(sweeps: Sequence[Mapping[str, Any]], half: Half) -> Judged:
    """Judge C1 by a sweep over single heads of each training.

    Args:
        sweeps: the ``counts`` and the ``removable`` share of each training, in one record.
    """
    heads, trainings = sweeps[0]["heads"], len(sweeps)
    averaged = ("needed", "paper_losses", "paper_gains", "power", "detectable")
    mean = {name: float(np.mean([sweep[name] for sweep in sweeps])) for name in averaged}
    needed, changing = mean["needed"], mean["paper_losses"] + mean["paper_gains"]
    shares = [sweep["removable"] / heads for sweep in sweeps]
    share, (low, high), over = shares[0], sweeps[0]["removable_interval"], ""
    if trainings > 1:
        errors = [standard_error(sweep["removable_interval"]) for sweep in sweeps]
        of_all = stats.over_trainings_alike(shares, errors)
        share, low, high = of_all.value, max(of_all.low, 0.0), min(of_all.high, 1.0)
        over = f", in the mean over {trainings} trainings"
    removable = Estimate(share, (low, high), bounds.C1_REMOVABLE)
    enough = share >= bounds.C1_REMOVABLE - _ROUNDING and low >= bounds.C1_REMOVABLE_LOW - _ROUNDING
    many_needed = needed > bounds.C1_NEEDED * heads + _ROUNDING
    return Judged(
        decided(enough, many_needed),
        changing <= bounds.C1_NEEDED * heads + _ROUNDING,
        f"{share * heads:.3g} of {heads} heads ({removable.text('.0%')}) are "
        f"removable, {needed:.3g} needed; {changing:.3g} change the score at p < {bounds.ALPHA} by the "
        f"paper's test{over}.",
        mean["power"],
        f"of the median head: {_units(half, mean['detectable'])}",
        estimates=[removable],
        trainings=trainings,
    )


def _judge_c1(result: Result, root: Path | None) -> dict[str, Judged]:
    """For a translator only the encoder's own heads count, the grid that the paper shows."""
    half = half_of(result)
    sweeps = []
    for values in trainings_of(result, "counts"):
        removable, counts = values["removable"], values["counts"]
        if half == "translation":
            removable, counts = removable["enc-enc"], counts["enc-enc"]
        sweeps.append({**removable, **counts})
    return {"": one_at_a_time(sweeps, half)}


# C2: all heads of a layer removed but one

# Share of layers that one head must be enough for (the paper's Table 5: 9 of 18), and the share that do
# not lose significantly in the paper (Table 6: 12 of 12; Table 5: 9 of 18).
C2_LAYERS = {"encoder": 0.80, "translation": 0.40}
C2_PAPER = {"encoder": 1.0, "translation": 0.5}
_WORLDS = 4_000


def one_head_a_layer(layers: Sequence[Mapping[str, Any]], half: Half) -> Judged:
    """Judge C2 by one record per layer; the head that a layer keeps was chosen on other data.

    Args:
        layers: ``kind``, ``layer``, the change as ``delta`` with its ``interval``, and the share of
            the trainings in which the layer loses at p < ALPHA, by the paper's test and by a paired
            one: ``losing`` and ``losing_paired``.
    """
    bound, share, n = -TOLERATED[half], C2_LAYERS[half], len(layers)
    several = len({record["kind"] for record in layers}) > 1
    names = [f"{record['kind']} " * several + str(record["layer"] + 1) for record in layers]
    changes = [
        Estimate.of(record, "delta", bound, name)
        for record, name in zip(layers, names, strict=True)
    ]
    enough = [change.label for change in changes if change.interval[0] > bound]
    lacking = [change.label for change in changes if change.interval[1] < bound]
    unsure = [name for name in names if name not in (*enough, *lacking)]
    least = share * n - _ROUNDING
    losing, paired = (
        sum(record[name] for record in layers) for name in ("losing", "losing_paired")
    )
    sentence = f"One head is enough in {len(enough)} of {n} layers"
    for label, chosen in (("not enough in", lacking), ("open for", unsure)):
        if chosen:
            sentence += f"; {label} layer{'s' * (len(chosen) > 1)} {', '.join(chosen)}"
    return Judged(
        decided(len(enough) >= least, len(lacking) > (1 - share) * n + _ROUNDING),
        n - losing >= C2_PAPER[half] * n - _ROUNDING,
        f"{sentence}. {losing:.3g} lose at p < {bounds.ALPHA} by the paper's test, {paired:.3g} by a "
        "paired one.",
        _power_of_layers(changes, half, least),
        f"of the median layer: {_units(half, detectable(np.median([c.error for c in changes])))}",
        estimates=[Estimate(len(enough) / n, None, share)],
    )


def paper_changes(half: Half) -> list[float]:
    """The paper's own changes of the score with one head left, layer by layer (Tables 5 and 6)."""
    if half == "translation":
        return [change for kind in paper("table5").values() for change in kind["delta_bleu"]]
    return [change / 100 for change in paper("table6")["delta_accuracy_percent"]]


def _power_of_layers(layers: Sequence[Estimate], half: Half, least: float) -> float:
    """Probability that at least ``least`` layers are found to lose less than is tolerated.

    In each simulated repetition the layers' true changes are the paper's, in random order.
    """
    rng, changes = np.random.default_rng(0), paper_changes(half)
    chances = np.array([[layer.power(change) for change in changes] for layer in layers])
    orders = rng.permuted(np.tile(np.arange(len(changes)), (_WORLDS, 1)), axis=1)
    of_layers = np.arange(len(layers))
    true = orders[:, of_layers % len(changes)]
    enough = rng.random(true.shape) < chances[of_layers, true]
    return float((enough.sum(1) >= least).mean())


def _judge_c2(result: Result, root: Path | None) -> dict[str, Judged]:
    """Judge all trainings of a recipe together, each with its own best heads."""

    def losing(records: Sequence[Mapping[str, Any]], p: str) -> float:
        return float(
            np.mean([record["delta"] < 0 and record[p] < bounds.ALPHA for record in records])
        )

    trainings = [values["layers"] for values in trainings_of(result, "layers")]
    over_all = _layer_intervals(result) if len(trainings) > 1 else [{} for _ in trainings[0]]
    layers = [
        {
            **records[0],
            **interval,
            "losing": losing(records, "p_paper"),
            "losing_paired": losing(records, "p"),
        }
        for interval, *records in zip(over_all, *trainings, strict=True)
    ]
    return {"": replace(one_head_a_layer(layers, half_of(result)), trainings=len(trainings))}


def _layer_intervals(result: Result) -> list[dict[str, Any]]:
    """The t interval over trainings of each layer's change, in order of layers."""
    values, influences = [], []
    for part in result.parts.values():
        cuts = _cuts(part.raw, np.lexsort(part.raw["heads"][:, -2::-1].T))
        of_texts = stats.text_influences(cuts.of, cuts.counts)
        values.append(cuts.scores[1:] - cuts.scores[0])
        influences.append(of_texts[1:] - of_texts[0])
    layers = zip(np.transpose(values), np.swapaxes(influences, 0, 1), strict=True)
    return [kept.spread(stats.over_trainings(*layer)) for layer in layers]


def _cuts(raw: Arrays, rows: np.ndarray) -> Scored:
    """The whole model's outcomes, then those of some cuts."""
    if "correct" in raw:
        right = np.concatenate([raw["correct_uncut"][None], raw["correct"][rows]])
        return Scored(SCORES["accuracy"].counts(right, right), SCORES["accuracy"].of)
    uncut, cuts = all_counts(raw)
    return Scored(np.concatenate([uncut[None], cuts[rows]]), corpus_bleu)


# C3: heads removed together

# Judged at the share of another task: SST-2's sentences come from the reviews.
_AS = {"reviews": "sst2"}
# A text unlike any of the paper's is judged at the smallest share of its half of the paper.
_ANY: dict[Half, str] = {"encoder": "mnli", "translation": "iwslt"}


def together(record: Record | None, true: float = 1.0) -> Judged:
    """Judge C3 by the share kept of the score above chance at the paper's share of heads removed.

    Args:
        record: ``share`` removed, ``kept`` with its interval, and ``raw``, the share of the score
            itself; None if that was not measured.
        true: the share that BERT-base keeps there, as others measured it, for the power.
    """
    if record is None:
        return NOT_RUN
    met = record["raw"] >= bounds.C3_KEPT
    if not defined(record["kept"], *record["interval"]):
        return replace(NOTHING_TO_KEEP, met=met)
    share = Estimate.of(record, "kept", bounds.C3_KEPT)
    low, high = share.interval
    judged = Judged(
        decided(low >= bounds.C3_KEPT, high < bounds.C3_KEPT),
        met,
        f"With {record['share']:.0%} removed, {share.text('.1%')} of the score above chance is kept; "
        f"{record['raw']:.1%} of the score.",
        share.power(true),
        f"{detectable(share.error):.1%} more or less than {bounds.C3_KEPT:.0%}",
        estimates=[share],
        trainings=record.get("trainings", 1),
    )
    if low < high:
        return judged
    # Where no answer changes, resampled texts do not vary, and say nothing of texts not drawn.
    return replace(judged, word="undecided", power=0.0)


def task_judged(task: str, half: Half) -> str:
    """The paper's task at whose share C3 is judged on one of ours.

    >>> task_judged("reviews", "encoder"), task_judged("snli", "encoder")
    ('sst2', 'mnli')
    """
    published = published_task(_AS.get(task, task))
    return published if published in published_shares() else _ANY[half]


def share_judged(task: str, half: Half) -> float:
    """Share of the heads at which C3 is judged: the paper's own for the task."""
    return published_shares()[task_judged(task, half)]


def kept_at(result: Result, root: Path | None = None) -> dict[str, Any] | None:
    """The share that importance keeps where C3 is judged; None if it was not measured.

    See :func:`headprune_lib.replication.claims.kept.at_share`.
    """
    share = share_judged(result.task, half_of(result))
    return kept.at_share(kept.pooled(result, root), share)


def _judge_c3(result: Result, root: Path | None) -> dict[str, Judged]:
    true = kept_by_others(task_judged(result.task, half_of(result)))
    return {"": together(kept_at(result, root), true)}


# C4: heads of one kind of attention removed together

# The paper's Figure 4: 30 of 36 BLEU are kept with a fifth of either other kind's heads left ...
C4_PAPER_LEFT, C4_PAPER_KEPT = 0.2, 0.83
# ... and, measured by others on IWSLT, the area of BLEU kept, enc-dec minus each other kind.
C4_PAPER_EFFECT = {"enc-enc": -0.261, "dec-dec": -0.285}


def kinds(areas: Mapping[str, Record], left: Mapping[str, float | None]) -> Judged:
    """Judge C4 by areas of BLEU kept along curves that each remove one kind.

    Args:
        areas: ``enc-enc`` and ``dec-dec`` -> ``difference`` of the areas, enc-dec minus that kind, in
            shares of the unpruned model's BLEU.
        left: kind -> share of BLEU kept with C4_PAPER_LEFT of its heads left.
    """
    ends = [end for area in areas.values() for end in area["interval"]]
    trainings = min(area.get("trainings", 1) for area in areas.values())
    if not defined(*left.values(), *ends):
        return replace(NOTHING_TO_KEEP, trainings=trainings)
    minus = [
        Estimate.of(areas[other], "difference", label=f"minus {other}") for other in C4_PAPER_EFFECT
    ]
    differences = "; ".join(f"enc-dec {area.label} {area.text('+.3f')}" for area in minus)
    shares = ", ".join(f"{kind} {share:.0%}" for kind, share in left.items())
    effects = zip(minus, C4_PAPER_EFFECT.values(), strict=True)
    return Judged(
        by_sign(minus, -1),
        left["enc-dec"] < 0.5 and min(left["enc-enc"], left["dec-dec"]) >= C4_PAPER_KEPT,
        f"Mean share of BLEU kept over 0 to {bounds.C4_UP_TO:.0%}: {differences}. "
        f"With {C4_PAPER_LEFT:.0%} of a kind left: {shares}.",
        # mirrored: the upper end must lie below 0
        all_of([area.power(-effect) for area, effect in effects]),
        f"a difference of {detectable(max(area.error for area in minus)):.3f} in mean share of BLEU kept",
        estimates=minus,
        trainings=trainings,
    )


def _judge_c4(result: Result, root: Path | None) -> dict[str, Judged]:
    curves = {
        kind: kept.along(result, f"{kind} importance") for kind in ("enc-enc", "enc-dec", "dec-dec")
    }
    left = {kind: kept.at_share(curve, 1 - C4_PAPER_LEFT) for kind, curve in curves.items()}
    areas = {
        other: kept.area_between(curves["enc-dec"], curves[other], bounds.C4_UP_TO)
        for other in C4_PAPER_EFFECT
    }
    if None in (*left.values(), *areas.values()):
        return {"": NOT_RUN}
    return {"": kinds(areas, {kind: at_left["kept"] for kind, at_left in left.items()})}


# C5: important and unimportant heads grow apart during training

# Our reading of the paper's Figure 5 at 40% removed: a straight decline keeps 60% of BLEU in the first
# epochs, and 85% to 90% is kept from epoch 10 on, which has 88% of the final BLEU.
C5_PAPER_EARLY, C5_PAPER_LATE = 0.60, 0.85
# Early and late are defined by the share of the best BLEU (the paper's epochs 2 and 10), and a
# checkpoint whose BLEU is next to nothing is neither: the share that it keeps is noise.
C5_EARLY_BLEU, C5_LATE_BLEU, C5_SOME_BLEU = 0.20, 0.88, 1.0
C5_PAPER_RISE = 0.875 - C5_PAPER_EARLY
# The two parts of the claim -> the quantity whose slope they judge.
C5_PARTS = {"importance": "kept by importance", "random": "kept in random orders"}


def apart(values: Mapping[str, Any]) -> Judged:
    """Judge C5 in its two parts, by slopes over the logarithm of the updates.

    The share kept by importance rises (the paper's Figure 5), and that kept by random orders falls.
    Both replicate: replicates. Both are denied: differs. One of each: mixed.

    Args:
        values: those of ``along_training``; a slope has no interval for fewer than three trainings.
    """
    trainings = len(values.get("trainings", ()))
    if not trainings:
        return NOT_RUN
    met, early_and_late = _papers_rise(values)
    slopes = values.get("slopes") or {}
    parts = {
        name: _per_doubling(slopes[name], label)
        for name, label in C5_PARTS.items()
        if name in slopes
    }
    shown = "; ".join(f"{slope.label} {slope.text('+.3f')}" for slope in parts.values())
    over = "1 training" if trainings == 1 else f"{trainings} trainings"
    change = f"Change as the updates double, {over}: {shown}"
    sentence = f"{change if slopes else f'{over} without random orders'}.{early_and_late}"
    needed = ""
    if not slopes:
        needed = "random orders are needed"
    elif trainings < LEAST_TRAININGS:
        needed = f"{LEAST_TRAININGS} trainings are needed"
    elif len(parts) < len(C5_PARTS):
        needed = f"two checkpoints of each training need at least {bounds.LEAST_BLEU:.0f} BLEU"
    if needed:
        return Judged("undecided", met, sentence, 0.0, f"none: {needed}")
    rise = C5_PAPER_RISE / values["log_range"] * math.log(2)
    low, high = parts["importance"].interval
    # a part is denied if its interval has no slope on the claim's side, or none like the paper's
    rises = decided(low > 0, high < rise)
    falls = by_sign([parts["random"]], -1)
    both = "undecided" if "undecided" in (rises, falls) else "mixed"
    return Judged(
        rises if rises == falls else both,
        met,
        sentence,
        parts["importance"].power(rise),
        f"of the share kept by importance: a slope of {(high - low) / 2:.3f} around what was found "
        f"(the paper's rise is {rise:.3f})",
        estimates=[*parts.values()],
        trainings=trainings,
    )


def _per_doubling(slope: Record, label: str) -> Estimate:
    """A slope over the natural logarithm of the updates, as the change when they double."""
    per_unit = Estimate.of(slope, "difference", label=label)
    value, error = per_unit.value * math.log(2), per_unit.error * math.log(2)
    ends = slope["interval"] and tuple(end * math.log(2) for end in slope["interval"])
    return replace(per_unit, value=value, interval=ends, error=error)


def _papers_rise(values: Mapping[str, Any]) -> tuple[bool | None, str]:
    """Whether the paper's criterion is met, and the mean shares kept early and late in words.

    The early share must be nearer to a straight decline than to the paper's late share, and the
    late share reach the latter. None and no words if either kind of checkpoint is missing.
    """
    at = int(np.flatnonzero(np.isclose(values["shares"], values["removed"]))[0])
    early, late = [], []
    for training in values["trainings"]:
        best = max(checkpoint["bleu"][0] for checkpoint in training["checkpoints"])
        for checkpoint in training["checkpoints"]:
            bleu = checkpoint["bleu"][0]
            if C5_SOME_BLEU <= bleu <= C5_EARLY_BLEU * best:
                early.append(checkpoint["kept"][at])
            elif bleu >= C5_LATE_BLEU * best:
                late.append(checkpoint["kept"][at])
    if not (early and late):
        return None, ""
    first, last = float(np.mean(early)), float(np.mean(late))
    met = first < (C5_PAPER_EARLY + C5_PAPER_LATE) / 2 and last >= C5_PAPER_LATE
    return met, (
        f" With {bounds.C5_REMOVED:.0%} removed, {first:.0%} is kept while BLEU is at most "
        f"{C5_EARLY_BLEU:.0%} of the best, {last:.0%} once it is at least {C5_LATE_BLEU:.0%}."
    )


# C6: a model with half of its heads removed runs faster

UNTRAINED = "its weights are random"
"""Why a published shape's speed never counts."""
# Batch sizes at which the halved model must be faster, the ratio it must exceed, the paper's ratio.
LARGE, C6_RATIO, C6_PAPER = (16, 64), 1.10, 1.175
# Batch sizes with next to no effect in the paper, the ratio above which one counts, the paper's.
SMALL, C6_NOTHING, C6_PAPER_SMALL = (1, 4), 1.05, 1.023


def faster(ratios: Mapping[int, Mapping[str, Any]]) -> Judged:
    """Judge C6, one statement: faster at batches of 16 and 64, and not at 1 and 4.

    Args:
        ratios: batch size -> ``ratio`` of examples a second, pruned over unpruned, and ``interval``.
    """
    if not {*LARGE, *SMALL} <= ratios.keys():
        return NOT_RUN

    def at(size: int) -> Estimate:
        """The ratio at a batch size; its error is that of the logarithm."""
        ends = tuple(ratios[size]["interval"])
        error = standard_error([math.log(end) for end in ends])
        return Estimate(ratios[size]["ratio"], ends, C6_RATIO, f"batch {size}", error)

    small, large = [at(size) for size in SMALL], [at(size) for size in LARGE]
    gained = all(estimate.value > C6_RATIO and estimate.interval[0] > 1 for estimate in large)
    level = all(estimate.interval[1] < C6_RATIO for estimate in small)
    denied = any(estimate.interval[1] < C6_RATIO for estimate in large)
    denied |= any(estimate.interval[0] > C6_NOTHING for estimate in small)
    bound, true = math.log(C6_RATIO), math.log(C6_PAPER)
    # at large batches the estimate itself must exceed the bound, its interval only 1; an estimate
    # exceeds a bound where its lower end exceeds the bound minus half the interval
    powers = [
        min(power_above(true, bound - Z95 * error, error), power_above(true, 0, error))
        for error in (estimate.error for estimate in large)
    ]
    powers += [power_above(bound, math.log(C6_PAPER_SMALL), estimate.error) for estimate in small]
    sentence = "; ".join(
        "{}: {:.2f} times as fast [{:.2f}, {:.2f}]".format(each.label, each.value, *each.interval)
        for each in small + large
    )
    return Judged(
        decided(gained and level, denied),
        all(estimate.value > C6_RATIO for estimate in large)
        and all(estimate.value < C6_NOTHING for estimate in small),
        f"{sentence.capitalize()}.",
        all_of(powers),
        f"{math.expm1(detectable(max(e.error for e in small + large))):.1%} faster or slower",
        estimates=small + large,
    )


def _judge_c6(result: Result, root: Path | None) -> dict[str, Judged]:
    """Judge the fine-tuned model, and on a GPU also the published shape, which never counts.

    In profile smoke only the latter is judged on a GPU: the profile's own model is too small.
    """
    finetuned, shape = (
        faster({row["batch_size"]: row for row in result.values[model]["speed"]})
        for model in ("finetuned", "shape")
    )
    hardware = result.provenance["hardware"]
    if not (gpu := hardware["gpu"]):
        return {f"{hardware['cores']}-core CPU": finetuned}
    name = re.sub(r" \d+ ?GB.*", "", gpu)  # without its memory
    judged = {} if result.profile == "smoke" else {gpu: finetuned}
    return judged | {f"{BERT_SHAPE}, {name}": replace(shape, aside=UNTRAINED)}


# C7: heads that matter on one text matter on another

# The paper's Pearson correlations: BERT, and the translation model.
C7_PAPER = {"encoder": 0.68, "translation": 0.56}
# Fieller's factor: Spearman's coefficient, Fisher-transformed, has variance 1.06 / (n - 3).
_SPEARMAN = 1.06
_SCORES = {"encoder": "accuracy", "translation": "bleu"}
_PEARSON = "Pearson in the score, as in the paper"
SAME_HOME = "another text shares its home text and is measured more reliably"


def across(agreements: Sequence[Mapping[str, Any]], heads: int, half: Half) -> Judged:
    """Judge C7 by the correlation of the heads' effects on two texts, in each training.

    Args:
        agreements: the correlations on a pair of texts by ``loss`` and by the score; of the former
            ``left_out``: Spearman's least and largest value with any one head left out.
        heads: the number of heads.
    """
    losses = [agreement["loss"] for agreement in agreements]
    if any(loss["spearman"]["r"] is None for loss in losses):
        return NOT_RUN
    spearman, within = (
        _mean_correlation([loss[name] for loss in losses]) for name in ("spearman", "within")
    )
    word = by_sign([spearman], 1)
    least = min(loss["left_out"][0] for loss in losses)
    most = max(loss["left_out"][1] for loss in losses)
    home, other = (min(loss["reliability"][side] for loss in losses) for side in (0, 1))
    measurable = min(home, other) >= bounds.C7_RELIABILITY
    if not measurable or (word == "replicates" and least <= 0) or (word == "differs" and most >= 0):
        word = "undecided"
    pearsons = [agreement[_SCORES[half]]["pearson"] for agreement in agreements]
    known = [pearson for pearson in pearsons if pearson["r"] is not None]
    significant = [pearson["r"] for pearson in known if pearson["p"] < bounds.ALPHA]
    if measurable and 2 * sum(r < 0 for r in significant) > len(pearsons):
        word = "differs"  # reversed in the paper's own measure
    sentence = "; ".join(
        "is not defined" if pearson["r"] is None else f"{pearson['r']:.2f}, p = {pearson['p']:.2g}"
        for pearson in pearsons
    )
    of_heads = math.sqrt(_SPEARMAN / (heads - 3)) if heads > 3 else math.inf
    mean = stats.over_trainings_alike(
        [_fisher(loss["spearman"]["r"]) for loss in losses], [of_heads for _ in losses]
    )
    true = C7_PAPER[half] * stats.correlation_ceiling(home, other)
    return Judged(
        word,
        None if not known else 2 * sum(r > 0 for r in significant) > len(pearsons),
        f"In the score Pearson {sentence}. In log-loss Spearman {spearman.text('.2f')}, {least:.2f} to "
        f"{most:.2f} with one head left out; "
        f"within layers {within.text('.2f') if within else 'it is not defined'}. "
        f"Reliability {home:.2f} and {other:.2f}.",
        power_above(math.atanh(true), 0.0, mean.error, mean.freedom) if measurable else 0.0,
        f"a correlation of {math.tanh(detectable(mean.error)):.2f}",
        estimates=[spearman],
        as_the_paper=[Estimate.of(pearson, "r", label=_PEARSON) for pearson in known],
        trainings=len(losses),
    )


def _mean_correlation(records: Sequence[Record]) -> Estimate | None:
    """The mean of correlations over trainings, Fisher-transformed, with a t interval.

    None where the correlation is not defined in a training.
    """
    if any(record["r"] is None for record in records):
        return None
    if len(records) == 1:
        return Estimate.of(records[0], "r")
    errors = [standard_error([*map(_fisher, record["interval"])]) for record in records]
    mean = stats.over_trainings_alike([_fisher(record["r"]) for record in records], errors)
    return Estimate(math.tanh(mean.value), (math.tanh(mean.low), math.tanh(mean.high)))


def _fisher(r: float) -> float:
    """Fisher's z; finite for a perfect correlation, which occurs with few heads."""
    return math.atanh(max(-1 + 1e-12, min(r, 1 - 1e-12)))


def _judge_c7(result: Result, root: Path | None) -> dict[str, Judged]:
    """Of several texts with one home text, only the one with the most reliable effects counts."""
    trainings, half = trainings_of(result, "correlations"), half_of(result)
    agreements = [training["correlations"] for training in trainings]
    if half == "translation":  # which has one text to compare with
        agreements = [{"": agreement} for agreement in agreements]

    def reliability(domain: str) -> float:
        return min(each[domain]["loss"]["reliability"][1] or 0 for each in agreements)

    most, heads, judged = max(agreements[0], key=reliability), len(trainings[0]["heads"]), {}
    for domain in agreements[0]:
        of_domain = across([each[domain] for each in agreements], heads, half)
        aside = "" if domain == most else SAME_HOME
        judged[spelled(domain)] = replace(of_domain, aside=aside)
    return judged


# C8: which order of removal keeps more

# Area over 0-50%, importance minus one-by-one, in shares of the score above chance, as others measured
# it on MNLI and on IWSLT; the paper gives curves alone.
C8_PAPER_EFFECT = {"encoder": 0.033, "translation": 0.0069}


def orders(area: Record, above: Sequence[bool] | None, half: Half) -> Judged:
    """Judge C8 by the area over 0-50%, importance minus the one-by-one order chosen on other data.

    Args:
        area: ``difference`` in shares of the unpruned model's score above chance; None for a model
            without such a score.
        above: for each step of the whole curve, whether importance is at least as good as the
            paper's own one-by-one order, which is chosen on the test set; None if not measured.
    """
    if not defined(area["difference"], *area["interval"]):
        return NOTHING_TO_KEEP
    gain, shown = Estimate.of(area, "difference"), ""
    if above is not None:
        shown = f" Above the paper's own one-by-one order at {sum(above)} of {len(above)} steps."
    return Judged(
        by_sign([gain], 1),
        None if above is None else 2 * sum(above) > len(above),
        f"Mean over 0 to {bounds.C8_UP_TO:.0%} removed, importance minus one-by-one: "
        f"{gain.text('+.3f')} of the score above chance.{shown}",
        gain.power(C8_PAPER_EFFECT[half]),
        f"{detectable(gain.error):.1%} of the score above chance",
        estimates=[gain],
        trainings=area.get("trainings", 1),
    )


def _judge_c8(result: Result, root: Path | None) -> dict[str, Judged]:
    """Judge the trainings that both orders are measured on; the paper's own order on the first."""
    both = (kept.along(result, order) for order in ("importance", "oracle leak-free"))
    if (area := kept.area_between(*both, bounds.C8_UP_TO)) is None:
        return {"": NOT_RUN}
    curves, above = result.values["curves"], None
    if "oracle" in curves:
        main = curves.get("importance main", curves["importance"])
        steps = zip(main["mean"], curves["oracle"]["mean"], strict=True)
        above = [ours >= theirs for ours, theirs in steps][1:-1]
    return {"": orders(area, above, half_of(result))}


# The claims in words, and the judge of each

Judge = Callable[[Result, Path | None], dict[str, Judged]]
"""Maps a result, and the folder where further trainings are, to the judgement of each of its parts,
by label (empty for a single part)."""


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in our words, and what decides it.

    Attributes:
        short: what it says, in a few words that can follow "that".
        section: where the paper makes it.
        paper_value: what the paper found.
        criterion: how the authors read their own data; a result of ours meets it or does not.
        rule: our own rule, the third one.
        effect: the effect assumed to be true when the power of our rule is computed.
        page: the page that measures it, with the anchor of the table or figure that shows it.
        shown: what the dots of its card show.
        form: their number format.
        side: on which side of the bound the paper is.
        measurement: the measurement whose results bear on it.
        judge: our rule as a function.
        halves: the halves of the paper in which it is judged.
    """

    id: str
    title: str
    short: str
    section: str
    paper_value: str
    criterion: str
    rule: str
    effect: str
    page: str
    shown: str
    form: str
    side: str
    measurement: str
    judge: Judge
    halves: Sequence[Half] = HALVES


_JUDGES: dict[str, Judge] = {
    "C1": _judge_c1,
    "C2": _judge_c2,
    "C3": _judge_c3,
    "C4": _judge_c4,
    "C5": lambda result, _: {"": apart(result.values)},
    "C6": _judge_c6,
    "C7": _judge_c7,
    "C8": _judge_c8,
}


def _claims() -> dict[str, Claim]:
    """The claims of ``claims.yml`` by id, with the bounds filled in that their texts name."""
    texts = yaml.safe_load(Path(__file__).with_name("claims.yml").read_text("utf-8"))
    others = (f"{kept_by_others(task):.1%} on {name}" for task, name in BERT_TASKS.items())
    named = {
        **vars(bounds),
        "loss": f"{100 * bounds.DELTA:g} point of accuracy or {bounds.DELTA_BLEU} BLEU",
        "kept_by_others": ", ".join(others),
    }
    for fields in texts.values():
        fields |= {
            name: fields[name].format(**named) for name in ("criterion", "rule", "effect", "shown")
        }
    return {name: Claim(name, judge=_JUDGES[name], **fields) for name, fields in texts.items()}


CLAIMS = _claims()
