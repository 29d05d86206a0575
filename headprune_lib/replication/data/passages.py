"""Running text for language models, in order of a hash: chapters of the Bible, and sentences."""

from __future__ import annotations

from functools import cache, partial

from headprune_lib.replication.data.classification import TASKS
from headprune_lib.replication.data.fetch import locate
from headprune_lib.replication.data.parallel import BIBLE, read_version
from headprune_lib.replication.data.tasks import LanguageTask
from headprune_lib.replication.data.texts import Splits, Texts, in_hash_order, split_of_chapter


@cache
def _chapters() -> Splits:
    """Chapters of the World English Bible; the test chapters are those of the translation tasks."""
    chapters: dict[tuple[int, int], list[str]] = {}
    for (book, chapter, _), text in sorted(read_version(locate(BIBLE), "4").items()):
        chapters.setdefault((book, chapter), []).append(text)
    splits: dict[str, list[str]] = {"train": [], "test": []}
    for chapter_id, verses in chapters.items():
        splits.setdefault(split_of_chapter(*chapter_id), []).append(" ".join(verses))
    return {name: in_hash_order(Texts(tuple(splits[name]))) for name in ("train", "test")}


def _without_labels(task: str) -> Splits:
    """The texts of a classification task, without their labels."""
    splits = TASKS[task].load()
    return {name: in_hash_order(Texts(splits[name].texts)) for name in ("train", "test")}


LANGUAGE_TASKS: dict[str, LanguageTask] = {
    name: LanguageTask(name, title, read, registered, short=short, unit=unit)
    for name, title, short, unit, read, registered in (
        (
            "web",
            "the beginnings of chapters of the World English Bible",
            "Bible",
            "chapter",
            _chapters,
            {BIBLE.path: BIBLE.sha256},
        ),
        (
            "reviews",
            "movie-review sentences",
            "reviews",
            "sentence",
            partial(_without_labels, "reviews"),
            TASKS["reviews"].registered,
        ),
        (
            "made-up",
            "made-up sentences",
            "made-up",
            "sentence",
            partial(_without_labels, "synthetic"),
            {"made-up": "seeded"},
        ),
    )
}
