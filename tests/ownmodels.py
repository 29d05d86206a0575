"""Tiny models as users have them: in a folder with a tokenizer, and of their own classes."""

import json

import sentencepiece
import torch
import transformers
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from typer.testing import CliRunner

from headprune_lib.replication.cli import app
from headprune_lib.replication.models.pretrained import load_tokenizer

SMALL = {
    "vocab_size": 64, "hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2,
    "intermediate_size": 16,
}  # fmt: skip
CLASSES = {"id2label": {0: "negative", 1: "positive"}, "label2id": {"negative": 0, "positive": 1}}
LABELLED = (
    "text\tlabel\nthe film is good\tpositive\nbad film\tnegative\na very dull plot\tnegative\n"
)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def told(*words):
    """The JSON that the command prints, once it has succeeded."""
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def tokenizer():
    return load_tokenizer("tiny")


def classifier(**config):
    return bert(transformers.BertForSequenceClassification, **{**CLASSES, **config})


def bert(model_class, **config):
    return random(model_class, **SMALL, initializer_range=0.3, **config)


def bloom():
    """A classifier whose heads can only be masked."""
    config = {"vocab_size": 64, "hidden_size": 16, "n_layer": 2, "n_head": 4, "pad_token_id": 0}
    return random(transformers.BloomForSequenceClassification, **config, **CLASSES)


def language_model(model_class=transformers.LlamaForCausalLM, **config):
    config = {"num_key_value_heads": 2, **config}
    return random(model_class, **SMALL, initializer_range=0.3, **config)


def translator():
    config = {"vocab_size": 64, "d_model": 16, "d_kv": 4, "num_heads": 4, "d_ff": 16}
    return random(
        transformers.T5ForConditionalGeneration, **config, num_layers=2, decoder_start_token_id=0
    )


def random(model_class, **config):
    """A model with random weights, the same in each call."""
    torch.manual_seed(0)
    return model_class(model_class.config_class(**config)).eval()


def kept_in(folder, model):
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def marian(folder, model, lines):
    """Save a Marian model in a folder, with the pieces of some lines as both its vocabularies."""
    model.save_pretrained(folder)
    (folder / "lines.txt").write_text("\n".join(lines))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "lines.txt"),
        model_prefix=str(folder / "source"),
        vocab_size=model.config.vocab_size,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.model"))
    names = ["<unk>", "<pad>", "</s>", *map(pieces.id_to_piece, range(3, len(pieces)))]
    (folder / "vocab.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    transformers.MarianTokenizer(
        *[str(folder / "source.model")] * 2, str(folder / "vocab.json"), model_max_length=20
    ).save_pretrained(folder)
    return folder


class OwnAttention(nn.Module):
    """Attention named like no class of transformers, whose heads must be discovered."""

    def __init__(self, fault=""):
        super().__init__()
        self.n_heads, self.head_size, self.fault = 4, 2, fault
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, x, bias=None):
        query, key, value = (
            part(x).unflatten(-1, (-1, self.head_size)).transpose(1, 2)
            for part in (self.wq, self.wk, self.wv)
        )
        context = scaled_dot_product_attention(query, key, value, bias)
        if self.fault == "mixing":
            context = context + context.flip(1)
        context = context.transpose(1, 2)
        if self.fault == "fixed":
            context = context.reshape(*x.shape[:-1], 8)
        context = context.reshape(*x.shape[:-1], -1)
        if self.fault == "random":
            context = context + torch.randn_like(context)
        if self.fault == "places":
            return self.wo(context), x.sum(-1).argsort(-1)
        return self.wo(context)


class OwnModel(nn.Module):
    def __init__(self, *faults):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(20, 8)
        self.layers = nn.ModuleList([OwnAttention(fault) for fault in faults])

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        for layer in self.layers:
            attended = layer(x)
            x = x + (attended[0] if isinstance(attended, tuple) else attended)
        return x


class GroupedAttention(nn.Module):
    """Two query heads per key; it hands its keys and values on, reads others', or mixes them in.

    ``whole``: its code has the queries per key as a constant, so only whole groups can be removed.
    """

    def __init__(self, role):
        super().__init__()
        self.num_heads, self.head_dim, self.num_key_value_groups, self.role = 4, 2, 2, role
        self.q_proj, self.o_proj = nn.Linear(8, 8), nn.Linear(8, 8)
        if role != "reads":
            self.k_proj, self.v_proj = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x, store):
        def apart(tensor):
            return tensor.unflatten(-1, (-1, 2)).transpose(1, 2)

        if self.role != "reads":
            key, value = apart(self.k_proj(x)), apart(self.v_proj(x))
        if self.role == "hands on":
            store["keys"], store["values"] = key, value
        elif self.role == "reads":
            key, value = store["keys"], store["values"]
        elif self.role == "mixes":
            value = value + store["values"]
        queries = 2 if self.role == "whole" else self.num_key_value_groups
        key, value = (part.repeat_interleave(queries, 1) for part in (key, value))
        context = scaled_dot_product_attention(apart(self.q_proj(x)), key, value)
        return self.o_proj(context.transpose(1, 2).flatten(-2))


class GroupedModel(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(20, 8), nn.ModuleList(layers)

    def forward(self, input_ids):
        x, store = self.embedding(input_ids), {}
        for layer in self.layers:
            x = x + layer(x, store)
        return x
