"""Text for language models: whole chapters, apart from those that are reported."""

from headprune_lib.replication.data.passages import LANGUAGE_TASKS
from headprune_lib.replication.data.verses import TRANSLATION_TASKS


def test_test_chapters_are_those_of_the_translation_tasks_and_splits_are_apart():
    splits, pairs = LANGUAGE_TASKS["web"].load(), TRANSLATION_TASKS["enfr"].load()
    assert len(splits["test"]) == len({place[:2] for place in pairs["test"].places}) > 50
    joined = "\n".join(splits["test"])
    assert all(verse in joined for verse in pairs["test"].first(100).sources)
    for name, task in LANGUAGE_TASKS.items():
        train, test = (set(task.load()[split]) for split in ("train", "test"))
        assert min(len(train), len(test)) > 50 and not train & test, name
