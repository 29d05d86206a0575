"""Every claim comes out every word it can, on made-up values, at and beside its bounds."""

import dataclasses

import pytest

from headprune_lib.replication.claims import rules
from headprune_lib.replication.claims.claims import CLAIMS
from headprune_lib.replication.claims.verdict import Verdict, combine


def counts(heads, removable, harmful):
    return {"counts": {"heads": heads, "removable": removable, "significant_losses": harmful}}


def layers(*intervals):
    return {
        "layers": [
            {"kind": "self", "layer": i, "interval": interval}
            for i, interval in enumerate(intervals)
        ]
    }


def bleu_layers(*pairs):
    kinds = ["enc-enc", "enc-dec"]
    return {
        "layers": [
            {"kind": kinds[i % 2], "layer": i // 2, "delta": delta, "p": p}
            for i, (delta, p) in enumerate(pairs)
        ]
    }


def difference(low, high):
    return {"difference": (low + high) / 2, "interval": [low, high]}


def prunable(low, high):
    return {"share": (low + high) / 2, "interval": [low, high]}


def correlation(low, high):
    return {"r": None if low is None else (low + high) / 2, "interval": [low, high]}


def speed(**ratios):
    return {
        size.removeprefix("b"): {"ratio": ratio, "interval": [low, high]}
        for size, (ratio, low, high) in ratios.items()
    }


YES, NO, OPEN = [-0.009, 0.01], [-0.05, -0.011], [-0.02, 0.0]
WORSE, SAME, BETTER, BARELY = (-3.0, 0.001), (-0.1, 0.6), (1.0, 0.001), (-1.0, 0.01)
FAST, SLOW, UNSURE = (1.2, 1.15, 1.25), (1.04, 1.0, 1.08), (1.12, 0.99, 1.3)
UP, DOWN, AROUND, TOUCHING = (0.1, 0.3), (-0.3, -0.1), (-0.1, 0.2), (0.0, 0.2)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (None, "not run"),
        (counts(72, 66, 3), "replicates"),
        (counts(10, 8, 1), "replicates"),  # 80% is enough
        (counts(10, 8, 2), "inconclusive"),  # fewer than 20% harmful, not 20%
        (counts(100, 79, 0), "inconclusive"),
        (counts(10, 5, 5), "inconclusive"),  # below 50%, not 50%
        (counts(100, 49, 0), "differs"),
    ],
)
def test_c1(values, word):
    assert rules.c1(values).word == word


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (None, "not run"),
        (layers(YES, YES, YES, YES, NO), "replicates"),
        (layers(YES, YES, YES, YES, OPEN), "replicates"),
        (layers(YES, YES, YES, OPEN, NO), "inconclusive"),
        (layers(YES, YES, YES, NO, NO), "differs"),
        (layers(YES, YES, OPEN, NO, NO), "differs"),
        (layers(YES, YES, YES, YES, [-0.01, 0]), "replicates"),
        (layers(YES, YES, YES, NO, [-0.01, 0]), "inconclusive"),  # a bound touched is not passed
        (layers(YES, YES, YES, NO, [-0.05, -0.01]), "inconclusive"),
        ({"heads": layers(YES)["layers"]}, "replicates"),
    ],
)
def test_c2_encoder(values, word):
    assert rules.c2(values).word == word


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (None, "not run"),
        (bleu_layers(SAME, BETTER, WORSE, WORSE, WORSE), "replicates"),  # 2 of 5 is 40%
        (bleu_layers(SAME, BARELY, WORSE, WORSE, WORSE), "replicates"),
        (bleu_layers(SAME, WORSE, WORSE, WORSE, WORSE), "differs"),
    ],
)
def test_c2_translation(values, word):
    assert rules.c2(values, half="translation", evidence=["table5"]).word == word


