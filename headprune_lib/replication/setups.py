"""Setups: a trained model with the texts that it is measured on, and outcomes of masks on them.

Classifiers, translators and language models share their methods: ``outcomes`` of named masks on
texts, ``scores`` of heads by a criterion, and ``compute`` for any other unit of work, all kept in
the journal. Losses are stored in whole thousandths of a nat, those of masked models as the *change*
from the unmasked one, and BLEU's counts are packed (matches and length, see
:mod:`headprune_lib.replication.metrics`). Files stay small, and a mean over thousands of texts is
far more exact than its use requires.
"""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from headprune_lib.ablation import all_but_one, all_but_one_masks, one_head_ablation, one_head_masks
from headprune_lib.attention import eager_attention, special_ids
from headprune_lib.criteria.gradient import example_importance
from headprune_lib.discovery import find_heads
from headprune_lib.losses import cross_entropy, next_token_cross_entropy
from headprune_lib.masking import HeadTensors, masked_heads, ones_mask
from headprune_lib.pruning import prune_heads
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.data import (
    LANGUAGE_TASKS,
    TASKS,
    TRANSLATION_TASKS,
    Texts,
    file_sha256,
)
from headprune_lib.replication.engine import Unit, run_units
from headprune_lib.replication.metrics import MILLINAT, millinats, pack
from headprune_lib.replication.models.encoders import (
    Batches,
    answered,
    evaluate,
    finetuned,
    make_batches,
    recipe,
    weights_path,
)
from headprune_lib.replication.models.generation import (
    generate,
    marks_of,
    searched_under,
    translations_under,
)
from headprune_lib.replication.models.language import padded
from headprune_lib.replication.models.pretrained import (
    LANGUAGE_MODELS,
    load_language_model,
    load_tokenizer,
)
from headprune_lib.replication.models.translators import Translator, load_translator, stored_weights
from headprune_lib.replication.models.weights import check_worker_has
from headprune_lib.replication.order_names import NamedOrder, Tokens, read_name, tokens_of
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Journal, Measured
from headprune_lib.replication.store.packing import KINDS, heads_array, joined
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import Head
from headprune_lib.utils import (
    NO_LABEL,
    Batch,
    by_length,
    teacher_forced,
    to_device,
    without_labels,
)

GROUP = 32  # sentences that share a batch, in translation and in teacher forcing
_BATCHES_A_UNIT = 8
UNCUT = "no head cut"
"""The journal's name of the mask that keeps every head, whatever else is measured."""


Rows = Callable[[int], Sequence[int]]
"""Number of texts -> positions of those that are taken."""
AnyTexts = TypeVar("AnyTexts", Texts, list[list[int]])
_some: ContextVar[Rows | None] = ContextVar("_some", default=None)


@contextmanager
def on_some_texts(rows: Rows) -> Iterator[None]:
    """Within the context, measure outcomes on some texts of each set: see :func:`measured_on`."""
    token = _some.set(rows)
    try:
        yield
    finally:
        _some.reset(token)


def measured_on(texts: AnyTexts) -> AnyTexts:
    """The texts to measure outcomes on: all of them, except within :func:`on_some_texts`.

    Texts that heads are scored on, and those that an order is chosen on without keeping the
    outcomes, are always used whole.
    """
    if (some := _some.get()) is None:
        return texts
    rows = some(len(texts))
    return texts.rows(rows) if isinstance(texts, Texts) else [texts[i] for i in rows]


