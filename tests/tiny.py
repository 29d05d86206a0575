"""Tiny random models and batches for the laws, one for each known architecture."""

import copy
from contextlib import contextmanager, nullcontext

import pytest
import torch
import transformers as t
from transformers.pytorch_utils import Conv1D

from headprune_lib import find_heads, masked_heads, ones_mask, prune_heads

SHAPE = {"vocab_size": 30, "max_position_embeddings": 24, "num_labels": 3}
WIDE = {
    "hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 3, "intermediate_size": 24,
}  # fmt: skip
TWO_SIDED = {
    "vocab_size": 30, "max_position_embeddings": 24, "d_model": 16, "encoder_layers": 2,
    "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "pad_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "forced_eos_token_id": None,
}  # fmt: skip
MARKS = {"vocab_size": 30, "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 3}
WRITER = {**WIDE, **MARKS, "max_position_embeddings": 24}
# two query heads share a key and value head
GROUPED = {**WRITER, "num_key_value_heads": 2, "head_dim": 4}
DEBERTA = {
    **SHAPE, **WIDE, "relative_attention": True, "pos_att_type": ["c2p", "p2c"],
    "max_relative_positions": 8, "position_biased_input": False, "type_vocab_size": 0,
}  # fmt: skip
WINDOWS = {
    "sliding_window": 4, "query_pre_attn_scalar": 4,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}  # fmt: skip


def of(model_class, **sizes):
    """A function that builds a model of a class from these sizes and further settings."""
    return lambda **more: model_class(model_class.config_class(**sizes, **more))


CLASSIFIERS = {
    "bert": of(t.BertForSequenceClassification, **SHAPE, **WIDE),
    "roberta": of(t.RobertaForSequenceClassification, **SHAPE, **WIDE),
    "electra": of(t.ElectraForSequenceClassification, **SHAPE, **WIDE, embedding_size=12),
    "distilbert": of(
        t.DistilBertForSequenceClassification, **SHAPE, dim=16, n_heads=4, n_layers=3, hidden_dim=24
    ),
    "mpnet": of(t.MPNetForSequenceClassification, **SHAPE, **WIDE),
    "deberta-v2": of(t.DebertaV2ForSequenceClassification, **DEBERTA, share_att_key=False),
    "deberta-v3": of(t.DebertaV2ForSequenceClassification, **DEBERTA, share_att_key=True),
    "modernbert": of(
        t.ModernBertForSequenceClassification, **SHAPE, **WIDE, pad_token_id=1, local_attention=8,
        global_attn_every_n_layers=2,
    ),
    "albert": of(t.AlbertForSequenceClassification, **SHAPE, **WIDE, embedding_size=12),
}  # fmt: skip
IMAGES = {"vit": of(t.ViTForImageClassification, **WIDE, image_size=8, patch_size=4, num_labels=3)}
ENCODER_DECODERS = {
    "bart": of(t.BartForConditionalGeneration, **TWO_SIDED),
    "marian": of(t.MarianMTModel, **TWO_SIDED),
    "m2m100": of(t.M2M100ForConditionalGeneration, **TWO_SIDED),
    "t5": of(
        t.T5ForConditionalGeneration, vocab_size=30, d_model=16, d_kv=4, num_heads=4, d_ff=24,
        num_layers=2, pad_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        relative_attention_num_buckets=8,
    ),
}  # fmt: skip
DECODERS = {
    "gpt2": of(
        t.GPT2LMHeadModel, **MARKS, n_positions=24, n_embd=16, n_head=4, n_layer=3, n_inner=24
    ),
    "gpt-neox": of(t.GPTNeoXForCausalLM, **WRITER),
    "opt": of(
        t.OPTForCausalLM, **{k: v for k, v in WRITER.items() if k != "intermediate_size"},
        ffn_dim=24, word_embed_proj_dim=16,
    ),
    "llama": of(t.LlamaForCausalLM, **GROUPED),
    "mistral": of(t.MistralForCausalLM, **GROUPED, sliding_window=4),
    "qwen3": of(t.Qwen3ForCausalLM, **GROUPED),
    "gemma3": of(t.Gemma3ForCausalLM, **GROUPED, **WINDOWS),
}  # fmt: skip
# groups of heads that share a key and value: known by name, found by structure, fused by group, fused
# in three parts; with several groups or one
_SIX = {**WRITER, "hidden_size": 24, "num_attention_heads": 6, "num_hidden_layers": 2}
_FALCON = {name: value for name, value in _SIX.items() if name != "intermediate_size"}
_FALCON["alibi"] = False
GROUPS = {
    "llama, two groups": of(t.LlamaForCausalLM, **_SIX, num_key_value_heads=2),
    "llama, multi-query": of(t.LlamaForCausalLM, **_SIX, num_key_value_heads=1),
    "qwen2": of(t.Qwen2ForCausalLM, **_SIX, num_key_value_heads=2),
    "qwen2, multi-query": of(t.Qwen2ForCausalLM, **_SIX, num_key_value_heads=1),
    "falcon": of(t.FalconForCausalLM, **_FALCON, new_decoder_architecture=True, num_kv_heads=2),
    "falcon, multi-query": of(
        t.FalconForCausalLM, **_FALCON, new_decoder_architecture=False, multi_query=True
    ),
    "phi3": of(t.Phi3ForCausalLM, **_SIX, num_key_value_heads=2),
}
GENERATORS = ENCODER_DECODERS | DECODERS
BUILDERS = CLASSIFIERS | IMAGES | GENERATORS
# transformers has no sdpa for these
EAGER_ONLY = {"mpnet", "deberta-v2", "deberta-v3"}
CASES = [
    (name, kernel)
    for name in BUILDERS
    for kernel in (("eager",) if name in EAGER_ONLY else ("eager", "sdpa"))
]
# compute norms or the softmax in float32 whatever the model's dtype
SINGLE = {
    (name, kernel)
    for name, kernel in CASES
    if name in {"t5", "llama", "mistral", "qwen3", "gemma3", "modernbert"}
    or (kernel == "eager" and name in {"opt", "vit", "gpt-neox"})
}


def build(name: str = "bert", kernel: str = "eager", dtype=torch.float64, seed: int = 0):
    """A random model, by name."""
    torch.manual_seed(seed)
    return drawn((BUILDERS | GROUPS)[name](attn_implementation=kernel)).to(dtype)


def head_weights(model, block, head):
    """The weights of the output projection that one head's values meet, (hidden, width)."""
    projection = block.part(model, "output")
    columns = slice(head * block.head_dim, (head + 1) * block.head_dim)
    turned = isinstance(projection, Conv1D)
    return projection.weight.data[columns].T if turned else projection.weight.data[:, columns]


def drawn(model, std=0.3):
    """The model with weights drawn anew, large enough for every head to matter."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
        elif parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=std)
    return model.eval()


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


def parts_of(batch, size):
    """A batch split into batches of this size."""
    starts = range(0, len(next(iter(batch.values()))), size)
    return [{name: value[i : i + size] for name, value in batch.items()} for i in starts]


def inputs_of(batch: dict, dtype=None) -> dict:
    """A batch without its labels, as a forward pass takes it; pixels in the given precision."""
    return {
        name: values.to(dtype) if dtype and values.is_floating_point() else values
        for name, values in batch.items()
        if name != "labels"
    }


def logits_of(model, inputs, mask=None):
    """The logits of a batch under a mask; labels are dropped, and the precision is the model's."""
    with torch.no_grad(), nullcontext() if mask is None else masked_heads(model, mask):
        return model(**inputs_of(inputs, model.dtype)).logits


def batch_for(name: str, n: int = 5, seed: int = 1):
    """A batch with what the model of this name needs: classes or target sentences as labels."""
    made, generator = batch(n, seed=seed), torch.Generator().manual_seed(seed)
    if name in IMAGES:
        pixels = torch.randn(n, 3, 8, 8, generator=generator, dtype=torch.float64)
        return {"pixel_values": pixels, "labels": made["labels"]}
    if name in DECODERS:
        made["labels"] = made["input_ids"].masked_fill(made["attention_mask"] == 0, -100)
    if name in ENCODER_DECODERS:
        made["labels"] = torch.randint(4, 30, (n, 6), generator=generator)
        start = torch.ones(n, 1, dtype=torch.long)
        made["decoder_input_ids"] = torch.cat([start, made["labels"][:, :-1]], 1)
        made["labels"][1::2, -2:] = -100
    return made


def in_tiers(names, fast):
    """Parameters of a test: the ``fast`` ones in the fast tier, all others in the slow one."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (name not in fast)) for name in names]


def without_dropout(model):
    """The model in training mode, without dropout."""
    for module in model.modules():
        for part in ("p", "dropout", "attention_dropout", "activation_dropout"):
            if isinstance(getattr(module, part, None), float):
                setattr(module, part, 0.0)
    return model.train()


def scores_of(model, seed=0):
    """A random score for every head; NaN where one is gone."""
    generator = torch.Generator().manual_seed(seed)
    return {
        kind: torch.rand(mask.shape, generator=generator).masked_fill(mask.isnan(), torch.nan)
        for kind, mask in ones_mask(model).items()
    }


def some_mask(model, empty_layer=None):
    """A mask that cuts every third head, or group of heads, and all heads of ``empty_layer``."""
    mask = ones_mask(model)
    for block in find_heads(model):
        groups = torch.arange(block.n_heads) // block.queries_per_kv
        kept = (groups + block.layer * len(groups.unique())) % 3 != 0
        mask[block.kind][block.layer] = kept.double()
    for values in mask.values():
        if empty_layer is not None:
            values[min(empty_layer, len(values) - 1)] = 0
    return mask


def removed_as_masked(model, mask, run, atol=1e-5):
    """A copy without the heads that a mask cuts, checked to compute what the masked model does.

    Args:
        run: computes a tensor from a model.
    """
    with masked_heads(model, mask), torch.no_grad():
        masked = run(model)
    pruned = prune_heads(copy.deepcopy(model), mask)
    with torch.no_grad():
        torch.testing.assert_close(run(pruned), masked, rtol=0, atol=atol)
    return pruned


def traces(model, proved=()):
    """Everything a function could forget to restore: modes, ``requires_grad``, hooks, patches.

    Args:
        proved: attributes of modules that may be added.
    """
    modules = [
        (
            module.training,
            sorted(module.__dict__.keys() - {*proved}),
            list(module._forward_hooks),
            list(module._forward_pre_hooks),
            list(module._backward_hooks),
        )
        for module in model.modules()
    ]
    learned = [parameter.requires_grad for parameter in model.parameters()]
    return modules, learned, torch.is_grad_enabled(), torch.is_inference_mode_enabled()


def same_weights(model, before) -> bool:
    """Whether a model's weights and buffers equal those of a copied ``state_dict``."""
    now = model.state_dict()
    return now.keys() == before.keys() and all(torch.equal(now[key], before[key]) for key in before)


@contextmanager
def unchanged(model):
    """Check that a block changes nothing of a model: attributes, hooks, weights; nor of torch.

    What the library remembers with a model may be added.
    """

    def everything():
        attributes = [
            {
                name: list(value.items()) if isinstance(value, dict) else value
                for name, value in vars(module).items()
                if not name.startswith("_headprune_")
            }
            for module in model.modules()
        ]
        learned = [(weight.requires_grad, weight.grad is None) for weight in model.parameters()]
        return attributes, learned, torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    weights = [(weight, weight.clone()) for weight in (*model.parameters(), *model.buffers())]
    before = everything()
    yield
    assert everything() == before
    assert all(weight.is_meta or torch.equal(weight, was) for weight, was in weights)