@pytest.mark.parametrize(
    ("half", "ends", "word"),
    [
        ("encoder", None, "not run"),
        ("encoder", (0.4, 0.6), "replicates"),
        ("encoder", (0.7 - 0.3, 0.6), "replicates"),  # 0.39999999999999997
        ("encoder", (0.3, 0.5), "inconclusive"),
        ("encoder", (0.1, 0.4), "inconclusive"),
        ("encoder", (0.1, 0.3), "differs"),
        ("translation", (0.2, 0.3), "replicates"),
        ("translation", (0.3 - 0.1, 0.3), "replicates"),  # 0.19999999999999998
        ("translation", (0.1, 0.15), "differs"),
    ],
)
def test_c3(half, ends, word):
    assert rules.c3(ends and prunable(*ends), half=half).word == word


@pytest.mark.parametrize(
    ("first", "second", "c4", "c5"),
    [
        (UP, UP, "differs", "replicates"),
        (DOWN, DOWN, "replicates", "differs"),
        (DOWN, UP, "differs", "differs"),
        (DOWN, AROUND, "inconclusive", "differs"),
        (UP, AROUND, "differs", "inconclusive"),
        (AROUND, AROUND, "inconclusive", "inconclusive"),
        (UP, TOUCHING, "differs", "inconclusive"),
        (DOWN, None, "not run", "not run"),
        (None, None, "not run", "not run"),
    ],
)
def test_c4_and_c5(first, second, c4, c5):
    given = [ends and difference(*ends) for ends in (first, second)]
    assert rules.c4(*given).word == c4
    assert rules.c5(*given).word == c5
    assert rules.c4(*given[::-1]).word == c4 and rules.c5(*given[::-1]).word == c5


@pytest.mark.parametrize(
    ("ratios", "word"),
    [
        (None, "not run"),
        ({}, "not run"),
        (speed(b1=SLOW, b4=SLOW, b16=FAST), "not run"),  # no batch 64
        (speed(b1=SLOW, b16=FAST, b64=FAST), "replicates"),  # batch 1 is no part of the rule
        ({16: speed(b16=FAST)["16"], 64: speed(b64=FAST)["64"]}, "replicates"),
        (speed(b16=(1.12, 1.01, 1.3), b64=FAST), "replicates"),
        (speed(b16=UNSURE, b64=FAST), "inconclusive"),
        (speed(b16=(1.10, 1.05, 1.15), b64=FAST), "inconclusive"),  # above 1.10, not 1.10
        (speed(b16=FAST, b64=(1.05, 1.0, 1.10)), "inconclusive"),
        (speed(b16=FAST, b64=SLOW), "differs"),
    ],
)
def test_c6(ratios, word):
    assert rules.c6(ratios).word == word


@pytest.mark.parametrize(
    ("ends", "word"),
    [
        (UP, "replicates"),
        (DOWN, "differs"),
        (AROUND, "inconclusive"),
        (TOUCHING, "inconclusive"),
        ((-0.2, 0.0), "inconclusive"),
        (None, "not run"),
    ],
)
def test_c7_and_c8(ends, word):
    assert rules.c7(ends and correlation(*ends)).word == word
    assert rules.c8(ends and difference(*ends)).word == word


def test_a_correlation_of_effects_that_do_not_vary_was_not_run():
    assert rules.c7(correlation(None, None)).word == "not run"


def test_differences_of_bleu_are_told_as_shares_of_it_too():
    half_a_point = {**difference(-0.6, -0.4), "uncut": 25.0}
    assert rules.c4(half_a_point, difference(-2, -1)).measured == (
        "BLEU left, enc-dec minus enc-enc: -0.500 (-0.600 to -0.400), -2% of the uncut score; "
        "BLEU left, enc-dec minus dec-dec: -1.500 (-2.000 to -1.000)."
    )
    assert "uncut" not in rules.c8({**difference(1, 3), "uncut": 0.0}).measured