class Setup(ABC):
    """A trained model with its texts.

    Attributes:
        profile: the parameters of all measurements.
        model: the network, in evaluation mode.
        weights_sha256: SHA-256 of its weights' file.
    """

    profile: Profile
    model: nn.Module
    weights_sha256: str

    @classmethod
    @abstractmethod
    def of(cls, profile: Profile, *given: Any, **named: Any) -> Setup:
        """Load the trained model of a profile; train it now if no weights are stored."""

    @abstractmethod
    def outcomes(
        self, masks: Mapping[str, HeadTensors], texts: Any, journal: Journal, title: str
    ) -> Arrays:
        """Outcomes on every text under each mask, one row per mask; names are for the journal."""

    @abstractmethod
    def _scored_on(self) -> list[Batch]:
        """The texts that heads are scored on, in batches with labels."""

    @abstractmethod
    def _tokens_left_out(self) -> Tokens:
        """Ids of the tokens that a criterion may leave out of a text."""

    @abstractmethod
    def _sent(self) -> dict[str, Any]:
        """Arguments of :meth:`of` besides the profile, for a worker that loads the same setup."""

    @classmethod
    def _file_of(cls, profile: Profile, **sent: Any) -> Path | None:
        """The weights' file that :meth:`of` would load; None if they have not been trained."""
        return None

    @property
    def key(self) -> str:
        """Prefix of every journal unit's name: results of other weights must not be resumed."""
        return self.weights_sha256[:12]

    @property
    def heads(self) -> list[Head]:
        """Every head of the model, by layer."""
        return [
            (layer.kind, layer.layer, head)
            for layer in find_heads(self.model)
            for head in layer.kept_heads
        ]

    def pruned(self, mask: HeadTensors) -> nn.Module:
        """A copy of the model without the heads that a mask cuts."""
        return prune_heads(copy.deepcopy(self.model), mask)

    def compute(self, units: Mapping[str, Unit], journal: Journal, title: str) -> list[Arrays]:
        """The outcome of every unit of work with this model, from the journal or computed now.

        Args:
            units: by name, to which the key of the weights is added. If a unit gets its model from
                the setup, the worker loads it; a model in its closure would be sent there.
        """
        keyed = {f"{self.key} {name}": unit for name, unit in units.items()}
        return list(run_units(keyed, journal, title).values())

    def _under_each(
        self,
        masks: Mapping[str, HeadTensors],
        measure: Callable[[HeadTensors], Arrays],
        journal: Journal,
        title: str,
    ) -> Arrays:
        """What is measured under each mask, one row per mask; names are for the journal."""
        named = {name: partial(measure, mask) for name, mask in masks.items()}
        units = self.compute(named, journal, title)
        return {what: np.stack([unit[what] for unit in units]) for what in units[0]}

    def scores(
        self, journal: Journal, named: NamedOrder, mask: HeadTensors | None = None
    ) -> HeadTensors:
        """A criterion's scores on the texts that I_h is measured on, under a mask if given."""

        def measure() -> Arrays:
            with eager_attention(self.model):  # the kernel with a fast backward pass
                return named.scores(self.model, self._scored_on(), mask, self._tokens_left_out)

        title = shown(named.criterion.name).label
        (unit,) = self.compute({named.key(mask): measure}, journal, title)
        return _by_kind(unit)

    def importance(self, journal: Journal, *, normalize: str | None = "l2") -> HeadTensors:
        """I_h on the texts that heads are scored on."""
        return _normalised(self.scores(journal, read_name("importance unnormalised")), normalize)

    def _each_head_cut(
        self, sweep: Callable[..., Iterable[tuple[Tensor, Mapping[Head, Tensor]]]], batch: Batch
    ) -> Tensor:
        """Results of a sweep over heads, the unmasked model's first and then each head's."""
        ((uncut, cut),) = sweep(self.model, [batch])
        return torch.stack([uncut, *(cut[head] for head in self.heads)])

    def __reduce__(self) -> tuple:
        """Pickle the setup as the call that loads it on a worker."""
        sent = tuple(self._sent().items())
        return _received, (type(self), pickle.dumps(self.profile), sent, self.weights_sha256)


@lru_cache(maxsize=2)
def _received(
    kind: type[Setup], profile: bytes, sent: tuple[tuple[str, Any], ...], weights_sha256: str
) -> Setup:
    """Load a setup in a worker process, once."""
    wanted, named = pickle.loads(profile), dict(sent)
    if kind is not LanguageSubject:  # whose weights nobody trains
        check_worker_has(kind._file_of(wanted, **named), weights_sha256)
    return kind.of(wanted, **named)


def _by_kind(unit: Arrays) -> HeadTensors:
    return {kind: torch.from_numpy(unit[kind]) for kind in ("self", *KINDS) if kind in unit}


def _losses(
    model: nn.Module, batches: Iterable[Batch], loss: Callable[[Any, Batch], Tensor]
) -> np.ndarray:
    """Loss of every text of the batches, (n,) in nats."""
    device, losses = next(model.parameters()).device, []
    with torch.inference_mode():
        for batch in batches:
            batch = to_device(batch, device)
            losses.append(loss(model(**without_labels(batch)), batch))
    return torch.cat(losses).cpu().numpy()


