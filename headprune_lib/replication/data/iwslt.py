"""IWSLT14 German-English: talks, prepared as in fairseq's own recipe for this set.

Training lines have no markup, at most 175 tokens per side and a ratio of lengths up to 1.5. Every
23rd of them is for validation; the development and test talks of 2010 to 2012 are for testing.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from headprune_lib.replication.data.fetch import Archive, data_folder, file_sha256
from headprune_lib.replication.data.texts import Splits, in_hash_order, read_pairs
from headprune_lib.replication.paths import cache_root


@dataclass(frozen=True)
class Moses:
    """Tokenisation of a language's text, for fairseq's translators and for BLEU.

    ``sacremoses`` does it, with the switches that a model's training text was prepared with.

    Attributes:
        language: such as ``"en"``; the list of abbreviations depends on it.
        aggressive: hyphens within words are tokens (``-a`` of Moses' script).
        straight: a typographic apostrophe is read as a straight one.
        lower: tokens are in lower case.
    """

    language: str
    aggressive: bool = False
    straight: bool = False
    lower: bool = False

    def tokens(self, text: str) -> str:
        """The tokens of a text, separated by spaces and escaped as Moses does.

        >>> Moses("en", aggressive=True, straight=True).tokens("It’s well-known.")
        'It &apos;s well @-@ known .'
        """
        text = text.replace("’", "'") if self.straight else text
        tokenized = _tools(self.language)[0].tokenize(
            text, aggressive_dash_splits=self.aggressive, return_str=True, escape=True
        )
        return tokenized.lower() if self.lower else tokenized

    def text(self, tokens: str) -> str:
        """Tokens put back into ordinary text.

        >>> Moses("en").text("It &apos;s well @-@ known .")
        "It's well-known."
        """
        return _tools(self.language)[1].detokenize(tokens.split())

    def plain(self, text: str) -> str:
        """A reference in the form in which translations are compared: lower case if they are."""
        return text.lower() if self.lower else text


@cache
def _tools(language: str) -> tuple[Any, Any]:
    """sacremoses' tokenizer and detokenizer."""
    from sacremoses import MosesDetokenizer, MosesTokenizer

    return MosesTokenizer(lang=language), MosesDetokenizer(lang=language)


NAME = "iwslt14-deen"
LANGUAGES = ("de", "en")
N_SCORE = 2000
"""The number of training pairs that importance is measured on."""
_TESTS = (
    "IWSLT14.TED.dev2010",
    "IWSLT14.TEDX.dev2012",
    "IWSLT14.TED.tst2010",
    "IWSLT14.TED.tst2011",
    "IWSLT14.TED.tst2012",
)
_TRAIN = "train.tags"
ARCHIVE = Archive(
    NAME,
    "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
    (
        *(f"{_TRAIN}.de-en.{side}" for side in LANGUAGES),
        *(f"{name}.de-en.{side}.xml" for name in _TESTS for side in LANGUAGES),
    ),
)
TOKENS = {side: Moses(side, lower=True) for side in LANGUAGES}
_LONGEST, _RATIO, _VALID = 175, 1.5, 23
_DROPPED = re.compile("<url>|<talkid>|<keywords>")
_MARKUP = re.compile("</?(title|description)>")
_SEGMENT = re.compile(r'<seg id="\d*">\s*(.*?)\s*</seg>')


def load() -> Splits:
    """The splits; ``score`` is a sample of ``train``, and is trained on like the rest."""
    return _splits(prepared())


@lru_cache(maxsize=2)
def _splits(folder: Path) -> Splits:
    """Training and validation pairs in the order of the files; the other splits in random order."""
    splits = {
        name: read_pairs([folder / f"{name}.{side}" for side in LANGUAGES])
        for name in ("train", "valid", "test")
    }
    splits["test"] = in_hash_order(splits["test"])
    return {**splits, "score": in_hash_order(splits["train"]).first(N_SCORE)}


def prepared() -> Path:
    """The folder of ``train``, ``valid`` and ``test``, as ``.de`` and ``.en``, one line per pair.

    ``<name>.tokens.de`` has the same lines as Moses tokens. Making the folder, once, takes minutes.
    """
    root = data_folder()
    is_given = root is not None and (root / NAME).is_dir()
    files = root / NAME if is_given else ARCHIVE.folder()
    fingerprint = file_sha256(files / ARCHIVE.files[0])[:12]
    target = cache_root() / "text" / f"{NAME}-{fingerprint}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            _prepare(files, Path(work) / "made")
            os.replace(Path(work) / "made", target)
    return target


def _prepare(files: Path, target: Path) -> None:
    target.mkdir()
    kept = [
        row
        for row in _tokenised(*(_training_lines(files / name) for name in ARCHIVE.files[:2]))
        if _fits(row)
    ]
    tests = [
        _tokenised(*(_segments(files / f"{name}.de-en.{side}.xml") for side in LANGUAGES))
        for name in _TESTS
    ]
    splits = {
        "train": [row for i, row in enumerate(kept, 1) if i % _VALID],
        "valid": [row for i, row in enumerate(kept, 1) if i % _VALID == 0],
        "test": [row for rows in tests for row in rows],
    }
    for name, rows in splits.items():
        for column, ending in enumerate((*LANGUAGES, *(f"tokens.{side}" for side in LANGUAGES))):
            lines = "".join(f"{row[column]}\n" for row in rows)
            (target / f"{name}.{ending}").write_text(lines, "utf-8")


Row = tuple[str, str, str, str]
"""A pair as text and as tokens: source, target, source's tokens, target's tokens."""


def _tokenised(sources: list[str], targets: list[str]) -> list[Row]:
    if len(sources) != len(targets):
        raise ValueError(
            f"{NAME}: {len(sources)} German and {len(targets)} English lines, expected equally many"
        )
    de, en = (TOKENS[side] for side in LANGUAGES)
    return [
        (s, t, de.tokens(s), en.tokens(t)) for s, t in zip(sources, targets, strict=True) if s and t
    ]


def _fits(row: Row) -> bool:
    """Whether neither side is empty, too long, or much longer than the other."""
    lengths = [len(tokens.split()) for tokens in row[2:]]
    return min(lengths) >= 1 and max(lengths) <= min(_LONGEST, _RATIO * min(lengths))


def _training_lines(path: Path) -> list[str]:
    lines = path.read_text("utf-8").split("\n")
    return [" ".join(_MARKUP.sub("", line).split()) for line in lines if not _DROPPED.search(line)]


def _segments(path: Path) -> list[str]:
    segments = _SEGMENT.findall(path.read_text("utf-8"))
    return [" ".join(text.replace("’", "'").split()) for text in segments]
