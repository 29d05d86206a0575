"""Which results a page shows, and under which names."""

import dataclasses

import pytest

from headprune_lib.replication import measurements
from headprune_lib.replication.pages.page import (
    Page,
    WrongParameter,
    check_injected,
    collect,
    open_page,
    pick,
)


@pytest.fixture
def own(smoke):
    return measurements.get("figure1b", smoke)


def other(result, digest="another", **names):
    parts = {
        name: dataclasses.replace(part, signature={"digest": digest})
        for name, part in result.parts.items()
    }
    return dataclasses.replace(result, parts=parts, **names)


def test_a_stored_result_is_not_shown_twice(own):
    assert list(collect([own], [own])) == ["tiny, synthetic"]


def test_a_run_on_other_parameters_stands_beside_the_stored_one(own):
    shown = collect([other(own, "stored")], [own])
    assert list(shown) == ["tiny, synthetic", "tiny, synthetic (this run)"]
    assert shown["tiny, synthetic (this run)"] is own


def test_the_own_result_of_a_new_model_has_its_name(own):
    assert list(collect([other(own, model="mpnet", task="sst2")], [own])) == [
        "MPNet, SST-2",
        "tiny, synthetic",
    ]


def test_no_result_is_picked_in_anothers_place(own):
    shown = collect([own, other(own, model="mpnet"), other(own, task="sst2")])
    assert pick(shown, "mpnet", "sst2") is None
    assert pick(shown, "mpnet", "synthetic").model == "mpnet"


def test_a_page_shows_what_it_asked_for_and_what_is_stored(own, smoke, monkeypatch):
    stored = other(own, model="mpnet", task="sst2")
    asked = []

    def found(*names, root):
        asked.append(names)
        return [stored, own]

    monkeypatch.setattr(measurements, "found", found)
    page = Page(smoke)
    assert (
        list(page.found("figure1b"))
        == list(page.others("figure1b"))
        == ["MPNet, SST-2", "tiny, synthetic"]
    )
    page.get("figure1b")
    assert list(page.others("figure1b")) == ["MPNet, SST-2"]
    monkeypatch.setattr(measurements, "found", lambda *names, root: [stored])
    assert list(page.found("figure1b")) == ["MPNet, SST-2", "tiny, synthetic"]
    assert list(page.found("table3")) == ["MPNet, SST-2"]  # the page has not asked for its own
    assert asked == [("figure1b",)] * 3


def test_parameters_reach_the_profile(smoke):
    page = open_page("smoke", fresh=True, n_examples=24, n_verses=16, seed=None)
    assert page.fresh and page.settings.n_examples == 24
    assert page.settings.n_verses == page.settings.n_headline == 16
    assert page.settings.seed == smoke.seed


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"profile": "smok"}, "unknown profile 'smok': did you mean smoke"),
        ({"model": "mpnnet"}, "unknown model 'mpnnet': did you mean mpnet"),
        ({"task": "reviws"}, "unknown task 'reviws': did you mean reviews"),
        ({"n_examples": "many"}, "n_examples is 'many'; give a valid integer"),
        ({"n_verses": 0}, "n_verses is 0; give at least 1"),
        ({"fresh": "yes"}, "fresh is 'yes'; give True or False"),
        ({"device": "cdua"}, "unknown device 'cdua': did you mean cuda"),
        ({"device": "cuda:99"}, "cuda:99"),
    ],
)
def test_wrong_values_are_refused_before_anything_is_measured(parameters, message):
    with pytest.raises(WrongParameter, match=message):
        open_page(**{"profile": "smoke", "fresh": False, **parameters})


DECLARED = 'profile = "default"\nn_examples = None'


@pytest.mark.parametrize(
    ("cells", "wrong"),
    [
        ([DECLARED, "found = 3"], None),
        ([DECLARED, "# Parameters\nn_examples = 100\n", "page = open_page(profile)"], None),
        ([DECLARED, "%time x", "# Parameters\nn_examples = 100"], None),
        ([DECLARED, "# Parameters\nprofile = 1\nn_exampels = 100\n"], "n_exampels"),
    ],
)
def test_papermill_sets_what_the_notebook_declares(cells, wrong):
    if wrong is None:
        check_injected(["", *cells])
        return
    with pytest.raises(WrongParameter, match=f"parameter '{wrong}': did you mean n_examples"):
        check_injected(["", *cells])


def test_a_figure_of_the_paper_is_of_its_own_tasks_the_pages_first(smoke, monkeypatch):
    own = measurements.get("figure3a", smoke)  # made-up words stand for every translation task
    tasks = {task: other(own, task=task) for task in ("deen", "wmt14-enfr", "iwslt14-deen", "enfr")}
    monkeypatch.setattr(measurements, "found", lambda *names, root: list(tasks.values()))
    page = Page(smoke)
    assert [one.task for one in page.of("figure6d").values()] == ["deen", "iwslt14-deen"]
    assert [one.task for one in page.of("figure3a").values()] == ["wmt14-enfr", "enfr"]
    page._own.append(("figure3a", tasks["enfr"]))
    assert [one.task for one in page.of("figure3a").values()] == ["enfr", "wmt14-enfr"]
