"""A trained translator with its pairs: n-gram counts and draft loss of every pair under masks.

A verse is a pair of sentences, whatever text it is from.

Counts are kept packed (matches and length, see :mod:`headprune_lib.replication.metrics`).
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from torch import nn

from headprune_lib.attention import special_ids
from headprune_lib.criteria.gradient import example_importance
from headprune_lib.discovery import KINDS
from headprune_lib.masking import HeadTensors, ones_mask
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.data import TRANSLATION_TASKS, Texts
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.generation.beams import searched_under
from headprune_lib.replication.generation.drafts import Translations, translations_under
from headprune_lib.replication.generation.greedy import generate, marks_of
from headprune_lib.replication.metrics import pack
from headprune_lib.replication.order_names import NamedOrder, Tokens
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Journal, Measured
from headprune_lib.replication.store.heads import heads_array
from headprune_lib.replication.translation.outcomes import joined
from headprune_lib.replication.translation.translator import Rows, Translator
from headprune_lib.replication.translation.weights import load_translator, stored_weights
from headprune_lib.replication.weights import check_worker_has
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import Head
from headprune_lib.utils import by_length, teacher_forced

GROUP = 32  # sentences that share a batch
_SCORED_TOGETHER = 32


@dataclass
class TranslationSubject:
    """A trained translator with the verses it is measured on."""

    profile: Profile
    task: str
    seed: int
    translator: Translator
    kept: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        profile: Profile,
        task: str,
        seed: int | None = None,
        *,
        kernel: str = "sdpa",
        **kept: int,
    ) -> TranslationSubject:
        """The trained model of a task; trained now if need be.

        Args:
            seed: of the training; the first one of the profile's if not given.
            kept: ``epoch`` or ``update``: the weights that the training kept after it, in place
                of the final ones.
        """
        seed = profile.trainings(task)[0] if seed is None else seed
        translator = load_translator(
            profile, task, seed, model=profile.model_of(task), kernel=kernel, **kept
        )
        return cls(profile, task, seed, translator, kept)

    def __reduce__(self) -> tuple:
        """On its way to a worker, what loads it there."""
        kernel, kept = self.model.config._attn_implementation, tuple(self.kept.items())
        sha256 = self.translator.weights_sha256
        return _loaded, (pickle.dumps(self.profile), self.task, self.seed, kernel, kept, sha256)

    @classmethod
    def of_listed(cls, profile: Profile, task: str, seed: int | None) -> TranslationSubject:
        """As :meth:`of`; ValueError for a training that is none of the profile's."""
        if seed is not None:
            profile.check_training(task, seed)
        return cls.of(profile, task, seed)

    def eager(self) -> TranslationSubject:
        """The same weights under the attention kernel with the fastest backward pass."""
        return TranslationSubject.of(
            self.profile, self.task, self.seed, kernel="eager", **self.kept
        )

    @property
    def model(self) -> nn.Module:
        """The translator's network."""
        return self.translator.model

    @property
    def key(self) -> str:
        """Begins the name of every journal unit: results of other weights must not be resumed."""
        return self.translator.weights_sha256[:12]

    @property
    def run(self) -> dict:
        """The entry of a result for this training, with the epoch or update if not the final one."""
        return {"seed": self.seed, **self.kept, "weights_sha256": self.translator.weights_sha256}

    def measured(self, raw: Arrays, n_examples: int, *, dataset: str | None = None) -> Measured:
        """Outcomes as the store takes them; of the test verses if nothing else is said."""
        return Measured(
            raw, [self.run], dataset or f"{self.task}/test", n_examples, "BLEU", "BLEU points"
        )

    def pairs(self, split: str, task: str | None = None) -> Texts:
        """What all heads are swept on: the first verses of a split, which are a random sample.

        Of another task with the same chapters on each side where one is named.
        """
        return self.split(split, task).first(self.profile.n_verses)

    @property
    def headline(self) -> Texts:
        """The test verses of the few rows that the paper's claims rest on."""
        return self.split("test").first(self.profile.n_headline)

    def split(self, name: str, task: str | None = None) -> Texts:
        """All verses of a split, of another task where one is named."""
        return TRANSLATION_TASKS[task or self.task].split(name)

    def far(self, task: str) -> Texts:
        """The pairs of another domain."""
        return self.pairs(TRANSLATION_TASKS[task].far, task)

    @property
    def chosen(self) -> tuple[Texts, Texts]:
        """What the best heads are chosen on, and what is reported of them."""
        choice, reported = TRANSLATION_TASKS[self.task].chosen
        return self.pairs(choice), self.split(reported).first(self.profile.n_headline)

    def sweep(
        self, pairs: Texts, masks: Sequence[HeadTensors], journal: Journal, name: str
    ) -> Arrays:
        """Translate every pair under every mask.

        Args:
            name: of what is measured, for the journal and the progress bar.

        Returns:
            ``counts_uncut`` (n, 5), ``counts_change`` (M, n, 5), ``reference_lengths`` (n,),
            ``draft_loss_uncut`` (n,) and ``draft_loss_change`` (M, n) in thousandths of a nat, in the
            pairs' own order. Where BLEU is taken in another way than sacrebleu's own, the counts and
            lengths of that one stand beside these under ``BESIDE``.
        """
        sources = self.translator.encode(pairs.sources)
        groups = by_length(sources, GROUP)

        def measure(members: list[int]) -> Arrays:
            own = [sources[i] for i in members]
            found = self._translated(own, [ones_mask(self.model), *masks])
            references = [pairs.targets[i] for i in members]
            each = [self.translator.pieces.counts(one.ids, references) for one in found]
            return {
                "draft_loss": np.stack([one.draft_loss for one in found]),
                **{
                    f"{way}counts": np.stack([pack(counts[way]) for counts in each])
                    for way in each[0]
                },
                **{f"{way}reference_lengths": counts[:, -1] for way, counts in each[0].items()},
            }

        units = run_units(
            {
                f"{self.key} {name} {i}": lambda members=members: measure(members)
                for i, members in enumerate(groups)
            },
            journal,
            f"{name}, {len(masks)} masks on {len(pairs)} verses",
        ).values()
        back = np.argsort(np.concatenate(groups))
        return joined(list(units), back)

    def _translated(self, sources: Rows, masks: Sequence[HeadTensors]) -> list[Translations]:
        """A group of sentences under each mask, the unmasked model's translations as drafts."""
        model, beams = self.model, self.profile.beams
        drafts = generate(model, sources, beams=beams, early_stopping=beams > 1)
        if beams > 1:
            return searched_under(model, sources, drafts, masks, beams=beams)
        return translations_under(model, sources, drafts, masks)

    def sweep_heads(
        self, pairs: Texts, masks: Mapping[Head, HeadTensors], journal: Journal, name: str
    ) -> Arrays:
        """As :meth:`sweep`, with a mask for each head; ``heads`` says whose each row is."""
        raw = self.sweep(pairs, list(masks.values()), journal, name)
        return {**raw, "heads": heads_array(masks)}

    def importance(self, journal: Journal, *, normalize: str | None = "l2") -> HeadTensors:
        """I_h by teacher forcing on the chapters kept for it; the loss of a verse is its sum."""
        each = self.verse_importance(journal)
        scores = {kind: torch.from_numpy(each[kind].mean(0)) for kind in KINDS}
        return normalize_l2(scores) if normalize == "l2" else scores

    def scores(
        self, journal: Journal, named: NamedOrder, mask: HeadTensors | None = None
    ) -> HeadTensors:
        """A criterion's scores on the verses that I_h is measured on, under a mask if given."""

        def measure() -> Arrays:
            model = self.eager().model
            batches = forced_batches(self, self.split("score"))
            return named.scores(model, batches, mask, lambda: Tokens(special_ids(model)))

        (unit,) = run_units(
            {f"{self.key} {named.key(mask)}": measure},
            journal,
            f"{shown(named.criterion.name).label}, {self.task}",
        ).values()
        return {kind: torch.from_numpy(unit[kind]) for kind in KINDS}

    def verse_importance(self, journal: Journal) -> Arrays:
        """Kind -> |dL(x)/dxi_h| of every verse kept for scoring, (verses, layer, head)."""

        def measure() -> Arrays:
            model = self.eager().model
            each = example_importance(model, forced_batches(self, self.split("score")))
            return {kind: values.numpy() for kind, values in each.items()}

        (found,) = run_units(
            {f"{self.key} I_h": measure}, journal, f"importance, {self.task}"
        ).values()
        return found


