"""Decode on from a beginning that is certain, sentences of several masks in one batch.

Unlike ``generate`` it drops sentences that have ended, and holds keys and values where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, DynamicLayer, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from headprune_lib.masking import gated
from headprune_lib.replication.generation.greedy import Ids, Marks

if TYPE_CHECKING:
    from jaxtyping import Float

_DECODED_TOGETHER = 256
# Sentences that have ended leave a batch once no more than this share of it goes on.
_DROP_BELOW = 0.75


@dataclass
class Pending:
    """A sentence to be decoded: ``stands`` pieces of its draft are certain.

    ``views`` holds the keys and values of its source, (layers * 2, source, width).
    """

    mask: int
    sentence: int
    draft: Ids
    stands: int
    state: Tensor
    seen: Tensor
    views: Sequence[Tensor]
    certain: Ids = field(default_factory=list)
    ended: bool = False

    def grow(self, piece: int, limit: int, marks: Marks) -> bool:
        """Take the next piece, or the one that is certain; False once the sentence has ended."""
        place = len(self.draft)
        if place < self.stands:
            piece = self.certain[place]
        self.ended = self.ended or piece in (marks.end, marks.pad)  # generation stops at either
        if not self.ended:
            self.draft.append(piece)
            self.ended = len(self.draft) >= limit
        return not self.ended


def decode(
    model: PreTrainedModel,
    masks: dict[str, Float[Tensor, "layer mask head"]],
    pool: list[Pending],
    limits: Sequence[int],
    marks: Marks,
) -> None:
    """Finish the sentences of a pool, in place, in batches of like prefix.

    Args:
        masks: kind -> the masks that ``Pending.mask`` counts.
        limits: most pieces of each sentence's translation.
    """
    pool.sort(key=lambda row: row.stands)
    for start in range(0, len(pool), _DECODED_TOGETHER):
        _decode_batch(model, masks, pool[start : start + _DECODED_TOGETHER], limits, marks)


def _decode_batch(
    model: PreTrainedModel,
    masks: dict[str, Float[Tensor, "layer mask head"]],
    rows: list[Pending],
    limits: Sequence[int],
    marks: Marks,
) -> None:
    """Greedy decoding word by word."""
    common = rows[0].stands
    device = rows[0].state.device
    fed = torch.tensor([[marks.start, *row.draft[:common]] for row in rows], device=device)
    for row in rows:
        row.certain, row.draft = row.draft, row.draft[:common]
    cache = _cache(model, rows, room=max(limits[row.sentence] for row in rows) + 1)
    while rows:
        states = BaseModelOutput(last_hidden_state=torch.stack([row.state for row in rows]))
        seen = torch.stack([row.seen for row in rows])
        masked = [row.mask for row in rows]
        with gated(model, {kind: values[:, masked] for kind, values in masks.items()}):
            while True:
                made = model(
                    encoder_outputs=states,
                    attention_mask=seen,
                    decoder_input_ids=fed,
                    past_key_values=cache,
                    use_cache=True,
                )
                pieces = made.logits[:, -1].argmax(-1).tolist()
                going = [
                    i
                    for i, (row, piece) in enumerate(zip(rows, pieces, strict=True))
                    if row.grow(piece, limits[row.sentence], marks)
                ]
                fed = torch.tensor(
                    [[row.draft[-1] if row.draft else marks.start] for row in rows], device=device
                )
                if len(going) <= _DROP_BELOW * len(rows):
                    break
        rows, fed = [rows[i] for i in going], fed[going]
        if rows:
            cache.batch_select_indices(torch.tensor(going, device=device))


def _cache(model: PreTrainedModel, rows: list[Pending], room: int) -> EncoderDecoderCache:
    """A cache that holds the keys and values of the sources, and has room for so many pieces."""
    n_heads, n_layers = model.config.decoder_attention_heads, model.config.decoder_layers
    views = [
        torch.stack(one).unflatten(-1, (n_heads, -1)).transpose(1, 2).contiguous()
        for one in zip(*(row.views for row in rows), strict=True)
    ]
    own = DynamicCache()
    own.layers = [_RoomyLayer(room) for _ in range(n_layers)]
    return EncoderDecoderCache(own, DynamicCache(list(zip(views[::2], views[1::2], strict=True))))


class _RoomyLayer(DynamicLayer):
    """Keys and values in place: appending a piece does not copy all the pieces before it."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def lazy_initialization(self, keys: Tensor, values: Tensor) -> None:
        super().lazy_initialization(keys, values)
        rows, heads, _, width = keys.shape
        self.stores = [keys.new_empty(rows, heads, self.room, width) for _ in range(2)]

    def update(
        self, keys: Tensor, values: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
        start = self.get_seq_length()
        end = start + keys.shape[-2]
        for store, new in zip(self.stores, (keys, values), strict=True):
            store[:, :, start:end] = new
        return self._show(end)

    def batch_select_indices(self, indices: Tensor) -> None:
        length = self.get_seq_length()
        self.stores = [store[indices] for store in self.stores]
        self._show(length)

    def _show(self, length: int) -> tuple[Tensor, Tensor]:
        self.keys, self.values = (store[:, :, :length] for store in self.stores)
        return self.keys, self.values
