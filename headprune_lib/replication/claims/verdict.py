"""What a rule says of a claim, and what the rules of several claims share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Word = Literal["replicates", "differs", "inconclusive", "not run"]


@dataclass(frozen=True)
class Verdict:
    """One claim judged on one half of the paper: the word, the numbers, the rule, the artifacts.

    ``rows`` are the verdicts that a combined one rests on.
    """

    claim: str
    word: Word
    measured: str
    rule: str
    evidence: tuple[str, ...]
    half: str
    rows: tuple[Verdict, ...] = ()


def combine(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict of a claim that rests on several rows; rows that were not run do not count.

    All replicate: ``replicates``; some differ and none replicates: ``differs``; none was run:
    ``not run``; anything else: ``inconclusive``. ``measured`` counts the words, ``rows`` keeps
    what each says.
    """
    if not verdicts or len({verdict.claim for verdict in verdicts}) > 1:
        raise ValueError(
            f"verdicts on {[verdict.claim for verdict in verdicts]}; expected at "
            "least one, all on one claim"
        )
    words = {verdict.word for verdict in verdicts} - {"not run"}
    if not words:
        word = "not run"
    elif words == {"replicates"}:
        word = "replicates"
    else:
        word = "differs" if "differs" in words and "replicates" not in words else "inconclusive"
    counts = Counter(verdict.word for verdict in verdicts)
    measured = ", ".join(f"{n} of {len(verdicts)}: {each}" for each, n in counts.items())
    rules = dict.fromkeys(verdict.rule for verdict in verdicts)
    artifacts = dict.fromkeys(name for verdict in verdicts for name in verdict.evidence)
    halves = dict.fromkeys(verdict.half for verdict in verdicts)
    return Verdict(
        verdicts[0].claim,
        word,
        f"{measured}.",
        " ".join(rules),
        tuple(artifacts),
        " and ".join(halves),
        tuple(verdicts),
    )


def not_run(claim: str, rule: str, evidence: Sequence[str], half: str) -> Verdict:
    """The verdict where nothing was measured."""
    return Verdict(claim, "not run", "Not measured.", rule, tuple(evidence), half)


def interval(ends: Sequence[float]) -> tuple[float, float]:
    """Low and high; raises ValueError unless both are finite and in this order."""
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"interval is [{low}, {high}]; expected two finite numbers, low first")
    return low, high


def signs(
    claim: str,
    quantities: Mapping[str, Mapping[str, Any] | None],
    sign: int,
    rule: str,
    evidence: Sequence[str],
    half: str,
) -> Verdict:
    """Replicates if every interval lies on the side of ``sign``, differs if one on the other."""
    if any(quantity is None for quantity in quantities.values()):
        return not_run(claim, rule, evidence, half)
    ends = [interval(quantity["interval"]) for quantity in quantities.values()]
    if all(sign * low > 0 and sign * high > 0 for low, high in ends):
        word = "replicates"
    else:
        word = (
            "differs"
            if any(sign * low < 0 and sign * high < 0 for low, high in ends)
            else "inconclusive"
        )
    measured = "; ".join(
        f"{name}: {quantity['difference']:+.3f} ({low:+.3f} to {high:+.3f})" + _relative(quantity)
        for (name, quantity), (low, high) in zip(quantities.items(), ends, strict=True)
    )
    return Verdict(
        claim, word, f"{measured[0].upper()}{measured[1:]}.", rule, tuple(evidence), half
    )


def _relative(quantity: Mapping[str, Any]) -> str:
    """A difference as a share of the unpruned model's score, where that is given as ``uncut``."""
    if not quantity.get("uncut"):
        return ""
    return f", {quantity['difference'] / quantity['uncut']:+.0%} of the uncut score"
