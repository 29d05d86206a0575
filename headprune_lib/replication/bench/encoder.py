"""The encoder half: scoring, sweeping and pruned models against their references."""

from __future__ import annotations

import copy
import dataclasses

import torch

from headprune_lib.ablation import masked_logits, one_head_ablation, one_head_masks
from headprune_lib.discovery import find_heads
from headprune_lib.masking import masked_heads
from headprune_lib.pruning import prune_heads
from headprune_lib.replication.bench.compare import Row, compare
from headprune_lib.replication.data import Examples
from headprune_lib.replication.measurements.speed import attention_parameters
from headprune_lib.replication.models.encoders import make_batches
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.scoring import head_importance, score_heads
from headprune_lib.selection import order_mask, rank_heads
from headprune_lib.utils import pass_seconds


def rows(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """Exact I_h, sweeps over all heads, and pruned models."""
    return [
        *_scoring(profile, n_sentences, rounds),
        *_sweeps(profile, max(16, n_sentences // 4), max(1, rounds // 2)),
        *_pruned(profile, n_sentences, rounds),
    ]


def _scoring(profile: Profile, n: int, rounds: int) -> list[Row]:
    subject = EncoderSubject.of(profile, kernel="eager")
    batches = subject.batches(subject.test.first(n)).batches
    trained = copy.deepcopy(subject.model).train()
    trained.base_model.embeddings.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in trained.parameters() if p.requires_grad], lr=0.0)

    def step() -> None:
        for batch in batches:
            trained(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    def score() -> None:
        score_heads(subject.model, batches, "importance")

    def forward() -> None:
        pass_seconds(subject.model, batches)

    layers = len(find_heads(subject.model))
    # a training step adds the weights' gradients: three forward passes
    work = 2 * layers - 3 / 12  # passes and gradients; the lowest q, k, v need no gradient
    return [
        compare(
            "exact I_h",
            score,
            "forward pass",
            forward,
            rounds,
            work / layers,
            "at most 2.0",
        ),
        compare(
            "exact I_h",
            score,
            "training step",
            step,
            rounds,
            work / (3 * layers),
            "at most 0.7",
        ),
    ]


def _sweeps(profile: Profile, n: int, rounds: int) -> list[Row]:
    subject = EncoderSubject.of(profile)
    examples = subject.test.first(n)
    batches = subject.batches(examples).batches
    padded = padded_batches(subject, examples)
    masks = one_head_masks(subject.model)

    def reused() -> None:
        for _ in one_head_ablation(subject.model, batches):
            pass

    def plain() -> None:
        for mask in masks.values():
            for _ in masked_logits(subject.model, batches, mask):
                pass

    def naive() -> None:
        with torch.inference_mode():
            for mask in masks.values():
                with masked_heads(subject.model, mask):
                    for batch in padded:
                        subject.model(**batch)

    floor = sweep_work(subject.model) / (len(masks) * len(find_heads(subject.model)))
    return [
        compare(
            "one-head sweep, activations reused",
            reused,
            "plain masked sweep",
            plain,
            rounds,
            floor,
            "at most 0.6",
        ),
        compare(
            "plain masked pass a head, padded to 128, file order",
            naive,
            "one-head sweep, activations reused",
            reused,
            rounds,
            None,
            "at least 6",
        ),
    ]


def sweep_work(model: torch.nn.Module) -> float:
    """Layers that a sweep over every head computes: one uncut pass, and of each cut what is above.

    That is the feed-forward part of its own layer (8 of 12 products) and the layers above.
    """
    blocks = find_heads(model)
    cuts = (
        8 / 12 + len(blocks) - 1 - i for i, block in enumerate(blocks) for _ in block.kept_heads
    )
    return len(blocks) + sum(cuts)


def padded_batches(subject: EncoderSubject, examples: Examples) -> list[dict]:
    """Batches in file order with every sentence padded to the limit, as simple scripts do it."""
    limit, size = subject.profile.finetuning.max_length, subject.profile.batch_size
    made = make_batches(
        load_tokenizer(subject.profile.model), examples, size, limit, range(len(examples))
    )
    batches = []
    for batch in made.batches:
        missing = (0, limit - batch["input_ids"].shape[1])
        batches.append(
            {
                name: torch.nn.functional.pad(batch[name], missing)
                for name in ("input_ids", "attention_mask")
            }
        )
    return batches


def half_pruned(subject: EncoderSubject) -> torch.nn.Module:
    """The subject's model without the less important half of its heads."""
    scores = head_importance(subject.model, subject.batches(subject.scoring.first(256)).batches)
    order = rank_heads(scores)
    cut = order_mask(subject.model, order, len(order) // 2)
    return prune_heads(copy.deepcopy(subject.model), cut)


def _pruned(profile: Profile, n: int, rounds: int) -> list[Row]:
    subject = EncoderSubject.of(profile)
    pruned = half_pruned(subject)
    attention = attention_parameters(subject.model)
    linear = sum(
        m.weight.numel()
        for m in subject.model.base_model.encoder.modules()
        if isinstance(m, torch.nn.Linear)
    )
    rows = []
    for size in (16, 64):
        batches = (
            dataclasses.replace(subject, profile=dataclasses.replace(profile, batch_size=size))
            .batches(subject.test.first(n))
            .batches
        )
        rows.append(
            compare(
                f"unpruned, batch {size}",
                lambda b=batches: pass_seconds(subject.model, b),
                "half the heads removed",
                lambda b=batches: pass_seconds(pruned, b),
                rounds,
                linear / (linear - attention / 2),
                "at least 1.15",
            )
        )
    return rows
