"""Which results a page shows, and under which names."""

import dataclasses

import pytest

from headprune_lib.replication import measurements, store
from headprune_lib.replication.pages.page import (
    Page,
    WrongParameter,
    check_injected,
    collect,
    open_page,
    pick,
)
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store import Key


def result(task="reviews", model="minilm", digest=None, of=("one_head", "reviews", "minilm")):
    """A stored result as if of another task, model or signature."""
    found = store.load(Key(*of))
    if digest:
        parts = {
            name: dataclasses.replace(part, signature={"digest": digest})
            for name, part in found.parts.items()
        }
        found = dataclasses.replace(found, parts=parts)
    return dataclasses.replace(found, task=task, model=model)


def test_a_run_on_other_parameters_stands_beside_the_stored_result():
    assert list(collect([result()], [result()])) == ["MiniLM, reviews"]
    shown = collect([result(digest="stored")], [result()])
    assert list(shown) == ["MiniLM, reviews", "MiniLM, reviews (this run)"]
    shown = collect([result(), result(model="mpnet"), result("sst2")])
    assert pick(shown, "mpnet", "sst2") is None, "another takes no place"
    assert pick(shown, "mpnet", "reviews").model == "mpnet"


def test_a_figure_of_the_paper_is_of_its_own_tasks_the_pages_first(monkeypatch):
    tasks = ("deen", "wmt14-enfr", "iwslt14-deen", "enfr")
    curve = ("pruning_curve", "enfr", "post-norm")
    stored = {task: result(task, "post-norm", of=curve) for task in tasks}
    monkeypatch.setattr(measurements, "found", lambda *names, root: list(stored.values()))
    page = Page(load_profile("smoke"))
    assert [one.task for one in page.of("figure6d").values()] == ["deen", "iwslt14-deen"]
    assert [one.task for one in page.of("figure3a").values()] == ["wmt14-enfr", "enfr"]
    monkeypatch.setattr(measurements, "get", lambda *names, **options: stored["enfr"])
    page.get("figure3a")
    assert [one.task for one in page.of("figure3a").values()] == ["enfr", "wmt14-enfr"]


def test_parameters_reach_the_profile():
    page = open_page(
        {"profile": "smoke", "fresh": True, "n_examples": 24, "n_verses": 16, "seed": None}
    )
    assert page.fresh and page.settings.n_examples == 24
    assert page.settings.n_verses == page.settings.n_headline == 16
    assert page.settings.seed == load_profile("smoke").seed


def test_papermill_sets_what_the_notebook_declares():
    declared = 'profile = "default"\nn_examples = None'
    check_injected(["", declared, "found = 3"])
    check_injected(["", declared, "%time x", "# Parameters\nn_examples = 100"])
    with pytest.raises(WrongParameter, match="'n_exampels': did you mean n_examples"):
        check_injected(["", declared, "# Parameters\nprofile = 1\nn_exampels = 100\n"])
