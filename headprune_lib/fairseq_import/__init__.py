"""fairseq Transformers as transformers models."""

from headprune_lib.fairseq_import.load import FairseqTranslator, import_fairseq

__all__ = ["FairseqTranslator", "import_fairseq"]
