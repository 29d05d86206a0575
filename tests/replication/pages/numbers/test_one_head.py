"""Page 01: numbers from the outcomes themselves, and no number of another model."""

import statistics

import numpy as np
import pytest

from headprune_lib.replication.pages import numbers
from headprune_lib.replication.pages.page import collect


def test_the_classifiers_numbers_are_those_of_its_outcomes(result):
    figure1b = result("figure1b")
    found = numbers.one_head(figure1b, result("table1"), collect([figure1b]))
    correct, uncut = figure1b.raw["correct"], figure1b.raw["correct_uncut"]
    change = 100 * (correct.mean(1) - uncut.mean())
    assert found["accuracy"] == pytest.approx(100 * uncut.mean(), rel=1e-5)
    assert (found["n"], found["heads"]) == (len(uncut), len(correct))
    assert found["worst"] == pytest.approx(change.min(), abs=1e-4)
    worst = np.argwhere(change <= change.min() + 1e-9).ravel()
    assert [found["worst_layer"] - 1, found["worst_head"] - 1] in [
        figure1b.raw["heads"][one].tolist() for one in worst
    ]
    assert found["removable"] == sum(
        head["interval"][0] > -0.01 for head in figure1b.values["heads"]
    )


def test_the_share_is_told_with_its_interval_and_the_rules_power(result):
    figure1b, table1 = result("figure1b"), result("table1")
    found = numbers.one_head(figure1b, table1, collect([figure1b]))
    for prefix, counts, removable in (
        ("", figure1b.values["counts"], figure1b.values["removable"]),
        ("least_", figure1b.values["counts"], figure1b.values["removable"]),
        ("enc_", *(table1.values[name]["enc-enc"] for name in ("counts", "removable"))),
    ):
        low, high = removable["removable_interval"]
        share = counts["removable"] / counts["heads"]
        assert found[f"{prefix}share"] == f"{share:.0%} [{low:.0%}, {high:.0%}]"
        assert found[f"{prefix}power"] == f"{removable['power']:.2f}"
        assert found[f"{prefix}needed"] == removable["needed"]


def test_the_translators_numbers_are_of_the_encoders_own_heads(result):
    table1 = result("table1")
    found = numbers.one_head(result("figure1b"), table1, {})
    own = [head for head in table1.values["heads"] if head["kind"] == "enc-enc"]
    assert found["enc_heads"] == len(own)
    assert found["enc_raw"] == sum(head["p_paper"] < 0.01 for head in own)
    assert found["bleu_detectable"] == statistics.median_high(
        [head["smallest_detectable"] for head in own]
    )
    assert found["bleu_lost"] == min(head["delta"] for head in table1.values["heads"])


def test_the_fewest_removable_heads_are_named_with_their_model(result):
    fewer = result("figure1b", model="mpnet", task="sst2")
    fewer.values["counts"] = {**fewer.values["counts"], "removable": -1}
    shown = collect([result("figure1b"), fewer])
    found = numbers.one_head(result("figure1b"), result("table1"), shown)
    assert (found["least"], found["least_removable"]) == ("MPNet, SST-2", -1)


def test_without_any_result_the_least_is_not_measured(result):
    found = numbers.one_head(result("figure1b"), result("table1"), {})
    assert {found[key] for key in found if key.startswith("least")} == {"not measured"}


def test_the_held_pairs_have_numbers_of_their_own(result):
    held = result("figure1b", model="minilm", task="snli-held")
    shown = collect([result("figure1b"), held])
    found = numbers.one_head(result("figure1b"), result("table1"), shown)
    counts = held.values["counts"]
    assert (found["held_removable"], found["held_heads"]) == (counts["removable"], counts["heads"])
    assert found["held_n"] == str(held.n_examples)
    without = numbers.one_head(result("figure1b"), result("table1"), {})
    assert {without[key] for key in found if key.startswith("held_")} == {"not measured"}
