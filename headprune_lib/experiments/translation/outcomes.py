"""N-gram counts and draft loss of every verse under every mask: what all artifacts start from.

Counts are kept packed (matches and length, see :mod:`headprune_lib.translation.bleu`), those of
masked models as the *change* from the unmasked one: few change, so that the files stay small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from headprune_lib.batching import by_length, teacher_forced
from headprune_lib.experiments.outcomes import MILLINAT, resumed
from headprune_lib.heads import KINDS, HeadTensors, full_mask
from headprune_lib.journal import Arrays, Journal
from headprune_lib.kernels import fast_linears
from headprune_lib.orders import Head
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.scoring import example_importance, normalize_l2
from headprune_lib.translation.bleu import pack, sentence_counts, unpack
from headprune_lib.translation.generation import detokenise, generate
from headprune_lib.translation.models import PAD
from headprune_lib.translation.store import Translator, load_translator
from headprune_lib.translation.sweep import translations_under
from headprune_lib.translation.verses import TRANSLATION_TASKS, Pairs

GROUP = 32  # sentences that share a batch
_SCORED_TOGETHER = 32


@dataclass
class TranslationSetting:
    """A trained translator with the verses it is measured on."""

    profile: Profile
    task: str
    seed: int
    translator: Translator
    epoch: int | None = None

    @classmethod
    def of(cls, profile: Profile, task: str, seed: int | None = None, *, kernel: str = "sdpa",
           epoch: int | None = None) -> TranslationSetting:
        seed = profile.translation_seed if seed is None else seed
        return cls(profile, task, seed,
                   load_translator(profile, task, seed, kernel=kernel, epoch=epoch), epoch)

    def eager(self) -> TranslationSetting:
        """The same weights under the attention kernel with the fastest backward pass."""
        return TranslationSetting.of(self.profile, self.task, self.seed, kernel="eager",
                                     epoch=self.epoch)

    @property
    def model(self) -> nn.Module:
        return self.translator.model

    @property
    def key(self) -> str:
        """Begins the name of every journal unit: results of other weights must not be resumed."""
        return self.translator.weights_sha256[:12]

    def pairs(self, split: str, task: str | None = None) -> Pairs:
        """What all heads are swept on: the first verses of a split, which are a random sample.

        Of another task with the same chapters on each side where one is named.
        """
        return self.split(split, task).first(self.profile.n_verses)

    @property
    def headline(self) -> Pairs:
        """The test verses of the few rows that the paper's claims rest on."""
        return self.split("test").first(self.profile.n_headline)

    def split(self, name: str, task: str | None = None) -> Pairs:
        return TRANSLATION_TASKS[task or self.task].load()[name]

    def measurement(self, raw: Arrays, n_examples: int, dataset: str | None = None) -> Measurement:
        weights = self.translator.weights_sha256
        run = {"seed": self.seed, "weights_sha256": weights}
        return Measurement(raw, [run], self.task, dataset or f"{self.task}/test", n_examples,
                           "BLEU", "BLEU points", {f"seed {self.seed}": weights})


def sweep(setting: TranslationSetting, pairs: Pairs, masks: Sequence[HeadTensors],
          journal: Journal, name: str) -> Arrays:
    """Translate every pair under every mask.

    Args:
        name: of what is measured, for the journal and the progress bar.

    Returns:
        ``counts_uncut`` (n, 5), ``counts_change`` (M, n, 5), ``reference_lengths`` (n,),
        ``draft_loss_uncut`` (n,) and ``draft_loss_change`` (M, n) in thousandths of a nat, in the
        pairs' own order.
    """
    sources = setting.translator.encode(pairs.sources)
    groups = by_length(sources, GROUP)

    def measure(members: list[int]) -> Arrays:
        model, own = setting.model, [sources[i] for i in members]
        references = [pairs.targets[i] for i in members]
        with fast_linears(model):
            drafts = generate(model, own)
            found = translations_under(model, own, drafts, [full_mask(model), *masks])
        counts = [sentence_counts(detokenise(setting.translator.vocabulary, one.ids), references)
                  for one in found]
        return {"counts": np.stack([pack(one) for one in counts]),
                "reference_lengths": counts[0][:, -1],
                "draft_loss": np.stack([one.draft_loss for one in found])}

    units = resumed(
        journal, [f"{setting.key} {name} {i}" for i in range(len(groups))],
        [lambda members=members: measure(members) for members in groups],
        f"{name}, {len(masks)} masks on {len(pairs)} verses")
    back = np.argsort(np.concatenate(groups))
    counts = np.concatenate([unit["counts"] for unit in units], axis=1)[:, back]
    loss = np.rint(MILLINAT * np.concatenate([unit["draft_loss"] for unit in units], -1))[:, back]
    lengths = np.concatenate([unit["reference_lengths"] for unit in units])[back]
    return {
        "counts_uncut": counts[0],
        "counts_change": counts[1:] - counts[0],
        "reference_lengths": lengths,
        "draft_loss_uncut": loss[0].astype(np.int32),
        "draft_loss_change": (loss[1:] - loss[0]).astype(np.int32),
    }


