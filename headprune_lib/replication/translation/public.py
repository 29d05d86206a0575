"""The paper's own English-French model, as fairseq's authors published it."""

from __future__ import annotations

from pathlib import Path

from headprune_lib.fairseq_import import FairseqTranslator, import_fairseq
from headprune_lib.messages import unknown
from headprune_lib.replication.data import Archive, Moses
from headprune_lib.replication.profiles import Published
from headprune_lib.replication.translation.translator import MosesPieces, Translator
from headprune_lib.replication.weights import sha256_of

_CHECKPOINT = "model.pt"
WMT14 = Archive(
    "wmt14-enfr",
    "https://dl.fbaipublicfiles.com/fairseq/models/wmt14.en-fr.joined-dict.transformer.tar.bz2",
    (_CHECKPOINT, "dict.en.txt", "dict.fr.txt", "bpecodes"),
)
"""Ott et al. 2018: the shape ``transformer_vaswani_wmt_en_fr_big``, one dictionary for both sides."""

_ARCHIVES = {archive.name: archive for archive in (WMT14,)}
# fairseq's recipe for this text: tokenizer.perl -a, and straight apostrophes.
_TOKENS = {side: Moses(side, aggressive=True, straight=True) for side in ("en", "fr")}


def public_translator(archive: Archive = WMT14) -> FairseqTranslator:
    """The published model, fetched the first time; it reads text in tokens of Moses.

    Raises:
        MissingData: it cannot be fetched.
        WrongChecksum: another file came.
    """
    folder = archive.folder()
    return import_fairseq(
        folder / _CHECKPOINT,
        [folder / "dict.en.txt", folder / "dict.fr.txt"],
        bpe=folder / "bpecodes",
    )


def archive_of(published: Published) -> Archive:
    """The archive that a profile names; raises ValueError where there is none of this name."""
    if published.archive not in _ARCHIVES:
        raise ValueError(unknown("archive", published.archive, _ARCHIVES))
    return _ARCHIVES[published.archive]


def checkpoint_of(published: Published) -> Path:
    """Where the published weights are, or will be once they are fetched."""
    return archive_of(published).target / _CHECKPOINT


def described(published: Published) -> dict:
    """What a result says in place of a recipe; the archive is fetched for it."""
    archive = archive_of(published)
    return {"url": archive.url, "sha256": sha256_of(archive.folder() / _CHECKPOINT)}


def load_public(task: str, published: Published, kernel: str, device: str) -> Translator:
    """The published model as a translator of plain text."""
    found = public_translator(archive_of(published))
    found.model.to(device).set_attn_implementation(kernel)
    pieces = MosesPieces(found, _TOKENS["en"], _TOKENS["fr"])
    return Translator(task, found.model, pieces, sha256_of(checkpoint_of(published)), [])
