"""A Transformer with the norm before each block, as fairseq's ``--encoder-normalize-before`` has it."""

from __future__ import annotations

from transformers import M2M100Config, M2M100ForConditionalGeneration


class PreNormTranslator(M2M100ForConditionalGeneration):
    """M2M100 whose source words may be of a vocabulary of their own.

    ``config.encoder_vocab_size`` is that of the source, ``config.vocab_size`` of the target; no
    embeddings are tied. Where all are, M2M100 itself does.
    """

    def __init__(self, config: M2M100Config) -> None:
        super().__init__(config)
        encoder, decoder = self.model.encoder, self.model.decoder
        made = encoder.embed_tokens
        encoder.embed_tokens = type(made)(
            config.encoder_vocab_size,
            made.embedding_dim,
            made.padding_idx,
            embed_scale=made.embed_scale,
        )
        self.model.shared = (
            decoder.embed_tokens
        )  # M2M100 has a third table, which nothing reads here
