"""This library against transformers 4.46.3, with the same weights, batches and torch, in one run."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headprune_lib.ablation import one_head_ablation
from headprune_lib.masking import ones_mask
from headprune_lib.pruning import prune_heads
from headprune_lib.replication.bench.compare import Row, compare
from headprune_lib.replication.bench.encoder import padded_batches, sweep_work
from headprune_lib.replication.paths import cache_root
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.scoring import head_importance, score_heads
from headprune_lib.selection import order_mask, rank_heads
from headprune_lib.utils import without_labels

PINS = ("transformers==4.46.3", "tokenizers==0.20.3", "huggingface-hub==0.36.0")
"""A transformers that has ``head_mask`` and ``prune_heads``, and what it needs of its own."""
CLOSE = 2e-3
"""How far answers of the two may lie apart, over the largest: float32 in another order."""


def rows(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """Importance, sweeps over single heads, and half the heads removed.

    Every pair's answers are compared before it is timed.

    Raises:
        RuntimeError: the two give other numbers, or the old transformers cannot be had.
    """
    subject = EncoderSubject.of(profile, kernel="eager")
    examples = subject.test.first(n_sentences)
    batches = subject.batches(examples).batches
    few = subject.test.first(max(16, n_sentences // 4))
    sweep_batches, padded = subject.batches(few).batches, padded_batches(subject, few)
    scores = head_importance(subject.model, batches)
    order = rank_heads(scores)
    mask = order_mask(subject.model, order, len(order) // 2)
    pruned = prune_heads(copy.deepcopy(subject.model), mask)

    def importance() -> np.ndarray:
        found = score_heads(subject.model, batches, "importance-batch", normalize=None)
        return found["self"].numpy()

    def exact() -> None:
        head_importance(subject.model, batches, normalize=None)

    def sweep() -> np.ndarray:
        totals: dict[Any, float] = {}
        for _, cut in one_head_ablation(subject.model, sweep_batches):
            for head, logits in cut.items():
                totals[head] = totals.get(head, 0.0) + float(logits.abs().sum())
        return np.array(list(totals.values()))

    def passes() -> float:
        with torch.no_grad():
            return sum(
                float(pruned(**without_labels(batch)).logits.abs().sum()) for batch in sweep_batches
            )

    def remove() -> int:
        model = prune_heads(copy.deepcopy(subject.model), mask)
        return sum(parameter.numel() for parameter in model.parameters())

    layers = len(ones_mask(subject.model)["self"])
    cut = {
        layer: [head for head, kept in enumerate(row.tolist()) if not kept]
        for layer, row in enumerate(mask["self"])
    }
    with _old(subject, batches, sweep_batches, padded, cut) as old:
        _same("importance a batch", importance(), np.array(old("importance_frozen")))
        _same("a sweep", sweep(), np.array(old("sweep")))
        _same("pruned", passes(), old("pass_pruned"))
        _same("parameters left", remove(), old("remove"))

        def pair(what: str, job: str, reference: str, own: Callable[[], object], target: str,
                 floor: float | None = None) -> Row:  # fmt: skip
            return compare(what, lambda: old(job), reference, own, rounds, floor, target)

        floor = layers * len(order) / sweep_work(subject.model)
        return [
            pair("importance, transformers 4", "importance", "exact Eq. 2 here", exact, ""),
            pair("importance with frozen weights, transformers 4", "importance_frozen",
                 "exact Eq. 2 here", exact, ""),
            pair("all heads in turn by head_mask, transformers 4", "sweep", "sweep here", sweep,
                 "at least 2.3", floor),
            pair("the same padded to the limit, in file order", "padded_sweep", "sweep here", sweep,
                 "at least 8"),
            pair("pass with half the heads removed, transformers 4", "pass_pruned", "here", passes,
                 ""),
            pair("removing half the heads, transformers 4", "remove", "here", remove, ""),
        ]  # fmt: skip


def _same(what: str, here: Any, there: Any) -> None:
    here, there = np.asarray(here, float), np.asarray(there, float)
    if here.shape != there.shape or np.abs(here - there).max() > CLOSE * np.abs(there).max():
        raise RuntimeError(
            f"{what}: transformers 4.46.3 gives other numbers, {there.ravel()[:4]}, than this "
            f"library, {here.ravel()[:4]}"
        )


@contextmanager
def _old(
    subject: EncoderSubject, batches: list, sweep: list, padded: list, cut: dict
) -> Iterator[Callable[[str], Any]]:
    """A process with the old transformers that does jobs by name; gone at the end."""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        subject.model.save_pretrained(folder)
        torch.save({"batches": batches, "sweep": sweep, "padded": padded}, folder / "batches.pt")
        settings = {"threads": torch.get_num_threads(), "cut": cut}
        (folder / "bench.json").write_text(json.dumps(settings))
        script = Path(__file__).with_name("old_transformers.py")
        environment = os.environ | {"PYTHONPATH": str(old_packages())}
        with subprocess.Popen(
            [sys.executable, str(script), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        ) as process:

            def answer() -> dict:
                line = process.stdout.readline() if process.stdout else ""
                if not line:
                    raise RuntimeError("transformers 4.46.3 ended; its message stands above")
                return json.loads(line)

            def do(job: str) -> Any:
                assert process.stdin is not None
                process.stdin.write(f"{job}\n")
                process.stdin.flush()
                return answer()["answer"]

            try:
                answer()  # it is ready
                yield do
            finally:
                process.kill()


def old_packages() -> Path:
    """A folder with the old transformers, fetched the first time; torch is the one in use here.

    Raises:
        RuntimeError: pip fails; the message says why.
    """
    folder = cache_root() / PINS[0].replace("==", "-")
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        done = subprocess.run(
            [*command, str(Path(work) / "made"), *PINS], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{PINS[0]} cannot be installed: {done.stderr.strip()[-400:]}")
        os.replace(Path(work) / "made", folder)
    return folder
