"""Text for language models: whole chapters, apart from those that are reported."""

import pytest

from headprune_lib.replication.data.passages import LANGUAGE_TASKS
from headprune_lib.replication.data.verses import TRANSLATION_TASKS


def test_test_chapters_are_those_of_the_translation_tasks():
    splits, pairs = LANGUAGE_TASKS["web"].load(), TRANSLATION_TASKS["enfr"].load()
    assert {place[:2] for place in pairs["test"].places}, "a chapter or more"
    assert len(splits["test"]) == len({place[:2] for place in pairs["test"].places})
    joined = "\n".join(splits["test"])
    assert all(verse in joined for verse in pairs["test"].sources)


@pytest.mark.parametrize("name", LANGUAGE_TASKS)
def test_splits_are_apart_and_always_in_the_same_order(name):
    splits = LANGUAGE_TASKS[name].load()
    assert set(splits) == {"train", "test"} and min(map(len, splits.values())) > 50
    assert not {*splits["train"]} & {*splits["test"]}
    assert LANGUAGE_TASKS[name].load() == splits