@lru_cache(maxsize=2)
def _loaded(
    profile: bytes,
    task: str,
    seed: int,
    kernel: str,
    kept: tuple[tuple[str, int], ...],
    weights_sha256: str,
) -> TranslationSubject:
    """A subject as a worker process needs it, loaded once."""
    wanted, point = pickle.loads(profile), dict(kept)
    path = stored_weights(wanted, task, seed, model=wanted.model_of(task), **point)
    check_worker_has(path, weights_sha256)
    return TranslationSubject.of(wanted, task, seed, kernel=kernel, **point)


def forced_batches(subject: TranslationSubject, pairs: Texts) -> list[dict[str, torch.Tensor]]:
    """Teacher-forced batches of verses, in the groups of :func:`forced_groups`."""
    translator, marks = subject.translator, marks_of(subject.model)
    sources = translator.encode(pairs.sources)
    targets = translator.encode_targets(pairs.targets)
    return [
        teacher_forced(
            [sources[i] for i in part], [targets[i] for i in part], marks.pad, marks.start
        )
        for part in forced_groups(subject, pairs)
    ]


def forced_groups(subject: TranslationSubject, pairs: Texts) -> list[list[int]]:
    """Which verses share a teacher-forced batch, shortest references first."""
    return by_length(subject.translator.encode_targets(pairs.targets), _SCORED_TOGETHER)
