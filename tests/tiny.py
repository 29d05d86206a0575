"""Tiny random models and batches for the laws."""

import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    ElectraConfig,
    ElectraForSequenceClassification,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MPNetConfig,
    MPNetForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

SHAPE = {"vocab_size": 30, "max_position_embeddings": 24, "num_labels": 3}
WIDE = {"hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 3,
        "intermediate_size": 24}
TWO_SIDED = {"vocab_size": 30, "max_position_embeddings": 24, "d_model": 16, "encoder_layers": 2,
             "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
             "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "pad_token_id": 1, "eos_token_id": 2,
             "decoder_start_token_id": 1, "forced_eos_token_id": None}
ENCODER_DECODERS = {
    "marian": lambda **k: MarianMTModel(MarianConfig(**TWO_SIDED, **k)),
    "bart": lambda **k: BartForConditionalGeneration(BartConfig(**TWO_SIDED, **k)),
    "m2m100": lambda **k: M2M100ForConditionalGeneration(M2M100Config(**TWO_SIDED, **k)),
}
BUILDERS = {
    "bert": lambda **k: BertForSequenceClassification(BertConfig(**SHAPE, **WIDE, **k)),
    "electra": lambda **k: ElectraForSequenceClassification(
        ElectraConfig(**SHAPE, **WIDE, embedding_size=12, **k)),
    "roberta": lambda **k: RobertaForSequenceClassification(RobertaConfig(**SHAPE, **WIDE, **k)),
    "distilbert": lambda **k: DistilBertForSequenceClassification(
        DistilBertConfig(**SHAPE, dim=16, n_heads=4, n_layers=3, hidden_dim=24, **k)
    ),
    "mpnet": lambda **k: MPNetForSequenceClassification(MPNetConfig(**SHAPE, **WIDE, **k)),
    **ENCODER_DECODERS,
}
KERNELS = {"bert": ("eager", "sdpa"), "electra": ("eager", "sdpa"), "roberta": ("eager", "sdpa"),
           "distilbert": ("eager", "sdpa"), "mpnet": ("eager",),
           **dict.fromkeys(ENCODER_DECODERS, ("eager", "sdpa"))}
CASES = [(name, kernel) for name in BUILDERS for kernel in KERNELS[name]]


def build(name: str = "bert", kernel: str = "eager", dtype=torch.float64, seed: int = 0):
    """A random model whose weights are large enough for every head to matter."""
    torch.manual_seed(seed)
    spread = {"init_std" if name in ENCODER_DECODERS else "initializer_range": 0.3}
    model = BUILDERS[name](attn_implementation=kernel, **spread)
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


def batch_for(name: str, n: int = 5, seed: int = 1):
    """A batch with what the model of this name wants: a class, or a target sentence, each."""
    made = batch(n, seed=seed)
    if name in ENCODER_DECODERS:
        generator = torch.Generator().manual_seed(seed)
        made["labels"] = torch.randint(4, 30, (n, 6), generator=generator)
        start = torch.ones(n, 1, dtype=torch.long)
        made["decoder_input_ids"] = torch.cat([start, made["labels"][:, :-1]], 1)
        made["labels"][1::2, -2:] = -100
    return made
