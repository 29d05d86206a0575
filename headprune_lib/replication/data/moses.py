"""Text as tokens of Moses, which fairseq's translators read and the paper's BLEU counts.

``sacremoses`` does it; which of its switches are on is part of how a model's text was prepared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True)
class Moses:
    """How a language's text is cut into tokens.

    Attributes:
        language: such as ``"en"``; abbreviations are its own.
        aggressive: hyphens within words are tokens (``-a`` of Moses' script).
        straight: a typographic apostrophe is read as a straight one.
        lower: tokens are in lower case.
    """

    language: str
    aggressive: bool = False
    straight: bool = False
    lower: bool = False

    def tokens(self, text: str) -> str:
        """The tokens with a space between, escaped as Moses does.

        >>> Moses("en", aggressive=True, straight=True).tokens("It’s well-known.")
        'It &apos;s well @-@ known .'
        """
        text = text.replace("’", "'") if self.straight else text
        tokenized = _tools(self.language)[0].tokenize(
            text, aggressive_dash_splits=self.aggressive, return_str=True, escape=True
        )
        return tokenized.lower() if self.lower else tokenized

    def text(self, tokens: str) -> str:
        """Text that a reader is used to, of tokens.

        >>> Moses("en").text("It &apos;s well @-@ known .")
        "It's well-known."
        """
        return _tools(self.language)[1].detokenize(tokens.split())

    def plain(self, text: str) -> str:
        """A reference as the text of a translation is compared with it: in lower case if that is."""
        return text.lower() if self.lower else text


@cache
def _tools(language: str) -> tuple[Any, Any]:
    """sacremoses' tokenizer and detokenizer."""
    from sacremoses import MosesDetokenizer, MosesTokenizer

    return MosesTokenizer(lang=language), MosesDetokenizer(lang=language)
