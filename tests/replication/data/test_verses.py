"""Verses are read as they are, and no chapter is on two sides."""

import sqlite3

import pytest

from headprune_lib.replication.data.verses import (
    TRANSLATION_TASKS,
    Pairs,
    read_version,
    split_by_chapter,
)


@pytest.mark.parametrize("task", ["enfr", "deen", "toy"])
def test_no_chapter_is_on_two_sides(task):
    splits = TRANSLATION_TASKS[task].load()
    chapters = {name: {place[:2] for place in pairs.places} for name, pairs in splits.items()}
    names = sorted(chapters)
    assert names == ["score", "test", "train", "valid"]
    for i, name in enumerate(names):
        assert chapters[name] and not chapters[name] & set.union(
            *(chapters[other] for other in names[:i] + names[i + 1 :])
        )


def test_sizes_are_what_the_pages_say():
    splits = TRANSLATION_TASKS["enfr"].load()
    sizes = {name: len(pairs) for name, pairs in splits.items()}
    assert sum(sizes.values()) == 31102
    assert 1300 < sizes["test"] < 1800
    assert 650 < sizes["valid"] < 950 and 900 < sizes["score"] < 1200


def test_both_directions_and_king_james_share_the_sides():
    places = {
        task: {name: set(pairs.places) for name, pairs in TRANSLATION_TASKS[task].load().items()}
        for task in ("enfr", "deen", "enfr-kjv")
    }
    assert places["enfr"] == places["enfr-kjv"] == places["deen"]


def test_verses_are_paired():
    pairs = TRANSLATION_TASKS["enfr"].load()
    found = {
        place: (source, target)
        for split in pairs.values()
        for place, source, target in zip(split.places, split.sources, split.targets, strict=True)
    }
    assert found[1, 1, 1] == (
        "In the beginning God created the heavens and the earth.",
        "Au commencement, Dieu créa les cieux et la terre.",
    )


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
