"""Page 04: no curve stands in for another."""

import dataclasses

import numpy as np
import pytest
from curves import scored

from headprune_lib.replication.pages import numbers
from headprune_lib.replication.pages.page import collect

# The numbers of several models and tasks.
OF_TASKS = ("minilm_", "mpnet_", "sst2_", "cola_", "mrpc_")


def page(result, *curves, figure3b=None):
    return numbers.iterative_pruning(
        figure3b or result("figure3b"), result("figure3a"), result("figure6d"), collect(curves)
    )


def prunable(scores, chance, tolerance):
    """The last step before the loss exceeds the tolerance, by hand."""
    last = 0
    for step, score in enumerate(scores):
        if scores[0] - score > tolerance * (scores[0] - chance) + 1e-9:
            break
        last = step
    return last / (len(scores) - 1)


def test_the_share_is_that_of_the_curve(result):
    figure3b, found = result("figure3b"), page(result)
    curves, chance = figure3b.values["curves"], figure3b.values["chance"]
    share = prunable(curves["importance"]["mean"], chance, 0.02)
    assert found["share"].startswith(f"{share:.0%} [")
    main = prunable(curves["importance main"]["mean"], chance, 0.02)
    assert found["main_share"] == f"{main:.0%}"
    random = prunable(curves["random"]["mean"], chance, 0.02)
    assert found["random_share"] == f"{random:.0%}"


def test_areas_are_mean_differences_along_the_curve(result):
    curves, found = result("figure3b").values["curves"], page(result)
    main = np.array(curves["importance main"]["mean"])
    for key, order in (
        ("oracle", "oracle"),
        ("leak", "oracle leak-free"),
        ("plain", "importance unnormalised"),
    ):
        gap = main - np.array(curves[order]["mean"])
        assert shown(found[key]) == pytest.approx(100 * np.trapezoid(gap, dx=0.1), abs=0.01)
        early = np.trapezoid(gap[:6], dx=0.2)
        assert shown(found[f"{key}_early"]) == pytest.approx(100 * early, abs=0.01)


def shown(text):
    """The value before its interval."""
    return float(text.partition(" [")[0].replace("−", "-"))


def test_what_is_kept_is_told_at_the_share_that_c3_is_judged_at(result):
    curve = result("figure3b", model="mpnet", task="sst2")
    steps = [step / 10 for step in range(11)]
    kept = {"kept": [1 - s for s in steps], "interval": [[-s, 2 - s] for s in steps]}
    changed = {**curve.values, "shares": steps, "kept": {"importance": kept}}
    changed["early_area_differences"] = changed["area_differences"] = {}  # no row of C8
    found = page(result, dataclasses.replace(curve, values=changed))
    assert found["mpnet_kept"] == found["mpnet_sst2_kept"] == "40.0% [-60.0%, 140.0%]"
    assert found["mpnet_c8_power"] == found["mpnet_leak_early"] == "not measured"
    assert found["judged"] == "40%"  # the paper has nothing like the page's own text


def test_a_benchmark_has_no_one_by_one_orders(result):
    found = page(result, figure3b=result("figure6b"))
    assert found["oracle"] == found["leak_early"] == "not measured"
    assert found["main_share"] != "not measured"


def test_numbers_of_a_model_and_task_are_its_own(result):
    mpnet = result("figure3b", model="mpnet", task="sst2")
    weak = result("figure6b", model="minilm", task="cola")
    found = page(result, mpnet, weak)
    assert found["mpnet_share"] == page(result)["share"]
    assert found["minilm_cola_uncut"] == f"{weak.values['curves']['importance']['mean'][0]:.2f}"
    singly = sorted(
        prunable(run, weak.values["chance"], 0.02)
        for run in weak.values["curves"]["importance"]["runs"]
    )
    assert found["cola_singly"] == ", ".join(f"{share:.0%}" for share in singly)
    assert found["mpnet_cola_kept"] == found["minilm_sst2_kept"] == "not measured"


def test_what_importance_leads_by_on_the_held_pairs_is_told(result):
    held = result("figure3b", model="minilm", task="snli-held")
    lead = held.values["early_area_differences"]["oracle leak-free"]["difference"]
    assert shown(page(result, held)["held_leak_early"]) == pytest.approx(100 * lead, abs=0.005)
    assert page(result)["held_leak_early"] == "not measured"


def test_points_lost_and_the_rule_in_points(result):
    mrpc = result("figure6c", model="mpnet", task="mrpc")
    found = page(result, mrpc)
    scores, chance = mrpc.values["curves"]["importance"]["mean"], mrpc.values["chance"]
    assert found["mrpc_lost"] == f"{100 * (scores[0] - scores[3]):.1f}"
    assert found["mpnet_mrpc_tolerated"] == f"{5 * (scores[0] - chance):.1f}"
    assert found["minilm_mrpc_tolerated"] == "not measured"


def test_the_layers_that_unnormalised_scores_cut_whole(result):
    figure3b = result("figure3b", model="mpnet", task="sst2")
    scores = np.arange(8.0).reshape(4, 2)[::-1].copy()  # the last layer's heads go first
    changed = scored(figure3b, scores)
    assert page(result, changed)["mpnet_gone"] == "layers 3 and 4"  # 5 of 8 heads gone
    spread = scored(figure3b, [[0.0, 7.0], [1.0, 6.0], [2.0, 5.0], [3.0, 4.0]])
    assert page(result, spread)["mpnet_gone"] == "layer 4"
    at = figure3b.values["curves"]["importance unnormalised"]["mean"][6]
    assert page(result, spread)["mpnet_gone_accuracy"] == f"{100 * at:.1f}"


def test_what_is_missing_is_not_measured(result):
    # A curve of another model and task is there, and none of the page's.
    found = page(result, result("figure3b"))
    of_tasks = {key: value for key, value in found.items() if key.startswith(OF_TASKS)}
    assert len(of_tasks) == 36 and set(of_tasks.values()) == {"not measured"}


def test_the_smaller_translators_numbers(result):
    figure6d, found = result("figure6d"), page(result)
    bleu = figure6d.values["curves"]["importance"]["mean"]
    assert [found[f"deen_{removed}"] for removed in (10, 40)] == pytest.approx(
        [100 * bleu[step] / bleu[0] for step in (1, 4)]
    )
    assert found["deen_heads"] == 24  # 2 layers of 4 heads, 3 kinds


def test_a_model_of_six_epochs_is_told_beside_the_other(result):
    own = result("figure6d")
    assert page(result)["deen_six_kept"] == "not measured"
    six = dataclasses.replace(own, model="post-norm-6")
    found = page(result, six)
    assert found["deen_six_kept"] == found["deen_kept"] != found["deen_pre_kept"]