def _normalised(scores: HeadTensors, normalize: str | None) -> HeadTensors:
    return normalize_l2(scores) if normalize == "l2" else scores


# --- classifiers -----------------------------------------------------------------------------------

_SWEEPS = {"one head": one_head_ablation, "all but one": all_but_one}
_MASKS = {"one head": one_head_masks, "all but one": all_but_one_masks}


@dataclass
class EncoderSubject(Setup):
    """A fine-tuned classifier with its examples: each one's correctness and loss."""

    profile: Profile
    seed: int
    model: nn.Module
    weights_sha256: str

    @classmethod
    def of(cls, profile: Profile, seed: int | None = None, kernel: str = "sdpa") -> EncoderSubject:
        """Load the profile's model fine-tuned with ``seed``; fine-tune it now if need be."""
        seed = profile.seed if seed is None else seed
        model = finetuned(profile, seed, kernel=kernel)
        return cls(profile, seed, model, file_sha256(cls._file_of(profile, seed)))

    @classmethod
    def _file_of(cls, profile: Profile, seed: int, kernel: str = "") -> Path:
        return weights_path(profile.model, recipe(profile, seed))

    def _sent(self) -> dict[str, Any]:
        return {"seed": self.seed, "kernel": self.model.config._attn_implementation}

    @property
    def run(self) -> dict[str, Any]:
        """The entry for this training in a result."""
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
        """Outcomes in the store's form, by default of accuracy on the test set."""
        n = len(self.test) if n_examples is None else n_examples
        return Measured(
            raw, runs or [self.run], dataset or f"{self.profile.task}/test", n, metric, unit
        )

    def batches(self, examples: Texts) -> Batches:
        """Batches of similar length, with the profile's batch size and maximum length."""
        limit = self.profile.finetuning.max_length
        return make_batches(
            load_tokenizer(self.profile.model), examples, self.profile.batch_size, limit
        )

    @property
    def test(self) -> Texts:
        """The texts that every reported number is measured on."""
        return self.tested()

    def tested(self, most: int | None = None) -> Texts:
        """The first ``most`` of the test sentences, all if None."""
        every = self._split("test").after(self.profile.n_used).first(self.profile.n_examples)
        return measured_on(every.first(most))

    @property
    def headline(self) -> Texts:
        """The texts for the rows that the paper's claims rest on: all test sentences."""
        return self.test

    @property
    def chosen(self) -> tuple[Texts, Texts]:
        """The texts that the best heads are chosen on, and those that they are reported on."""
        return measured_on(self.selection), self.test

    @property
    def selection(self) -> Texts:
        """Training sentences for selections that must not see the test set."""
        return self._split("train").first(self.profile.n_selection)

    @property
    def scoring(self) -> Texts:
        """Training sentences that I_h is measured on: the last ones, apart from ``selection``."""
        return self._split("train").last(self.profile.n_scoring)

    def check_apart(self) -> None:
        """Raise ValueError if ``selection`` and ``scoring`` share sentences."""
        asked = self.profile.n_selection + self.profile.n_scoring
        available = len(self._split("train"))
        if asked > available:
            raise ValueError(
                f"n_selection and n_scoring add up to {asked}, and {self.profile.task} has "
                f"{available} training sentences. Lower them so that no sentence is in both"
            )

    def _split(self, name: str) -> Texts:
        return TASKS[self.profile.task].split(name, self.profile.data)

    def sweep(
        self,
        how: str,
        examples: Texts,
        journal: Journal,
        name: str,
        only: Sequence[Head] | None = None,
    ) -> Arrays:
        """Cut every head in turn (``"one head"``, ``"all but one"``), or only these.

        Returns:
            ``heads`` (H, 2) layer and head from 0, ``correct_uncut`` (n,), ``correct`` (H, n) bool,
            ``loss_uncut`` (n,) and ``loss_change`` (H, n) in thousandths of a nat, in the examples'
            own order; ``truncated`` counts sentences past the model's limit.
        """
        title = f"{how} on {name}, {len(examples)} sentences"
        if only is not None:
            masks = _MASKS[how](self.model)
            named = {f"{how} {name} {head}": masks[head] for head in only}
            named = {UNCUT: ones_mask(self.model), **named}
            outcomes = self.outcomes(named, examples, journal, title)
            return _stored(heads_array(only), outcomes, self.batches(examples).n_truncated)
        prepared, swept = self.batches(examples), partial(self._each_head_cut, _SWEEPS[how])
        starts = range(0, len(prepared.batches), _BATCHES_A_UNIT)
        parts = [prepared.batches[start : start + _BATCHES_A_UNIT] for start in starts]
        units = self.compute(
            {f"{how} {name} {i}": partial(answered, swept, part) for i, part in enumerate(parts)},
            journal,
            title,
        )
        outcomes = {
            what: prepared.restore(np.concatenate([unit[what] for unit in units], -1))
            for what in ("correct", "loss")
        }
        return _stored(heads_array(self.heads), outcomes, prepared.n_truncated)

    def _scored_on(self) -> list[Batch]:
        return self.batches(self.scoring).batches

    def _tokens_left_out(self) -> Tokens:
        return tokens_of(load_tokenizer(self.profile.model))

    def curve(
        self, masks: Sequence[HeadTensors], examples: Texts, journal: Journal, name: str
    ) -> Arrays:
        """Outcomes along an order of removal: after each step, the first one keeping every head.

        Steps at which two orders have cut the same heads are measured once.
        """
        ends = {0: UNCUT, len(masks) - 1: "all heads cut"}
        named = {ends.get(i, f"{name} step {i}"): mask for i, mask in enumerate(masks)}
        title = f"pruning curve, seed {self.seed}, {name}"
        return self.outcomes(named, examples, journal, title)

    def outcomes(
        self, masks: Mapping[str, HeadTensors], texts: Texts, journal: Journal, title: str
    ) -> Arrays:
        """``correct`` (M, n) bool and ``loss`` (M, n) in nats; see :class:`Setup`."""
        prepared = self.batches(texts)
        return self._under_each(
            masks, lambda mask: evaluate(self.model, prepared, mask), journal, title
        )


