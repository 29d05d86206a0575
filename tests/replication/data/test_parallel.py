"""Verses, captions and news: read as they are, and split without a leak."""

import sqlite3

import pytest

from headprune_lib.replication.data import LANGUAGE_TASKS, TRANSLATION_TASKS
from headprune_lib.replication.data.parallel import CAPTIONS, read_version


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


@pytest.mark.slow
def test_test_chapters_are_those_of_the_translation_tasks_and_splits_are_apart():
    splits, pairs = LANGUAGE_TASKS["web"].load(), TRANSLATION_TASKS["enfr"].load()
    assert len(splits["test"]) == len({place[:2] for place in pairs["test"].places}) > 50
    joined = "\n".join(splits["test"].texts)
    assert all(verse in joined for verse in pairs["test"].first(100).sources)
    for name, task in LANGUAGE_TASKS.items():
        train, test = (set(task.load()[split].texts) for split in ("train", "test"))
        assert min(len(train), len(test)) > 50 and not train & test, name


def test_captions_keep_their_splits_and_a_part_of_the_training_ones_is_for_importance(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HEADPRUNE_DATA", str(tmp_path))
    (tmp_path / "multi30k").mkdir()
    rows, lines = TRANSLATION_TASKS["toy"].load()["train"], {}
    for file, n in (("train", 145), ("val", 20), ("test_2016_flickr", 30)):
        lines[file], rows = rows.first(n), rows.after(n)
        for side, texts in (("de", lines[file].sources), ("en", lines[file].targets)):
            (tmp_path / "multi30k" / f"{file}.{side}").write_text("\n".join(texts) + "\n")
    splits = TRANSLATION_TASKS["multi30k"].load()
    assert set(splits) == {"train", "valid", "score", "test"}
    for split, pairs in splits.items():
        whole = lines[CAPTIONS.get(split, "train")]
        expected = whole.rows([line - 1 for (line,) in pairs.places])
        assert (pairs.sources, pairs.targets) == (expected.sources, expected.targets)
    assert (len(splits["valid"]), len(splits["test"])) == (20, 30)
    train, scored = splits["train"], splits["score"]
    assert sorted(train.places + scored.places) == [(line,) for line in range(1, 146)]
    assert 1 <= len(scored) <= 15
    pairs = [set(zip(part.sources, part.targets, strict=True)) for part in (train, scored)]
    assert not pairs[0] & pairs[1]  # of equal sentences all are on one side
    assert train.places != tuple(sorted(train.places))  # so that the first n are a sample


def test_sets_of_news_become_splits_and_gaps_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_DATA", str(tmp_path))
    (tmp_path / "newstest").mkdir()
    for year in range(2009, 2015):
        for side, lines in (
            ("en", ["A cat.", "  Two   cats. ", "", "Four."]),
            ("fr", ["Un.", "Deux.", "Trois.", "Quatre."]),
        ):
            text = "".join(f"{line}{year if line else ''}\n" for line in lines)
            (tmp_path / "newstest" / f"newstest{year}.{side}").write_text(text)
    task = TRANSLATION_TASKS["wmt14-enfr"]
    splits = task.load()
    assert [len(splits[name]) for name in ("score", "test", "valid")] == [12, 3, 3]
    assert {place[0] for place in splits["score"].places} == {2009, 2010, 2011, 2012}
    rows = dict(zip(splits["test"].sources, splits["test"].targets, strict=True))
    assert rows["Two cats. 2013"] == "Deux.2013" and "Trois.2013" not in rows.values()
    assert task.chosen == ("test", "valid") and len(task.checksums()) == 6
    with pytest.raises(ValueError, match="wmt14-enfr has no split train, only score, test, valid"):
        task.split("train")
