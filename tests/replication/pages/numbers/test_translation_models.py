"""Page 08."""

import dataclasses

import numpy as np
from scipy.stats import rankdata

from headprune_lib.replication.pages import numbers


def test_rank_correlations_are_those_of_the_cuts(result):
    search = result("search")
    found = numbers.translation_models(search)
    for key, alone in (("rank_cut", False), ("rank_alone", True)):
        x, y = (
            [cut[f"beam {beams}"] for cut in search.values["cuts"] if cut["alone"] == alone]
            for beams in (1, 5)
        )
        if np.ptp(x) and np.ptp(y):
            assert found[key] == f"{np.corrcoef(rankdata(x), rankdata(y))[0, 1]:.2f}"
        else:
            assert found[key] == "not measured"
    assert found["search_n"] == search.n_examples


def test_what_costs_two_points_under_one_search(result):
    search = result("search")

    def page(*pairs):
        cuts = [{"beam 1": one, "beam 5": five} for one, five in pairs]
        return numbers.translation_models(
            dataclasses.replace(search, values={**search.values, "cuts": cuts})
        )["cost_of_two"]

    assert page((-3, -2.5), (-2.1, -1.2), (-0.7, -4), (-2, -1.9), (0.5, 0.1)) == "0.7"
    assert page((-1, -2), (0, 3)) == "not measured"


def test_small_changes_are_ranked_by_themselves(result):
    search = result("search")

    def page(*pairs):
        cuts = [{"beam 1": one, "beam 5": five} for one, five in pairs]
        return numbers.translation_models(
            dataclasses.replace(search, values={**search.values, "cuts": cuts})
        )

    found = page((-1, -0.3), (-2, -0.5), (0.5, 0.1), (-0.2, -0.4), (-9, -8), (-1.5, -2.5))
    assert found["n_small"] == 4 and found["rank_small"].startswith("0.80 [")
    assert page((-1, -1), (-1, -1), (-1, -1), (-9, -8))["rank_small"] == "not measured"
    assert page((-9, -8))["rank_small"] == "not measured"


def test_without_any_effect_a_correlation_is_not_measured(result):
    search = result("search")
    none = {
        key: {"r": None, "interval": [None, None], "p": None} for key in search.values["spearman"]
    }
    found = numbers.translation_models(
        dataclasses.replace(search, values={**search.values, "spearman": none})
    )
    of_cuts = {key for key in found if key.startswith("rank_")} - {"rank_small"}
    assert {found[key] for key in of_cuts} == {"not measured"}
