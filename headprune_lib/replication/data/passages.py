"""Running text for language models: chapters of the Bible in English, and review sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from headprune_lib.replication.data.examples import hash_place
from headprune_lib.replication.data.rated import SOURCES, reviews
from headprune_lib.replication.data.sources import locate
from headprune_lib.replication.data.synthetic import synthetic
from headprune_lib.replication.data.verses import BIBLE, read_version, split_of_chapter

Passages = tuple[str, ...]


@dataclass(frozen=True)
class LanguageTask:
    """Text that a language model predicts.

    Attributes:
        name: as ``--task`` takes it.
        title: for pages.
        short: what tables and figures call it.
        unit: what one passage is.
        load: gives ``train`` and ``test``, each in order of a hash: the first n are a sample.
        checksums: name -> checksum of the text.
    """

    name: str
    title: str
    short: str
    unit: str
    load: Callable[[], dict[str, Passages]]
    checksums: dict[str, str]


@cache
def _web() -> dict[str, Passages]:
    """The chapters of the World English Bible; test chapters are those of the translation tasks."""
    chapters: dict[tuple[int, int], list[str]] = {}
    for (book, chapter, _), text in sorted(read_version(locate(BIBLE), "4").items()):
        chapters.setdefault((book, chapter), []).append(text)
    found: dict[str, list[str]] = {"train": [], "test": []}
    for (book, chapter), verses in chapters.items():
        split = split_of_chapter(book, chapter)
        if split in found:
            found[split].append(" ".join(verses))
    return {name: _in_hash_order(texts) for name, texts in found.items()}


def _of_examples(splits: Callable[[], dict]) -> Callable[[], dict[str, Passages]]:
    """The texts of a classification task, without their labels."""
    return lambda: {
        name: _in_hash_order(examples.texts)
        for name, examples in splits().items()
        if name in ("train", "test")
    }


def _in_hash_order(texts: Iterable[str]) -> Passages:
    return tuple(sorted(texts, key=lambda text: (hash_place(text), text)))


LANGUAGE_TASKS: dict[str, LanguageTask] = {
    task.name: task
    for task in (
        LanguageTask(
            "web",
            "the beginnings of chapters of the World English Bible",
            "Bible",
            "chapter",
            _web,
            {BIBLE.path: BIBLE.sha256},
        ),
        LanguageTask(
            "reviews",
            "movie-review sentences",
            "reviews",
            "sentence",
            _of_examples(reviews),
            {SOURCES["reviews"].path: SOURCES["reviews"].sha256},
        ),
        LanguageTask(
            "made-up",
            "made-up sentences",
            "made-up",
            "sentence",
            _of_examples(synthetic(0)),
            {"made-up": "seeded"},
        ),
    )
}
