"""Batched translation, greedy or by beam search, by a model as it is or under many masks.

Sentences of similar length share batches; every mask has the same length limit.

Most masks change few words. So the unmasked model's translation serves as a *draft*: one
teacher-forced pass under a mask gives the masked model's choice at every position at once. If all
choices agree, the draft is the translation. The other sentences are decoded word by word from the
first disagreement on, sentences of several masks in one batch with one gate row per sentence.

Activations are reused. If only the decoder is masked: encoder states, the keys and values that the
decoder computes from them and, in the pass over the draft, decoder layers below the lowest masked
one. If the encoder is masked: encoder layers below the lowest masked one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, DynamicLayer, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from headprune_lib.hooks import ModuleCall, record_outputs, replace_outputs
from headprune_lib.losses import cross_entropy
from headprune_lib.masking import HeadTensors, gated, masked_heads, stacked_masks
from headprune_lib.utils import (
    NO_LABEL,
    Batch,
    OomLimit,
    by_length,
    pad,
    split_on_oom,
    teacher_forced,
    to_device,
    without_labels,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Int

Ids = list[int]
"""Token ids of a sentence."""
_SEARCHED_TOGETHER = 256
"""Size of a batch, each sentence counted once per mask; it is halved where memory runs out."""


class Marks(NamedTuple):
    """Ids of tokens that are no words: padding, the end mark, and the start mark of decoding."""

    pad: int
    end: int
    start: int


def marks_of(model: PreTrainedModel) -> Marks:
    """The marks that a model's configuration names.

    Raises:
        ValueError: one of them is missing.
    """
    config = model.config
    marks = Marks(config.pad_token_id, config.eos_token_id, config.decoder_start_token_id)
    if None in marks:
        raise ValueError(
            f"{type(model).__name__}'s configuration lacks one of {marks}. Set pad_token_id, "
            "eos_token_id and decoder_start_token_id"
        )
    return marks


def length_limit(model: PreTrainedModel, n_source: int) -> int:
    """The maximum length of a translation of ``n_source`` tokens, both including the end mark.

    It is 1.5 times the source plus 10, whatever the mask: broken models would otherwise run to the
    model's maximum, which is the limit if it is lower. The start mark takes one position.
    """
    return min(int(1.5 * n_source) + 10, model.config.max_position_embeddings - 1)


@torch.inference_mode()
def generate(
    model: PreTrainedModel,
    sources: Sequence[Sequence[int]],
    *,
    batch_size: int = 128,
    beams: int = 1,
    early_stopping: bool = False,
) -> list[Ids]:
    """Translations as ids without the end mark, in the order of ``sources`` (ids with end mark).

    Each is cut at its own length limit, so that it does not depend on the other sentences of its
    batch. A batch that does not fit into memory is halved.

    Args:
        early_stopping: in beam search, whether a sentence is done once it has as many finished
            translations as beams, as in fairseq, or only once no better one is to be expected.
    """
    device, marks = next(model.parameters()).device, marks_of(model)
    outputs: list[Ids] = [[] for _ in sources]
    oom_limit = OomLimit()
    for members in by_length(sources, batch_size):
        ids = pad([sources[i] for i in members], marks.pad)
        search = partial(_searched, model, length_limit(model, ids.shape[1]), beams, early_stopping)
        batch = {"input_ids": ids, "attention_mask": (ids != marks.pad).long()}
        rows = split_on_oom(search, to_device(batch, device), _joined, oom_limit)
        for i, row in zip(members, rows, strict=True):
            outputs[i] = row[: length_limit(model, len(sources[i]))]
    return outputs


def _searched(
    model: PreTrainedModel, limit: int, beams: int, early_stopping: bool, batch: Batch
) -> list[Ids]:
    """The ids of each row's translation, before the first end mark or padding."""
    generated = model.generate(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        num_beams=beams,
        do_sample=False,
        **({"early_stopping": True} if early_stopping else {}),
        max_new_tokens=limit,
    )
    marks = marks_of(model)
    stops = (marks.end, marks.pad)
    return [
        [*takewhile(lambda piece: piece not in stops, row)] for row in generated[:, 1:].tolist()
    ]


def _joined(halves: Sequence[list[Ids]]) -> list[Ids]:
    return [*halves[0], *halves[1]]


