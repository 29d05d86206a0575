"""Generation once a layer has lost all its heads: caches of self- and of cross-attention."""

import copy

import pytest
import torch
from transformers import (
    BertConfig,
    BertLMHeadModel,
    BertModel,
    ElectraConfig,
    ElectraForCausalLM,
    EncoderDecoderModel,
    MllamaTextConfig,
    T5Config,
    T5ForConditionalGeneration,
    UMT5Config,
    UMT5ForConditionalGeneration,
)
from transformers.models.mllama.modeling_mllama import MllamaForCausalLM

from headprune_lib import find_heads, full_mask, masked_heads, prune_heads

_COMMON = {"vocab_size": 40, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 32}


def _t5(model_class, config_class):
    config = config_class(
        vocab_size=40,
        d_model=32,
        d_kv=8,
        num_heads=4,
        num_layers=2,
        d_ff=32,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=None,
    )
    return model_class(config)


def _two(model_class, config_class):
    """An encoder and a decoder that attends to it, each BERT's shape."""
    sizes = {**_COMMON, "num_hidden_layers": 2, "pad_token_id": 0}
    model = EncoderDecoderModel(
        encoder=BertModel(BertConfig(**sizes)),
        decoder=model_class(config_class(**sizes, is_decoder=True, add_cross_attention=True)),
    )
    model.generation_config.update(decoder_start_token_id=2, pad_token_id=0, eos_token_id=None)
    return model


MODELS = {
    "t5": lambda: _t5(T5ForConditionalGeneration, T5Config),
    "umt5": lambda: _t5(UMT5ForConditionalGeneration, UMT5Config),
    "bert": lambda: _two(BertLMHeadModel, BertConfig),
    "electra": lambda: _two(ElectraForCausalLM, ElectraConfig),
}
CUT = (
    {"enc-dec": [0]},
    {"dec-dec": [0]},
    {"dec-dec": [0], "enc-dec": [0]},
    {"dec-dec": [0, 1], "enc-dec": [1]},
)


def _sharp(model):
    """Weights that are large enough for a token to depend on the tokens before it."""
    for parameter in model.parameters():
        parameter.data.mul_(3)
    return model.eval()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cut", CUT, ids=" ".join)
def test_generation_with_empty_layers_is_that_of_the_masked_model(name, cut):
    torch.manual_seed(0)
    model = _sharp(MODELS[name]())
    mask = full_mask(model)
    for kind, layers in cut.items():
        mask[kind][layers] = 0
    pruned = copy.deepcopy(model)
    prune_heads(pruned, mask)
    sources = torch.randint(3, 40, (2, 7))
    for beams in (1, 3):
        settings = {"num_beams": beams, "max_new_tokens": 8, "do_sample": False}
        with masked_heads(model, mask):
            wanted = model.generate(input_ids=sources, **settings)
        assert torch.equal(pruned.generate(input_ids=sources, **settings), wanted)


def test_an_empty_layer_notes_an_image_where_one_cache_serves_both():
    torch.manual_seed(0)
    config = MllamaTextConfig(
        **_COMMON,
        num_key_value_heads=2,
        num_hidden_layers=3,
        cross_attention_layers=[1],
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    model = _sharp(MllamaForCausalLM(config))
    for name, parameter in model.named_parameters():
        if name.endswith("_gate"):  # 0 at first: the layer would say nothing
            parameter.data.fill_(1.0)
    tokens = torch.randint(3, 40, (2, 5))
    given = {
        "cross_attention_states": torch.randn(2, 4, 32),
        "cross_attention_mask": torch.zeros(2, 1, 5, 4),
        "full_text_row_masked_out_mask": torch.ones(2, 1, 5, 1),
    }
    pruned = copy.deepcopy(model)
    for one in (model, pruned):
        find_heads(one, inputs={"input_ids": tokens, **given})
    mask = full_mask(model)
    mask["cross"][:] = 0
    prune_heads(pruned, mask)

    def two_steps(one):
        first = one(input_ids=tokens, use_cache=True, **given)
        return one(input_ids=tokens[:, :1], past_key_values=first.past_key_values).logits

    with masked_heads(model, mask), torch.no_grad():
        wanted = two_steps(model)
    with torch.no_grad():
        assert torch.allclose(two_steps(pruned), wanted, atol=1e-4)


def test_a_table_of_biases_loses_heads_twice_where_it_has_as_many_rows_as_heads_are_left():
    torch.manual_seed(0)
    config = UMT5Config(
        vocab_size=40, d_model=32, d_kv=4, num_heads=8, d_ff=32, num_layers=2, num_decoder_layers=1,
        relative_attention_num_buckets=4, relative_attention_max_distance=8,
    )  # fmt: skip
    model = UMT5ForConditionalGeneration(config).eval()
    pruned, given = copy.deepcopy(model), torch.randint(3, 40, (2, 7))
    (kind, *_), mask = full_mask(model), full_mask(model)
    for heads in ([0, 1, 2, 5], [3]):  # 4 of 8 are left, of a table of 4 rows; then 3
        step = full_mask(model)
        step[kind][0, heads] = mask[kind][0, heads] = 0
        prune_heads(pruned, step)
    with torch.no_grad(), masked_heads(model, mask):
        wanted = model(input_ids=given, decoder_input_ids=given).logits
    with torch.no_grad():
        found = pruned(input_ids=given, decoder_input_ids=given).logits
    assert torch.allclose(found, wanted, atol=1e-5)