def test_sentences():
    one = rules.c1(counts(72, 66, 3))
    assert one.measured == (
        "66 of 72 heads (92%) are removable one by one; 3 (4%) do significant harm."
    )
    assert "loss of 1 point of accuracy" in one.rule and "(Holm, 0.01)" in one.rule
    assert "loss of 0.5 BLEU" in rules.c1(None, half="translation").rule
    assert rules.c2(layers(YES, NO, OPEN, OPEN)).measured == (
        "One head is enough in 1 of 4 layers; not enough in layer 2; open for layers 3, 4."
    )
    assert rules.c2(bleu_layers(SAME, WORSE, SAME, WORSE), half="translation").measured == (
        "2 of 4 layers with one head do not lose significantly; a loss of 0.5 BLEU is ruled out in 0; "
        "loss in layers enc-dec 1, enc-dec 2."
    )
    assert rules.c1(counts(72, 66, 3), half="translation").measured.startswith(
        "66 of the encoder's own 72 heads (92%)"
    )
    assert rules.c3(prunable(0.4, 0.6)).measured == (
        "50% of the heads can go together (95% interval 40% to 60%)."
    )
    assert rules.c6(speed(b16=FAST, b64=SLOW)).measured == (
        "Batch 16: 1.20 times as fast (1.15 to 1.25); batch 64: 1.04 times as fast (1.00 to 1.08)."
    )
    assert rules.c7({"r": 0.68, "interval": [0.5, 0.8]}).measured == (
        "Correlation r: +0.680 (+0.500 to +0.800)."
    )
    assert rules.c7({"r": 0.68, "interval": [0.5, 0.8], "reliability": [-0.1, 0.9]}).measured == (
        "Correlation r: +0.680 (+0.500 to +0.800). Reliability of the effects: -0.10 here, 0.90 there."
    )
    for claim, rule in enumerate((rules.c1, rules.c2), 1):
        nothing = rule(None)
        assert (nothing.claim, nothing.half, nothing.measured) == (
            f"C{claim}",
            "encoder",
            "Not measured.",
        )


def test_claims_are_eight_and_complete():
    assert [claim.id for claim in CLAIMS] == [f"C{i}" for i in range(1, 9)]
    assert all(all(dataclasses.astuple(claim)) for claim in CLAIMS)
    assert all(claim.title.endswith(".") and claim.paper_value.endswith(".") for claim in CLAIMS)


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["replicates", "replicates"], "replicates"),
        (["replicates", "not run"], "replicates"),
        (["differs", "not run"], "differs"),
        (["differs", "inconclusive"], "differs"),
        (["replicates", "differs"], "inconclusive"),
        (["replicates", "inconclusive"], "inconclusive"),
        (["inconclusive"], "inconclusive"),
        (["not run", "not run"], "not run"),
    ],
)
def test_combine(words, word):
    rows = [
        Verdict("C3", each, "", "rule", (f"figure{i}",), half)
        for i, (each, half) in enumerate(zip(words, ["encoder", "translation"], strict=False))
    ]
    both = combine(rows)
    assert both.word == combine(rows[::-1]).word == word
    assert [row.word for row in both.rows] == list(words)
    assert all(f": {each}" in both.measured for each in words)
    assert both.evidence == tuple(f"figure{i}" for i in range(len(words)))
    assert (both.claim, both.rule) == ("C3", "rule")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: combine([]), "at least one"),
        (lambda: combine([rules.c7(None), rules.c8(None)]), "all on one claim"),
        (lambda: rules.c1(counts(0, 0, 0)), "heads > 0"),
        (lambda: rules.c1(counts(10, 11, 0)), "between 0 and heads"),
        (lambda: rules.c2({"layers": []}), "one record a layer"),
        (lambda: rules.c3(prunable(0.5, 0.4)), "low first"),
        (lambda: rules.c7(correlation(float("nan"), 0.4)), "finite"),
        (
            lambda: rules.c6(
                {16: {"ratio": 1, "interval": [2, 1]}, 64: {"ratio": 1, "interval": [1, 1]}}
            ),
            "low first",
        ),
    ],
)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
