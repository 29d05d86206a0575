"""A language model with its text: the loss of every passage under masks."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from headprune_lib.ablation import one_head_ablation
from headprune_lib.attention import eager_attention
from headprune_lib.discovery import find_heads
from headprune_lib.losses import next_token_cross_entropy
from headprune_lib.masking import HeadTensors, masked_heads, ones_mask
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.data import LANGUAGE_TASKS
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.language.models import (
    LANGUAGE_MODELS,
    load_language_model,
    load_language_tokenizer,
)
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.order_names import NamedOrder, Tokens
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Journal, Measured
from headprune_lib.utils import NO_LABEL, Batch, to_device, without_labels


@dataclass
class LanguageSubject:
    """A pretrained language model, and passages of a text that it predicts token by token."""

    profile: Profile
    task: str
    model: nn.Module

    @classmethod
    def of(cls, profile: Profile, task: str) -> LanguageSubject:
        """The profile's language model on a text; the weights are loaded once a process."""
        model = _loaded(profile.language_model, profile.device_here)
        return cls(profile, task, model)

    def __reduce__(self) -> tuple:
        """On its way to a worker, what loads it there."""
        return _sent, (pickle.dumps(self.profile), self.task)

    @property
    def key(self) -> str:
        """Begins the name of every journal unit: results of other weights must not be resumed."""
        return next(iter(LANGUAGE_MODELS[self.profile.language_model].checksums.values()))[:12]

    @cached_property
    def test(self) -> list[list[int]]:
        """Token numbers of the passages that every reported number is measured on."""
        passages = self._passages("test")
        return passages[: _enough(passages, self.profile.language.test_tokens)]

    @property
    def swept(self) -> list[list[int]]:
        """Those of the test passages that every single head is cut on: the first ones."""
        return self.test[: _enough(self.test, self.profile.language.head_tokens)]

    @cached_property
    def scoring(self) -> list[list[int]]:
        """Of the training passages that heads are scored on: the last ones."""
        return self._train[0]

    @cached_property
    def tuning(self) -> list[list[int]]:
        """Of the training passages that a pruned model is trained on: all but ``scoring``."""
        return self._train[1]

    @cached_property
    def _train(self) -> tuple[list[list[int]], list[list[int]]]:
        passages = self._passages("train")[::-1]
        n = _enough(passages, self.profile.language.scoring_tokens)
        return passages[:n], passages[n:][::-1]

    def _passages(self, split: str) -> list[list[int]]:
        passages = LANGUAGE_TASKS[self.task].load()[split]
        tokenizer = load_language_tokenizer(self.profile.language_model)
        made = tokenizer(list(passages.texts), add_special_tokens=False)["input_ids"]
        start = self.model.config.bos_token_id
        return [[start, *ids[: self.profile.language.length]] for ids in made]

    def batches(self, passages: Sequence[list[int]]) -> list[Batch]:
        """Passages in their order, padded on the right; the start token is not predicted."""
        size = self.profile.language.batch_size
        return [padded(passages[i : i + size]) for i in range(0, len(passages), size)]

    @cached_property
    def tokens(self) -> np.ndarray:
        """How many tokens of each test passage are predicted, ``(n,)``."""
        return predicted(self.test)

    @cached_property
    def frequency_loss(self) -> np.ndarray:
        """The loss of each test passage by the frequency of tokens alone, ``(n,)`` in nats.

        Frequencies are of the training text, with one added for every token of the vocabulary.
        """
        size = self.model.config.vocab_size
        counts = np.ones(size)
        for ids in (*self.tuning, *self.scoring):
            counts += np.bincount(ids[1:], minlength=size)
        surprise = -np.log(counts / counts.sum())
        return np.array([surprise[ids[1:]].sum() for ids in self.test])

    def scores(self, journal: Journal, named: NamedOrder) -> HeadTensors:
        """A criterion's scores on the scoring passages."""

        def measure() -> Arrays:
            with eager_attention(self.model):
                return named.scores(
                    self.model,
                    self.batches(self.scoring),
                    None,
                    lambda: Tokens([self.model.config.bos_token_id]),
                )

        (unit,) = run_units(
            {f"{self.key} {named.key()}": measure}, journal, shown(named.criterion.name).label
        ).values()
        return {"self": torch.from_numpy(unit["self"])}

    def under(self, masks: Mapping[str, HeadTensors], journal: Journal, title: str) -> np.ndarray:
        """The loss of every test passage under each mask, ``(M, n)`` in nats, a sum over tokens.

        Args:
            masks: by the name of a unit of the journal.
        """
        units = run_units(
            {
                f"{self.key} {name}": lambda mask=mask: {"loss": self.losses(self.model, mask)}
                for name, mask in masks.items()
            },
            journal,
            title,
        )
        return np.stack([unit["loss"] for unit in units.values()])

    def losses(self, model: nn.Module, mask: HeadTensors | None = None) -> np.ndarray:
        """The loss of every test passage, ``(n,)`` in nats, of a model under a mask if given."""
        device = next(model.parameters()).device
        found = []
        with (
            torch.inference_mode(),
            masked_heads(model, ones_mask(model) if mask is None else mask),
        ):
            for batch in self.batches(self.test):
                there = to_device(batch, device)
                found.append(next_token_cross_entropy(model(**without_labels(there)), there))
        return torch.cat(found).double().cpu().numpy()

    def without_each(self, journal: Journal) -> Arrays:
        """Every head cut in turn: ``heads`` (H, 2), ``loss_uncut`` (n,) and ``loss`` (H, n) in nats."""
        heads = [(b.kind, b.layer, head) for b in find_heads(self.model) for head in b.kept_heads]

        def measure(batch: Batch) -> Arrays:
            ((uncut, cut),) = one_head_ablation(
                self.model, [batch], reduce=next_token_cross_entropy
            )
            return {"loss": torch.stack([uncut, *(cut[head] for head in heads)]).double().numpy()}

        units = run_units(
            {
                f"{self.key} one head, part {i}": lambda batch=batch: measure(batch)
                for i, batch in enumerate(self.batches(self.swept))
            },
            journal,
            f"one head cut, {len(self.swept)} passages",
        )
        loss = np.concatenate([unit["loss"] for unit in units.values()], -1)
        return {
            "heads": np.array([head[1:] for head in heads], np.int16),
            "loss_uncut": loss[0],
            "loss": loss[1:],
        }

    def measured(self, raw: Arrays) -> Measured:
        """Outcomes as the store takes them; ``tokens`` has an entry a passage."""
        described, n = {"model": self.profile.language_model}, len(raw["tokens"])
        return Measured(raw, [described], f"{self.task}/test", n, "perplexity", "nats a token")


