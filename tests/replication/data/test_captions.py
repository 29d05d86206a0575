"""Multi30k's splits, from a tiny folder."""

from pathlib import Path

import pytest

from headprune_lib.replication.data.captions import FILES
from headprune_lib.replication.data.verses import TRANSLATION_TASKS

MULTI30K = TRANSLATION_TASKS["multi30k"]
LENGTHS = {"train": 145, "val": 20, "test_2016_flickr": 30}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Sentences of made-up words, as :mod:`verses` makes them, in Multi30k's files."""
    monkeypatch.setenv("HEADPRUNE_DATA", str(tmp_path))
    rows = TRANSLATION_TASKS["toy"].load()["train"].first(sum(LENGTHS.values()))
    (tmp_path / "multi30k").mkdir()
    start = 0
    for file, n in LENGTHS.items():
        for side, texts in (("de", rows.sources), ("en", rows.targets)):
            content = ("\n".join(texts[start : start + n]) + "\n").encode()
            (tmp_path / "multi30k" / f"{file}.{side}").write_bytes(content)
        start += n
    return tmp_path


def lines(folder: Path, name: str) -> list[str]:
    return (folder / "multi30k" / name).read_text("utf-8").splitlines()


def test_the_official_splits_with_a_part_of_the_training_captions_kept_for_importance(folder):
    splits = MULTI30K.load()
    assert set(splits) == {"train", "valid", "score", "test"}
    for name, file in (("valid", FILES["valid"]), ("test", FILES["test"])):
        assert sorted(splits[name].sources) == sorted(lines(folder, f"{file}.de"))
    for split, file in (("train", "train"), ("score", "train"), ("test", "test_2016_flickr")):
        for (line,), source, target in zip(
            splits[split].places, splits[split].sources, splits[split].targets, strict=True
        ):
            assert source == lines(folder, f"{file}.de")[line - 1]
            assert target == lines(folder, f"{file}.en")[line - 1]
    trained, scored = splits["train"], splits["score"]
    assert sorted(trained.places + scored.places) == [(line,) for line in range(1, 146)]
    assert 1 <= len(scored) <= 15
    pairs = [set(zip(part.sources, part.targets, strict=True)) for part in (trained, scored)]
    assert not pairs[0] & pairs[1]  # of equal sentences all are on one side
    assert trained.places != tuple(sorted(trained.places))  # so that the first n are a sample
