"""Verses are read as they are, and no chapter is on two sides."""

import sqlite3

import pytest

from headprune_lib.replication.data.verses import (
    TRANSLATION_TASKS,
    Pairs,
    read_version,
    split_by_chapter,
)


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


def test_verses_are_paired_and_sizes_are_what_the_pages_say():
    splits = TRANSLATION_TASKS["enfr"].load()
    sizes = {name: len(pairs) for name, pairs in splits.items()}
    assert sum(sizes.values()) == 31102
    assert 1300 < sizes["test"] < 1800
    assert 650 < sizes["valid"] < 950 and 900 < sizes["score"] < 1200
    first = [
        (source, target)
        for split in splits.values()
        for place, source, target in zip(split.places, split.sources, split.targets, strict=True)
        if place == (1, 1, 1)
    ]
    ((english, french),) = first
    assert english == "In the beginning God created the heavens and the earth."
    assert french == "Au commencement, Dieu créa les cieux et la terre."


def test_reading_a_version(tmp_path):
    path = tmp_path / "bible.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE bible (bbName, bNumber, cNumber, vNumber, vText)")
        database.execute("INSERT INTO bible VALUES ('x', 1, 2, 3, '  two   words ')")
    assert read_version(path, "x") == {(1, 2, 3): "two words"}
    with pytest.raises(ValueError, match="no verses of a translation 'y'"):
        read_version(path, "y")


def test_splitting_does_not_depend_on_the_order_or_the_other_verses():
    places = tuple(
        (book, chapter, verse) for book in (1, 2) for chapter in range(1, 40) for verse in (1, 2)
    )
    texts = tuple(map(str, places))
    whole = split_by_chapter(Pairs(places, texts, texts), {"test": 0.3})
    part = split_by_chapter(
        Pairs(places[::-1][:60], texts[::-1][:60], texts[::-1][:60]), {"test": 0.3}
    )
    assert set(part["test"].places) == set(whole["test"].places) & set(places[::-1][:60])
    assert whole["test"].first(3).sources == whole["test"].sources[:3]
