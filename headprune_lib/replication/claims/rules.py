"""The rules, fixed before measuring, that judge the paper's eight claims.

A rule takes numbers with their intervals and gives one of four words. Where an interval straddles
the rule's bound the word is ``inconclusive``; without a measurement (None) it is ``not run``.
Effects are cut minus uncut, as fractions. Sentences count layers and heads from 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from headprune_lib.replication.claims.verdict import Verdict, interval, not_run, signs
from headprune_lib.replication.stats.bounds import (
    ALPHA,
    C3_TOLERANCE,
    C4_REMOVED,
    C5_REMOVED,
    DELTA,
    DELTA_BLEU,
)

# C1: share of heads removable one by one at which the claim replicates ...
C1_REMOVABLE = 0.80
# ... and below which it differs.
C1_DIFFERS = 0.50
# C1: the share of heads whose loss is significant must stay below this.
C1_HARMFUL = 0.20
# C2: share of layers that one head must be enough for, by half (the paper's Table 5: 9 of 18).
C2_LAYERS = {"encoder": 0.80, "translation": 0.40}
# C3: the share of heads that must go without a loss above the tolerance, by half.
C3_MINIMUM = {"encoder": 0.40, "translation": 0.20}
# C6: batch sizes at which the halved model must be faster, and the ratio it must exceed.
C6_BATCHES = (16, 64)
C6_RATIO = 1.10

# Shares such as 0.4 come out of sums as 0.39999...; they are meant to equal their bound.
_ROUNDING = 1e-9


def c1(
    values: Mapping[str, Any] | None,
    *,
    half: str = "encoder",
    evidence: Sequence[str] = ("figure1b",),
) -> Verdict:
    """C1 from the values of figure1b: ``counts`` and ``heads``; for BLEU, those of table1."""
    of = "the encoder's own heads" if half == "translation" else "the heads"
    rule = (
        f"Replicates if at least {C1_REMOVABLE:.0%} of {of} are removable (the interval "
        f"rules out a loss of {_delta(half)}) and fewer than {C1_HARMFUL:.0%} do significant "
        f"harm (Holm, {ALPHA}); differs if fewer than {C1_DIFFERS:.0%} are removable."
    )
    if values is None:
        return not_run("C1", rule, evidence, half)
    counts = values["counts"]
    heads, removable, harmful = (
        counts[name] for name in ("heads", "removable", "significant_losses")
    )
    if not 0 < heads >= max(removable, harmful) or min(removable, harmful) < 0:
        raise ValueError(
            f"counts are {dict(counts)}; expected heads > 0, and removable and "
            "significant_losses between 0 and heads"
        )
    if removable >= C1_REMOVABLE * heads - _ROUNDING and harmful < C1_HARMFUL * heads - _ROUNDING:
        word = "replicates"
    else:
        word = "differs" if removable < C1_DIFFERS * heads - _ROUNDING else "inconclusive"
    heads_named = f"the encoder's own {heads} heads" if half == "translation" else f"{heads} heads"
    measured = (
        f"{removable} of {heads_named} ({removable / heads:.0%}) are removable one by one; "
        f"{harmful} ({harmful / heads:.0%}) do significant harm."
    )
    return Verdict("C1", word, measured, rule, tuple(evidence), half)


def c2(
    values: Mapping[str, Any] | None,
    *,
    half: str = "encoder",
    evidence: Sequence[str] = ("table6",),
) -> Verdict:
    """C2 from the leak-free all-but-one records, one a layer: values["layers"], else ["heads"].

    Encoders: a layer is a yes if its ``interval`` is above -DELTA, a no if below, else unknown.
    Translation: a layer is a no if it loses (``delta`` < 0) at raw ``p`` < ALPHA, as in Table 5,
    else a yes; Holm's p would make a yes easier.
    """
    bound = C2_LAYERS[half]
    rule = f"Replicates if one head is enough in at least {bound:.0%} of the layers: " + (
        f"the interval rules out a loss of {_delta(half)}. Differs if that fails even with "
        "every unknown layer counted as a yes."
        if half == "encoder"
        else f"the loss is not significant (p < {ALPHA}). Differs otherwise."
    )
    if values is None:
        return not_run("C2", rule, evidence, half)
    layers = values.get("layers", values.get("heads"))
    if not layers:
        raise ValueError(f"values hold {sorted(values)}; expected one record a layer in 'layers'")
    if half == "encoder":
        ends = [interval(record["interval"]) for record in layers]
        no = [high < -DELTA for _, high in ends]
        yes = [low > -DELTA for low, _ in ends]
    else:
        no = [record["delta"] < 0 and record["p"] < ALPHA for record in layers]
        yes = [not worse for worse in no]
    unknown = [not (good or bad) for good, bad in zip(yes, no, strict=True)]
    least = bound * len(layers) - _ROUNDING
    word = (
        "replicates"
        if sum(yes) >= least
        else "differs"
        if sum(yes) + sum(unknown) < least
        else "inconclusive"
    )
    if half == "encoder":
        measured = f"One head is enough in {sum(yes)} of {len(layers)} layers"
    else:  # not to be told from no loss is not the same as none
        sure = sum(bool(record.get("removable")) for record in layers)
        measured = (
            f"{sum(yes)} of {len(layers)} layers with one head do not lose significantly; "
            f"a loss of {_delta(half)} is ruled out in {sure}"
        )
    for label, chosen in (
        ("not enough in" if half == "encoder" else "loss in", no),
        ("open for", unknown),
    ):
        if any(chosen):
            measured += f"; {label} {_names(layers, chosen)}"
    return Verdict("C2", word, measured + ".", rule, tuple(evidence), half)


def c3(
    prunable: Mapping[str, Any] | None,
    *,
    half: str = "encoder",
    evidence: Sequence[str] = ("figure3b",),
) -> Verdict:
    """C3 from the share of heads that goes at C3_TOLERANCE, {"share", "interval"}."""
    minimum = C3_MINIMUM[half]
    rule = (
        f"Replicates if at least {minimum:.0%} of the heads can go before the loss exceeds "
        f"{C3_TOLERANCE:.0%} of what the unpruned model has above chance: interval not below "
        f"{minimum:.0%}. Differs if the interval is below it."
    )
    if prunable is None:
        return not_run("C3", rule, evidence, half)
    low, high = interval(prunable["interval"])
    word = (
        "replicates"
        if low >= minimum - _ROUNDING
        else "differs"
        if high < minimum - _ROUNDING
        else "inconclusive"
    )
    measured = (
        f"{prunable['share']:.0%} of the heads can go together "
        f"(95% interval {low:.0%} to {high:.0%})."
    )
    return Verdict("C3", word, measured, rule, tuple(evidence), half)


def c4(
    versus_enc_enc: Mapping[str, Any] | None,
    versus_dec_dec: Mapping[str, Any] | None,
    *,
    half: str = "translation",
    evidence: Sequence[str] = ("figure4",),
) -> Verdict:
    """C4 from two differences, each {"difference", "interval"} in BLEU.

    BLEU with C4_REMOVED of the enc-dec heads removed by importance, minus BLEU with as many
    removed of the other kind; below 0 where enc-dec is the sensitive kind. ``uncut``, the unpruned
    model's BLEU, may stand beside: the difference is then told as a share of it, too.
    """
    rule = (
        f"Replicates if removing {C4_REMOVED:.0%} of the enc-dec heads leaves less BLEU than "
        "removing as many of either other kind, both intervals below 0. Differs if one is "
        "above 0."
    )
    return signs(
        "C4",
        {
            "BLEU left, enc-dec minus enc-enc": versus_enc_enc,
            "BLEU left, enc-dec minus dec-dec": versus_dec_dec,
        },
        -1,
        rule,
        evidence,
        half,
    )


def c5(
    kept_bleu: Mapping[str, Any] | None,
    gini: Mapping[str, Any] | None,
    *,
    half: str = "translation",
    evidence: Sequence[str] = ("figure5",),
) -> Verdict:
    """C5 from two differences, last minus first checkpoint, each {"difference", "interval"}.

    ``kept_bleu``: share of the checkpoint's BLEU kept with C5_REMOVED of the heads removed;
    ``gini``: Gini coefficient of raw importance.
    """
    rule = (
        f"Replicates if the share of BLEU kept with {C5_REMOVED:.0%} of the heads removed and "
        "the Gini coefficient of importance are both higher at the last checkpoint than at "
        "the first, both intervals above 0. Differs if one is below 0."
    )
    return signs(
        "C5",
        {
            "share of BLEU kept, last minus first checkpoint": kept_bleu,
            "Gini coefficient, last minus first checkpoint": gini,
        },
        1,
        rule,
        evidence,
        half,
    )


def c6(
    ratios: Mapping[int | str, Mapping[str, Any]] | None,
    *,
    half: str = "encoder",
    evidence: Sequence[str] = ("table4",),
) -> Verdict:
    """C6 from batch size -> {"ratio", "interval"} of examples a second, pruned over unpruned.

    Batch sizes may be text, as JSON keys are; a result without one of C6_BATCHES is ``not run``.
    """
    sizes = " and ".join(map(str, C6_BATCHES))
    rule = (
        f"Replicates if at batch sizes {sizes} the halved model is more than {C6_RATIO} times "
        f"as fast and the intervals are above 1. Differs if one is below {C6_RATIO}."
    )
    by_size = {int(size): ratio for size, ratio in (ratios or {}).items()}
    if not by_size or not set(C6_BATCHES) <= set(by_size):
        return not_run("C6", rule, evidence, half)
    rows = [(by_size[size]["ratio"], *interval(by_size[size]["interval"])) for size in C6_BATCHES]
    if all(ratio > C6_RATIO and low > 1 for ratio, low, _ in rows):
        word = "replicates"
    else:
        word = "differs" if any(high < C6_RATIO for *_, high in rows) else "inconclusive"
    measured = "; ".join(
        f"batch {size}: {ratio:.2f} times as fast ({low:.2f} to {high:.2f})"
        for size, (ratio, low, high) in zip(C6_BATCHES, rows, strict=True)
    )
    return Verdict("C6", word, f"{measured[0].upper()}{measured[1:]}.", rule, tuple(evidence), half)


def c7(
    correlation: Mapping[str, Any] | None,
    *,
    half: str = "encoder",
    evidence: Sequence[str] = ("figure2b",),
) -> Verdict:
    """C7 from the correlation over heads of in-domain with out-of-domain effects.

    {"r", "interval"}; ``r`` is None where no head had any effect, which makes it ``not run``. Split-half
    ``reliability`` of the two sides' effects, where given, is told: near 0, effects are noise.
    """
    rule = (
        "Replicates if the effects of removing each head correlate across domains, r > 0 with "
        "its interval above 0. Differs if the interval is below 0."
    )
    known = correlation is not None and correlation["r"] is not None
    given = {"difference": correlation["r"], "interval": correlation["interval"]} if known else None
    verdict = signs("C7", {"correlation r": given}, 1, rule, evidence, half)
    if not known or "reliability" not in correlation:
        return verdict
    here, there = correlation["reliability"]
    return dataclasses.replace(
        verdict,
        measured=(
            f"{verdict.measured} Reliability of the effects: {here:.2f} here, {there:.2f} there."
        ),
    )


def c8(
    difference: Mapping[str, Any] | None,
    *,
    half: str = "encoder",
    evidence: Sequence[str] = ("figure3b",),
) -> Verdict:
    """C8 from area under the pruning curve, importance minus one-by-one order, paired.

    {"difference", "interval"} in the score's own unit, and ``uncut`` as for :func:`c4`.
    """
    rule = (
        "Replicates if the area under the pruning curve is larger in importance order than in "
        "the order of one-by-one effects, interval of the paired difference above 0. Differs "
        "if it is below 0."
    )
    score = "accuracy" if half == "encoder" else "BLEU"
    return signs(
        "C8",
        {f"mean {score} along the curve, importance minus one-by-one": difference},
        1,
        rule,
        evidence,
        half,
    )


def _delta(half: str) -> str:
    return f"{DELTA_BLEU} BLEU" if half == "translation" else f"{100 * DELTA:g} point of accuracy"


def _names(layers: Sequence[Mapping[str, Any]], chosen: Sequence[bool]) -> str:
    """The chosen layers, from 1, with their kind where the model has several."""
    several = len({record["kind"] for record in layers}) > 1
    names = [
        f"{record['kind']} {record['layer'] + 1}" if several else str(record["layer"] + 1)
        for record, of_these in zip(layers, chosen, strict=True)
        if of_these
    ]
    return ("layer " if len(names) == 1 else "layers ") + ", ".join(names)
