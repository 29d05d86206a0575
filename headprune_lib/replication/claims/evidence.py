"""Which measurements bear on which claim: rows and verdicts from the results that are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headprune_lib.replication import measurements, paper
from headprune_lib.replication.claims import rules
from headprune_lib.replication.claims.claims import CLAIMS
from headprune_lib.replication.claims.others import others_rows
from headprune_lib.replication.claims.verdict import NOT_RUN, Judged, Row, Verdict, combine
from headprune_lib.replication.measurements.measurement import HALVES, Half
from headprune_lib.replication.published import published_shares, published_task
from headprune_lib.replication.store import Result
from headprune_lib.replication.titles import setting, spelled

Values = Mapping[str, Any]

# Judged at the share of another task: SST-2's sentences come from the reviews.
_AS = {"reviews": "sst2"}
# A text that the paper has nothing like is judged at the least share of its half of the paper.
_ANY: dict[Half, str] = {"encoder": "mnli", "translation": "iwslt"}


@dataclass(frozen=True)
class Evidence:
    """A measurement in one half of the paper that bears on a claim.

    ``judge`` takes the values and the task, and gives a label for each row (empty where the result
    is one row) with what the rules say of it.
    """

    measurement: str
    half: Half
    judge: Callable[[Values, str], dict[str, Judged]]


def rows_of(result: Result) -> list[Row]:
    """Every row that a result gives, in order of claims; none where no claim rests on it."""
    return [
        row
        for claim in CLAIMS
        for one in EVIDENCE[claim.id]
        for row in _rows(claim.id, one, result)
    ]


def all_verdicts(root: Path | None = None) -> list[Verdict]:
    """C1 to C8 from all stored results, both halves of the paper together.

    Args:
        root: the folder of results; the project's own if not given.
    """
    stored = {
        name: measurements.found(name, root=root)
        for name in {one.measurement for each in EVIDENCE.values() for one in each}
    }
    others = others_rows()
    return [
        combine(
            [
                row
                for one in EVIDENCE[claim.id]
                for result in stored[one.measurement]
                for row in _rows(claim.id, one, result)
            ]
            or [_missing(claim.id, EVIDENCE[claim.id][0])],
            [row for row in others if row.claim == claim.id],
        )
        for claim in CLAIMS
    ]


def _missing(claim: str, one: Evidence) -> Row:
    name = paper.name_of(one.measurement, one.half, paper.MAIN)
    return Row(claim, one.half, name, "", NOT_RUN)


def _rows(claim: str, one: Evidence, result: Result) -> list[Row]:
    if (one.measurement, one.half) != (result.measurement, measurements.half_of(result.key)):
        return []
    name = paper.name_of(one.measurement, one.half, result.task)
    return [
        Row(
            claim,
            one.half,
            name,
            ", ".join(filter(None, (setting(result), label))),
            judged,
            _first_date(result, label) < rules.FIXED,
            f"{result.model} {result.task}" if one.half == "translation" else result.model,
        )
        for label, judged in one.judge(result.values, result.task).items()
        if judged.word != "not run"  # a curve without the one-by-one order says nothing of C8
    ]


def _first_date(result: Result, label: str) -> str:
    """When the first of a row's parts was measured: one that was seen makes the row exploratory.

    A row of one part, a further training by itself, is labelled with the part's name.
    """
    own = [result.parts[label]] if label in result.parts else result.parts.values()
    dates = [part.provenance for part in own]
    return min(one.get("first_measured", one["date"]) for one in dates)


def _c1(values: Values, _task: str) -> dict[str, Judged]:
    return {"": rules.one_at_a_time(values["counts"], values["removable"], "encoder")}


def _c1_translation(values: Values, _task: str) -> dict[str, Judged]:
    """On the encoder's own heads, the grid that the paper shows."""
    own = (values[name]["enc-enc"] for name in ("counts", "removable"))
    return {"": rules.one_at_a_time(*own, "translation")}


def _c2(half: Half) -> Callable[[Values, str], dict[str, Judged]]:
    """A row a training: each has best heads of its own."""

    def judge(values: Values, _task: str) -> dict[str, Judged]:
        first = {"": values["layers"]} if "layers" in values else {}
        further = {name: one["layers"] for name, one in values.get("further", {}).items()}
        every = {**first, **further}
        return {name: rules.one_head_a_layer(layers, half) for name, layers in every.items()}

    return judge


def _c3(half: Half) -> Callable[[Values, str], dict[str, Judged]]:
    def judge(values: Values, task: str) -> dict[str, Judged]:
        judged = rules.together(kept_at(values, share_judged(task, half)))
        return {"": replace(judged, trainings=len(values["curves"]["importance"]["runs"]))}

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


def kept_at(values: Values, share: float, order: str = "importance") -> dict[str, Any] | None:
    """What is kept of the score above chance at a share removed; None if it was not measured."""
    steps = [i for i, each in enumerate(values["shares"]) if abs(each - share) < 1e-6]
    if order not in values["kept"] or not steps:
        return None
    found = values["kept"][order]
    return {
        "share": share,
        "kept": found["kept"][steps[0]],
        "interval": found["interval"][steps[0]],
    }


def _c4(values: Values, _task: str) -> dict[str, Judged]:
    left = {
        kind: kept_at(values, 1 - rules.C4_PAPER_LEFT, f"{kind} importance")
        for kind in ("enc-enc", "enc-dec", "dec-dec")
    }
    shares = {kind: found["kept"] for kind, found in left.items() if found}
    judged = rules.kinds(values["areas"], shares if all(left.values()) else None)
    runs = [len(values["curves"][f"{kind} importance"]["runs"]) for kind in left]
    return {"": replace(judged, trainings=min(runs))}


def _c5(values: Values, _task: str) -> dict[str, Judged]:
    return {"": rules.apart(values)}


def _c6(values: Values, _task: str) -> dict[str, Judged]:
    ratios = {row["batch_size"]: row for row in values["finetuned"]["speed"]}
    return {
        "batches of 16 and 64": rules.faster(ratios),
        "batches of 1 and 4": rules.no_faster(ratios),
    }


def _c7(values: Values, _task: str) -> dict[str, Judged]:
    heads = len(values["heads"])
    return {
        spelled(domain): rules.across(found["loss"], found["accuracy"], heads, "encoder")
        for domain, found in values["correlations"].items()
    }


def _c7_translation(values: Values, _task: str) -> dict[str, Judged]:
    found = values["correlations"]
    return {"": rules.across(found["loss"], found["bleu"], len(values["heads"]), "translation")}


def _c8(half: Half) -> Callable[[Values, str], dict[str, Judged]]:
    """On the trainings that the one-by-one order is measured on; the paper's own on the first."""

    def judge(values: Values, _task: str) -> dict[str, Judged]:
        curves = values["curves"]
        main = curves.get("importance main", curves.get("importance"))
        area = values.get("early_area_differences", {}).get("oracle leak-free")
        if main is None or area is None:
            return {"": NOT_RUN}
        trainings = len(curves["oracle leak-free"]["runs"])
        above = None
        if "oracle" in curves:
            steps = zip(main["mean"][1:-1], curves["oracle"]["mean"][1:-1], strict=True)
            above = [ours >= theirs for ours, theirs in steps]
        ranked = main if trainings == 1 else curves["importance"]
        uncut = ranked["mean"][0] - values["chance"]
        return {"": replace(rules.orders(area, above, uncut, half), trainings=trainings)}

    return judge


def _both(measurement: str, rule: Callable[[Half], Callable[[Values, str], dict[str, Judged]]]):
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
