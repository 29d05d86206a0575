"""Tiny models with a tokenizer of whole words, as a user would keep them in a folder."""

import torch
import transformers

from headprune_lib.replication.pretrained import load_tokenizer

SMALL = {
    "vocab_size": 64, "hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2,
    "intermediate_size": 16,
}  # fmt: skip
CLASSES = {
    "id2label": {0: "negative", 1: "positive"},
    "label2id": {"negative": 0, "positive": 1},
}


def tokenizer():
    return load_tokenizer("tiny")


def classifier(**config):
    return bert(transformers.BertForSequenceClassification, **{**CLASSES, **config})


def bert(model_class, **config):
    torch.manual_seed(0)
    return model_class(transformers.BertConfig(**SMALL, initializer_range=0.3, **config)).eval()


def language_model():
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SMALL, num_key_value_heads=2, initializer_range=0.3)
    ).eval()


def translator():
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=64, d_model=16, d_kv=4, num_heads=4, d_ff=16, num_layers=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config).eval()


def kept_in(folder, model, words=True):
    model.save_pretrained(folder)
    if words:
        tokenizer().save_pretrained(folder)
    return folder
