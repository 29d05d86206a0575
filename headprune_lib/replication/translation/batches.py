"""Parallel text as batches of pairs of like length, for teacher forcing."""

from __future__ import annotations

import random
from collections.abc import Sequence

from torch import Tensor

from headprune_lib.replication.translation.models import PAD

# DataCollatorForSeq2Seq wants a tokenizer of transformers; pieces here come from sentencepiece
from headprune_lib.utils import teacher_forced


def token_batches(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    max_tokens: int,
    seed: int,
    start: int,
) -> list[dict[str, Tensor]]:
    """Batches of pairs of like length, each of at most ``max_tokens`` target tokens with padding.

    ``start`` is what the model's decoder starts with.
    """
    order = list(range(len(sources)))
    random.Random(seed).shuffle(order)  # equal lengths must not follow the order of the text
    order.sort(key=lambda i: (len(targets[i]), len(sources[i])))
    batches, members = [], []
    for i in order:
        if members and len(targets[i]) * (len(members) + 1) > max_tokens:
            batches.append(members)
            members = []
        members.append(i)
    batches.append(members)
    return [
        teacher_forced([sources[i] for i in members], [targets[i] for i in members], PAD, start)
        for members in batches
    ]
