"""fairseq Transformers as transformers models."""

from headprune_lib.fairseq_import.importing import FairseqTranslator, import_fairseq

__all__ = ["FairseqTranslator", "import_fairseq"]
