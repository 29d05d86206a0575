"""A fine-tuned classifier with its texts: right or wrong, and the loss, of every example under masks.

Losses are kept in whole thousandths of a nat (int16): a mean over thousands of examples is exact to
far below what it is used for, and the files stay small. Of cut models the *change* of loss from
the uncut one is kept.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch
from torch import Tensor, nn

from headprune_lib.ablation import all_but_one, masked_logits, one_head_ablation
from headprune_lib.discovery import find_heads
from headprune_lib.masking import HeadTensors
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.data import TASKS, Texts, file_sha256
from headprune_lib.replication.encoder.batches import Batches, make_batches
from headprune_lib.replication.encoder.recipe import recipe
from headprune_lib.replication.encoder.weights import finetuned, weights_path
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.metrics import millinats
from headprune_lib.replication.order_names import NamedOrder, tokens_of
from headprune_lib.replication.pretrained import load_tokenizer
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Journal, Measured
from headprune_lib.replication.weights import check_worker_has
from headprune_lib.scoring import head_importance, normalize_l2
from headprune_lib.utils import Batch, OomLimit, split_on_oom

_SWEEPS = {"one head": one_head_ablation, "all but one": all_but_one}
_BATCHES_A_UNIT = 8
UNCUT = "no head cut"
"""What the journal calls the mask that keeps every head, whatever is measured beside it."""


@dataclass
class EncoderSubject:
    """A fine-tuned model with the texts it is measured on."""

    profile: Profile
    seed: int
    model: nn.Module
    weights_sha256: str

    @classmethod
    def of(cls, profile: Profile, seed: int | None = None, kernel: str = "sdpa") -> EncoderSubject:
        """The profile's model, fine-tuned with ``seed``: the stored weights, or trained now."""
        seed = profile.seed if seed is None else seed
        model = finetuned(profile, seed, kernel=kernel)
        path = weights_path(profile.model, recipe(profile, seed))
        return cls(profile, seed, model, file_sha256(path))

    def __reduce__(self) -> tuple:
        """On its way to a worker, what loads it there."""
        kernel = self.model.config._attn_implementation
        return _loaded, (pickle.dumps(self.profile), self.seed, kernel, self.weights_sha256)

    @property
    def key(self) -> str:
        """Begins the name of every journal unit: results of other weights must not be resumed."""
        return self.weights_sha256[:12]

    @property
    def run(self) -> dict:
        """The entry of a result for this training."""
        return {"seed": self.seed, "weights_sha256": self.weights_sha256}

    def measured(
        self,
        raw: Arrays,
        *,
        n_examples: int | None = None,
        dataset: str | None = None,
        metric: str = "accuracy",
        unit: str = "share of examples",
        runs: list[dict] | None = None,
    ) -> Measured:
        """Outcomes as the store takes them; of accuracy on the test set if nothing else is said."""
        n = len(self.test) if n_examples is None else n_examples
        return Measured(
            raw, runs or [self.run], dataset or f"{self.profile.task}/test", n, metric, unit
        )

    def batches(self, examples: Texts) -> Batches:
        """Batches of like length, at the profile's size and limit."""
        limit = self.profile.finetuning.max_length
        return make_batches(
            load_tokenizer(self.profile.model), examples, self.profile.batch_size, limit
        )

    @property
    def test(self) -> Texts:
        """What every reported number is measured on."""
        return self._split("test").after(self.profile.n_used).first(self.profile.n_examples)

    @property
    def selection(self) -> Texts:
        """Training sentences for selections that must not see the test set."""
        return self._split("train").first(self.profile.n_selection)

    @property
    def scoring(self) -> Texts:
        """Training sentences that I_h is measured on: the last ones, apart from ``selection``."""
        return self._split("train").last(self.profile.n_scoring)

    def check_apart(self) -> None:
        """Raises ValueError where ``selection`` and ``scoring`` share sentences."""
        asked, there = self.profile.n_selection + self.profile.n_scoring, len(self._split("train"))
        if asked > there:
            raise ValueError(
                f"n_selection and n_scoring ask for {asked} of {there} training "
                f"sentences of {self.profile.task}; give smaller ones, so that no "
                "sentence is in both"
            )

    def _split(self, name: str) -> Texts:
        return TASKS[self.profile.task].split(name, self.profile.data)

    def sweep(self, how: str, examples: Texts, journal: Journal, name: str) -> Arrays:
        """Cut every head in turn (``"one head"``, ``"all but one"``) on the given examples.

        Args:
            name: of the examples, for the journal and the progress bar.

        Returns:
            ``heads`` (H, 2) layer and head from 0, ``correct_uncut`` (n,), ``correct`` (H, n) bool,
            ``loss_uncut`` (n,) and ``loss_change`` (H, n) in thousandths of a nat, in the examples'
            own order; ``truncated`` counts sentences past the model's limit.
        """
        prepared = self.batches(examples)
        heads = [(b.kind, b.layer, head) for b in find_heads(self.model) for head in b.kept_heads]

        def swept(batch: Batch) -> Tensor:
            ((uncut, cut),) = _SWEEPS[how](self.model, [batch])
            return torch.stack([uncut, *(cut[head] for head in heads)])  # (1 + H, B, class)

        def measure(part: list) -> Arrays:
            correct, loss, oom_limit = [], [], OomLimit()
            for batch in part:
                right, nats = answers(
                    split_on_oom(swept, batch, partial(torch.cat, dim=1), oom_limit),
                    batch["labels"],
                )
                correct.append(right)
                loss.append(nats)
            return {"correct": np.concatenate(correct, -1), "loss": np.concatenate(loss, -1)}

        parts = [
            prepared.batches[i : i + _BATCHES_A_UNIT]
            for i in range(0, len(prepared.batches), _BATCHES_A_UNIT)
        ]
        units = run_units(
            {
                f"{self.key} {how} {name} {i}": lambda part=part: measure(part)
                for i, part in enumerate(parts)
            },
            journal,
            f"{how} on {name}, {len(examples)} sentences",
        )
        correct, loss = (
            prepared.restore(np.concatenate([one[what] for one in units.values()], -1))
            for what in ("correct", "loss")
        )
        return {
            "heads": np.array([head[1:] for head in heads], np.int16),
            **compact(correct[0], correct[1:], loss[0], loss[1:]),
            "truncated": np.array(prepared.n_truncated),
        }

    def importance(
        self,
        journal: Journal,
        *,
        normalize: str | None = "l2",
    ) -> HeadTensors:
        """I_h on the scoring sentences."""

        def measure() -> Arrays:
            # a kernel with a fast backward pass; the same weights
            model = EncoderSubject.of(self.profile, self.seed, "eager").model
            batches = self.batches(self.scoring).batches
            return {"self": head_importance(model, batches, normalize=None)["self"].numpy()}

        (unit,) = run_units(
            {f"{self.key} I_h all heads": measure}, journal, f"importance, seed {self.seed}"
        ).values()
        scores = {"self": torch.from_numpy(unit["self"])}
        return normalize_l2(scores) if normalize == "l2" else scores

    def scores(
        self, journal: Journal, named: NamedOrder, mask: HeadTensors | None = None
    ) -> HeadTensors:
        """A criterion's scores on the sentences that I_h is measured on, under a mask if given."""

        def measure() -> Arrays:
            model = EncoderSubject.of(self.profile, self.seed, "eager").model
            batches = self.batches(self.scoring).batches
            return named.scores(
                model, batches, mask, lambda: tokens_of(load_tokenizer(self.profile.model))
            )

        (unit,) = run_units(
            {f"{self.key} {named.key(mask)}": measure},
            journal,
            f"{shown(named.criterion.name).label}, seed {self.seed}",
        ).values()
        return {"self": torch.from_numpy(unit["self"])}

    def curve(
        self, masks: Sequence[HeadTensors], examples: Texts, journal: Journal, name: str
    ) -> Arrays:
        """Outcomes along an order of removal, the unmasked model first.

        Args:
            masks: after each step of the schedule, the first one keeping every head.

        Returns:
            ``correct`` (steps + 1, n) bool and ``loss`` (steps + 1, n) in nats. Steps at which
            two orders have cut the same heads are measured once.
        """
        ends = {0: UNCUT, len(masks) - 1: "all heads cut"}
        keys = [ends.get(step, f"{name} step {step}") for step in range(len(masks))]
        return self.under(
            dict(zip(keys, masks, strict=True)),
            examples,
            journal,
            f"pruning curve, seed {self.seed}, {name}",
        )

    def under(
        self, masks: Mapping[str, HeadTensors], examples: Texts, journal: Journal, title: str
    ) -> Arrays:
        """Outcomes under each mask, whose name is that of a unit of the journal.

        Returns:
            ``correct`` (M, n) bool and ``loss`` (M, n) in nats.
        """
        prepared = self.batches(examples)
        units = run_units(
            {
                f"{self.key} {name}": lambda mask=mask: evaluate(self, prepared, mask)
                for name, mask in masks.items()
            },
            journal,
            title,
        ).values()
        return {what: np.stack([unit[what] for unit in units]) for what in ("correct", "loss")}


@lru_cache(maxsize=2)
def _loaded(profile: bytes, seed: int, kernel: str, weights_sha256: str) -> EncoderSubject:
    """A subject as a worker process needs it, loaded once."""
    wanted = pickle.loads(profile)
    check_worker_has(weights_path(wanted.model, recipe(wanted, seed)), weights_sha256)
    return EncoderSubject.of(wanted, seed, kernel)


def evaluate(subject: EncoderSubject, prepared: Batches, mask: HeadTensors | None) -> Arrays:
    """``correct`` and ``loss`` (nats) of every example, shape ``(n,)``, under one mask."""

    def masked(batch: Batch) -> Tensor:
        (logits,) = masked_logits(subject.model, [batch], mask)
        return logits

    oom_limit = OomLimit()
    logits = torch.cat(
        [split_on_oom(masked, batch, torch.cat, oom_limit) for batch in prepared.batches]
    )
    labels = torch.cat([batch["labels"] for batch in prepared.batches])
    correct, loss = answers(logits, labels)
    return {"correct": prepared.restore(correct), "loss": prepared.restore(loss)}


def answers(logits: Tensor, labels: Tensor) -> tuple[np.ndarray, np.ndarray]:
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
