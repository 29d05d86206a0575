"""The paper's own English-French model, as fairseq's authors published it."""

from __future__ import annotations

from headprune_lib.fairseq_import import FairseqTranslator, import_fairseq
from headprune_lib.replication.data.archives import Archive

WMT14 = Archive(
    "wmt14-enfr",
    "https://dl.fbaipublicfiles.com/fairseq/models/wmt14.en-fr.joined-dict.transformer.tar.bz2",
    ("model.pt", "dict.en.txt", "dict.fr.txt", "bpecodes"),
)
"""Ott et al. 2018: the shape ``transformer_vaswani_wmt_en_fr_big``, one dictionary for both sides."""


def public_translator(archive: Archive = WMT14) -> FairseqTranslator:
    """The published model, fetched the first time; it reads text in tokens of Moses.

    Raises:
        MissingData: it cannot be fetched.
        WrongChecksum: another file came.
    """
    folder = archive.folder()
    return import_fairseq(
        folder / "model.pt",
        [folder / "dict.en.txt", folder / "dict.fr.txt"],
        bpe=folder / "bpecodes",
    )
