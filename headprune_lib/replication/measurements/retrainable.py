"""Judge a model of either half of the paper before and after it is trained again."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np
from torch import nn

from headprune_lib.replication.data import TASKS
from headprune_lib.replication.measurements.measurement import Context
from headprune_lib.replication.measurements.references import piece_losses
from headprune_lib.replication.metrics import SCORES, pack
from headprune_lib.replication.models import encoders as of_encoders
from headprune_lib.replication.models import translators as of_translators
from headprune_lib.replication.models.encoders import Way, evaluate
from headprune_lib.replication.models.generation import generate
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import Arrays, Measured


class Retrainable(Protocol):
    """A trained model whose heads are removed before it is trained again."""

    @property
    def model(self) -> nn.Module:
        """The network as it was trained."""

    @property
    def key(self) -> str:
        """Begins the name of every journal unit: results of other weights must not be resumed."""

    def answers(self, model: nn.Module) -> Arrays:
        """What a score is made of, an entry a test example, and the ``loss`` (n,) in nats."""

    def retrained(self, model: nn.Module, way: Way, heads: str) -> nn.Module:
        """A model without some heads, which ``heads`` tells apart, trained again in place."""

    def measured(self, raw: Arrays) -> Measured:
        """Outcomes as the store takes them, with what the score asks for besides."""


def retrainable(context: Context) -> Retrainable:
    """The model that a result is about, under the kernel that is faster to train."""
    if context.half == "translation":
        subject = TranslationSubject.of(context.profile, context.task, kernel="eager")
        return _Translator(subject)
    return _Encoder(EncoderSubject.of(context.profile, kernel="eager"))


class _Encoder:
    def __init__(self, subject: EncoderSubject) -> None:
        self.subject, self.model, self.key = subject, subject.model, subject.key
        self.prepared = subject.batches(subject.test)

    def answers(self, model: nn.Module) -> Arrays:
        found = evaluate(model, self.prepared, None)
        return {"correct": found["correct"], "loss": found["loss"]}

    def retrained(self, model: nn.Module, way: Way, heads: str) -> nn.Module:
        return of_encoders.retrained(self.subject, model, way, heads)

    def measured(self, raw: Arrays) -> Measured:
        metric = TASKS[self.subject.profile.task].metric
        labels = np.array(self.subject.test.labels, np.int8)
        return self.subject.measured(
            raw | {"labels": labels, "metric": np.array(metric)},
            metric=metric,
            unit=SCORES[metric].unit,
        )


class _Translator:
    """Greedy translations of all test verses; the loss is a reference's mean over its pieces."""

    def __init__(self, subject: TranslationSubject) -> None:
        self.subject, self.model, self.key = subject, subject.model, subject.key
        self.pairs = subject.headline
        self.sources = subject.translator.encode(self.pairs.sources)

    def answers(self, model: nn.Module) -> Arrays:
        translator = dataclasses.replace(self.subject.translator, model=model)
        loss = piece_losses(dataclasses.replace(self.subject, translator=translator), self.pairs)
        return {"counts": pack(self._counts(model)), "loss": loss}

    def _counts(self, model: nn.Module) -> np.ndarray:
        rows = generate(model, self.sources)
        return self.subject.translator.pieces.counts(rows, self.pairs.targets)[""]

    def retrained(self, model: nn.Module, way: Way, heads: str) -> nn.Module:
        if way != "all weights":
            raise ValueError(f"translators are trained again by 'all weights' alone, not {way!r}")
        return of_translators.retrained(self.subject, model, heads)

    def measured(self, raw: Arrays) -> Measured:
        references = self._counts_of_references()
        return self.subject.measured(raw | {"reference_lengths": references}, len(self.pairs))

    def _counts_of_references(self) -> np.ndarray:
        nothing = [[] for _ in self.pairs.targets]
        return self.subject.translator.pieces.counts(nothing, self.pairs.targets)[""][:, -1]
