"""The text that the paper's English-French translator is measured on: news, and posts of Reddit.

``sacrebleu`` fetches the sets from their public homes and checks them. A folder of one's own is
read in its place where ``$HEADPRUNE_DATA`` has one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path

from headprune_lib.replication.data.fetched import check_fetched
from headprune_lib.replication.data.parallel import Pairs, TranslationTask, aligned, in_hash_order
from headprune_lib.replication.data.sources import MissingData, WrongChecksum, data_folder
from headprune_lib.replication.store.files import set_aside

LANGUAGES = ("en", "fr")
# How a folder's files begin -> what sacrebleu calls the set.
_PUBLIC = {
    "newstest/newstest2009": "wmt09",
    "newstest/newstest2010": "wmt10",
    "newstest/newstest2011": "wmt11",
    "newstest/newstest2012": "wmt12",
    "newstest/newstest2013": "wmt13",
    "newstest/newstest2014": "wmt14/full",
    "mtnt/test": "mtnt1.1/test",
}
NEWS = {
    "score": tuple(f"newstest/newstest{year}" for year in range(2009, 2013)),
    "test": ("newstest/newstest2013",),
    "valid": ("newstest/newstest2014",),
}
"""Split -> its files. What the paper chooses on one of the last two sets, it reports on the other."""
POSTS = {"test": ("mtnt/test",)}


def _load(files: dict[str, tuple[str, ...]]) -> Callable[[], dict[str, Pairs]]:
    return lambda: {
        split: in_hash_order(_joined([_set(name) for name in names]))
        for split, names in files.items()
    }


def _at_hand(files: dict[str, tuple[str, ...]]) -> Callable[[], dict[str, str]]:
    return lambda: {name: _set(name).sha256 for names in files.values() for name in names}


def _joined(parts: list[Pairs]) -> Pairs:
    columns = ("places", "sources", "targets")
    return Pairs(*(tuple(x for part in parts for x in getattr(part, name)) for name in columns))


def _set(name: str) -> Pairs:
    """A set of sentences with their translations, pairs with an empty side left out.

    Raises:
        MissingData: it cannot be fetched. WrongChecksum: something else came.
        ValueError: files that are not UTF-8, or not of one length.
    """
    root = data_folder()
    if root is not None and (root / name).parent.is_dir():
        paths = [root / f"{name}.{side}" for side in LANGUAGES]
        if missing := [str(path) for path in paths if not path.is_file()]:
            raise MissingData(
                f"there is no {' and no '.join(missing)}; put it there, or leave "
                f"{paths[0].parent.name} out of HEADPRUNE_DATA to have it fetched"
            )
        return _read(name, *paths)
    pairs = _read(name, *_fetched(_PUBLIC[name]))
    check_fetched({f"sacrebleu/{_PUBLIC[name]}/{'-'.join(LANGUAGES)}": pairs.sha256})
    return pairs


@lru_cache(maxsize=32)
def _read(name: str, source: Path, target: Path) -> Pairs:
    lines = zip(*aligned([source, target], gaps=True), strict=True)
    number = int("".join(filter(str.isdigit, name)) or 0)
    rows = [((number, place), *pair) for place, pair in enumerate(lines, 1) if all(pair)]
    return Pairs(*(tuple(row[column] for row in rows) for column in range(3)))


def _fetched(name: str) -> tuple[Path, Path]:
    """Source and reference of a set as ``sacrebleu`` keeps them."""
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR

    known, pair = DATASETS[name], "-".join(LANGUAGES)
    try:
        return Path(known.get_source_file(pair)), Path(known.get_reference_files(pair)[0])
    except (OSError, HTTPException) as error:  # most of urllib's errors are among the first
        reason, kind = f"{type(error).__name__}: {error}", MissingData
    except SystemExit:  # its way of saying that the checksum is another
        reason, kind = f"another file than MD5 {known.md5[0]} came", WrongChecksum
    # it takes any file that is there for the whole one
    there = [
        path
        for path in (Path(SACREBLEU_DIR) / name / "raw").glob("*")
        if path.suffix in (".tgz", ".gz") and path.stat().st_size
    ]
    aside = [*map(str, set_aside(*there))]
    raise kind(
        f"{known.data[0]} cannot be had ({reason}); the same command tries again"
        + (f". What came was set aside as {', '.join(aside)}" if aside else "")
    )


def public_files() -> bool:
    """Whether ``sacrebleu`` has fetched all of the sets to here before."""
    from sacrebleu.utils import SACREBLEU_DIR

    return all(any((Path(SACREBLEU_DIR) / name).glob("*.src")) for name in _PUBLIC.values())


WMT14 = TranslationTask(
    "wmt14-enfr",
    "news, English to French",
    LANGUAGES,
    _load(NEWS),
    {},
    _at_hand(NEWS),
    chosen=("test", "valid"),
    short="WMT14 en-fr",
)
MTNT = TranslationTask(
    "mtnt-enfr",
    "posts of Reddit, English to French",
    LANGUAGES,
    _load(POSTS),
    {},
    _at_hand(POSTS),
    far="test",
    short="MTNT en-fr",
)
