"""Encoder-decoder models of the paper's shapes, and their vocabulary of word pieces."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence

import sentencepiece
import torch
import transformers
from torch import Tensor

from headprune_lib.batching import teacher_forced
from headprune_lib.translation.recipe import Shape
from headprune_lib.translation.verses import Pairs

PAD, UNKNOWN, END = 0, 1, 2


def train_vocabulary(pairs: Pairs, size: int) -> bytes:
    """A SentencePiece unigram model over both sides of the training text (one thread: exact)."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*pairs.sources, *pairs.targets]), model_writer=model,
        vocab_size=size, character_coverage=1.0, pad_id=PAD, unk_id=UNKNOWN, eos_id=END, bos_id=-1,
        num_threads=1, minloglevel=2,
    )
    return model.getvalue()


def read_vocabulary(content: bytes) -> sentencepiece.SentencePieceProcessor:
    """The vocabulary of a stored SentencePiece model."""
    return sentencepiece.SentencePieceProcessor(model_proto=content)


def new_model(shape: Shape, seed: int, kernel: str = "sdpa") -> transformers.MarianMTModel:
    """A model with random weights: post-norm, sinusoidal positions, all embeddings tied."""
    torch.manual_seed(seed)
    config = transformers.MarianConfig(
        vocab_size=shape.vocabulary, d_model=shape.width, encoder_layers=shape.layers,
        decoder_layers=shape.layers, encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads, encoder_ffn_dim=shape.feed_forward,
        decoder_ffn_dim=shape.feed_forward, dropout=shape.dropout, activation_function="relu",
        max_position_embeddings=512, scale_embedding=True, share_encoder_decoder_embeddings=True,
        pad_token_id=PAD, eos_token_id=END, decoder_start_token_id=PAD, bos_token_id=None,
        forced_eos_token_id=None, attn_implementation=kernel,
    )
    return transformers.MarianMTModel(config)


def encode(vocabulary: sentencepiece.SentencePieceProcessor, texts: Sequence[str]) -> list[list[int]]:
    """Word pieces of each text, with the end mark."""
    return [[*pieces, END] for pieces in vocabulary.encode(list(texts))]


def token_batches(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]],
                  max_tokens: int, seed: int) -> list[dict[str, Tensor]]:
    """Batches of pairs of like length, each of at most ``max_tokens`` target tokens with padding."""
    order = list(range(len(sources)))
    random.Random(seed).shuffle(order)  # equal lengths must not follow the order of the text
    order.sort(key=lambda i: (len(targets[i]), len(sources[i])))
    batches, members = [], []
    for i in order:
        if members and len(targets[i]) * (len(members) + 1) > max_tokens:
            batches.append(members)
            members = []
        members.append(i)
    batches.append(members)
    return [teacher_forced([sources[i] for i in members], [targets[i] for i in members], PAD, start=PAD)
            for members in batches]
