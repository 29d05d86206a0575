"""The tasks' text: splits that do not leak, files that are what they should be."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headprune_lib.replication.data import TASKS, Texts, normalise, read_rated, split_by_hash

HEADER = "id\tsentiment\ttext\n"


def test_the_review_splits_are_disjoint_and_cover_what_is_said():
    splits = TASKS["reviews"].load()
    texts = {name: {normalise(text) for text in split.texts} for name, split in splits.items()}
    sizes = {name: len(split) for name, split in splits.items()}
    assert sizes == {"test": 2499, "valid": 527, "train": 7347}
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
    splits = split_by_hash(Texts(pairs, (0,) * len(pairs)), {"a": 0.5, "b": 0.5})
    a, b = ({normalise(text) for text in split.texts} for split in splits.values())
    assert a and b and not a & b and a | b == {normalise(text) for text in texts}


def test_reading_rated_text(tmp_path):
    path = tmp_path / "rated.txt"
    path.write_text(
        HEADER + '1\t2.0\tA "fine" film\n2\t0.1\tso so\n3\t-0.25\tbad\n4\t1\ta fine film\n'
    )
    assert read_rated(path) == Texts(('A "fine" film', "bad"), (1, 0))
