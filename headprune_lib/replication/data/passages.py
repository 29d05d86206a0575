"""Running text for language models: chapters of the Bible in English, and review sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from headprune_lib.replication.data.classification import TASKS
from headprune_lib.replication.data.fetch import locate
from headprune_lib.replication.data.parallel import BIBLE, read_version, split_of_chapter
from headprune_lib.replication.data.texts import Texts, in_hash_order


@dataclass(frozen=True)
class LanguageTask:
    """Text that a language model predicts.

    Attributes:
        name: as given to ``--task``.
        title: for pages.
        short: its name in tables and figures.
        unit: what one passage is, such as ``"chapter"``.
        load: returns ``train`` and ``test``, each in order of a hash: the first n are a sample.
        checksums: name -> checksum of the text.
    """

    name: str
    title: str
    short: str
    unit: str
    load: Callable[[], dict[str, Texts]]
    checksums: dict[str, str]


@cache
def _chapters() -> dict[str, Texts]:
    """Chapters of the World English Bible; the test chapters are those of the translation tasks."""
    chapters: dict[tuple[int, int], list[str]] = {}
    for (book, chapter, _), text in sorted(read_version(locate(BIBLE), "4").items()):
        chapters.setdefault((book, chapter), []).append(text)
    splits: dict[str, list[str]] = {"train": [], "test": []}
    for chapter_id, verses in chapters.items():
        splits.setdefault(split_of_chapter(*chapter_id), []).append(" ".join(verses))
    return {name: in_hash_order(Texts(tuple(splits[name]))) for name in ("train", "test")}


def _without_labels(task: str) -> dict[str, Texts]:
    """The texts of a classification task, without their labels."""
    splits = TASKS[task].load()
    return {name: in_hash_order(Texts(splits[name].texts)) for name in ("train", "test")}


LANGUAGE_TASKS: dict[str, LanguageTask] = {
    task.name: task
    for task in (
        LanguageTask(
            "web",
            "the beginnings of chapters of the World English Bible",
            "Bible",
            "chapter",
            _chapters,
            {BIBLE.path: BIBLE.sha256},
        ),
        LanguageTask(
            "reviews",
            "movie-review sentences",
            "reviews",
            "sentence",
            partial(_without_labels, "reviews"),
            TASKS["reviews"].registered,
        ),
        LanguageTask(
            "made-up",
            "made-up sentences",
            "made-up",
            "sentence",
            partial(_without_labels, "synthetic"),
            {"made-up": "seeded"},
        ),
    )
}
