"""A fairseq checkpoint with its dictionaries, ready to translate, to score and to prune."""

from __future__ import annotations

import argparse
import os
import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import LogitsProcessor, PreTrainedModel

from headprune_lib.fairseq_import.convert import END, PAD, UNKNOWN, convert
from headprune_lib.utils import by_length, pad, teacher_forced

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_MARK = "@@"  # subword-nmt: the word continues in the next piece


class Dictionary:
    """Pieces and their ids: four special symbols of fairseq, then the lines of ``dict.xx.txt``.

    Args:
        path: lines of ``piece count``.

    Raises:
        ValueError: a line that is not a piece and a count (the line is named).
    """

    def __init__(self, path: Path) -> None:
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
        """Ids of the pieces, followed by the end mark."""
        return [*(self.numbers.get(piece, UNKNOWN) for piece in pieces), END]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """Pieces up to the end mark, without special symbols except ``<unk>``."""
        pieces = []
        for number in numbers:
            if number == END:
                break
            if number == UNKNOWN or number >= len(_SPECIAL):
                pieces.append(self.pieces[number])
        return pieces


class Splitter:
    """Splits text into pieces and joins them, by subword-nmt, SentencePiece, or at spaces."""

    def __init__(self, path: Path | None) -> None:
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
        """The text of pieces, the inverse of ``split``."""
        if self.model is not None:
            return self.model.decode(list(pieces))
        return (" ".join(pieces) + " ").replace(f"{_MARK} ", "").strip()


# What a checkpoint needs besides tensors and plain containers.
_ALLOWED: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [argparse.Namespace]


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of fairseq, with its weights in ``"model"``. No code in it is run.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no checkpoint of fairseq, or one with objects other than tensors, plain
            containers and argparse's namespace.
    """
    if not path.is_file():
        raise FileNotFoundError(f"the checkpoint {path} does not exist")
    try:
        with torch.serialization.safe_globals(_ALLOWED):
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"{path} is not read: it contains more than weights and arguments ({reason}). Such a "
            "file can run code when it is opened, but nothing in it has been run"
        ) from None
    except (RuntimeError, EOFError) as error:
        raise ValueError(f"{path} is damaged or not a checkpoint: {error}") from None
    if not isinstance(checkpoint, dict) or "model" not in checkpoint:
        raise ValueError(f"{path} is not a fairseq checkpoint: it has no 'model'")
    return checkpoint


def _arguments(path: Path, checkpoint: dict[str, Any]) -> dict[str, Any]:
    """The model's arguments, in ``args`` of old checkpoints, in ``cfg["model"]`` of new ones."""
    arguments = checkpoint.get("args")
    if arguments is None:
        arguments = (checkpoint.get("cfg") or {}).get("model")
    if arguments is None:
        raise ValueError(f"{path} has neither 'args' nor 'cfg' with the model's arguments")
    return dict(arguments if isinstance(arguments, dict) else vars(arguments))


