"""Tiny models with a tokenizer of whole words, as a user would keep them in a folder."""

import torch
import transformers

from headprune_lib.replication.pretrained import load_tokenizer

SMALL = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 16,
}


def tokenizer():
    return load_tokenizer("tiny")


def classifier(**config):
    return bert(
        transformers.BertForSequenceClassification,
        **{
            "id2label": {0: "negative", 1: "positive"},
            "label2id": {"negative": 0, "positive": 1},
            **config,
        },
    )


def bert(model_class, **config):
    torch.manual_seed(0)
    made = transformers.BertConfig(**SMALL, initializer_range=0.3, **config)
    return model_class(made).eval()


def whisper():
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 64}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16}
    marks = {"bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2, "pad_token_id": 0}
    return transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            **sizes, **heads, **marks, decoder_ffn_dim=16, num_mel_bins=8, max_source_positions=8
        )
    ).eval()


def clip():
    tower = {key: SMALL[key] for key in SMALL if key != "vocab_size"}
    return transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config={**tower, "vocab_size": 64, "eos_token_id": 3},
            vision_config={**tower, "image_size": 8, "patch_size": 4},
            projection_dim=8,
        )
    ).eval()


def language_model():
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SMALL, num_key_value_heads=2, initializer_range=0.3)
    ).eval()


def translator():
    torch.manual_seed(0)
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=64,
            d_model=16,
            d_kv=4,
            num_heads=4,
            d_ff=16,
            num_layers=2,
            decoder_start_token_id=0,
        )
    ).eval()


def kept_in(folder, model, words=True):
    model.save_pretrained(folder)
    if words:
        tokenizer().save_pretrained(folder)
    return folder
