"""Which measurements bear on which claim: results and verdicts from what is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headprune_lib.replication import measurements, paper, stats
from headprune_lib.replication.claims import kept, rules
from headprune_lib.replication.claims.claims import CLAIMS
from headprune_lib.replication.claims.others import kept_by_others, others_rows
from headprune_lib.replication.claims.verdict import NOT_RUN, Judged, Row, Verdict, combine
from headprune_lib.replication.measurements.measurement import HALVES, Half
from headprune_lib.replication.published import published_shares, published_task
from headprune_lib.replication.stats.bleu import corpus_bleu
from headprune_lib.replication.stats.bounds import ALPHA, C4_UP_TO, C8_UP_TO
from headprune_lib.replication.store import OUTCOMES, Key, Result
from headprune_lib.replication.store.verses import all_counts
from headprune_lib.replication.titles import setting, spelled

Values = Mapping[str, Any]

# Judged at the share of another task: SST-2's sentences come from the reviews.
_AS = {"reviews": "sst2"}
# A text that the paper has nothing like is judged at the least share of its half of the paper.
_ANY: dict[Half, str] = {"encoder": "mnli", "translation": "iwslt"}
# Measured after the bounds were fixed, and after Figure 5 of the same trainings had shown the outcome.
PARTLY_KNOWN = {("C3", "deen", "post-norm-6"), ("C4", "deen", "post-norm-6")}
_HELD = "-held"
NEW_PAIRS = "the new pairs of the task count"
SAME_HOME = "another text shares its home text and is measured more reliably"


@dataclass(frozen=True)
class Evidence:
    """A measurement in one half of the paper that bears on a claim.

    ``judge`` takes a result and the folder of results, and gives a label for each part (empty where
    the result is one part) with what the rules say of it.
    """

    measurement: str
    half: Half
    judge: Callable[[Result, Path | None], dict[str, Judged]]


def rows_of(result: Result, root: Path | None = None) -> list[Row]:
    """All that a result says, in order of claims; none where no claim rests on it.

    Args:
        root: the folder of results, where further trainings are; the project's own if not given.
    """
    return [
        row
        for claim in CLAIMS
        for source in EVIDENCE[claim.id]
        for row in _rows(claim.id, source, result, root)
    ]


def all_verdicts(root: Path | None = None) -> list[Verdict]:
    """C1 to C8 from all stored results, both halves of the paper together.

    Args:
        root: the folder of results; the project's own if not given.
    """
    stored = {
        name: measurements.found(name, root=root)
        for name in {source.measurement for each in EVIDENCE.values() for source in each}
    }
    others = others_rows()
    return [
        combine(
            [
                row
                for source in EVIDENCE[claim.id]
                for result in stored[source.measurement]
                for row in _rows(claim.id, source, result, root)
            ]
            or [_missing(claim.id, EVIDENCE[claim.id][0])],
            [row for row in others if row.claim == claim.id],
        )
        for claim in CLAIMS
    ]


def _missing(claim: str, source: Evidence) -> Row:
    name = paper.name_of(source.measurement, source.half, paper.MAIN)
    return Row(claim, source.half, name, "", NOT_RUN)


def _rows(claim: str, source: Evidence, result: Result, root: Path | None) -> list[Row]:
    if (source.measurement, source.half) != (result.measurement, measurements.half_of(result.key)):
        return []
    name = paper.name_of(source.measurement, source.half, result.task)
    partly = (claim, result.task, result.model) in PARTLY_KNOWN
    held = Key(result.measurement, f"{result.task}{_HELD}", result.model).path(root).exists()
    return [
        Row(
            claim,
            source.half,
            name,
            ", ".join(filter(None, (setting(result), label))),
            replace(judged, aside=NEW_PAIRS) if held else judged,
            "partly" if partly else _first_date(result) < rules.FIXED,
            f"{result.model} {result.task}" if source.half == "translation" else result.model,
        )
        for label, judged in source.judge(result, root).items()
        if judged.word != "not run"  # a curve without the one-by-one order says nothing of C8
    ]


def _first_date(result: Result) -> str:
    """When the first of a result's parts was measured: one that was seen makes it exploratory."""
    dates = [part.provenance for part in result.parts.values()]
    return min(one.get("first_measured", one["date"]) for one in dates)


