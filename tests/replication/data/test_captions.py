"""Multi30k's splits, from a tiny folder."""

import pytest

from headprune_lib.replication.data.captions import FILES
from headprune_lib.replication.data.verses import TRANSLATION_TASKS

MULTI30K = TRANSLATION_TASKS["multi30k"]
LENGTHS = {"train": 145, "val": 20, "test_2016_flickr": 30}


@pytest.fixture
def lines(tmp_path, monkeypatch) -> dict[str, tuple[str, ...]]:
    """Multi30k's files, made of sentences as :mod:`verses` makes them up, and their lines."""
    monkeypatch.setenv("HEADPRUNE_DATA", str(tmp_path))
    rows, start, written = TRANSLATION_TASKS["toy"].load()["train"], 0, {}
    (tmp_path / "multi30k").mkdir()
    for file, n in LENGTHS.items():
        for side, texts in (("de", rows.sources), ("en", rows.targets)):
            written[f"{file}.{side}"] = own = texts[start : start + n]
            (tmp_path / "multi30k" / f"{file}.{side}").write_text("\n".join(own) + "\n")
        start += n
    return written


def test_the_official_splits_with_a_part_of_the_training_captions_kept_for_importance(lines):
    splits = MULTI30K.load()
    assert set(splits) == {"train", "valid", "score", "test"}
    for name in ("valid", "test"):
        assert sorted(splits[name].sources) == sorted(lines[f"{FILES[name]}.de"])
    for split, file in (("train", "train"), ("score", "train"), ("test", "test_2016_flickr")):
        places = [line - 1 for (line,) in splits[split].places]
        assert [*splits[split].sources] == [lines[f"{file}.de"][place] for place in places]
        assert [*splits[split].targets] == [lines[f"{file}.en"][place] for place in places]
    trained, scored = splits["train"], splits["score"]
    assert sorted(trained.places + scored.places) == [(line,) for line in range(1, 146)]
    assert 1 <= len(scored) <= 15
    pairs = [set(zip(part.sources, part.targets, strict=True)) for part in (trained, scored)]
    assert not pairs[0] & pairs[1]  # of equal sentences all are on one side
    assert trained.places != tuple(sorted(trained.places))  # so that the first n are a sample
