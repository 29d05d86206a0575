"""Tables, figure and numbers of training after the cut."""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest

from headprune_lib.replication import measurements
from headprune_lib.replication.claims.recovery import decide
from headprune_lib.replication.pages import numbers, plots, tables
from headprune_lib.replication.pages.tables.pages import points


@pytest.fixture(scope="module")
def found(smoke):
    return measurements.get("recovery", smoke)


def row(values, order, share, way="all weights"):
    (one,) = [
        one
        for one in values["recovered"]
        if (one["order"], one["share"], one["way"]) == (order, share, way)
    ]
    return one


def test_tables_have_a_row_a_part_and_a_row_a_lead(found):
    shown = tables.trained_again_table(found.values)
    assert len(shown) == len(found.parts)
    assert shown["trained"].tolist() == ["all weights"] * 7 + ["LoRA"] * 7
    assert shown["removed"].tolist()[:3] == ["0 (0%)", "4 (40%)", "4 (40%)"]
    first = row(found.values, "uncut", 0.0)
    assert shown["accuracy after"][0].startswith(f"{first['after']['score']:.1%} [")
    leads = tables.leads_table(found.values)
    assert leads["removed"].tolist() == ["40%", "40%", "60%", "60%"] * 2
    mine, theirs = (row(found.values, order, 0.4) for order in ("importance", "random"))
    apart = mine["after"]["score"] - theirs["after"]["score"]
    assert leads["lead after training (points)"][0].startswith(f"{points(apart)} [")
    assert tables.leads_table({"leads": []}).empty


@pytest.mark.parametrize("layout", [plots.WIDE, plots.NARROW])
def test_a_line_an_order_from_the_uncut_model_on(found, layout):
    figure = plots.before_and_after(found.values, layout=layout)
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in panels] == [
        "before training",
        "after training, all weights",
        "after training, LoRA",
    ]
    for axes, (when, way) in zip(
        panels,
        [("before", "all weights"), ("after", "all weights"), ("after", "LoRA")],
        strict=True,
    ):
        lines = {
            line.get_label(): np.array(line.get_data())
            for line in axes.get_lines()
            if not line.get_label().startswith("_")
        }
        shares, scores = lines["random (mean of 2)"]
        assert shares.tolist() == [0, 40, 60]
        expected = [
            100 * row(found.values, order, share, way)[when]["score"]
            for order, share in (("uncut", 0.0), ("random", 0.4), ("random", 0.6))
        ]
        np.testing.assert_allclose(scores, expected)
        assert len(lines) == 3  # two orders and random ones
    plt.close(figure)


def test_what_was_not_measured_is_left_out(found):
    rows = [one for one in found.values["recovered"] if one["way"] == "all weights"]
    rows = [one for one in rows if one["order"] != "importance rescored"]
    figure = plots.before_and_after({**found.values, "recovered": rows})
    assert len([axes for axes in figure.axes if axes.axison]) == 2
    labels = {line.get_label() for axes in figure.axes for line in axes.get_lines()}
    assert "random (mean of 2)" in labels and not any("scored again" in one for one in labels)
    plt.close(figure)


def test_numbers_are_those_of_the_result(found):
    told = numbers.recovery(found)
    answer = decide(found.values)
    assert told["word"] == answer.word
    assert told["lead_after"] == points(answer.after[0], answer.after[1:])
    uncut = row(found.values, "uncut", 0.0)
    assert told["uncut_after"].startswith(f"{uncut['after']['score']:.1%} [")
    random = row(found.values, "random", 0.4)
    assert told["random_before"].startswith(f"{random['before']['score']:.1%} [")
    assert told["lead_60_after"] != "not measured"
    (lora,) = [
        one["after"]
        for one in found.values["leads"]
        if (one["order"], one["share"], one["way"]) == ("importance", 0.4, "LoRA")
    ]
    assert told["lead_lora"] == points(lora["difference"], lora["interval"])
    rows = [one for one in found.values["recovered"] if one["share"] != 0.6]
    leads = [one for one in found.values["leads"] if one["share"] != 0.6]
    fewer = dataclasses.replace(found, values={**found.values, "recovered": rows, "leads": leads})
    told = numbers.recovery(fewer)
    assert told["lead_60_after"] == "not measured" != told["lead_after"]


def test_of_a_translator_bleu_is_told(found, smoke):
    parts = [f"{one} all weights" for one in ("uncut 0%", "importance 40%", "random 40%")]
    translated = measurements.get("recovery", smoke, task="toy", parts=parts)
    told, alone = numbers.recovery(found, translated), numbers.recovery(found)
    assert told["bleu_word"] == decide(translated.values).word != alone["bleu_word"] == "not run"
    assert {name for name in told if told[name] != alone[name]} == {
        *("bleu_word", "bleu_lead_before", "bleu_lead_after", "n_verses"),
        *("bleu_random_before", "bleu_random_after", "bleu_uncut_after"),
    }
    assert told["n_verses"] == "60" and alone["n_verses"] == "not measured"
    shown = tables.trained_again_table(translated.values, "BLEU")
    uncut = row(translated.values, "uncut", 0.0)
    assert shown["BLEU after"][0].startswith(f"{100 * uncut['after']['score']:.1f} [")
    assert told["bleu_uncut_after"] == shown["BLEU after"][0]
    leads = tables.leads_table(translated.values, "BLEU")
    assert leads["lead after training (BLEU)"].tolist() == [told["bleu_lead_after"]]
    figure = plots.before_and_after(translated.values, "BLEU")
    assert next(axes.get_ylabel() for axes in figure.axes if axes.axison) == "BLEU"
    plt.close(figure)