def _c1(result: Result, _root: Path | None) -> dict[str, Judged]:
    counts, removable = result.values["counts"], result.values["removable"]
    return {"": rules.one_at_a_time(counts, removable, "encoder")}


def _c1_translation(result: Result, _root: Path | None) -> dict[str, Judged]:
    """On the encoder's own heads, the grid that the paper shows."""
    own = (result.values[name]["enc-enc"] for name in ("counts", "removable"))
    return {"": rules.one_at_a_time(*own, "translation")}


def _c2(half: Half) -> Callable[[Result, Path | None], dict[str, Judged]]:
    """All trainings of a recipe together, each with best heads of its own."""

    def judge(result: Result, _root: Path | None) -> dict[str, Judged]:
        first = [result.values["layers"]] if "layers" in result.values else []
        trainings = [*first, *(one["layers"] for one in result.values.get("further", {}).values())]
        layers = [_mean_layer(records) for records in zip(*trainings, strict=True)]
        if len(trainings) > 1:
            layers = [
                {**layer, **interval}
                for layer, interval in zip(layers, _layer_intervals(result), strict=True)
            ]
        judged = rules.one_head_a_layer(layers, half)
        return {"": replace(judged, trainings=len(trainings))}

    return judge


def _mean_layer(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A layer in one or several trainings; the interval is the first one's."""

    def losing(p: str) -> float:
        return float(np.mean([one["delta"] < 0 and one[p] < ALPHA for one in records]))

    first = {name: records[0][name] for name in ("kind", "layer", "interval")}
    return {**first, "losing": losing("p_paper"), "losing_paired": losing("p")}


def _layer_intervals(result: Result) -> list[dict[str, Any]]:
    """Of a translator's layers the t interval of the change over trainings, in order of layers."""
    values, influences = [], []
    for name in sorted(result.parts, key=lambda part: (part != OUTCOMES, part)):
        raw = result.parts[name].raw
        rows = np.lexsort(raw["heads"][:, 1::-1].T)
        uncut, cuts = all_counts(raw)
        systems = np.concatenate([uncut[None], cuts[rows]]).astype(float)
        bleu, of_texts = corpus_bleu(systems.sum(1)), stats.text_influences(corpus_bleu, systems)
        values.append(bleu[1:] - bleu[0])
        influences.append(of_texts[1:] - of_texts[0])
    layers = zip(np.transpose(values), np.swapaxes(influences, 0, 1), strict=True)
    return [kept.spread(stats.over_trainings(*layer)) for layer in layers]


def _c3(half: Half) -> Callable[[Result, Path | None], dict[str, Judged]]:
    def judge(result: Result, root: Path | None) -> dict[str, Judged]:
        task = task_judged(result.task, half)
        return {"": rules.together(kept_at(result, root), kept_by_others(task))}

    return judge


def task_judged(task: str, half: Half) -> str:
    """The paper's task at whose share C3 is judged on one of ours.

    >>> task_judged("reviews", "encoder"), task_judged("snli", "encoder")
    ('sst2', 'mnli')
    """
    own = published_task(_AS.get(task, task))
    return own if own in published_shares() else _ANY[half]


def share_judged(task: str, half: Half) -> float:
    """Share of the heads at which C3 is judged: the paper's own for the task."""
    return published_shares()[task_judged(task, half)]


def kept_at(result: Result, root: Path | None = None) -> dict[str, Any] | None:
    """What importance keeps at the share that C3 is judged at; None if it was not measured.

    See :func:`headprune_lib.replication.claims.kept.at_share`.
    """
    share = share_judged(result.task, measurements.half_of(result.key))
    return kept.at_share(kept.pooled(result, "importance", root), share)


def _c4(result: Result, _root: Path | None) -> dict[str, Judged]:
    curves = {
        kind: kept.along(result, f"{kind} importance") for kind in ("enc-enc", "enc-dec", "dec-dec")
    }
    if not all(curves.values()):
        return {"": NOT_RUN}
    left = {
        kind: kept.at_share(trainings, 1 - rules.C4_PAPER_LEFT)
        for kind, trainings in curves.items()
    }
    areas = {
        other: _area(*kept.shared(curves["enc-dec"], curves[other]), C4_UP_TO)
        for other in ("enc-enc", "dec-dec")
    }
    shares = {kind: found["kept"] for kind, found in left.items() if found}
    judged = rules.kinds(areas, shares if len(shares) == len(left) else None)
    return {"": replace(judged, trainings=min(map(len, curves.values())))}


def _area(first: list[kept.Along], second: list[kept.Along], up_to: float) -> dict[str, Any]:
    """Mean share kept up to a share removed, the first order minus the second, over trainings."""
    weights = [kept.area_weights(training.shares, up_to) for training in first]
    mean = kept.mean_kept(first, weights, second)
    return {
        "difference": mean and mean.value,
        **kept.spread(mean),
        "trainings": len(first),
    }


def _c5(result: Result, _root: Path | None) -> dict[str, Judged]:
    return {"": rules.apart(result.values)}


def _c6(result: Result, _root: Path | None) -> dict[str, Judged]:
    ratios = {row["batch_size"]: row for row in result.values["finetuned"]["speed"]}
    hardware = result.provenance["hardware"]
    return {hardware["gpu"] or f"{hardware['cores']}-core CPU": rules.faster(ratios)}


def _c7(result: Result, _root: Path | None) -> dict[str, Judged]:
    """Of several texts that share a home text, the one with the most reliable effects counts."""
    values, heads = result.values, len(result.values["heads"])
    correlations = values["correlations"]
    most = max(correlations, key=lambda domain: correlations[domain]["loss"]["reliability"][1])
    judged = {
        domain: rules.across(found["loss"], found["accuracy"], heads, "encoder")
        for domain, found in correlations.items()
    }
    return {
        spelled(domain): one if domain == most else replace(one, aside=SAME_HOME)
        for domain, one in judged.items()
    }


def _c7_translation(result: Result, _root: Path | None) -> dict[str, Judged]:
    found, heads = result.values["correlations"], len(result.values["heads"])
    return {"": rules.across(found["loss"], found["bleu"], heads, "translation")}


def _c8(half: Half) -> Callable[[Result, Path | None], dict[str, Judged]]:
    """On the trainings that both orders are measured on; the paper's own order on the first."""

    def judge(result: Result, _root: Path | None) -> dict[str, Judged]:
        orders = (kept.along(result, order) for order in ("importance", "oracle leak-free"))
        first, second = kept.shared(*orders)
        if not first:
            return {"": NOT_RUN}
        curves, above = result.values["curves"], None
        main = curves.get("importance main", curves["importance"])
        if "oracle" in curves:
            steps = zip(main["mean"][1:-1], curves["oracle"]["mean"][1:-1], strict=True)
            above = [ours >= theirs for ours, theirs in steps]
        return {"": rules.orders(_area(first, second, C8_UP_TO), above, half)}

    return judge


def _both(
    measurement: str,
    rule: Callable[[Half], Callable[[Result, Path | None], dict[str, Judged]]],
):
    return tuple(Evidence(measurement, half, rule(half)) for half in HALVES)


# Claim -> what bears on it; the encoder half first.
EVIDENCE: dict[str, tuple[Evidence, ...]] = {
    "C1": (
        Evidence("one_head", "encoder", _c1),
        Evidence("one_head", "translation", _c1_translation),
    ),
    "C2": _both("best_heads", _c2),
    "C3": _both("pruning_curve", _c3),
    "C4": (Evidence("pruning_by_kind", "translation", _c4),),
    "C5": (Evidence("along_training", "translation", _c5),),
    "C6": (Evidence("speed", "encoder", _c6),),
    "C7": (
        Evidence("across_domains", "encoder", _c7),
        Evidence("across_domains", "translation", _c7_translation),
    ),
    "C8": _both("pruning_curve", _c8),
}
