"""Page 09."""

import dataclasses

import numpy as np
import pytest
from curves import scored
from scipy.stats import spearmanr

from headprune_lib.replication.pages import numbers, tables
from headprune_lib.replication.pages.page import collect


def test_what_others_found_is_counted_from_their_numbers(result):
    found = numbers.independent(result("agreement"), {}, {})
    assert found["paper_count"] == 8  # Table 1
    again = tables.grid("Silent-Zebra", "WMT en-fr", kind="enc-enc")
    assert found["again_count"] == np.count_nonzero(again.p < 0.01)
    news = spearmanr(tables.published_wmt().values.ravel(), again.values.ravel()).statistic
    assert found["rank_low"] <= news <= found["rank_high"]


def test_agreement_of_the_pages_own_fine_tunings(result):
    agreement = result("agreement")
    one, two = (np.ravel(scores) for scores in agreement.values["scores"])
    found = numbers.independent(agreement, collect([agreement]), {})
    assert found["mean_rank"] == pytest.approx(spearmanr(one, two).statistic, abs=1e-3)
    assert found["low_rank"] == found["high_rank"] == found["mean_rank"]
    assert found["least_alike"] == found["most_alike"] == f"{found['mean_rank']:.2f}"
    assert found["least_alike_on"] == "tiny, synthetic"


def test_heads_in_common_as_a_multiple_of_chance(result):
    figure3b = result("figure3b")

    def curve(task, scores, model="mpnet"):
        changed = scored(figure3b, np.reshape(scores, (2, 5)))
        return dataclasses.replace(changed, model=model, task=task)

    # Two of ten heads are the least important fifth; chance puts 0.4 in common.
    curves = collect(
        [
            curve("sst2", [0, 1, 9, 9, 9, 0.1, 9, 9, 9, 9]),
            curve("snli", [0, 2, 9, 9, 9, 8, 0.1, 9, 9, 9]),
            curve("sst2", range(10), model="minilm"),
        ]
    )
    found = numbers.independent(result("agreement"), {}, curves)
    assert found["mpnet_common"] == "2.5"  # one of the two


def test_what_is_missing_is_not_measured(result):
    found = numbers.independent(result("agreement"), {}, collect([result("figure3b")]))
    assert {
        found[key] for key in ("least_alike", "least_alike_on", "most_alike", "mpnet_common")
    } == {"not measured"}
