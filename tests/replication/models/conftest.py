"""A model whose translations change with its masks, and sentences for it."""

import pytest
import torch
from transformers import MarianConfig, MarianMTModel

# none of them what other models of these tests have: the configuration alone says which they are
PAD, END, START = 0, 2, 3


@pytest.fixture(scope="module")
def model():
    """Random weights, so large that heads matter, that do not repeat themselves and that end."""
    config = MarianConfig(
        vocab_size=40, max_position_embeddings=200, d_model=16, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=24,
        decoder_ffn_dim=24, activation_function="relu", scale_embedding=True, pad_token_id=PAD,
        eos_token_id=END, decoder_start_token_id=START, forced_eos_token_id=None,
    )  # fmt: skip
    model = MarianMTModel(config).double().eval()
    torch.manual_seed(3)
    for name, weight in model.named_parameters():
        if weight.requires_grad and "layer_norm.weight" not in name:
            std = 0.5 if "shared" in name else 0.3 if weight.ndim == 2 else 0.01
            torch.nn.init.normal_(weight, std=std)
    # tied to the embeddings it would predict the word that it was given
    model.lm_head.weight = torch.nn.Parameter(torch.randn(40, 16).double())
    model.final_logits_bias[0, [END, PAD]] = torch.tensor([1.0, -100.0]).double()
    return model


@pytest.fixture(scope="module")
def sources():
    generator = torch.Generator().manual_seed(1)
    return [
        [*torch.randint(4, 40, (n,), generator=generator).tolist(), END]
        for n in (4, 9, 5, 7, 12, 6, 8, 3)
    ]
