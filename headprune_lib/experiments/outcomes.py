"""Right or wrong, and the loss, of every example under every mask: what all artifacts start from.

Losses are kept in whole thousandths of a nat (int16): a mean over thousands of examples is exact to
far below what it is used for, and the files stay small. Cut models are kept as the *change* of
loss from the uncut one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from headprune_lib.ablation import all_but_one, masked_logits, one_head_ablation
from headprune_lib.bases import load_tokenizer
from headprune_lib.batching import Batches, make_batches
from headprune_lib.data import TASKS, Examples, file_sha256
from headprune_lib.heads import HeadTensors, find_heads
from headprune_lib.journal import Arrays, Journal
from headprune_lib.models import weights_path
from headprune_lib.profiles import Profile
from headprune_lib.training import finetuned, recipe

MILLINAT = 1000
_SWEEPS = {"one head": one_head_ablation, "all but one": all_but_one}
_BATCHES_A_UNIT = 8


@dataclass
class Setting:
    """A fine-tuned model with the texts it is measured on."""

    profile: Profile
    seed: int
    model: nn.Module
    weights_sha256: str

    @classmethod
    def of(cls, profile: Profile, seed: int | None = None, kernel: str = "sdpa") -> Setting:
        seed = profile.seed if seed is None else seed
        model = finetuned(profile, seed, kernel=kernel)
        path = weights_path(profile.model, recipe(profile, seed))
        return cls(profile, seed, model, file_sha256(path))

    def batches(self, examples: Examples) -> Batches:
        limit = self.profile.finetuning.max_length
        return make_batches(load_tokenizer(self.profile.model), examples, self.profile.batch_size,
                            limit)

    @property
    def test(self) -> Examples:
        """What every reported number is measured on."""
        return self._split("test").first(self.profile.n_examples)

    @property
    def selection(self) -> Examples:
        """Training sentences for selections that must not see the test set."""
        return self._split("train").first(self.profile.n_selection)

    @property
    def scoring(self) -> Examples:
        """Training sentences that I_h is measured on: the last ones, apart from ``selection``."""
        return self._split("train").last(self.profile.n_scoring)

    def check_apart(self) -> None:
        """Raises ValueError where ``selection`` and ``scoring`` share sentences."""
        asked, there = self.profile.n_selection + self.profile.n_scoring, len(self._split("train"))
        if asked > there:
            raise ValueError(f"n_selection and n_scoring ask for {asked} of {there} training "
                             f"sentences of {self.profile.task}; give smaller ones, so that no "
                             "sentence is in both")

    def _split(self, name: str) -> Examples:
        return TASKS[self.profile.task].split(name, self.profile.data)


def sweep(setting: Setting, examples: Examples, how: str, journal: Journal, name: str) -> Arrays:
    """Cut every head in turn (``"one head"``, ``"all but one"``) on the given examples.

    Returns:
        ``heads`` (H, 2) layer and head from 0, ``correct_uncut`` (n,), ``correct`` (H, n) bool,
        ``loss_uncut`` (n,) and ``loss_change`` (H, n) in thousandths of a nat, in the examples'
        own order; ``truncated`` counts sentences past the model's limit.
    """
    prepared = setting.batches(examples)
    heads = [(b.kind, b.layer, head) for b in find_heads(setting.model) for head in b.kept]

    def measure(part: list) -> Arrays:
        correct, loss = [], []
        for (uncut, cut), batch in zip(_SWEEPS[how](setting.model, part), part, strict=True):
            logits = torch.stack([uncut, *(cut[head] for head in heads)])  # (1 + H, B, class)
            right, nats = judge(logits, batch["labels"])
            correct.append(right)
            loss.append(nats)
        return {"correct": np.concatenate(correct, -1), "loss": np.concatenate(loss, -1)}

    parts = [prepared.batches[i : i + _BATCHES_A_UNIT]
             for i in range(0, len(prepared.batches), _BATCHES_A_UNIT)]
    keys = [f"{setting.weights_sha256[:12]} {name} {i}" for i in range(len(parts))]
    units = resumed(journal, keys, [lambda part=part: measure(part) for part in parts],
                    f"{how} on {name}, {len(examples)} sentences")
    correct = prepared.restore(np.concatenate([unit["correct"] for unit in units], -1))
    loss = prepared.restore(np.concatenate([unit["loss"] for unit in units], -1))
    return {
        "heads": np.array([head[1:] for head in heads], np.int16),
        **compact(correct[0], correct[1:], loss[0], loss[1:]),
        "truncated": np.array(prepared.n_truncated),
    }


def evaluate(setting: Setting, prepared: Batches, mask: HeadTensors | None) -> Arrays:
    """``correct`` and ``loss`` (nats) of every example, shape ``(n,)``, under one mask."""
    logits = torch.cat(list(masked_logits(setting.model, prepared.batches, mask)))
    labels = torch.cat([batch["labels"] for batch in prepared.batches])
    correct, loss = judge(logits, labels)
    return {"correct": prepared.restore(correct), "loss": prepared.restore(loss)}


def judge(logits: Tensor, labels: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """(..., n, class) x (n,) -> right or wrong and cross-entropy in nats, both (..., n)."""
    logits = logits.double()
    correct = (logits.argmax(-1) == labels).numpy()
    picked = logits.log_softmax(-1).gather(-1, labels.expand(logits.shape[:-1])[..., None])
    return correct, -picked[..., 0].numpy()


def compact(correct_uncut, correct, loss_uncut, loss) -> Arrays:
    """The arrays as they are stored: losses in whole thousandths of a nat, cuts as changes."""
    return {
        "correct_uncut": correct_uncut,
        "correct": correct,
        "loss_uncut": millinats(loss_uncut),
        "loss_change": millinats(loss - loss_uncut),
    }


def millinats(nats: np.ndarray) -> np.ndarray:
    """Whole thousandths of a nat in 16 bits; what lies beyond is put at their end (32.767 nats)."""
    limit = np.iinfo(np.int16).max
    return np.rint(nats * MILLINAT).clip(-limit, limit).astype(np.int16)


def resumed(journal: Journal, keys: list[str], functions: list[Callable[[], Arrays]],
            title: str) -> list[Arrays]:
    """Every unit from the journal or measured now, with a bar and the time left."""
    todo = sum(not journal.done(key) for key in keys)
    units = []
    with tqdm(total=todo, desc=title, unit="part", disable=not todo) as bar:
        for key, function in zip(keys, functions, strict=True):
            fresh = not journal.done(key)
            units.append(journal.unit(key, function))
            bar.update(fresh)
    return units


def runs_of(settings: Iterable[Setting]) -> list[dict]:
    """The ``runs`` entry of a result: one a fine-tuning seed."""
    return [{"seed": s.seed, "weights_sha256": s.weights_sha256} for s in settings]
