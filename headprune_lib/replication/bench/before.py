"""This library against transformers 4.46.3, with the same weights, batches and torch, in one run.

``python before.py FOLDER`` is the other side: it runs in a process of its own with the old
transformers, the last line with ``head_mask``, and reads the model, batches and the heads to remove
from a folder. For every line on its standard input, the name of a job, it does that job and prints
one line of JSON: numbers by which the answer can be told from another. It imports nothing of this
library, which needs transformers 5, so that imports of the library stand within functions.
"""

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
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from headprune_lib.replication.bench import Row
    from headprune_lib.replication.profiles import Profile

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
    from headprune_lib.ablation import one_head_ablation
    from headprune_lib.masking import ones_mask
    from headprune_lib.pruning import prune_heads
    from headprune_lib.replication.bench import compare
    from headprune_lib.replication.bench.encoder import padded_batches, sweep_work
    from headprune_lib.replication.setups import EncoderSubject
    from headprune_lib.scoring import head_importance, score_heads
    from headprune_lib.selection import order_mask, rank_heads

    subject = EncoderSubject.of(profile, kernel="eager")
    model = subject.model
    batches = subject.batches(subject.test.first(n_sentences)).batches
    few = subject.test.first(max(16, n_sentences // 4))
    sweep_batches, padded = subject.batches(few).batches, padded_batches(subject, few)
    order = rank_heads(head_importance(model, batches))
    mask = order_mask(model, order, len(order) // 2)
    pruned = prune_heads(copy.deepcopy(model), mask)

    def importance() -> np.ndarray:
        return score_heads(model, batches, "importance-batch", normalize=None)["self"].numpy()

    def exact() -> None:
        head_importance(model, batches, normalize=None)

    def sweep() -> np.ndarray:
        totals: dict[Any, float] = {}
        for _, cut in one_head_ablation(model, sweep_batches):
            for head, logits in cut.items():
                totals[head] = totals.get(head, 0.0) + float(logits.abs().sum())
        return np.array(list(totals.values()))

    def passes() -> float:
        return _logits_size(pruned, sweep_batches)

    def remove() -> int:
        return _n_parameters(prune_heads(copy.deepcopy(model), mask))

    given = {
        "batches": batches,
        "sweep": sweep_batches,
        "padded": padded,
        "threads": torch.get_num_threads(),
        "cut": {
            layer: (row == 0).nonzero()[:, 0].tolist() for layer, row in enumerate(mask["self"])
        },
    }
    with _old(model, given) as old:
        _same("importance a batch", importance(), old("importance_frozen"))
        _same("a sweep", sweep(), old("sweep"))
        _same("pruned", passes(), old("pass_pruned"))
        _same("parameters left", remove(), old("remove"))
        exact_here, sweep_here = ("exact Eq. 2 here", exact), ("sweep here", sweep)
        floor = len(ones_mask(model)["self"]) * len(order) / sweep_work(model)
        pairs: list[tuple[str, str, tuple[str, Callable[[], object]], str, float | None]] = [
            ("importance, transformers 4", "importance", exact_here, "", None),
            ("importance with frozen weights, transformers 4", "importance_frozen",
             exact_here, "", None),
            ("all heads in turn by head_mask, transformers 4", "sweep", sweep_here,
             "at least 2.3", floor),
            ("the same padded to the limit, in file order", "padded_sweep", sweep_here,
             "at least 8", None),
            ("pass with half the heads removed, transformers 4", "pass_pruned",
             ("here", passes), "", None),
            ("removing half the heads, transformers 4", "remove", ("here", remove), "", None),
        ]  # fmt: skip
        return [
            compare(
                what, lambda job=job: old(job), reference, here, rounds, floor=low, target=target
            )
            for what, job, (reference, here), target, low in pairs
        ]


def _same(what: str, here: Any, there: Any) -> None:
    here, there = np.asarray(here, float), np.asarray(there, float)
    if here.shape != there.shape or np.abs(here - there).max() > CLOSE * np.abs(there).max():
        raise RuntimeError(
            f"{what}: transformers 4.46.3 gives other numbers, {there.ravel()[:4]}, than this "
            f"library, {here.ravel()[:4]}"
        )


@contextmanager
def _old(model: torch.nn.Module, given: dict) -> Iterator[Callable[[str], Any]]:
    """A process with the old transformers that does jobs by name; gone at the end."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        torch.save(given, Path(folder) / "given.pt")
        with subprocess.Popen(
            [sys.executable, __file__, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(old_packages())},
        ) as process:

            def do(job: str) -> Any:
                process.stdin.write(f"{job}\n")
                process.stdin.flush()
                line = process.stdout.readline()
                if not line:
                    raise RuntimeError("transformers 4.46.3 ended; its message stands above")
                return json.loads(line)

            try:
                do("version")  # it is ready
                yield do
            finally:
                process.kill()


def old_packages() -> Path:
    """A folder with the old transformers, fetched the first time; torch is the one in use here.

    Raises:
        RuntimeError: pip fails; the message says why.
    """
    from headprune_lib.replication.paths import cache_root

    folder = cache_root() / PINS[0].replace("==", "-")
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        command += [str(Path(work) / "made"), *PINS]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{PINS[0]} cannot be installed: {done.stderr.strip()[-400:]}")
        os.replace(Path(work) / "made", folder)
    return folder


def _logits_size(model: Any, batches: list, **more: Any) -> float:
    """The sum of the logits' absolute values, which tells one answer from another."""
    with torch.no_grad():
        return sum(float(model(**_inputs(batch), **more).logits.abs().sum()) for batch in batches)


def _inputs(batch: dict) -> dict:
    return {name: value for name, value in batch.items() if name != "labels"}


def _n_parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


class Jobs:
    """Each method is a job, as scripts for the old transformers do it."""

    def __init__(self, folder: Path) -> None:
        import transformers

        transformers.logging.set_verbosity_error()
        self.version = lambda: transformers.__version__
        self.model = transformers.AutoModelForSequenceClassification.from_pretrained(
            folder, attn_implementation="eager"
        ).eval()
        self.given = torch.load(folder / "given.pt", weights_only=True)
        torch.set_num_threads(self.given["threads"])
        self.pruned: Any = None
        config = self.model.config
        self.shape = config.num_hidden_layers, config.num_attention_heads

    def importance(self, weights: bool = True) -> list[list[float]]:
        """|d mean loss / d head mask| in the mean over batches, and gradients of all weights."""
        self.model.requires_grad_(weights)
        mask, total = torch.ones(self.shape, requires_grad=True), torch.zeros(self.shape)
        for batch in self.given["batches"]:
            logits = self.model(**_inputs(batch), head_mask=mask).logits
            torch.nn.functional.cross_entropy(logits, batch["labels"], reduction="mean").backward()
            total += mask.grad.abs()
            mask.grad = None
            self.model.zero_grad()
        return (total / len(self.given["batches"])).tolist()

    def importance_frozen(self) -> list[list[float]]:
        """The same without the weights' gradients."""
        return self.importance(weights=False)

    def sweep(self, batches: str = "sweep") -> list[float]:
        """Every head cut in turn: one pass over all batches a head."""
        answers = []
        for head in range(self.shape[0] * self.shape[1]):
            mask = torch.ones(self.shape)
            mask.view(-1)[head] = 0
            answers.append(_logits_size(self.model, self.given[batches], head_mask=mask))
        return answers

    def padded_sweep(self) -> list[float]:
        """The same on batches in file order, every sentence padded to the limit."""
        return self.sweep("padded")

    def pass_pruned(self) -> float:
        """A pass over all batches with heads removed by ``prune_heads``."""
        if self.pruned is None:
            self.pruned = copy.deepcopy(self.model)
            self.pruned.prune_heads(self.given["cut"])
        return _logits_size(self.pruned, self.given["sweep"])

    def remove(self) -> int:
        """Remove heads from a copy."""
        model = copy.deepcopy(self.model)
        model.prune_heads(self.given["cut"])
        return _n_parameters(model)


if __name__ == "__main__":
    jobs = Jobs(Path(sys.argv[1]))
    for line in sys.stdin:
        sys.stdout.write(json.dumps(getattr(jobs, line.strip())()) + "\n")
        sys.stdout.flush()
