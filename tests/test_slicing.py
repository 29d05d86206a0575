"""Generation and outputs by layer of a model without some heads, or without all of a layer."""

import copy

import pytest
import torch
import transformers as t
from tiny import batch, build, drawn, in_tiers, logits_of

from headprune_lib import find_heads, head_mask, masked_heads, ones_mask, prune_heads

_COMMON = {"vocab_size": 40, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 32}


def _two(model_class, config_class):
    """An encoder and a decoder that attends to it, each of BERT's shape."""
    sizes = {**_COMMON, "num_hidden_layers": 2, "pad_token_id": 0}
    model = t.EncoderDecoderModel(
        encoder=t.BertModel(t.BertConfig(**sizes)),
        decoder=model_class(config_class(**sizes, is_decoder=True, add_cross_attention=True)),
    )
    model.generation_config.update(decoder_start_token_id=2, pad_token_id=0, eos_token_id=None)
    return drawn(model)


MODELS = {
    "t5": lambda: build("t5"),
    "bert": lambda: _two(t.BertLMHeadModel, t.BertConfig),
    "electra": lambda: _two(t.ElectraForCausalLM, t.ElectraConfig),
    "gpt2": lambda: _two(t.GPT2LMHeadModel, t.GPT2Config),  # keys and values in one projection
}
CUT = (
    {"enc-dec": [0, 1]},  # its decoder keeps nothing of the encoder
    {"dec-dec": [0]},
    {"dec-dec": [0], "enc-dec": [0]},
    {"dec-dec": [0, 1], "enc-dec": [1]},
)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cut", in_tiers(CUT, CUT[2:]))
def test_generation_with_empty_layers_is_that_of_the_masked_model(name, cut):
    torch.manual_seed(0)
    model = MODELS[name]()
    mask = ones_mask(model)
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


def test_a_table_of_biases_loses_heads_twice_where_it_has_as_many_rows_as_heads_are_left():
    torch.manual_seed(0)
    config = t.UMT5Config(
        vocab_size=40, d_model=32, d_kv=4, num_heads=8, d_ff=32, num_layers=2, num_decoder_layers=1,
        relative_attention_num_buckets=4, relative_attention_max_distance=8,
    )  # fmt: skip
    model = t.UMT5ForConditionalGeneration(config).eval()
    ids, pruned = torch.randint(3, 40, (2, 7)), copy.deepcopy(model)
    inputs = {"input_ids": ids, "decoder_input_ids": ids}
    for heads in ([0, 1, 2, 5], [3]):  # 4 of 8 are left, of a table of 4 rows; then 3
        prune_heads(pruned, [("enc-enc", 0, head) for head in heads])
    mask = head_mask(model, [("enc-enc", 0, head) for head in (0, 1, 2, 3, 5)])
    masked = logits_of(model, inputs, mask)
    assert torch.allclose(logits_of(pruned, inputs), masked, atol=1e-5)


def _cut(model, cut):
    """The heads of the first layers, or one group with its key and value of each layer."""
    blocks = [block for block in find_heads(model) if cut == "group" or block.layer == 0]
    return [
        (block.kind, block.layer, head)
        for block in blocks
        for head in (block.groups[0] if cut == "group" else block.kept_heads)
    ]


@pytest.mark.parametrize("cut", ["group", "empty"])
def test_a_static_cache_with_room_for_all_heads_is_made_anew(cut):
    model, ids = build("llama"), batch(labels=False)["input_ids"]
    pruned = prune_heads(model, _cut(model, cut))
    cache = t.StaticCache(pruned.config, max_cache_len=12)
    cache.early_initialization(len(ids), 2, 4, torch.float64, "cpu")
    with torch.no_grad():
        parts = [pruned(part, past_key_values=cache).logits for part in ids.split(3, 1)]
        assert torch.allclose(torch.cat(parts, 1), pruned(ids).logits)


@pytest.mark.slow
def test_continuous_batching_works_with_empty_layers_and_is_refused_where_pages_do_not_fit():
    model, ids = build("llama", "sdpa", torch.float32), batch(labels=False)["input_ids"][1::2]
    settings = t.GenerationConfig(
        max_new_tokens=5, do_sample=False, eos_token_id=-1, pad_token_id=1
    )
    # with room for these sentences only: room for as many as memory holds takes a minute
    room = t.ContinuousBatchingConfig(
        num_blocks=8, page_size=16, max_batch_tokens=32, max_requests_per_batch=4
    )
    several = {"generation_config": settings, "continuous_batching_config": room}
    pruned = prune_heads(copy.deepcopy(model), _cut(model, "empty"))
    alone = pruned.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
    answers = pruned.generate_batch(ids.tolist(), **several)
    assert [a.generated_tokens for a in answers.values()] == alone[:, ids.shape[1] :].tolist()
    pruned = prune_heads(copy.deepcopy(model), _cut(model, "group"))
    answers = pruned.generate_batch(ids.tolist(), **several)
    assert all("export_transformers" in answer.error for answer in answers.values())
