"""The encoder half: scoring, sweeping and pruned models against their references."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from headprune_lib.ablation import masked_logits, one_head_ablation, one_head_masks
from headprune_lib.criteria import CRITERIA
from headprune_lib.discovery import find_heads
from headprune_lib.masking import masked_heads
from headprune_lib.pruning import prune_heads
from headprune_lib.replication.bench import SCORES_BY, Row, compare
from headprune_lib.replication.data import Texts
from headprune_lib.replication.measurements.speed import attention_parameters
from headprune_lib.replication.models.encoders import make_batches
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.scoring import head_importance, score_heads
from headprune_lib.selection import order_mask, rank_heads
from headprune_lib.utils import Batch, pass_seconds


def rows(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """Time exact I_h, sweeps over all heads, and pruned models."""
    return [
        *_scoring(profile, n_sentences, rounds),
        *_sweeps(profile, max(16, n_sentences // 4), max(1, rounds // 2)),
        *_pruned(profile, n_sentences, rounds),
    ]


def criteria(profile: Profile, n: int, rounds: int) -> list[Row]:
    """Time scores by every criterion against one forward pass over the same text.

    Scores are taken under the eager kernel, which returns attention weights and has the faster
    backward pass on a CPU; the pass runs under the kernel that is fastest without gradients. A
    greedy search and Shapley values take thousands of passes, so few texts suffice.
    """
    scored, run = (EncoderSubject.of(profile, kernel=kernel) for kernel in ("eager", "sdpa"))
    batches = scored.batches(scored.test.first(n)).batches
    return [
        compare(
            f"{SCORES_BY}{name}",
            lambda name=name: score_heads(scored.model, batches, name),
            "one forward pass",
            lambda: pass_seconds(run.model, batches),
            rounds,
        )
        for name in CRITERIA
        if name != "random"  # reads no text
    ]


def graphs(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """Time graphs in ONNX Runtime with all heads, and with half of them removed.

    Batches have 1 and 16 rows. Sessions have one thread, as that of the other graph is idle.
    """
    from headprune_lib.export import export_onnx

    subject = EncoderSubject.of(profile)
    models = {"unpruned": copy.deepcopy(subject.model), "pruned": half_pruned(subject)}
    with tempfile.TemporaryDirectory() as folder:
        sessions = {
            name: _session(export_onnx(model, Path(folder) / name).folder / "model.onnx")
            for name, model in models.items()
        }
        return [
            compare(
                f"ONNX, unpruned, batch {size}",
                _passes(sessions["unpruned"], batches),
                "ONNX, half the heads removed",
                _passes(sessions["pruned"], batches),
                rounds,
                target="above 1",
            )
            for size in (1, 16)
            for batches in [_batches_of(subject, size, n_sentences)]
        ]


def _session(graph: Path) -> Any:
    import onnxruntime  # an extra

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def _passes(session: Any, batches: list[Batch]) -> Callable[[], None]:
    names = [value.name for value in session.get_inputs()]
    feeds = [{name: batch[name].numpy(force=True) for name in names} for batch in batches]

    def run() -> None:
        for feed in feeds:
            session.run(None, feed)

    return run


def _batches_of(subject: EncoderSubject, size: int, n: int) -> list[Batch]:
    sized = replace(subject, profile=replace(subject.profile, batch_size=size))
    return sized.batches(subject.test.first(n)).batches


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
    # passes and gradients; the lowest q, k, v need no gradient
    floor = (2 * layers - 3 / 12) / layers
    return [
        compare(
            "exact I_h", score, "forward pass", forward, rounds, floor=floor, target="at most 2.0"
        ),
        # a training step adds the weights' gradients: three forward passes
        compare(
            "exact I_h", score, "training step", step, rounds, floor=floor / 3, target="at most 0.7"
        ),
    ]


def _sweeps(profile: Profile, n: int, rounds: int) -> list[Row]:
    subject = EncoderSubject.of(profile)
    examples = subject.test.first(n)
    batches, padded = subject.batches(examples).batches, padded_batches(subject, examples)
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

    sweep = "one-head sweep, activations reused"
    floor = sweep_work(subject.model) / (len(masks) * len(find_heads(subject.model)))
    return [
        compare(
            sweep, reused, "plain masked sweep", plain, rounds, floor=floor, target="at most 0.6"
        ),
        compare(
            "plain masked pass a head, padded to 128, file order",
            naive,
            sweep,
            reused,
            rounds,
            target="at least 6",
        ),
    ]


def sweep_work(model: torch.nn.Module) -> float:
    """Layers that a sweep over every head computes: one uncut pass, and what is above each cut.

    Above a cut are the feed-forward part of its own layer (8 of 12 products) and later layers.
    """
    blocks = find_heads(model)
    cuts = (
        8 / 12 + len(blocks) - 1 - i for i, block in enumerate(blocks) for _ in block.kept_heads
    )
    return len(blocks) + sum(cuts)


def padded_batches(subject: EncoderSubject, examples: Texts) -> list[Batch]:
    """Batches in file order with every sentence padded to the limit, as simple scripts do it."""
    limit, size = subject.profile.finetuning.max_length, subject.profile.batch_size
    tokenizer, in_order = load_tokenizer(subject.profile.model), range(len(examples))
    return [
        {
            name: torch.nn.functional.pad(batch[name], (0, limit - batch[name].shape[1]))
            for name in ("input_ids", "attention_mask")
        }
        for batch in make_batches(tokenizer, examples, size, limit, in_order).batches
    ]


def half_pruned(subject: EncoderSubject) -> torch.nn.Module:
    """The subject's model without the less important half of its heads."""
    scores = head_importance(subject.model, subject.batches(subject.scoring.first(256)).batches)
    order = rank_heads(scores)
    mask = order_mask(subject.model, order, len(order) // 2)
    return prune_heads(copy.deepcopy(subject.model), mask)


def _pruned(profile: Profile, n: int, rounds: int) -> list[Row]:
    subject = EncoderSubject.of(profile)
    pruned = half_pruned(subject)
    attention = attention_parameters(subject.model)
    linear = sum(
        module.weight.numel()
        for module in subject.model.base_model.encoder.modules()
        if isinstance(module, torch.nn.Linear)
    )
    return [
        compare(
            f"unpruned, batch {size}",
            lambda batches=batches: pass_seconds(subject.model, batches),
            "half the heads removed",
            lambda batches=batches: pass_seconds(pruned, batches),
            rounds,
            floor=linear / (linear - attention / 2),
            target="at least 1.15",
        )
        for size in (16, 64)
        for batches in [_batches_of(subject, size, n)]
    ]