@dataclass(frozen=True)
class FairseqTranslator:
    """A converted model with its dictionaries.

    ``model`` is an ordinary ``MarianMTModel``, or an M2M100 if the norm is before each block.
    """

    model: PreTrainedModel
    source: Dictionary
    target: Dictionary
    splitter: Splitter

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of source texts with the end mark."""
        return [self.source.encode(self.splitter.split(text)) for text in texts]

    def batch(self, sources: Sequence[str], targets: Sequence[str]) -> dict[str, torch.Tensor]:
        """Model inputs with ``labels``, as :func:`headprune_lib.head_importance` takes them."""
        rows = [self.target.encode(self.splitter.split(text)) for text in targets]
        return teacher_forced(self.encode(sources), rows, PAD, start=END)

    @torch.inference_mode()
    def translate(
        self,
        texts: Sequence[str],
        *,
        beams: int = 5,
        max_len_a: float = 0.0,
        max_len_b: int = 200,
        batch_size: int = 64,
    ) -> list[str]:
        """Translate to at most ``max_len_a * longest source of a batch + max_len_b`` pieces.

        Beam search ranks by the mean log-probability per piece, as fairseq's does by default. A
        translation that reaches the limit ends there, and its end mark counts in the mean.
        """
        rows, translations = self.encode(texts), [""] * len(texts)
        for members in by_length(rows, batch_size):
            ids = pad([rows[i] for i in members], PAD).to(self.model.device)
            longest = int(max_len_a * ids.shape[1] + max_len_b)
            room = self.model.config.max_position_embeddings - 1
            generated = self.model.generate(
                input_ids=ids,
                attention_mask=(ids != PAD).long(),
                num_beams=beams,
                max_new_tokens=min(longest, room) + 1,
                length_penalty=1.0,
                early_stopping=True,
                do_sample=False,
                logits_processor=[_EndAfter(min(longest, room))],
            )
            for i, row in zip(members, generated[:, 1:].tolist(), strict=True):
                translations[i] = self.splitter.join(self.target.decode(row))
        return translations


class _EndAfter(LogitsProcessor):
    """Allows only the end mark after ``pieces``, at its own log-probability.

    ``forced_eos_token_id`` would count the mark as certain, and so rank translations differently.
    """

    def __init__(self, pieces: int) -> None:
        self.pieces = pieces

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[1] <= self.pieces:  # the ids include the start mark
            return scores
        only = torch.full_like(scores, -torch.inf)
        only[:, END] = scores[:, END]
        return only


def import_fairseq(
    checkpoint: str | os.PathLike,
    dictionaries: Sequence[str | os.PathLike],
    *,
    bpe: str | os.PathLike | None = None,
) -> FairseqTranslator:
    """Turn a Transformer that fairseq trained into a transformers model.

    The norm may be after each block or before it (the paper's WMT and IWSLT models, such as
    ``transformer_vaswani_wmt_en_fr_big`` and ``transformer_iwslt_de_en`` with
    ``--encoder-normalize-before --decoder-normalize-before``), embeddings shared or separate, and
    positions also learned if the norm is after. Checkpoint formats of fairseq 0.6 to 0.12 are
    read. The file is a pickle, which is read without running code in it.

    Args:
        checkpoint: a ``.pt`` file.
        dictionaries: source and target ``dict.xx.txt``, or one for both.
        bpe: codes of subword-nmt, or a SentencePiece model (``.model``, ``.spm``); texts are split
            at spaces alone if not given. Tokenise texts as the model's training data was.

    Raises:
        FileNotFoundError: a missing file.
        ValueError: a file that is no checkpoint or could run code, an architecture without
            counterpart in transformers, or dictionaries of another size than the embeddings.

    Example::

        translator = import_fairseq("checkpoint_best.pt", ["dict.de.txt", "dict.en.txt"],
                                    bpe="code")
        scores = head_importance(translator.model, [translator.batch(sources, targets)])
    """
    paths = [Path(path) for path in dictionaries]
    for path in (*paths, *([Path(bpe)] if bpe is not None else [])):
        if not path.is_file():
            raise FileNotFoundError(f"the file {path} does not exist")
    if len(paths) not in (1, 2):
        raise ValueError(
            f"{len(paths)} dictionaries given. Give source and target, or one for both"
        )
    loaded = read_checkpoint(Path(checkpoint))
    model = convert(_arguments(Path(checkpoint), loaded), loaded["model"])
    sides = model.model.encoder, model.model.decoder
    sizes = [side.embed_tokens.num_embeddings for side in sides]
    source, target = Dictionary(paths[0]), Dictionary(paths[-1])
    for path, words, size in zip((paths[0], paths[-1]), (source, target), sizes, strict=True):
        if len(words) != size:
            raise ValueError(
                f"{path} has {len(words)} entries, but the embeddings have {size}. Give the "
                "dictionaries of the same training"
            )
    return FairseqTranslator(model, source, target, Splitter(None if bpe is None else Path(bpe)))
