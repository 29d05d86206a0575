"""Verses are read as they are, and no chapter is on two sides."""

import itertools
import sqlite3

import pytest

from headprune_lib.replication.data.passages import LANGUAGE_TASKS
from headprune_lib.replication.data.verses import (
    TRANSLATION_TASKS,
    Pairs,
    read_version,
    split_by_chapter,
)


@pytest.mark.slow
def test_no_chapter_is_on_two_sides_and_all_versions_share_the_sides():
    bible, other, toy = (
        {name: set(pairs.places) for name, pairs in TRANSLATION_TASKS[task].load().items()}
        for task in ("enfr", "deen", "toy")
    )
    assert bible == other
    for places in (bible, toy):
        assert sorted(places) == ["score", "test", "train", "valid"]
        chapters = [{place[:2] for place in split} for split in places.values()]
        assert all(chapters) and sum(map(len, chapters)) == len(set.union(*chapters))


def test_reading_a_version(tmp_path):
    path = tmp_path / "bible.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE bible (bbName, bNumber, cNumber, vNumber, vText)")
        database.execute("INSERT INTO bible VALUES ('x', 1, 2, 3, '  two   words ')")
    assert read_version(path, "x") == {(1, 2, 3): "two words"}
    with pytest.raises(ValueError, match="no verses of a translation 'y'"):
        read_version(path, "y")


def test_splitting_does_not_depend_on_the_order_or_the_other_verses():
    def test_split(places):
        texts = tuple(map(str, places))
        return split_by_chapter(Pairs(places, texts, texts), {"test": 0.3})["test"]

    places = tuple(itertools.product((1, 2), range(1, 40), (1, 2)))  # book, chapter, verse
    whole, backwards = test_split(places), places[::-1][:60]
    assert set(test_split(backwards).places) == set(whole.places) & set(backwards)
    assert whole.first(3).sources == whole.sources[:3]


@pytest.mark.slow
def test_test_chapters_are_those_of_the_translation_tasks_and_splits_are_apart():
    splits, pairs = LANGUAGE_TASKS["web"].load(), TRANSLATION_TASKS["enfr"].load()
    assert len(splits["test"]) == len({place[:2] for place in pairs["test"].places}) > 50
    joined = "\n".join(splits["test"])
    assert all(verse in joined for verse in pairs["test"].first(100).sources)
    for name, task in LANGUAGE_TASKS.items():
        train, test = (set(task.load()[split]) for split in ("train", "test"))
        assert min(len(train), len(test)) > 50 and not train & test, name