def _stored(heads: np.ndarray, outcomes: Arrays, n_truncated: int) -> Arrays:
    """Outcomes in stored form, whose first row is the unmasked model's and each other a head's."""
    correct, loss = outcomes["correct"], outcomes["loss"]
    return {
        "heads": heads,
        "correct_uncut": correct[0],
        "correct": correct[1:],
        "loss_uncut": millinats(loss[0]),
        "loss_change": millinats(loss[1:] - loss[0]),
        "truncated": np.array(n_truncated),
    }


# --- translators -----------------------------------------------------------------------------------


@dataclass
class TranslationSubject(Setup):
    """A trained translator with its sentence pairs ("verses"): n-gram counts and draft losses."""

    profile: Profile
    task: str
    seed: int
    translator: Translator
    kept: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.model, self.weights_sha256 = self.translator.model, self.translator.weights_sha256

    @classmethod
    def of(
        cls, profile: Profile, task: str, seed: int | None = None, kernel: str = "sdpa", **kept: int
    ) -> TranslationSubject:
        """Load the trained model of a task; train it now if need be.

        Args:
            seed: of the training; the profile's first if not given.
            kept: ``epoch`` or ``update``: the weights that the training kept after it, in place
                of the final ones.
        """
        seed = profile.trainings(task)[0] if seed is None else seed
        translator = load_translator(
            profile, task, seed, model=profile.model_of(task), kernel=kernel, **kept
        )
        return cls(profile, task, seed, translator, kept)

    @classmethod
    def _file_of(
        cls, profile: Profile, task: str, seed: int, kernel: str = "", **kept: int
    ) -> Path | None:
        return stored_weights(profile, task, seed, model=profile.model_of(task), **kept)

    def _sent(self) -> dict[str, Any]:
        kernel = self.model.config._attn_implementation
        return {"task": self.task, "seed": self.seed, "kernel": kernel, **self.kept}

    @property
    def run(self) -> dict[str, Any]:
        """The entry for this training in a result, with its epoch or update if it is not final."""
        return {"seed": self.seed, **self.kept, "weights_sha256": self.weights_sha256}

    def measured(self, raw: Arrays, n_examples: int, *, dataset: str | None = None) -> Measured:
        """Outcomes in the store's form, by default on the test verses."""
        return Measured(
            raw, [self.run], dataset or f"{self.task}/test", n_examples, "BLEU", "BLEU points"
        )

    def pairs(self, split: str) -> Texts:
        """The first verses of a split, a random sample, which sweeps over all heads use."""
        return self.split(split).first(self.profile.n_verses)

    def tested(self, most: int | None = None) -> Texts:
        """The first ``most`` of the test verses that orders are measured on, all if None."""
        return measured_on(self.pairs("test").first(most))

    @property
    def headline(self) -> Texts:
        """The test verses of the few rows that the paper's claims rest on."""
        return measured_on(self.split("test").first(self.profile.n_headline))

    def split(self, name: str) -> Texts:
        """All verses of a split."""
        return TRANSLATION_TASKS[self.task].split(name)

    def far(self, task: str) -> Texts:
        """The first pairs of another domain."""
        far = TRANSLATION_TASKS[task].split(TRANSLATION_TASKS[task].far)
        return measured_on(far.first(self.profile.n_verses))

    @property
    def chosen(self) -> tuple[Texts, Texts]:
        """The texts that the best heads are chosen on, and those that they are reported on."""
        choice, reported = TRANSLATION_TASKS[self.task].chosen
        shown = self.split(reported).first(self.profile.n_headline)
        return measured_on(self.pairs(choice)), measured_on(shown)

    def outcomes(
        self, masks: Mapping[Any, HeadTensors], texts: Texts, journal: Journal, title: str
    ) -> Arrays:
        """Translate every pair under every mask.

        Returns:
            ``counts_uncut`` (n, 5), ``counts_change`` (M, n, 5), ``reference_lengths`` (n,),
            ``draft_loss_uncut`` (n,) and ``draft_loss_change`` (M, n) in thousandths of a nat, in
            the pairs' own order. If BLEU is not taken in sacrebleu's own way, the counts and
            lengths by that way are added under ``BESIDE``.
        """
        sources = self.translator.encode(texts.sources)
        every = [ones_mask(self.model), *masks.values()]
        groups, beams = by_length(sources, GROUP), self.profile.beams

        def measure(members: list[int]) -> Arrays:
            model = self.model  # of the setup that a worker has loaded
            rows = [sources[i] for i in members]
            references = [texts.targets[i] for i in members]
            drafts = generate(model, rows, beams=beams, early_stopping=beams > 1)
            if beams > 1:
                per_mask = searched_under(model, rows, drafts, every, beams=beams)
            else:
                per_mask = translations_under(model, rows, drafts, every)
            each = [
                self.translator.pieces.counts(translations.ids, references)
                for translations in per_mask
            ]
            return {
                "draft_loss": np.stack([translations.draft_loss for translations in per_mask]),
                **{
                    f"{way}counts": np.stack([pack(counts[way]) for counts in each])
                    for way in each[0]
                },
                **{f"{way}reference_lengths": counts[:, -1] for way, counts in each[0].items()},
            }

        units = self.compute(
            {f"{title} {i}": partial(measure, members) for i, members in enumerate(groups)},
            journal,
            f"{title}, {len(masks)} masks on {len(texts)} verses",
        )
        return joined(units, np.argsort(np.concatenate(groups)))

    def sweep(
        self,
        how: str,
        texts: Texts,
        journal: Journal,
        name: str,
        only: Sequence[Head] | None = None,
    ) -> Arrays:
        """Like :meth:`outcomes`, with one mask per head: without it, or with it alone in its layer.

        The head of each row is in ``heads``; ``only`` these, in their order, if given.
        """
        masks = _MASKS[how](self.model)
        masks = masks if only is None else {head: masks[head] for head in only}
        outcomes = self.outcomes(masks, texts, journal, f"{how}, {name}")
        return {**outcomes, "heads": heads_array(masks)}

    def importance(self, journal: Journal, *, normalize: str | None = "l2") -> HeadTensors:
        """I_h by teacher forcing on the chapters kept for it; a verse's loss sums over pieces."""
        each = self.verse_importance(journal)
        return _normalised(_by_kind({kind: each[kind].mean(0) for kind in each}), normalize)

    def verse_importance(self, journal: Journal) -> Arrays:
        """Kind -> |dL(x)/dxi_h| of every verse kept for scoring, (verses, layer, head)."""

        def measure() -> Arrays:
            with eager_attention(self.model):  # the kernel with a fast backward pass
                each = example_importance(self.model, self._scored_on())
            return {kind: values.numpy() for kind, values in each.items()}

        return self.compute({"I_h": measure}, journal, f"importance, {self.task}")[0]

    def _scored_on(self) -> list[Batch]:
        return self.forced(self.split("score")).batches

    def forced(self, pairs: Texts) -> Batches:
        """Teacher-forced batches of verses, shortest references first."""
        marks, sources = marks_of(self.model), self.translator.encode(pairs.sources)
        targets = self.translator.encode_targets(pairs.targets)
        groups = by_length(targets, GROUP)
        batches = [
            teacher_forced(
                [sources[i] for i in part], [targets[i] for i in part], marks.pad, marks.start
            )
            for part in groups
        ]
        return Batches(batches, np.concatenate(groups), n_truncated=0)

    def reference_losses(
        self, pairs: Texts, masks: Mapping[str, HeadTensors], journal: Journal
    ) -> Arrays:
        """The teacher-forced loss of every reference under every mask, named as in the journal.

        ``loss`` (M, n) sums over a reference's pieces, in nats; ``pieces`` (n,) counts them.
        """
        prepared = self.forced(pairs)

        def measure(mask: HeadTensors) -> Arrays:
            with masked_heads(self.model, mask):  # of the setup that a worker has loaded
                return {"loss": self._reference_losses(prepared)}

        named = {f"loss {name}": mask for name, mask in masks.items()}
        loss = self._under_each(named, measure, journal, "loss of the references")["loss"]
        return {"loss": loss.astype(float), "pieces": _pieces(prepared)}

    def piece_losses(self, pairs: Texts) -> np.ndarray:
        """Loss of every reference under the model as it is now, (n,) in nats per piece.

        Nothing is kept in a journal, which identifies models by the weights they were loaded with.
        """
        prepared = self.forced(pairs)
        return self._reference_losses(prepared).astype(float) / _pieces(prepared)

    def _reference_losses(self, prepared: Batches) -> np.ndarray:
        """Loss summed over each reference's pieces, (n,) in nats, in the pairs' own order."""
        return prepared.restore(_losses(self.model, prepared.batches, cross_entropy))

    def _tokens_left_out(self) -> Tokens:
        return Tokens(special_ids(self.model))


