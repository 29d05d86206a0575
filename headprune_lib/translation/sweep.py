"""The translations of a masked model, from those of the unmasked one.

Most cuts change few words. So the old translation is a *draft*: one teacher-forced pass under the
mask says for every position at once which word the masked model would choose there. Up to the
first disagreement the draft stands; there the new word goes in, and the rest of the draft is tried
again behind it. A pass over a draft costs a fraction of a step-by-step decoding of it; only the
sentences that still disagree after some rounds are decoded, from the part that stands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from headprune_lib.translation.generation import length_limit, until_end
from headprune_lib.translation.models import END, PAD, pad

ROUNDS = 4
# A new word that the draft has a few places on means that the words between were dropped.
_SKIP = 4

Ids = list[int]


class EncodedSources:
    """Sources in batches of like length with their encoder states, to be used under many masks."""

    def __init__(self, model: nn.Module, sources: Sequence[Ids], batch_size: int = 128) -> None:
        self.sources = [list(source) for source in sources]
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
        self.groups = [order[start : start + batch_size]
                       for start in range(0, len(order), batch_size)]
        self.states: list[tuple[Tensor, Tensor]] = []
        self.refresh(model)

    @torch.inference_mode()
    def refresh(self, model: nn.Module) -> None:
        """Run the encoder again, under the masks that are in place now."""
        device, encoder = next(model.parameters()).device, model.get_encoder()
        self.states = []
        for members in self.groups:
            ids = pad([self.sources[i] for i in members]).to(device)
            seen = (ids != PAD).long()
            self.states.append((encoder(input_ids=ids, attention_mask=seen).last_hidden_state, seen))


@torch.inference_mode()
def retranslate(model: nn.Module, encoded: EncodedSources, drafts: Sequence[Ids], *,
                rounds: int = ROUNDS) -> list[Ids]:
    """Greedy translations, under the masks in place now, equal to those of ``generate``.

    Args:
        encoded: the sources, with encoder states as the masks want them.
        drafts: guesses, ids without end mark: the unmasked model's translations.
        rounds: passes over a draft before a sentence is decoded word by word.
    """
    outputs: list[Ids] = [[] for _ in drafts]
    for members, (states, seen) in zip(encoded.groups, encoded.states, strict=True):
        limits = [length_limit(len(encoded.sources[i])) for i in members]
        found = _batch(model, states, seen, [list(drafts[i]) for i in members], limits, rounds)
        for i, row in zip(members, found, strict=True):
            outputs[i] = row
    return outputs


def _batch(model: nn.Module, states: Tensor, seen: Tensor, drafts: list[Ids], limits: list[int],
           rounds: int) -> list[Ids]:
    stands = [0] * len(drafts)  # how many pieces of each draft are certain
    active = list(range(len(drafts)))
    for _ in range(rounds):
        if not active:
            break
        choices = _choices(model, states[active], seen[active], [drafts[i] for i in active])
        still = []
        for i, chosen in zip(active, choices, strict=True):
            drafts[i], stands[i], done = _revise(drafts[i], chosen, limits[i])
            if not done:
                still.append(i)
        active = still
    _decode(model, states, seen, drafts, stands, limits, active)
    return drafts


def _choices(model: nn.Module, states: Tensor, seen: Tensor, drafts: list[Ids]) -> list[Ids]:
    """The piece the model prefers at each position of each draft, and after its last."""
    inputs = pad([[PAD, *draft] for draft in drafts]).to(states.device)
    logits = model(encoder_outputs=BaseModelOutput(last_hidden_state=states), attention_mask=seen,
                   decoder_input_ids=inputs, use_cache=False).logits
    best = logits.argmax(-1).tolist()
    return [row[: len(draft) + 1] for row, draft in zip(best, drafts, strict=True)]


def _revise(draft: Ids, chosen: Ids, limit: int) -> tuple[Ids, int, bool]:
    """The draft with the first disagreement mended: new draft, pieces that stand, finished or not."""
    for place, (old, new) in enumerate(zip([*draft, END], chosen, strict=True)):
        if place >= limit:
            return draft[:limit], limit, True
        if new in (END, PAD):  # generation stops at either
            return draft[:place], place, True
        if old != new:
            rest = draft[place + 1 :]
            near = draft[place + 1 : place + 1 + _SKIP]
            if new in near:
                rest = draft[place + 2 + near.index(new) :]
            return [*draft[:place], new, *rest][:limit], place + 1, False
    raise AssertionError("the last choice is the end mark or a disagreement")


def _decode(model: nn.Module, states: Tensor, seen: Tensor, drafts: list[Ids], stands: list[int],
            limits: list[int], active: list[int], batch_size: int = 64) -> None:
    """Word by word, from the part that stands, for the sentences where drafts did not help."""
    active = sorted(active, key=lambda i: stands[i])
    for start in range(0, len(active), batch_size):
        members = active[start : start + batch_size]
        common = min(stands[i] for i in members)
        prefix = torch.tensor([[PAD, *drafts[i][:common]] for i in members], device=states.device)
        made = model.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=states[members]),
            attention_mask=seen[members], decoder_input_ids=prefix, num_beams=1, do_sample=False,
            max_new_tokens=max(limits[i] for i in members) - common + 1,
        )
        for i, row in zip(members, made[:, 1:].tolist(), strict=True):
            drafts[i] = until_end(row)[: limits[i]]


@contextlib.contextmanager
def fresh_states(model: nn.Module, encoded: EncodedSources):
    """Encoder states under the masks in place, put back to what they were on exit."""
    before = encoded.states
    encoded.refresh(model)
    try:
        yield
    finally:
        encoded.states = before
