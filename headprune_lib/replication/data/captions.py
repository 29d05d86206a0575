"""Multi30k: captions of photographs in German and English, read from a folder of one's own.

The text is not ours to ship. Training, validation and test captions are those of the data set; the
pairs that importance is measured on are taken from its training captions, and not trained on.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from headprune_lib.replication.data.examples import hash_place
from headprune_lib.replication.data.parallel import (
    Pairs,
    TranslationTask,
    aligned,
    in_hash_order,
)
from headprune_lib.replication.data.sources import MissingData, data_folder

NAME = "multi30k"
LANGUAGES = ("de", "en")
FILES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
"""Split -> how its files begin, in the folder ``multi30k``."""
SCORE = 1 / 29
"""Share of the training captions that importance is measured on: about 1,000 of 29,000."""

_REGISTERED = {
    "multi30k/train": "af1ef8c98c8b4ecff0655552d42555ddde997f467e1a2afdc83e2c21db55381e",
    "multi30k/valid": "ef1b97a82c5f92c201d3f258dceefedfb6b7abadaad7f58f400c94c2f825e747",
    "multi30k/test": "4bef3d77a76f56a331ac939718258e0ed1003d810e60e6ee971d986311257298",
    "multi30k/score": "d2be5fca918b6b6b2b73414f2478094e4dd46c98ffbefd0ec32a1dfd07e5efdf",
}


def load() -> dict[str, Pairs]:
    """The splits of the text in ``$HEADPRUNE_DATA``, each in order of a hash of its text.

    Raises:
        MissingData: the text is not there; says what to put where.
        ValueError: files that are not UTF-8, not of one length, or hold an empty line.
    """
    root = _root()
    if root is None:
        raise MissingData(f"no text for {NAME} at hand.\n{_help()}")
    return dict(_splits(root))


def checksums() -> dict[str, str]:
    """Of the text at hand; without any, of that which the committed results are from."""
    if _root() is None:
        return _REGISTERED
    return {f"{NAME}/{name}": pairs.sha256 for name, pairs in load().items()}


def _root() -> Path | None:
    """``$HEADPRUNE_DATA`` if it has a folder of this data set, with all of its files."""
    root = data_folder()
    if root is None or not (root / NAME).is_dir():
        return None
    missing = [name for name in _names() if _file(root, name) is None]
    if missing:
        raise MissingData(f"{root} lacks {', '.join(missing)} for {NAME}.\n{_help()}")
    return root


def _names() -> list[str]:
    return [f"{NAME}/{file}.{side}" for file in FILES.values() for side in LANGUAGES]


def _file(root: Path, name: str) -> Path | None:
    """A file as it is, or compressed."""
    return next((path for path in (root / name, root / f"{name}.gz") if path.is_file()), None)


def _help() -> str:
    return (
        f"Put {', '.join(_names())}, as they are or compressed (.gz), into a folder and name it "
        "in HEADPRUNE_DATA."
    )


@lru_cache(maxsize=2)
def _splits(root: Path) -> tuple[tuple[str, Pairs], ...]:
    splits = {name: in_hash_order(_read(root, file)) for name, file in FILES.items()}
    score, train = _divided(splits["train"])
    return tuple({**splits, "train": train, "score": score}.items())


def _read(root: Path, file: str) -> Pairs:
    """The captions in both languages, each with the number of its line."""
    sources, targets = aligned([_file(root, f"{NAME}/{file}.{side}") for side in LANGUAGES])
    return Pairs(tuple((line,) for line in range(1, len(sources) + 1)), (*sources,), (*targets,))


def _divided(pairs: Pairs) -> tuple[Pairs, Pairs]:
    """The share of the pairs that is for importance, and the rest; equal pairs on one side."""
    n = sum(hash_place(*pair) < SCORE for pair in zip(pairs.sources, pairs.targets, strict=True))
    rest = Pairs(pairs.places[n:], pairs.sources[n:], pairs.targets[n:])
    return pairs.first(n), rest


MULTI30K = TranslationTask(
    NAME,
    "Multi30k, captions of photographs",
    LANGUAGES,
    load,
    _REGISTERED,
    checksums,
    short="Multi30k de-en",
)
