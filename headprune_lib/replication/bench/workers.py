"""Where units run: in two processes against one, and through the engine against a plain loop."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from headprune_lib.ablation import one_head_masks
from headprune_lib.replication.bench.compare import Row, compare
from headprune_lib.replication.cluster import local_processes
from headprune_lib.replication.engine import running_on
from headprune_lib.replication.models.encoders import evaluate
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject
from headprune_lib.replication.store import Journal

MASKS = 12


def rows(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """Twelve masks on the first test sentences; every process has one thread.

    The floor of two processes is one half. What they lose beside it: caches and the way to memory
    are shared, masks and batches are sent, and the last unit may have no other beside it.
    """
    subject = EncoderSubject.of(profile)
    examples = subject.test.first(n_sentences)
    prepared = subject.batches(examples)
    masks = {str(head): mask for head, mask in [*one_head_masks(subject.model).items()][:MASKS]}

    def plainly() -> None:
        for mask in masks.values():
            evaluate(subject.model, prepared, mask)

    def through_the_engine() -> None:
        with tempfile.TemporaryDirectory() as folder:
            subject.under(masks, examples, Journal(Path(folder)), "bench")

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with local_processes(2) as two:

            def in_two_processes() -> None:
                with running_on(two):
                    through_the_engine()

            return [
                compare(
                    "a sweep in two processes",
                    in_two_processes,
                    "in one, both of one thread",
                    through_the_engine,
                    rounds,
                    0.5,
                    "at most 0.67",
                    len(masks),
                ),
                compare(
                    "a sweep through the engine",
                    through_the_engine,
                    "a plain loop",
                    plainly,
                    rounds,
                    1.0,
                    "at most 1.03",
                    len(masks),
                ),
            ]
    finally:
        torch.set_num_threads(threads)
