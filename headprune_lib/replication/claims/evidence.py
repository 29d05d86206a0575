"""Which measurements decide which claim, and the verdicts that the rules give their results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headprune_lib.replication import measurements, paper
from headprune_lib.replication.claims import rules
from headprune_lib.replication.claims.claims import CLAIMS
from headprune_lib.replication.claims.verdict import Verdict, combine
from headprune_lib.replication.measurements.measurement import HALVES, Half
from headprune_lib.replication.measurements.records import tolerance_key
from headprune_lib.replication.stats.bounds import C3_TOLERANCE
from headprune_lib.replication.store import Result
from headprune_lib.replication.titles import setting, spelled

Values = Mapping[str, Any] | None
"""The values of a result; None where there is none, which makes the verdict ``not run``."""


@dataclass(frozen=True)
class Evidence:
    """A measurement in one half of the paper that decides a claim; ``judge`` is its rule."""

    measurement: str
    half: Half
    judge: Callable[[Values, str], Verdict]


def verdicts_of(result: Result) -> list[Verdict]:
    """Every claim that a result decides, in order of claims; none where none rests on it."""
    half = measurements.half_of(result.key)
    judged = [
        one.judge(result.values, _paper_name(result))
        for claim in CLAIMS
        for one in EVIDENCE[claim.id]
        if (one.measurement, one.half) == (result.measurement, half)
    ]
    # a curve without the one-by-one order has nothing to say of C8
    return [verdict for verdict in judged if verdict.word != "not run"]


def all_verdicts(root: Path | None = None) -> list[Verdict]:
    """C1 to C8 from all stored results, both halves of the paper together.

    Args:
        root: the folder of results; the project's own if not given.
    """
    stored = {
        name: measurements.found(name, root=root)
        for name in {one.measurement for each in EVIDENCE.values() for one in each}
    }
    judged = []
    for claim in CLAIMS:
        rows = [row for one in EVIDENCE[claim.id] for row in _rows(one, stored[one.measurement])]
        run = [row for row in rows if row.word != "not run"]
        judged.append(rows[0] if not run else run[0] if len(run) == 1 else combine(run))
    return judged


def _rows(one: Evidence, stored: list[Result]) -> list[Verdict]:
    """A verdict for each result; one with rows of its own, such as three domains, counts as these."""
    own = [result for result in stored if measurements.half_of(result.key) == one.half]
    if not own:
        return [one.judge(None, paper.name_of(one.measurement, one.half, paper.MAIN))]
    verdicts = [(result, one.judge(result.values, _paper_name(result))) for result in own]
    return [
        _named(row, result) for result, verdict in verdicts for row in verdict.rows or (verdict,)
    ]


def _paper_name(result: Result) -> str:
    return paper.name_of(result.measurement, measurements.half_of(result.key), result.task)


def _named(verdict: Verdict, result: Result) -> Verdict:
    """The verdict on an encoder with its evidence named by model and task: there are several."""
    if verdict.half != "encoder":
        return verdict
    return dataclasses.replace(
        verdict, evidence=tuple(f"{name} ({setting(result)})" for name in verdict.evidence)
    )


def _c1(values: Values, name: str) -> Verdict:
    return rules.c1(values, evidence=(name,))


def _c1_translation(values: Values, name: str) -> Verdict:
    """On the encoder's own heads, the grid that the paper shows."""
    return rules.c1(
        values and {**values, "counts": values["counts"]["enc-enc"]},
        half="translation",
        evidence=(name,),
    )


def _c2(half: Half) -> Callable[[Values, str], Verdict]:
    return lambda values, name: rules.c2(values, half=half, evidence=(name,))


def _c3(half: Half) -> Callable[[Values, str], Verdict]:
    tolerance = tolerance_key(C3_TOLERANCE)
    return lambda values, name: rules.c3(
        values and values["prunable"]["importance"][tolerance], half=half, evidence=(name,)
    )


def _c4(values: Values, name: str) -> Verdict:
    if values is None:
        return rules.c4(None, None, evidence=(name,))
    uncut, found = values["curves"]["enc-dec importance"]["mean"][0], values["differences"]
    return rules.c4(
        *({**found[f"enc-dec minus {other}"], "uncut": uncut} for other in ("enc-enc", "dec-dec")),
        evidence=(name,),
    )


def _c5(values: Values, name: str) -> Verdict:
    found = values["differences"] if values else {}
    return rules.c5(found.get("kept"), found.get("gini"), evidence=(name,))


def _c6(values: Values, name: str) -> Verdict:
    return rules.c6(
        values and {row["batch_size"]: row for row in values["finetuned"]["speed"]},
        evidence=(name,),
    )


def _c7(values: Values, name: str) -> Verdict:
    if values is None or not values["correlations"]:
        return rules.c7(None, evidence=(name,))
    effects = {
        domain: _with_reliability(found["accuracy"])
        for domain, found in values["correlations"].items()
    }
    return combine(
        [  # the mean over domains would hide one that disagrees
            rules.c7(found, evidence=(f"{name} {spelled(domain)}",))
            for domain, found in effects.items()
        ]
    )


def _with_reliability(found: Mapping[str, Any]) -> dict[str, Any]:
    return {**found["pearson"], "reliability": found["reliability"]}


def _c7_translation(values: Values, name: str) -> Verdict:
    return rules.c7(
        values and _with_reliability(values["correlations"]["bleu"]),
        half="translation",
        evidence=(name,),
    )


def _c8(half: Half) -> Callable[[Values, str], Verdict]:
    """Against the paper's own rival, the one-by-one order of the test set, not the leak-free one."""

    def judge(values: Values, name: str) -> Verdict:
        found = values and values["area_differences"].get("oracle")
        if found and half == "translation":  # BLEU of different models cannot be compared as it is
            found = {**found, "uncut": values["curves"]["importance"]["mean"][0]}
        return rules.c8(found, half=half, evidence=(name,))

    return judge


def _both(measurement: str, rule: Callable[[Half], Callable[[Values, str], Verdict]]):
    return tuple(Evidence(measurement, half, rule(half)) for half in HALVES)


# Claim -> what decides it; the encoder half first.
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
