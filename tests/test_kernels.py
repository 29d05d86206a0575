"""Faster kernels are used where asked for, compute what PyTorch's do, and leave nothing behind."""

import copy
import types

import pytest
import torch
from tiny import batch, build
from torch import nn
from transformers import MarianConfig, MarianModel

from headprune_lib import full_mask, head_importance, kernels, one_head_ablation
from headprune_lib.ablation import masked_logits, one_head_masks
from headprune_lib.generation.drafts import translations_under
from headprune_lib.generation.greedy import generate
from headprune_lib.kernels import fast_single_queries


@pytest.fixture
def forced(monkeypatch):
    """The oneDNN path whatever the processor, so that every machine tests it."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch was built without oneDNN")
    monkeypatch.setattr(kernels, "_is_amd", lambda: True)
    kernels._operator_works.cache_clear()
    yield
    kernels._operator_works.cache_clear()


def refuse(*_args):
    raise AssertionError("the private operator was called")


def same_logits_everywhere(model, inputs):
    """What the core computes of an encoder, in one list of tensors."""
    ((uncut, cut),) = one_head_ablation(model, [inputs])
    return [
        uncut,
        *cut.values(),
        *masked_logits(model, [inputs]),
        head_importance(model, [inputs])["self"].float(),
    ]


def test_without_being_asked_nothing_calls_the_private_operator(forced, monkeypatch):
    monkeypatch.setattr(torch.ops, "mkldnn", types.SimpleNamespace(_linear_pointwise=refuse))
    monkeypatch.setattr(kernels, "_one_query_attention", refuse)
    same_logits_everywhere(build(dtype=torch.float32), batch())
    translator = build("marian", "sdpa", torch.float32)
    sources = [[5, 6, 7, 2], [8, 9, 2]]
    translations_under(
        translator,
        sources,
        generate(translator, sources),
        list(one_head_masks(translator).values()),
    )


def test_asked_for_the_core_computes_the_same_to_rounding(forced):
    model, inputs = build(dtype=torch.float32), batch()
    plain = same_logits_everywhere(model, inputs)
    with kernels.fast_linears(model) as active:
        assert active
        fast = same_logits_everywhere(model, inputs)
    torch.testing.assert_close(fast, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "operator",
    [
        types.SimpleNamespace(),  # gone
        types.SimpleNamespace(_linear_pointwise=lambda x, weight, bias: x),  # called otherwise
        types.SimpleNamespace(  # wrong
            _linear_pointwise=lambda x, weight, bias, *_: nn.functional.linear(x, weight)
        ),
    ],
)
def test_an_operator_that_fails_its_trial_is_left_alone(forced, monkeypatch, operator):
    monkeypatch.setattr(torch.ops, "mkldnn", operator)
    model, x = nn.Linear(4, 4), torch.randn(3, 4)
    nn.init.normal_(model.bias)
    plain = model(x)
    with kernels.fast_linears(model) as active:
        assert not active
        assert torch.equal(model(x), plain)


def test_the_trial_is_made_once_whatever_mode_the_caller_is_in(forced):
    model = nn.Linear(4, 4)
    with torch.inference_mode(), kernels.fast_linears(model) as active:
        assert active
    assert kernels._operator_works.cache_info().misses == 1
    with torch.no_grad(), kernels.fast_linears(model) as active:
        assert active
    assert kernels._operator_works.cache_info().misses == 1


def test_layers_that_learn_get_their_gradients(forced):
    model, x = nn.Linear(4, 4), torch.randn(3, 4)
    with kernels.fast_linears(model):
        model(x).sum().backward()
    torch.testing.assert_close(model.weight.grad, x.sum(0).expand(4, 4))


def test_it_may_be_nested(forced):
    model = nn.Linear(4, 4)
    with kernels.fast_linears(model) as outer:
        with kernels.fast_linears(model) as inner:
            assert outer and inner
        assert "forward" in model.__dict__
    assert "forward" not in model.__dict__


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3, 24), (2, 5, 24)])
def test_outputs_and_gradients_of_inputs_equal_those_in_float64(forced, bias, shape):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 40, bias), nn.Tanh(), nn.Linear(40, 7, bias))
    model.requires_grad_(False)
    exact, x = copy.deepcopy(model).double(), torch.randn(shape)
    slow = x.double().requires_grad_()
    wanted = exact(slow)
    (gradient,) = torch.autograd.grad(wanted.square().sum(), slow)
    fast = x.clone().requires_grad_()
    with kernels.fast_linears(model):
        assert all("forward" in model[i].__dict__ for i in (0, 2))
        for _ in range(2):  # the second pass uses the kept transposed weights
            found = model(fast)
            (found_gradient,) = torch.autograd.grad(found.square().sum(), fast)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found_gradient.double(), gradient, rtol=1e-5, atol=1e-6)


def test_layers_are_as_before_after_an_exception(forced):
    model = nn.Linear(4, 4)
    with pytest.raises(ZeroDivisionError), kernels.fast_linears(model):
        raise ZeroDivisionError
    assert "forward" not in model.__dict__


def test_float64_and_other_layers_are_left_alone(forced):
    model = nn.Sequential(nn.Linear(4, 4).double(), nn.Conv1d(4, 4, 1))
    with kernels.fast_linears(model):
        assert not any("forward" in module.__dict__ for module in model.modules())


def test_single_queries_attend_as_under_sdpa():
    model = (
        MarianModel(
            MarianConfig(
                vocab_size=30,
                d_model=16,
                encoder_layers=2,
                decoder_layers=2,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                encoder_ffn_dim=16,
                decoder_ffn_dim=16,
                pad_token_id=0,
                decoder_start_token_id=0,
                init_std=0.5,
            )
        )
        .eval()
        .double()
    )
    source = torch.tensor([[5, 6, 7, 8, 2], [9, 2, 0, 0, 0]])

    @torch.no_grad()
    def states():
        cache, found, fed = None, [], torch.tensor([[0, 4], [0, 5]])
        for _ in range(4):
            made = model(
                input_ids=source,
                attention_mask=(source != 0).long(),
                decoder_input_ids=fed,
                past_key_values=cache,
                use_cache=True,
            )
            cache, fed = made.past_key_values, torch.tensor([[7], [8]])
            found.append(made.last_hidden_state[:, -1])
        return torch.stack(found)

    expected = states()
    with fast_single_queries(model) as active:
        assert active and model.config._attn_implementation == "one_query"
        with fast_single_queries(model) as inner:
            assert inner
        found = states()
    assert model.config._attn_implementation == "sdpa"
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    model.set_attn_implementation("eager")
    with fast_single_queries(model) as active:
        assert not active and model.config._attn_implementation == "eager"


def test_translations_with_fast_kernels_are_the_same(forced):
    model = build("marian", "sdpa", torch.float32)
    sources = [[5, 6, 7, 2], [8, 9, 4, 11, 2], [8, 2]]
    drafts, masks = generate(model, sources), [full_mask(model), *one_head_masks(model).values()]
    plain = translations_under(model, sources, drafts, masks)
    with kernels.fast_linears(model), fast_single_queries(model):
        fast = translations_under(model, sources, drafts, masks)
    assert [one.ids for one in fast] == [one.ids for one in plain]
    for one, other in zip(fast, plain, strict=True):
        torch.testing.assert_close(one.draft_loss, other.draft_loss, rtol=1e-5, atol=1e-5)
