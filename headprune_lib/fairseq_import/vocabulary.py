"""fairseq's dictionaries, and the splitting of words into pieces before them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
START, PAD, END, UNKNOWN = range(4)
_MARK = "@@"  # subword-nmt: the word goes on in the next piece


class Dictionary:
    """Pieces and their numbers, as fairseq's ``dict.xx.txt`` has them after four of its own.

    Args:
        path: lines of ``piece count``.

    Raises:
        ValueError: a line that is not a piece and a count (the line is named).
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.pieces = list(_SPECIAL)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            piece, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
            if not piece or not count.isdigit():
                raise ValueError(f"{path}, line {number}: {line!r} is not a piece and its count")
            self.pieces.append(piece)
        self.numbers = {piece: number for number, piece in enumerate(self.pieces)}

    def __len__(self) -> int:
        return len(self.pieces)

    def encode(self, pieces: Sequence[str]) -> list[int]:
        """Numbers of the pieces with the end mark."""
        return [*(self.numbers.get(piece, UNKNOWN) for piece in pieces), END]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """Pieces up to the end mark, without fairseq's own."""
        found = []
        for number in numbers:
            if number == END:
                break
            if number == UNKNOWN or number >= len(_SPECIAL):
                found.append(self.pieces[number])
        return found


class Splitter:
    """Text into pieces and back: subword-nmt's codes, a SentencePiece model, or words alone."""

    def __init__(self, path: pathlib.Path | None) -> None:
        self.codes = self.model = None
        if path is None:
            return
        if path.suffix in (".model", ".spm"):
            import sentencepiece

            self.model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        else:
            from subword_nmt.apply_bpe import BPE

            with path.open(encoding="utf-8") as file:
                self.codes = BPE(file)

    def split(self, text: str) -> list[str]:
        """The pieces of a text."""
        if self.model is not None:
            return self.model.encode(text, out_type=str)
        return (self.codes.process_line(text) if self.codes else text).split()

    def join(self, pieces: Sequence[str]) -> str:
        """The text of pieces, as a text is split into them."""
        if self.model is not None:
            return self.model.decode(list(pieces))
        return (" ".join(pieces) + " ").replace(f"{_MARK} ", "").strip()
