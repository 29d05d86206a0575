"""A trained model with the pieces that it reads and writes: one interface, whoever trained it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import sentencepiece
import transformers
from numpy.typing import NDArray

from headprune_lib.fairseq_import import FairseqTranslator
from headprune_lib.replication.data import Moses
from headprune_lib.replication.generation.greedy import generate
from headprune_lib.replication.metrics import sentence_counts
from headprune_lib.replication.translation.models import detokenise, encode

Rows = Sequence[Sequence[int]]
"""Ids, a row a sentence."""

BESIDE = "sacrebleu_"
"""Begins the names of outcomes of sacrebleu's own BLEU, where another one is the main one."""


class Pieces(Protocol):
    """How a model reads and writes text."""

    def sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of source texts, each with the end mark."""

    def targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of target texts, each with the end mark."""

    def texts(self, rows: Rows) -> list[str]:
        """The text of each translation, given without end mark."""

    def counts(self, rows: Rows, references: Sequence[str]) -> dict[str, NDArray]:
        """Counts (n, 10) of translations beside their references, of each way to take BLEU.

        Under ``""`` those of the main way, under ``BESIDE`` those of sacrebleu's own where the
        main one is another.
        """


@dataclass(frozen=True)
class SentencePieces:
    """A SentencePiece vocabulary that both languages share; BLEU is sacrebleu's own."""

    vocabulary: sentencepiece.SentencePieceProcessor

    def sources(self, texts: Sequence[str]) -> list[list[int]]:
        """See :class:`Pieces`."""
        return encode(self.vocabulary, texts)

    targets = sources

    def texts(self, rows: Rows) -> list[str]:
        """See :class:`Pieces`."""
        return detokenise(self.vocabulary, rows)

    def counts(self, rows: Rows, references: Sequence[str]) -> dict[str, NDArray]:
        """See :class:`Pieces`."""
        return {"": sentence_counts(self.texts(rows), references)}


@dataclass(frozen=True)
class MosesPieces:
    """Moses' tokens, split further by fairseq's codes; BLEU is of these tokens, as the paper's.

    Attributes:
        fairseq: dictionaries and codes.
        source: how source text is cut into tokens.
        target: how target text is.
    """

    fairseq: FairseqTranslator
    source: Moses
    target: Moses

    def sources(self, texts: Sequence[str]) -> list[list[int]]:
        """See :class:`Pieces`."""
        return self.fairseq.encode([self.source.tokens(text) for text in texts])

    def targets(self, texts: Sequence[str]) -> list[list[int]]:
        """See :class:`Pieces`."""
        words, splitter = self.fairseq.target, self.fairseq.splitter
        return [words.encode(splitter.split(self.target.tokens(text))) for text in texts]

    def tokens(self, rows: Rows) -> list[str]:
        """Moses' tokens of each translation, with a space between."""
        words, splitter = self.fairseq.target, self.fairseq.splitter
        return [splitter.join(words.decode(row)) for row in rows]

    def texts(self, rows: Rows) -> list[str]:
        """See :class:`Pieces`."""
        return [self.target.text(tokens) for tokens in self.tokens(rows)]

    def counts(self, rows: Rows, references: Sequence[str]) -> dict[str, NDArray]:
        """See :class:`Pieces`."""
        wanted = [self.target.tokens(text) for text in references]
        plain = [self.target.plain(text) for text in references]
        return {
            "": sentence_counts(self.tokens(rows), wanted, "none"),
            BESIDE: sentence_counts(self.texts(rows), plain),
        }


@dataclass(frozen=True)
class Translator:
    """A trained model with its pieces, the hash of its weights and its learning curve."""

    task: str
    model: transformers.PreTrainedModel
    pieces: Pieces
    weights_sha256: str
    curve: list[dict]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each source text with the end mark.

        Raises:
            ValueError: an empty text, or one longer than the model has positions for.
        """
        return self._checked(texts, self.pieces.sources(texts))

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """As :meth:`encode`, of texts in the language that the model translates into."""
        return self._checked(texts, self.pieces.targets(texts))

    def _checked(self, texts: Sequence[str], rows: list[list[int]]) -> list[list[int]]:
        longest = self.model.config.max_position_embeddings
        for number, (text, row) in enumerate(zip(texts, rows, strict=True), 1):
            if not text.strip():
                raise ValueError(f"line {number} is empty: give a sentence, or leave the line out")
            if len(row) > longest:
                raise ValueError(
                    f"line {number} has {len(row)} pieces, the model has positions "
                    f"for {longest}: split it ({text[:40]!r}...)"
                )
        return rows

    def translate(self, texts: Sequence[str], *, beams: int = 1) -> list[str]:
        """Translations of texts, in their order."""
        return self.pieces.texts(generate(self.model, self.encode(texts), beams=beams))
