"""Batches of sentences that memory has no room for."""

import pytest
import torch

from headprune_lib.generation import greedy
from headprune_lib.generation.greedy import generate


@pytest.mark.parametrize("beams", [1, 3])
def test_a_batch_that_memory_has_no_room_for_is_translated_in_halves(
    model, sources, monkeypatch, beams
):
    expected, real, tried = generate(model, sources, beams=beams), model.generate, []

    def tight(input_ids, **given):
        tried.append(len(input_ids))
        if len(input_ids) > 3:
            raise torch.OutOfMemoryError("no room")
        return real(input_ids=input_ids, **given)

    monkeypatch.setattr(model, "generate", tight)
    assert generate(model, sources, beams=beams) == expected
    assert tried[0] == len(sources) and sum(n for n in tried if n <= 3) == len(sources)


def test_sentences_are_put_where_the_model_is_as_all_batches_are(model, sources, monkeypatch):
    real, moved = greedy.on_device, []
    monkeypatch.setattr(
        greedy, "on_device", lambda batch, device: moved.append({*batch}) or real(batch, device)
    )
    generate(model, sources, batch_size=3)
    assert moved == [{"input_ids", "attention_mask"}] * 3