def _pieces(prepared: Batches) -> np.ndarray:
    """Number of pieces of each reference, (n,), in the pairs' own order."""
    counts = [(batch["labels"] != NO_LABEL).sum(1).numpy() for batch in prepared.batches]
    return prepared.restore(np.concatenate(counts))


# --- language models -------------------------------------------------------------------------------


@dataclass
class LanguageSubject(Setup):
    """A pretrained language model, and passages of a text that it predicts token by token."""

    profile: Profile
    task: str
    model: nn.Module

    def __post_init__(self) -> None:
        checksums = LANGUAGE_MODELS[self.profile.language_model].checksums
        self.weights_sha256 = next(iter(checksums.values()))

    @classmethod
    def of(cls, profile: Profile, task: str) -> LanguageSubject:
        """The profile's language model on a text; the weights are loaded once per process."""
        return cls(profile, task, _language_model(profile.language_model, profile.device_here))

    def _sent(self) -> dict[str, Any]:
        return {"task": self.task}

    def measured(self, raw: Arrays) -> Measured:
        """Outcomes in the store's form; ``tokens`` has one entry per passage."""
        described, n = {"model": self.profile.language_model}, len(raw["tokens"])
        return Measured(raw, [described], f"{self.task}/test", n, "perplexity", "nats a token")

    @cached_property
    def test(self) -> list[list[int]]:
        """Token ids of the passages that every reported number is measured on."""
        return measured_on(self._tested)

    @property
    def swept(self) -> list[list[int]]:
        """The test passages on which every single head is cut: the first ones."""
        return measured_on(_first(self._tested, self.profile.language.head_tokens))

    @cached_property
    def _tested(self) -> list[list[int]]:
        return _first(self._passages("test"), self.profile.language.test_tokens)

    @cached_property
    def scoring(self) -> list[list[int]]:
        """The training passages that heads are scored on: the last ones, the very last first."""
        return _first(self._train[::-1], self.profile.language.scoring_tokens)

    @property
    def tuning(self) -> list[list[int]]:
        """The training passages that a pruned model is trained on: all but ``scoring``."""
        return self._train[: len(self._train) - len(self.scoring)]

    @cached_property
    def _train(self) -> list[list[int]]:
        return self._passages("train")

    def _passages(self, split: str) -> list[list[int]]:
        texts = LANGUAGE_TASKS[self.task].load()[split]
        tokenizer = load_tokenizer(self.profile.language_model)
        rows = tokenizer(list(texts.texts), add_special_tokens=False)["input_ids"]
        return [[self._start, *ids[: self.profile.language.length]] for ids in rows]

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
        """Loss of each test passage under token frequencies alone, ``(n,)`` in nats.

        Frequencies are of the training text, with one added for every token of the vocabulary.
        """
        size = self.model.config.vocab_size
        counts = np.ones(size)
        for ids in (*self.tuning, *self.scoring):
            counts += np.bincount(ids[1:], minlength=size)
        surprise = -np.log(counts / counts.sum())
        return np.array([surprise[ids[1:]].sum() for ids in self.test])

    def _scored_on(self) -> list[Batch]:
        return self.batches(self.scoring)

    def _tokens_left_out(self) -> Tokens:
        return Tokens([self._start])

    @property
    def _start(self) -> int:
        """Id that begins each passage: the start mark, or the end mark if the model has none."""
        config = self.model.config
        return config.eos_token_id if config.bos_token_id is None else config.bos_token_id

    def outcomes(
        self,
        masks: Mapping[str, HeadTensors],
        texts: Sequence[list[int]],
        journal: Journal,
        title: str,
    ) -> Arrays:
        """``loss`` (M, n) in nats, a sum over the tokens of a passage; see :class:`Setup`."""
        return self._under_each(
            masks, lambda mask: {"loss": self.losses(self.model, mask, texts)}, journal, title
        )

    def losses(
        self,
        model: nn.Module,
        mask: HeadTensors | None = None,
        passages: Sequence[list[int]] | None = None,
    ) -> np.ndarray:
        """Loss (n,) in nats of every passage, by default the test ones, under a mask if given."""
        batches = self.batches(self.test if passages is None else passages)
        with masked_heads(model, ones_mask(model) if mask is None else mask):
            return _losses(model, batches, next_token_cross_entropy).astype(float)

    def without_each(self, journal: Journal) -> Arrays:
        """Cut each head in turn: ``heads`` (H, 2), ``loss_uncut`` (n,), ``loss`` (H, n) in nats."""
        sweep = partial(one_head_ablation, reduce=next_token_cross_entropy)
        units = self.compute(
            {
                f"one head, part {i}": lambda batch=batch: {
                    "loss": self._each_head_cut(sweep, batch).double().numpy()
                }
                for i, batch in enumerate(self.batches(self.swept))
            },
            journal,
            f"one head cut, {len(self.swept)} passages",
        )
        loss = np.concatenate([unit["loss"] for unit in units], -1)
        return {"heads": heads_array(self.heads), "loss_uncut": loss[0], "loss": loss[1:]}


def _first(passages: list[list[int]], tokens: int) -> list[list[int]]:
    """The first passages that contain ``tokens`` tokens to predict, or all."""
    return passages[: int(np.searchsorted(np.cumsum(predicted(passages)), tokens)) + 1]


def predicted(passages: Sequence[list[int]]) -> np.ndarray:
    """How many tokens of each passage are predicted: all but the start."""
    return np.array([len(ids) - 1 for ids in passages])


def whole_thousandths(nats: np.ndarray) -> np.ndarray:
    """Losses as they are stored, in 32 bits: those of a passage do not fit into 16."""
    return np.rint(nats * MILLINAT).astype(np.int32)


@lru_cache(maxsize=1)
def _language_model(name: str, device: str) -> nn.Module:
    return load_language_model(name).to(device)
