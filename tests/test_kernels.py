"""The faster linear layer computes what PyTorch's does, and leaves nothing behind."""

import copy

import pytest
import torch
from torch import nn
from transformers import MarianConfig, MarianModel

from headprune_lib import kernels
from headprune_lib.kernels import fast_single_queries


@pytest.fixture
def forced(monkeypatch):
    """The oneDNN path whatever the processor, so that every machine tests it."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch was built without oneDNN")
    monkeypatch.setattr(kernels, "_is_amd", lambda: True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 24), (2, 5, 24)])
def test_outputs_and_gradients_of_inputs_equal_those_in_float64(forced, bias, shape):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 40, bias), nn.Tanh(), nn.Linear(40, 7, bias))
    exact, x = copy.deepcopy(model).double(), torch.randn(shape)
    slow = x.double().requires_grad_()
    wanted = exact(slow)
    gradient, = torch.autograd.grad(wanted.square().sum(), slow)
    fast = x.clone().requires_grad_()
    with kernels.fast_linears(model):
        assert all("forward" in model[i].__dict__ for i in (0, 2))
        for _ in range(2):  # the second pass uses the kept transposed weights
            found = model(fast)
            found_gradient, = torch.autograd.grad(found.square().sum(), fast)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found_gradient.double(), gradient, rtol=1e-5, atol=1e-6)


def test_layers_are_as_before_after_an_exception(forced):
    model = nn.Linear(4, 4)
    with pytest.raises(ZeroDivisionError), kernels.fast_linears(model):
        assert "forward" in model.__dict__
        raise ZeroDivisionError
    assert "forward" not in model.__dict__


def test_float64_and_other_layers_are_left_alone(forced):
    model = nn.Sequential(nn.Linear(4, 4).double(), nn.Conv1d(4, 4, 1))
    with kernels.fast_linears(model):
        assert not any("forward" in module.__dict__ for module in model.modules())


def test_single_queries_attend_as_under_sdpa():
    model = MarianModel(MarianConfig(
        vocab_size=30, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=16, decoder_ffn_dim=16, pad_token_id=0,
        decoder_start_token_id=0, init_std=0.5)).eval().double()
    source = torch.tensor([[5, 6, 7, 8, 2], [9, 2, 0, 0, 0]])

    @torch.no_grad()
    def states():
        cache, found, fed = None, [], torch.tensor([[0, 4], [0, 5]])
        for _ in range(4):
            made = model(input_ids=source, attention_mask=(source != 0).long(),
                         decoder_input_ids=fed, past_key_values=cache, use_cache=True)
            cache, fed = made.past_key_values, torch.tensor([[7], [8]])
            found.append(made.last_hidden_state[:, -1])
        return torch.stack(found)

    expected = states()
    with fast_single_queries(model):
        assert model.config._attn_implementation == "one_query"
        found = states()
    assert model.config._attn_implementation == "sdpa"
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    model.set_attn_implementation("eager")
    with fast_single_queries(model):
        assert model.config._attn_implementation == "eager"
