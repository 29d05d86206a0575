"""What a model without some heads, or without a layer's, generates and returns a layer at a time."""

import copy

import pytest
import torch
from tiny import BUILDERS, batch_for, build, inputs_of

from headprune_lib import find_heads, full_mask, masked_heads, prune_heads
from headprune_lib.replication.census.tiny import build as census_model

CUT = (
    {"enc-dec": [0, 1]},  # its decoder keeps nothing of the encoder
    {"dec-dec": [0]},
    {"dec-dec": [0], "enc-dec": [0]},
    {"dec-dec": [0, 1], "enc-dec": [1]},
)


@pytest.mark.parametrize(
    "cut", [*(pytest.param(cut, marks=pytest.mark.slow) for cut in CUT[:2]), *CUT[2:]]
)
def test_generation_with_empty_layers_is_that_of_the_masked_model(cut):
    torch.manual_seed(0)
    model = build("t5")
    mask = full_mask(model)
    for kind, layers in cut.items():
        mask[kind][layers] = 0
    pruned = prune_heads(copy.deepcopy(model), mask)
    sources = torch.randint(3, 30, (2, 7))
    for beams in (1, 3):
        settings = {"num_beams": beams, "max_new_tokens": 8, "do_sample": False}
        with masked_heads(model, mask):
            masked = model.generate(input_ids=sources, **settings)
        for cache in ("dynamic", "static"):
            tokens = pruned.generate(input_ids=sources, **settings, cache_implementation=cache)
            assert torch.equal(tokens, masked), (beams, cache)


def _cut(model):
    """A mask without the first layers' heads."""
    mask = full_mask(model)
    for block in find_heads(model):
        if block.layer == 0:
            mask[block.kind][0, : block.n_heads] = 0
    return mask


@pytest.mark.parametrize("kernel", ["eager", pytest.param("sdpa", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "qwen2"])
def test_what_is_returned_a_layer_at_a_time_keeps_its_place(name, kernel):
    """Qwen2 is found by structure, and the kernel is chosen after heads are removed."""
    model = build(name) if name in BUILDERS else census_model(name)
    inputs, mask = inputs_of(batch_for(name), model.dtype), _cut(model)
    pruned = prune_heads(copy.deepcopy(model), mask)
    for each in (model, pruned):
        each.set_attn_implementation(kernel)
    asked = {"output_attentions": True, "output_hidden_states": True}
    with torch.no_grad():
        outputs = pruned(**inputs, **asked)
        with masked_heads(model, mask):
            masked = model(**inputs, **asked)
    assert outputs.keys() == masked.keys()
    for key, layers in masked.items():
        if not isinstance(layers, tuple):
            continue
        assert len(outputs[key]) == len(layers), key
        for place, (left, right) in enumerate(zip(outputs[key], layers, strict=True)):
            if "attentions" in key and place == 0:
                assert left.shape == (right.shape[0], 0, *right.shape[2:])
            else:
                assert torch.allclose(left, right, atol=1e-5), (key, place)