def all_counts(raw: Arrays, prefix: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Counts of the unmasked model (n, 10) and of the masked ones (M, n, 10) from raw outcomes."""
    lengths, uncut = raw[f"{prefix}reference_lengths"], raw[f"{prefix}counts_uncut"]
    return unpack(uncut, lengths), unpack(uncut + raw[f"{prefix}counts_change"], lengths)


def importance(setting: TranslationSetting, journal: Journal, *,
               normalize: str | None = "l2") -> HeadTensors:
    """I_h by teacher forcing on the chapters kept for it; the loss of a verse is its sum."""
    each = verse_importance(setting, journal)
    scores = {kind: torch.from_numpy(each[kind].mean(0)) for kind in KINDS}
    return normalize_l2(scores) if normalize == "l2" else scores


def verse_importance(setting: TranslationSetting, journal: Journal) -> Arrays:
    """Kind -> |dL(x)/dxi_h| of every verse kept for scoring, (verses, layer, head)."""
    def measure() -> Arrays:
        each = example_importance(setting.eager().model, forced_batches(setting, setting.split("score")))
        return {kind: values.numpy() for kind, values in each.items()}

    return resumed(journal, [f"{setting.key} I_h"], [measure], f"importance, {setting.task}")[0]


def forced_batches(setting: TranslationSetting, pairs: Pairs) -> list[dict[str, torch.Tensor]]:
    """Teacher-forced batches of verses, shortest references first."""
    translator = setting.translator
    sources, targets = translator.encode(pairs.sources), translator.encode(pairs.targets)
    return [teacher_forced([sources[i] for i in part], [targets[i] for i in part], PAD, start=PAD)
            for part in by_length(targets, _SCORED_TOGETHER)]


def sweep_heads(setting: TranslationSetting, pairs: Pairs, masks: Mapping[Head, HeadTensors],
                journal: Journal, name: str) -> Arrays:
    """As :func:`sweep`, with a mask for each head; ``heads`` says whose each row is."""
    raw = sweep(setting, pairs, list(masks.values()), journal, name)
    return {**raw, "heads": heads_array(masks)}


def first_verses(raw: Arrays, n: int | None) -> Arrays:
    """What :func:`sweep_heads` found on the first ``n`` verses."""
    return {name: values if name == "heads" else
            values[:, :n] if name.endswith("_change") else values[:n]
            for name, values in raw.items()}


def mean_losses(raw: Arrays) -> Arrays:
    """``raw`` with ``draft_log_loss`` (1 + M,) in place of the draft loss of every verse.

    The mean in nats, of the unmasked model first, in a hundredth of the space: enough to choose
    between heads (Table 5) and for the record, where no statistic asks for single losses.
    """
    uncut, change = raw["draft_loss_uncut"], raw["draft_loss_change"]
    kept = {name: values for name, values in raw.items() if not name.startswith("draft_loss")}
    means = np.concatenate([[uncut.mean()], uncut.mean() + change.mean(-1)]) / MILLINAT
    return {**kept, "draft_log_loss": means}


def heads_array(heads: Iterable[Head]) -> np.ndarray:
    """(kind, layer, head) as small integers, the kind as its place in ``KINDS``."""
    return np.array([(KINDS.index(kind), layer, head) for kind, layer, head in heads], np.int16)
