"""The translations of a model under many masks, from those of the unmasked model.

Most cuts change few words. So the unmasked model's translation is a *draft*: one teacher-forced
pass under a mask says for every position at once which word the masked model would choose there.
Where all agree the translation stands. The other sentences are decoded word by word, from the first
disagreement on, those of several masks in one batch with a gate row for each sentence.

More needs no work: where only the decoder is cut, encoder states and the keys and values that the
decoder makes of them; encoder layers below a cut, and in the pass over the draft decoder layers
below a cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from headprune_lib.hooks import ModuleCall, record_outputs, replace_outputs
from headprune_lib.masking import HeadTensors, masked_heads, stacked_masks
from headprune_lib.replication.generation.greedy import Ids, Marks, length_limit, marks_of
from headprune_lib.replication.generation.resuming import Pending, decode
from headprune_lib.utils import pad, to_device

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_MASKS_A_POOL = 32


@dataclass
class Translations:
    """What one mask makes of a group of sentences.

    Attributes:
        ids: translations, without end mark.
        draft_loss: (sentences,) minus the log-probability, in nats, of each *draft* and its end
            under the mask.
    """

    ids: list[Ids]
    draft_loss: np.ndarray


@torch.inference_mode()
def translations_under(
    model: PreTrainedModel,
    sources: Sequence[Ids],
    drafts: Sequence[Ids],
    masks: Sequence[HeadTensors],
) -> list[Translations]:
    """Greedy translations of a group of sentences under each mask, as ``generate`` makes them.

    Args:
        model: a Marian model in evaluation mode; no masks in place.
        sources: ids with end mark, best of like length: they share batches.
        drafts: the unmasked model's translations (any others do too, but slower).
        masks: kind -> ``(layer, head)`` each.
    """
    group = _Group(model, sources, drafts)
    found: list[Translations] = []
    for start in range(0, len(masks), _MASKS_A_POOL):
        part = masks[start : start + _MASKS_A_POOL]
        pool: list[Pending] = []
        for number, mask in enumerate(part):
            done, pending = _verified(model, group, mask, number)
            found.append(done)
            pool += pending
        decode(model, stacked_masks(model, part), pool, group.limits, group.marks)
        for row in pool:
            found[start + row.mask].ids[row.sentence] = row.draft
    return found


class _Group:
    """Sentences with what the unmasked model computed of them, layer by layer."""

    def __init__(
        self, model: PreTrainedModel, sources: Sequence[Ids], drafts: Sequence[Ids]
    ) -> None:
        device = next(model.parameters()).device
        marks = self.marks = marks_of(model)
        ids = pad(sources, marks.pad)
        self.drafts = [list(draft) for draft in drafts]
        self.limits = [length_limit(model, len(source)) for source in sources]
        self.source = to_device(
            {"input_ids": ids, "attention_mask": (ids != marks.pad).long()}, device
        )
        inputs = pad([[marks.start, *draft] for draft in self.drafts], marks.pad)
        targets = pad([[*draft, marks.end] for draft in self.drafts], marks.pad)
        self.inputs, self.targets = to_device({"in": inputs, "out": targets}, device).values()
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
) -> tuple[Translations, list[Pending]]:
    """Which drafts stand under a mask, and what is left to decode of the others."""
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
    losses = _losses(logits, group.targets, group.marks.pad)
    translations, pending = [], []
    for i, (draft, chosen, limit) in enumerate(
        zip(group.drafts, choices, group.limits, strict=True)
    ):
        mended, stands, done = mend(draft, chosen[: len(draft) + 1], limit, group.marks)
        translations.append(mended)
        if not done:
            pending.append(
                Pending(
                    number,
                    i,
                    mended,
                    stands,
                    states[i],
                    group.source["attention_mask"][i],
                    [view.output[i] for view in views],
                )
            )
    return Translations(translations, losses.double().numpy(force=True)), pending


def _losses(
    logits: Float[Tensor, "row position piece"], targets: Int[Tensor, "row position"], padding: int
) -> Float[Tensor, " row"]:
    """Nats of each row of pieces up to its end mark."""
    chosen = logits.gather(-1, targets[..., None])[..., 0]
    return ((logits.logsumexp(-1) - chosen) * (targets != padding)).sum(-1)


def mend(draft: Ids, chosen: Ids, limit: int, marks: Marks) -> tuple[Ids, int, bool]:
    """What is certain after a pass over a draft.

    Args:
        draft: the pieces that were fed, without end mark.
        chosen: the piece the model prefers after each prefix of the draft, one more than pieces.
        limit: most pieces of a translation.
        marks: ids of padding and of the end mark.

    Returns:
        the translation or its beginning, how many pieces of it stand, and whether it is complete.

    >>> marks = Marks(pad=0, end=2, start=0)
    >>> mend([5, 6, 7], [5, 6, 7, 2], 9, marks), mend([5, 6, 7], [5, 8, 7, 2], 9, marks)
    (([5, 6, 7], 3, True), ([5, 8], 2, False))
    """
    for place, (old, new) in enumerate(zip([*draft, marks.end], chosen, strict=True)):
        if place >= limit or new in (marks.end, marks.pad):  # generation stops at either
            return draft[:place], place, True
        if old != new:
            return [*draft[:place], new], place + 1, place + 1 >= limit
    raise AssertionError("the last choice is the end mark or a disagreement")


def _source_projections(model: PreTrainedModel) -> list[nn.Module]:
    """The modules that make the decoder's keys and values of the encoder's states, by layer."""
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
    """Inside, the layers of an encoder or decoder below ``layer`` return what they did before."""
    return replace_outputs(stack.layers[:layer], [call.output for call in calls[:layer]])