def _enough(passages: Sequence[list[int]], tokens: int) -> int:
    """How many of the first passages hold so many tokens to predict, or all."""
    held = np.cumsum(predicted(passages))
    return min(len(passages), int(np.searchsorted(held, tokens)) + 1)


def predicted(passages: Sequence[list[int]]) -> np.ndarray:
    """How many tokens of each passage are predicted: all but the start."""
    return np.array([len(ids) - 1 for ids in passages])


def padded(passages: Sequence[list[int]]) -> Batch:
    """Passages as a batch; tokens that only fill it up have no label."""
    longest = max(map(len, passages))
    rows = [ids + [0] * (longest - len(ids)) for ids in passages]
    there = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in passages])
    ids = torch.tensor(rows)
    labels: Tensor = ids.masked_fill(there == 0, NO_LABEL)
    return {"input_ids": ids, "attention_mask": there, "labels": labels}


def whole_thousandths(nats: np.ndarray) -> np.ndarray:
    """Losses as they are stored; those of a passage do not fit into 16 bits."""
    return np.rint(nats * MILLINAT).astype(np.int32)


@lru_cache(maxsize=1)
def _loaded(name: str, device: str) -> nn.Module:
    return load_language_model(name).to(device)


@lru_cache(maxsize=2)
def _sent(profile: bytes, task: str) -> LanguageSubject:
    return LanguageSubject.of(pickle.loads(profile), task)
