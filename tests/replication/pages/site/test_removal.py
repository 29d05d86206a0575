"""What the picture shows is what is stored."""

import json

import numpy as np
import pytest

from headprune_lib.replication import measurements, store
from headprune_lib.replication.pages.site.removal import MEASURED, removal_data
from headprune_lib.replication.store import Key


@pytest.fixture(scope="module")
def data():
    return removal_data(measurements.found(*MEASURED))


def test_every_stored_curve_is_there_with_its_scores_and_every_head_once(data):
    keys = [key for name in MEASURED for key in store.find(name)]
    assert {one["id"] for one in data} == {f"{one[0]}/{one.task}.{one.model}" for one in keys}
    for entry in data:
        measurement, name = entry["id"].split("/")
        values = json.loads(Key(measurement, *name.split(".")).path().read_text())["values"]
        n = sum(layers * heads for _, layers, heads in entry["kinds"])
        assert (entry["removed"][0], entry["removed"][-1]) == (0, n)
        for order in entry["orders"]:
            if measurement == "pruning_curve":
                stored = values["curves"][order["name"]]["mean"]
            else:
                stored = values["orders"][order["name"]]["score"]
            scale = 1 if entry["metric"] == "BLEU" else 100
            assert order["mean"] == pytest.approx([scale * one for one in stored], abs=1e-3)
            assert order["heads"] is None or sorted(order["heads"]) == list(range(n))
    assert len(json.dumps(data, separators=(",", ":"))) < 100_000


def test_a_head_that_a_model_lacks_leaves_the_others_their_numbers():
    result = store.load(Key("pruning_curve", "reviews", "minilm"))

    def removed_by_importance():
        (entry,) = removal_data([result])
        return next(one["heads"] for one in entry["orders"] if one["name"] == "importance")

    whole, part = removed_by_importance(), result.parts["importance"]
    lacking = np.argwhere((part.raw["order"][0] == (2, 5)).all(1)).item()
    part.arrays = {**part.raw, "order": np.delete(part.raw["order"], lacking, axis=1)}
    assert len(whole) == 72
    assert removed_by_importance() == [head for head in whole if head != 2 * 12 + 5]


def test_orders_show_the_heads_of_the_first_training_that_all_of_them_have():
    result = store.load(Key("which_first", "cola", "minilm"))  # one order is on 4 and 5 alone
    (entry,) = removal_data([result])
    for order in entry["orders"]:
        assert order["trainings"] == (3 if order["name"] == "random" else 2)
        heads = result.parts[f"{order['name']} training 4"].raw["order"][0]
        assert order["heads"] == (12 * heads[:, 0] + heads[:, 1]).tolist()
