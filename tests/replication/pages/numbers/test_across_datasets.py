"""Page 03."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import spearmanr

from headprune_lib.replication.pages import numbers
from headprune_lib.replication.pages.page import collect


def test_the_correlation_is_that_of_the_heads_effects(result):
    figure2b = result("figure2b")
    found = numbers.across_datasets(figure2b, result("figure2a"), {})
    heads, home = figure2b.values["heads"], figure2b.values["in_domain"]
    (domain,) = figure2b.values["correlations"]  # the profile has one
    r = spearmanr(*([head[f"loss {text}"] for head in heads] for text in (home, domain))).statistic
    assert found["r_best"] == found["r_worst"]
    # effects are stored rounded, so that two heads may be tied here and not there
    assert float(found["r_best"].partition(" ")[0]) == pytest.approx(r, abs=0.02)
    assert found["best"] == found["worst"] == found["edge_domain"] == domain
    assert found["edge"] == f"{-100 * min(head[f'accuracy {domain}'] for head in heads):.1f}"


def test_the_best_and_the_worst_domain(result):
    figure2b = result("figure2b")
    (domain,) = figure2b.values["correlations"]
    measures = figure2b.values["correlations"][domain]
    other = {
        **measures,
        "loss": {**measures["loss"], "spearman": {"r": -1.0, "interval": [-1, -1]}},
    }
    values = {
        **figure2b.values,
        "correlations": {"nyt": other, domain: measures},
        "heads": [{**head, "accuracy nyt": 0} for head in figure2b.values["heads"]],
    }
    found = numbers.across_datasets(
        dataclasses.replace(figure2b, values=values), result("figure2a"), {}
    )
    assert (found["best"], found["worst"]) == (domain, "NYT")
    assert found["r_worst"] == "-1.00 [-1.00, -1.00]"


def test_the_translators_edge_is_the_head_that_costs_most(result):
    figure2a = result("figure2a")
    found = numbers.across_datasets(result("figure2b"), figure2a, {})
    home = np.array([head["bleu home"] for head in figure2a.values["heads"]])
    assert found["edge_home"] == home.min()
    assert found["edge_far"] == figure2a.values["heads"][home.argmin()]["bleu far"]
    assert found["home_bleu"] == figure2a.values["baselines"]["home"]


def test_mpnets_numbers_are_mpnets(result):
    mpnet = result("figure2b", model="mpnet", task="sst2")
    found = numbers.across_datasets(result("figure2b"), result("figure2a"), collect([mpnet]))
    uncut = mpnet.values["baselines"]["synthetic"]["accuracy"]
    assert found["mpnet_right"] == f"{100 * uncut:.0f}"
    r = mpnet.values["correlations"]["synthetic-far"]["loss"]["spearman"]["r"]
    assert found["mpnet_r_least"] == found["mpnet_r_most"] == f"{r:.2f}"
    assert found["mpnet_domains"] == 1


def test_the_pairs_are_those_of_each_task(result):
    of = result("figure2b")
    others = collect([dataclasses.replace(of, model="minilm", task="snli-held")])
    found = numbers.across_datasets(of, result("figure2a"), others)
    ((domain, agreement),) = of.values["correlations"].items()
    assert found["held_r"].startswith(f"{agreement['loss']['spearman']['r']:.2f} [")
    assert found["held_n_home"] == str(of.n_examples)
    assert found["held_n_away"] == str(of.values["baselines"][domain]["n_examples"])
    assert {found[key] for key in found if key.startswith("sick_")} == {"not measured"}


def test_what_is_missing_is_not_measured(result):
    others = collect([result("figure2b"), result("figure2b", model="mpnet", task="snli")])
    found = numbers.across_datasets(result("figure2b"), result("figure2a"), others)
    assert {found[key] for key in found if key.startswith("mpnet_")} == {"not measured"}


def test_a_task_without_another_domain_has_no_correlation(result):
    figure2b = result("figure2b")
    alone = dataclasses.replace(figure2b, values={**figure2b.values, "correlations": {}})
    found = numbers.across_datasets(alone, result("figure2a"), {})
    assert found["r_best"] == found["edge"] == found["reliability_loss"] == "not measured"


def test_a_correlation_without_any_effect_is_not_measured(result):
    figure2b = result("figure2b")
    (domain,) = figure2b.values["correlations"]
    measures = figure2b.values["correlations"][domain]
    none = {"r": None, "interval": [None, None]}
    values = {
        **figure2b.values,
        "correlations": {
            domain: {**measures, "loss": {**measures["loss"], "spearman": none, "ceiling": None}}
        },
    }
    flat = dataclasses.replace(figure2b, values=values)
    found = numbers.across_datasets(flat, result("figure2a"), {})
    assert found["r_best"] == "not measured" and found["best"] == domain
    as_mpnet = dataclasses.replace(flat, model="mpnet", task="sst2")
    found = numbers.across_datasets(flat, result("figure2a"), collect([as_mpnet]))
    assert found["mpnet_r_least"] == found["mpnet_ceiling_most"] == "not measured"
    assert found["mpnet_sure"] == 0
