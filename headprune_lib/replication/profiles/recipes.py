"""How models are trained: the parameters of it that a profile holds."""

from __future__ import annotations

from typing import Literal

from pydantic import StrictFloat, StrictInt

from headprune_lib.replication.models.weights import BFLOAT16
from headprune_lib.replication.profiles.parameters import (
    CountOrAll,
    PositiveFloat,
    PositiveInt,
    parameters,
)

POST_NORM = "post-norm"
"""The model of a task that is meant where none is named."""


@parameters
class Finetuning:
    """Recipe of a fine-tuning; part of every result's signature."""

    epochs: PositiveInt
    batch_size: PositiveInt
    learning_rate: PositiveFloat
    warmup: StrictFloat
    weight_decay: StrictFloat
    max_length: PositiveInt
    n_train: CountOrAll


@parameters
class Candidate:
    """What a compared recipe of fine-tuning has of its own; the rest is the profile's."""

    epochs: PositiveInt
    learning_rate: PositiveFloat
    batch_size: PositiveInt


@parameters
class Adapters:
    """LoRA beside frozen weights."""

    rank: PositiveInt
    learning_rate: PositiveFloat  # the peak


@parameters
class Recovery:
    """How an encoder is trained again after heads were removed from it; the rest is Finetuning's.

    ``shares`` of the heads go in each of ``orders``, and in ``random_orders`` drawn ones.
    """

    ways: list[Literal["all weights", "LoRA"]]
    orders: list[str]
    shares: list[PositiveFloat]
    random_orders: PositiveInt
    epochs: PositiveInt
    lora: Adapters


@parameters
class Shape:
    """Size of a Transformer with one vocabulary for both languages.

    ``norm`` is where layers are normalised: after each block with its residual connection, as
    Vaswani et al. 2017 and the paper's WMT model have it, or before, as its IWSLT model has it.
    """

    layers: PositiveInt
    heads: PositiveInt
    width: PositiveInt
    feed_forward: PositiveInt
    vocabulary: PositiveInt
    dropout: StrictFloat
    norm: Literal["after", "before"] = "after"


@parameters
class Recipe:
    """How a translation model is trained; part of its file and of every result's signature."""

    shape: Shape
    batch_tokens: PositiveInt  # target tokens of an update, at most
    learning_rate: PositiveFloat  # the peak
    warmup: StrictInt  # updates up to the peak; then inverse square root
    label_smoothing: StrictFloat
    min_epochs: PositiveInt  # before early stopping may end it
    max_epochs: PositiveInt
    patience: PositiveInt  # epochs without a better validation BLEU
    averaged_epochs: PositiveInt  # the last ones, whose weights are averaged into the final ones
    precision: Literal["bfloat16 autocast", "float32"] = BFLOAT16


@parameters
class FairseqRecipe:
    """How a translation model is trained by fairseq itself: its own recipe for IWSLT, and this.

    ``options`` are further arguments of ``fairseq-train``; later ones win.
    """

    epochs: PositiveInt  # each leaves a checkpoint
    pieces: PositiveInt  # of the joint byte pair encoding
    options: list[str]


@parameters
class Published:
    """A translation model that others trained: the name of its archive."""

    archive: str


TranslatorRecipe = Recipe | FairseqRecipe | Published
"""Where a translation model comes from."""


@parameters
class Tuning:
    """How a pruned language model is trained again: LoRA on every projection of every layer."""

    updates: PositiveInt
    batch_size: PositiveInt  # passages
    learning_rate: PositiveFloat  # the peak; linear warm-up over a tenth of the updates, and decay
    rank: PositiveInt
