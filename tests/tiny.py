"""Tiny random models and batches for the laws."""

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    MPNetConfig,
    MPNetForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

SHAPE = {"vocab_size": 30, "max_position_embeddings": 24, "num_labels": 3}
WIDE = {"hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 3,
        "intermediate_size": 24}
BUILDERS = {
    "bert": lambda **k: BertForSequenceClassification(BertConfig(**SHAPE, **WIDE, **k)),
    "roberta": lambda **k: RobertaForSequenceClassification(RobertaConfig(**SHAPE, **WIDE, **k)),
    "distilbert": lambda **k: DistilBertForSequenceClassification(
        DistilBertConfig(**SHAPE, dim=16, n_heads=4, n_layers=3, hidden_dim=24, **k)
    ),
    "mpnet": lambda **k: MPNetForSequenceClassification(MPNetConfig(**SHAPE, **WIDE, **k)),
}
KERNELS = {"bert": ("eager", "sdpa"), "roberta": ("eager", "sdpa"),
           "distilbert": ("eager", "sdpa"), "mpnet": ("eager",)}
CASES = [(name, kernel) for name in BUILDERS for kernel in KERNELS[name]]


def build(name: str = "bert", kernel: str = "eager", dtype=torch.float64, seed: int = 0):
    """A random model whose weights are large enough for every head to matter."""
    torch.manual_seed(seed)
    model = BUILDERS[name](attn_implementation=kernel, initializer_range=0.3)
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    return model.to(dtype).eval()


def batch(n: int = 5, length: int = 9, labels: bool = True, seed: int = 1):
    """Token ids ``(n, length)`` with padding at the end of every other row."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 30, (n, length), generator=generator)
    attention = torch.ones_like(ids)
    attention[::2, -3:] = 0
    made = {"input_ids": ids.masked_fill(attention == 0, 1), "attention_mask": attention}
    if labels:
        made["labels"] = torch.randint(0, 3, (n,), generator=generator)
    return made
