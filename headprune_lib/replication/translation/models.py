"""Encoder-decoder models of the paper's shapes, and their vocabulary of word pieces."""

from __future__ import annotations

import io
from collections.abc import Sequence

import sentencepiece
import torch
import transformers

from headprune_lib.replication.data import Texts
from headprune_lib.replication.profiles import Shape

PAD, UNKNOWN, END = 0, 1, 2


def train_vocabulary(pairs: Texts, size: int) -> bytes:
    """A SentencePiece unigram model over both sides of the training text (one thread: exact)."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*pairs.sources, *pairs.targets]),
        model_writer=model,
        vocab_size=size,
        character_coverage=1.0,
        pad_id=PAD,
        unk_id=UNKNOWN,
        eos_id=END,
        bos_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


def read_vocabulary(content: bytes) -> sentencepiece.SentencePieceProcessor:
    """The vocabulary of a stored SentencePiece model."""
    return sentencepiece.SentencePieceProcessor(model_proto=content)


def new_model(shape: Shape, seed: int, kernel: str = "sdpa") -> transformers.PreTrainedModel:
    """A model with random weights: sinusoidal positions, relu, all embeddings tied."""
    torch.manual_seed(seed)
    common = {
        "vocab_size": shape.vocabulary,
        "d_model": shape.width,
        "encoder_layers": shape.layers,
        "decoder_layers": shape.layers,
        "encoder_attention_heads": shape.heads,
        "decoder_attention_heads": shape.heads,
        "encoder_ffn_dim": shape.feed_forward,
        "decoder_ffn_dim": shape.feed_forward,
        "dropout": shape.dropout,
        "activation_function": "relu",
        "max_position_embeddings": 512,
        "scale_embedding": True,
        "pad_token_id": PAD,
        "eos_token_id": END,
        "bos_token_id": None,
        "forced_eos_token_id": None,
        "attn_implementation": kernel,
    }
    if shape.norm == "after":
        return transformers.MarianMTModel(
            transformers.MarianConfig(
                **common, share_encoder_decoder_embeddings=True, decoder_start_token_id=PAD
            )
        )
    # Its positions leave padding out: a decoder that started with it would count from another
    # place in training, where it stands in the text, than in generation.
    return transformers.M2M100ForConditionalGeneration(
        transformers.M2M100Config(
            **common,
            attention_dropout=0.0,
            activation_dropout=0.0,
            encoder_layerdrop=0.0,
            decoder_layerdrop=0.0,
            decoder_start_token_id=END,
        )
    )


def encode(
    vocabulary: sentencepiece.SentencePieceProcessor, texts: Sequence[str]
) -> list[list[int]]:
    """Word pieces of each text, with the end mark."""
    return [[*pieces, END] for pieces in vocabulary.encode(list(texts))]


def detokenise(
    vocabulary: sentencepiece.SentencePieceProcessor, rows: Sequence[Sequence[int]]
) -> list[str]:
    """The text of each row of ids."""
    return vocabulary.decode([list(row) for row in rows])
