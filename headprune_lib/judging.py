"""Which result decides which claim, and the verdict that the rules give it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from headprune_lib import results, verdicts
from headprune_lib.claims import CLAIMS
from headprune_lib.naming import spelled
from headprune_lib.results import Result
from headprune_lib.verdicts import Verdict

Values = Mapping[str, Any] | None
"""The values of a result; None where there is none, which makes the verdict ``not run``."""


def verdicts_of(result: Result) -> list[Verdict]:
    """Every claim that an artifact decides, in order of claims; none where none rests on it."""
    return [judge(result.values) for claim in CLAIMS
            for artifact, judge in _EVIDENCE[claim.id] if artifact == result.artifact]


def all_verdicts(profile: str = "default") -> list[Verdict]:
    """C1 to C8 from the stored results of a profile, both halves of the paper together.

    For ``default``, those of the profile ``base`` count as well.
    """
    stored = cache(results.stored)  # several claims rest on one artifact
    further, judged = FURTHER.get(profile, ()), []
    for claim in CLAIMS:
        rows = []
        for artifact, judge in _EVIDENCE[claim.id]:
            for where, task in ((profile, None), *further):
                found = stored(artifact, where, task)
                verdict = judge(found and found.values)
                # One with rows of its own, such as three domains, counts as these.
                parts = verdict.rows or (verdict,)
                rows += [_named(part, found) for part in parts] if found and further else parts
        run = [row for row in rows if row.word != "not run"]
        judged.append(rows[0] if not run else run[0] if len(run) == 1 else verdicts.combine(run))
    return judged


def _named(verdict: Verdict, result: Result) -> Verdict:
    """The verdict on an encoder with its evidence named by model and task: there are several."""
    if verdict.half != "encoder":
        return verdict
    # The paper shows this curve on MNLI in Figure 3b, on SST-2 in Figure 6a.
    papers = {"figure3b": "figure6a"} if result.task == "sst2" else {}
    return dataclasses.replace(verdict, evidence=tuple(
        f"{papers.get(name, name)} ({result.setting})" for name in verdict.evidence))


def _c1_translation(values: Values) -> Verdict:
    """On the encoder's own heads, the grid that the paper shows."""
    return verdicts.c1(values and {**values, "counts": values["counts"]["enc-enc"]},
                       half="translation", evidence=("table1",))


def _c2_translation(values: Values) -> Verdict:
    return verdicts.c2(values, half="translation", evidence=("table5",))


def _c3(half: str, artifact: str) -> Callable[[Values], Verdict]:
    return lambda values: verdicts.c3(values and values["prunable"]["importance"]["2%"],
                                      half=half, evidence=(artifact,))


def _c4(values: Values) -> Verdict:
    if values is None:
        return verdicts.c4(None, None)
    uncut, found = values["curves"]["enc-dec importance"]["mean"][0], values["differences"]
    return verdicts.c4(*({**found[f"enc-dec minus {other}"], "uncut": uncut}
                         for other in ("enc-enc", "dec-dec")))


def _c5(values: Values) -> Verdict:
    found = values["differences"] if values else {}
    return verdicts.c5(found.get("kept"), found.get("gini"))


def _c6(values: Values) -> Verdict:
    return verdicts.c6(values and {
        row["batch_size"]: row for row in values["finetuned"]["speed"]})


def _c7(values: Values) -> Verdict:
    if values is None or not values["correlations"]:
        return verdicts.c7(None)
    effects = {domain: _with_reliability(found["accuracy"])
               for domain, found in values["correlations"].items()}
    return verdicts.combine([  # the mean over domains would hide one that disagrees
        verdicts.c7(found, evidence=(f"figure2b {spelled(domain)}",))
        for domain, found in effects.items()])


def _with_reliability(found: Mapping[str, Any]) -> dict[str, Any]:
    return {**found["pearson"], "reliability": found["reliability"]}


def _c7_translation(values: Values) -> Verdict:
    return verdicts.c7(values and _with_reliability(values["correlations"]["bleu"]),
                       half="translation", evidence=("figure2a",))


def _c8(half: str, artifact: str) -> Callable[[Values], Verdict]:
    """Against the paper's own rival, the one-by-one order of the test set, not the leak-free one."""
    def judge(values: Values) -> Verdict:
        found = values and values["area_differences"].get("oracle")
        if found and half == "translation":  # BLEU of different models cannot be compared as it is
            found = {**found, "uncut": values["curves"]["importance"]["mean"][0]}
        return verdicts.c8(found, half=half, evidence=(artifact,))

    return judge


# Profile -> the further profiles and tasks whose results bear on its verdicts.
FURTHER: dict[str, tuple[tuple[str, str | None], ...]] = {
    "default": (("base", None), ("base", "snli"), ("default", "sst2"), ("default", "snli")),
}

# Claim -> the artifacts that decide it, each with its rule; the encoder half first.
_EVIDENCE: dict[str, tuple[tuple[str, Callable[[Values], Verdict]], ...]] = {
    "C1": (("figure1b", verdicts.c1), ("table1", _c1_translation)),
    "C2": (("table6", verdicts.c2), ("table5", _c2_translation)),
    "C3": (*((artifact, _c3("encoder", artifact)) for artifact in ("figure3b", "figure6b", "figure6c")),
           *((artifact, _c3("translation", artifact)) for artifact in ("figure3a", "figure6d"))),
    "C4": (("figure4", _c4),),
    "C5": (("figure5", _c5),),
    "C6": (("table4", _c6),),
    "C7": (("figure2b", _c7), ("figure2a", _c7_translation)),
    "C8": (("figure3b", _c8("encoder", "figure3b")), ("figure3a", _c8("translation", "figure3a"))),
}
