"""Page 02."""

import pytest

from headprune_lib.replication.pages import numbers
from headprune_lib.replication.pages.page import collect

CHOSEN = (
    "n_tested",
    "n_selection",
    "layers",
    "within",
    "lacking",
    "power",
    "worst",
    "worst_layer",
    "lost",
)
TWELVE, HELD = (tuple(f"{name}{suffix}" for name in CHOSEN) for suffix in ("12", "_held"))
OTHER = ("other_within", "other_layers", "other_worst", "other_worst_layer")


def page(result, tables3=(), tables6=()):
    return numbers.all_but_one(
        result("table6"), result("table2"), result("table5"), collect(tables3), collect(tables6)
    )


def test_the_classifiers_numbers_are_those_of_its_outcomes(result):
    table6, found = result("table6"), page(result)
    change = 100 * (table6.raw["correct"].mean(1) - table6.raw["correct_uncut"].mean())
    assert found["worst"] == pytest.approx(change.min(), abs=1e-4)
    assert found["layers"] == len(change)
    assert found["n_selection"] == str(table6.raw["train_correct"].shape[1])
    lows = [row["interval"][0] for row in table6.values["layers"]]
    assert found["within"] == sum(low > -0.01 for low in lows)
    assert found["lacking"] == sum(row["interval"][1] < -0.01 for row in table6.values["layers"])
    assert 0 <= float(found["power"]) <= 1


def test_the_translators_numbers_count_layers_of_each_kind(result):
    layers, found = result("table5").values["layers"], page(result)
    losing = [row["kind"] for row in layers if row["p"] < 0.01 and row["delta"] < 0]
    assert found["n_losing"] == len(losing)
    assert found["n_losing_enc"] == losing.count("enc-enc")
    assert found["n_losing_dec"] == losing.count("dec-dec")
    assert found["n_lacking"] == sum(row["interval"][1] < -0.5 for row in layers)
    assert 0 <= float(found["power18"]) <= 1
    assert found["deepest"] == min(row["delta"] for row in layers)
    assert found["n_reported"] == 60 and found["n_swept"] == 40  # n_headline, n_verses


def test_mpnets_numbers_are_mpnets(result):
    table6 = result("table6", model="mpnet", task="sst2")
    table3 = result("table3", model="mpnet", task="snli")
    found = page(result, [result("table3"), table3], [result("table6"), table6])
    assert found["layers12"] == found["other_layers"] == 2
    lowest = min(row["delta"] for row in table3.values["layers"])
    assert found["other_worst"] == f"{100 * lowest:.2f}"
    assert found["other"] == "MPNet, SNLI"


def test_held_pairs_are_those_of_the_held_task(result):
    held = result("table6", model="minilm", task="snli-held")
    found = page(result, [result("table3")], [result("table6"), held])
    assert found["n_tested_held"] == str(held.n_examples)
    lowest = min(row["delta"] for row in held.values["layers"])
    assert found["worst_held"] == f"{100 * lowest:.2f}"


def test_what_is_missing_is_not_measured(result):
    # Another task of MPNet, and another model on SST-2, take no place.
    table6s = [
        result("table6"),
        result("table6", model="mpnet", task="cola"),
        result("table6", model="minilm", task="sst2"),
    ]
    found = page(result, [result("table3"), result("table3", model="minilm", task="snli")], table6s)
    assert {found[key] for key in TWELVE + HELD + OTHER} == {"not measured"}
    assert found["other"] == "MPNet, SNLI"
