"""Page 07."""

import pytest

from headprune_lib.replication.pages import numbers


def test_first_best_and_last_checkpoint(result):
    points = result("figure5").values["trainings"][0]["checkpoints"]
    found = numbers.training_dynamics(result("figure5"))
    assert found["cut"] == pytest.approx(40)
    kept = {point["epoch"]: 100 * point["bleu"][4] / point["bleu"][0] for point in points}
    assert (found["first_epoch"], found["last_epoch"]) == (f"{min(kept):g}", f"{max(kept):g}")
    assert found["first_kept"] == pytest.approx(kept[min(kept)], rel=1e-3)
    assert found["best_kept"] == pytest.approx(max(kept.values()), rel=1e-3)
    within = [point["gini_within"] for point in points]
    assert (found["first_within"], found["last_within"]) == (within[0], within[-1])
    assert found["most_within"] == max(within)
    assert found["last_cost"] == points[-1]["loss"][4] - points[-1]["loss"][0]