@dataclass
class Translations:
    """Translations of a group of sentences under one mask.

    Attributes:
        ids: translations, without end mark.
        draft_loss: (sentences,) negative log-probability, in nats, of each *draft* with its end
            mark under the mask.
    """

    ids: list[Ids]
    draft_loss: np.ndarray


@torch.inference_mode()
def searched_under(
    model: PreTrainedModel,
    sources: Sequence[Ids],
    drafts: Sequence[Ids],
    masks: Sequence[HeadTensors],
    *,
    beams: int,
) -> list[Translations]:
    """Translations of a group of sentences under each mask, by beam search as in ``generate``.

    A beam that loses under one mask may win under another. So the unmasked model's search cannot be
    reused as its draft is in greedy decoding: every mask is searched anew, several of them in a
    batch. The search is fairseq's: it ends with as many finished translations as beams, and ranks
    them by the mean log-probability of a piece.

    Args:
        model: an encoder-decoder in evaluation mode; no masks in place.
        sources: ids with end mark, preferably of similar length: they share batches and the longest
            one's limit.
        drafts: translations whose loss under each mask is computed, such as the unmasked model's.
        masks: kind -> ``(layer, head)`` each.
    """
    marks, device, n = marks_of(model), next(model.parameters()).device, len(sources)
    ids = pad(sources, marks.pad)
    ended = [[*draft, marks.end] for draft in drafts]
    scored = to_device(teacher_forced(sources, ended, marks.pad, marks.start), device)
    limits = [length_limit(model, len(source)) for source in sources]
    at_once = max(1, _SEARCHED_TOGETHER // n)
    translations: list[Translations] = []
    oom_limit = OomLimit()
    for start in range(0, len(masks), at_once):
        part = masks[start : start + at_once]
        repeated = ids.repeat(len(part), 1)
        batch = {
            "input_ids": repeated,
            "attention_mask": (repeated != marks.pad).long(),
            "mask": torch.arange(len(part)).repeat_interleave(n),
        }
        stacked = stacked_masks(model, part)

        def search(batch: Batch, stacked: HeadTensors = stacked) -> list[Ids]:
            numbers = batch["mask"].tolist()  # of each row's mask
            with gated(model, {kind: values[:, numbers] for kind, values in stacked.items()}):
                return _searched(model, max(limits), beams, True, batch)

        texts = split_on_oom(search, to_device(batch, device), _joined, oom_limit)
        for number, mask in enumerate(part):
            under_mask = texts[number * n : (number + 1) * n]
            with masked_heads(model, mask):  # logits of all masks at once would take gigabytes
                losses = cross_entropy(model(**without_labels(scored)), scored)
            cut = [text[:limit] for text, limit in zip(under_mask, limits, strict=True)]
            translations.append(Translations(cut, losses.double().cpu().numpy()))
    return translations


# --- under many masks, from the translations of the unmasked model --------------------------------

_MASKS_A_POOL = 32
_DECODED_TOGETHER = 256
# finished sentences leave a batch once at most this share of it is unfinished
_DROP_BELOW = 0.75


@torch.inference_mode()
def translations_under(
    model: PreTrainedModel,
    sources: Sequence[Ids],
    drafts: Sequence[Ids],
    masks: Sequence[HeadTensors],
) -> list[Translations]:
    """Greedy translations of a group of sentences under each mask, the same as by ``generate``.

    Args:
        model: a Marian model in evaluation mode; no masks in place.
        sources: ids with end mark, preferably of similar length: they share batches.
        drafts: the unmasked model's translations (any others work too, but more slowly).
        masks: kind -> ``(layer, head)`` each.
    """
    group = _Group(model, sources, drafts)
    translations: list[Translations] = []
    for start in range(0, len(masks), _MASKS_A_POOL):
        part = masks[start : start + _MASKS_A_POOL]
        pool: list[_Pending] = []
        for number, mask in enumerate(part):
            done, pending = _verified(model, group, mask, number)
            translations.append(done)
            pool += pending
        _decode(model, stacked_masks(model, part), pool, group.limits, group.marks)
        for row in pool:
            translations[start + row.mask].ids[row.sentence] = row.draft
    return translations


class _Group:
    """Sentences with the unmasked model's activations, layer by layer."""

    def __init__(
        self, model: PreTrainedModel, sources: Sequence[Ids], drafts: Sequence[Ids]
    ) -> None:
        marks = self.marks = marks_of(model)
        self.drafts = [list(draft) for draft in drafts]
        self.limits = [length_limit(model, len(source)) for source in sources]
        ended = [[*draft, marks.end] for draft in drafts]
        batch = teacher_forced(sources, ended, marks.pad, marks.start)
        batch = to_device(batch, next(model.parameters()).device)
        self.source = {name: batch[name] for name in ("input_ids", "attention_mask")}
        self.inputs, self.labels = batch["decoder_input_ids"], batch["labels"]
        encoder, decoder = model.get_encoder(), model.get_decoder()
        with record_outputs(encoder.layers) as self.encoder_layers:
            self.states = encoder(**self.source).last_hidden_state
        with (
            record_outputs(decoder.layers) as self.decoder_layers,
            record_outputs(_source_projections(model)) as self.source_views,
        ):
            _teacher_forced(model, self, self.states)


def _verified(
    model: PreTrainedModel, group: _Group, mask: HeadTensors, number: int
) -> tuple[Translations, list[_Pending]]:
    """Check the drafts under a mask; returns what is certain, and the sentences left to decode."""
    lowest = {kind: _lowest_cut(values) for kind, values in mask.items()}
    states, views = group.states, group.source_views
    with masked_heads(model, mask):
        if lowest["enc-enc"] < len(mask["enc-enc"]):
            with _replayed_below(model.get_encoder(), group.encoder_layers, lowest["enc-enc"]):
                states = model.get_encoder()(**group.source).last_hidden_state
            with record_outputs(_source_projections(model)) as views:
                logits = _teacher_forced(model, group, states)
        else:
            from_layer = min(lowest["enc-dec"], lowest["dec-dec"])
            with (
                _replayed_below(model.get_decoder(), group.decoder_layers, from_layer),
                replace_outputs(_source_projections(model), [view.output for view in views]),
            ):
                logits = _teacher_forced(model, group, states)
    choices = logits.argmax(-1).tolist()
    losses = _losses(logits, group.labels)
    translations, pending = [], []
    for i, (draft, chosen, limit) in enumerate(
        zip(group.drafts, choices, group.limits, strict=True)
    ):
        mended, stands, done = mend(draft, chosen[: len(draft) + 1], limit, group.marks)
        translations.append(mended)
        if not done:
            seen, keys_values = group.source["attention_mask"][i], [v.output[i] for v in views]
            pending.append(_Pending(number, i, mended, stands, states[i], seen, keys_values))
    return Translations(translations, losses.double().numpy(force=True)), pending


def _losses(
    logits: Float[Tensor, "row position piece"], labels: Int[Tensor, "row position"]
) -> Float[Tensor, " row"]:
    """The loss in nats of each row of pieces, end mark included."""
    known = labels != NO_LABEL
    chosen = logits.gather(-1, labels.where(known, 0)[..., None])[..., 0]
    losses = logits.logsumexp(-1) - chosen
    return losses.where(known, 0).sum(-1)  # where it is not, the loss may be infinite


def mend(draft: Ids, chosen: Ids, limit: int, marks: Marks) -> tuple[Ids, int, bool]:
    """The part of a translation that is certain after a pass over its draft.

    Args:
        draft: the pieces that were fed, without end mark.
        chosen: the piece the model prefers after each prefix of the draft, the empty one included.
        limit: maximum number of pieces of a translation.
        marks: ids of padding and of the end mark.

    Returns:
        the certain pieces, their number, and whether they are the complete translation.

    >>> marks = Marks(pad=0, end=2, start=0)
    >>> mend([5, 6, 7], [5, 6, 7, 2], 9, marks), mend([5, 6, 7], [5, 8, 7, 2], 9, marks)
    (([5, 6, 7], 3, True), ([5, 8], 2, False))
    """
    for position, (old, new) in enumerate(zip([*draft, marks.end], chosen, strict=True)):
        if position >= limit or new in (marks.end, marks.pad):  # generation stops at either
            return draft[:position], position, True
        if old != new:
            return [*draft[:position], new], position + 1, position + 1 >= limit
    raise AssertionError("the last choice is the end mark or a disagreement")


def _source_projections(model: PreTrainedModel) -> list[nn.Module]:
    """The modules that project encoder states to the decoder's keys and values, layer by layer."""
    return [
        projection
        for layer in model.get_decoder().layers
        for projection in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj)
    ]


def _teacher_forced(
    model: PreTrainedModel, group: _Group, states: Tensor
) -> Float[Tensor, "sentence position piece"]:
    """Logits after every prefix of the drafts."""
    return model(
        encoder_outputs=BaseModelOutput(last_hidden_state=states),
        attention_mask=group.source["attention_mask"],
        decoder_input_ids=group.inputs,
        use_cache=False,
    ).logits


def _lowest_cut(values: Tensor) -> int:
    """The lowest layer with an entry other than 1; the number of layers if there is none."""
    touched = (values != 1).any(dim=1).nonzero()
    return int(touched[0]) if len(touched) else len(values)


def _replayed_below(
    stack: Any, calls: list[ModuleCall], layer: int
) -> AbstractContextManager[None]:
    """Inside, the layers of an encoder or decoder below ``layer`` return their recorded outputs."""
    return replace_outputs(stack.layers[:layer], [call.output for call in calls[:layer]])


@dataclass
class _Pending:
    """A sentence left to decode: the first ``stands`` pieces of its draft are certain.

    ``views`` are the keys and values of its source, (layers * 2, source, width).
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
        """Append ``piece`` or the certain one in its place; False once the sentence has ended."""
        position = len(self.draft)
        if position < self.stands:
            piece = self.certain[position]
        self.ended = self.ended or piece in (marks.end, marks.pad)  # generation stops at either
        if not self.ended:
            self.draft.append(piece)
            self.ended = len(self.draft) >= limit
        return not self.ended


def _decode(
    model: PreTrainedModel,
    masks: dict[str, Float[Tensor, "layer mask head"]],
    pool: list[_Pending],
    limits: Sequence[int],
    marks: Marks,
) -> None:
    """Finish the sentences of a pool word by word, in place, in batches of similar prefix length.

    Unlike ``generate``, it starts from the certain pieces, decodes sentences of several masks
    together, drops finished ones, and writes keys and values in place.

    Args:
        masks: kind -> the masks that ``_Pending.mask`` indexes.
        limits: maximum number of pieces of each sentence's translation.
    """
    pool.sort(key=lambda row: row.stands)
    for start in range(0, len(pool), _DECODED_TOGETHER):
        rows = pool[start : start + _DECODED_TOGETHER]
        common, device = rows[0].stands, rows[0].state.device
        fed = torch.tensor([[marks.start, *row.draft[:common]] for row in rows], device=device)
        for row in rows:
            row.certain, row.draft = row.draft, row.draft[:common]
        cache = _cache(model, rows, room=max(limits[row.sentence] for row in rows) + 1)
        while rows:
            inputs = {
                "encoder_outputs": BaseModelOutput(torch.stack([row.state for row in rows])),
                "attention_mask": torch.stack([row.seen for row in rows]),
                "past_key_values": cache,
                "use_cache": True,
            }
            masked = [row.mask for row in rows]
            with gated(model, {kind: values[:, masked] for kind, values in masks.items()}):
                while True:
                    logits = model(decoder_input_ids=fed, **inputs).logits
                    pieces = logits[:, -1].argmax(-1).tolist()
                    going = [
                        i
                        for i, (row, piece) in enumerate(zip(rows, pieces, strict=True))
                        if row.grow(piece, limits[row.sentence], marks)
                    ]
                    fed = torch.tensor(
                        [[row.draft[-1] if row.draft else marks.start] for row in rows],
                        device=device,
                    )
                    if len(going) <= _DROP_BELOW * len(rows):
                        break
            rows, fed = [rows[i] for i in going], fed[going]
            if rows:
                cache.batch_select_indices(torch.tensor(going, device=device))


def _cache(model: PreTrainedModel, rows: list[_Pending], room: int) -> EncoderDecoderCache:
    """A cache with the keys and values of the sources, and with room for ``room`` pieces."""
    n_heads, n_layers = model.config.decoder_attention_heads, model.config.decoder_layers
    views = [
        torch.stack(states).unflatten(-1, (n_heads, -1)).transpose(1, 2).contiguous()
        for states in zip(*(row.views for row in rows), strict=True)
    ]
    self_cache = DynamicCache()
    self_cache.layers = [_RoomyLayer(room) for _ in range(n_layers)]
    return EncoderDecoderCache(
        self_cache, DynamicCache(list(zip(views[::2], views[1::2], strict=True)))
    )


class _RoomyLayer(DynamicLayer):
    """Preallocated keys and values: appending a piece does not copy the pieces before it."""

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
