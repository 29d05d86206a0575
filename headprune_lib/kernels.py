"""Faster exact linear layers and attention of single queries on CPUs, for who asks for them.

Nothing else in the library uses them: ``with fast_linears(model):`` around a call of it does. They
are as exact as PyTorch's own, but not the same to the last digit, and stand on parts of PyTorch
and transformers that may change; where one no longer does what it did, the plain way is taken.

PyTorch sends float32 matrix products to MKL, which leaves half the speed of AMD processors unused;
oneDNN, also part of PyTorch, does not. Measured on a Zen 5 core pair: 188 against 410 GFLOP/s.
The arithmetic is float32 in both: results agree to rounding.

Decoding word by word attends with one query a sentence. PyTorch's fused attention takes about
twice as long for it as two batched products, and more where the keys lie in a larger store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

if TYPE_CHECKING:
    from jaxtyping import Float


@contextmanager
def fast_linears(model: nn.Module) -> Iterator[bool]:
    """Inside, the model's float32 linear layers on the CPU run on oneDNN, where that helps.

    For inference and for scores of heads: a layer whose own weights need a gradient runs as ever.
    May be nested.

    Yields:
        whether any layer does run on oneDNN. None does on other devices or dtypes, on processors
        that are not AMD's with AVX-512, or where PyTorch lacks oneDNN's operator or the operator
        fails a trial against :func:`torch.nn.functional.linear`, made once a process.
    """
    eligible = [module for module in model.modules() if _eligible(module)]
    active = bool(eligible) and _is_amd() and _operator_works()
    patched = [m for m in eligible if "forward" not in m.__dict__] if active else []
    for module in patched:
        module.forward = _onednn_linear(module)  # type: ignore[method-assign, assignment]
    try:
        yield active
    finally:
        for module in patched:
            del module.forward


def _eligible(module: nn.Module) -> TypeGuard[nn.Linear]:
    return (
        type(module) is nn.Linear
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.float32
        and module.weight.numel() > 0
    )


@cache
def _operator_works() -> bool:
    """Whether the private operator is there, and computes a linear layer and its gradient."""
    if not torch.backends.mkldnn.is_available():
        return False
    try:
        # whatever mode the first caller is in: the answer is kept
        with torch.inference_mode(False), torch.enable_grad():
            generator, found = torch.Generator().manual_seed(0), []
            x, weight, bias = (
                torch.randn(shape, generator=generator) for shape in ((3, 8), (5, 8), (5,))
            )
            for linear in (_OneDNNLinear.apply, _plain_linear):
                given = x.clone().requires_grad_()
                made = linear(given, weight, bias, [])
                found.append((made.detach(), *torch.autograd.grad(made.square().sum(), given)))
        return all(
            torch.allclose(one, other, rtol=1e-5, atol=1e-5)
            for one, other in zip(*found, strict=True)
        )
    except (AttributeError, RuntimeError, TypeError, ValueError):  # gone, or called otherwise
        return False


def _plain_linear(x: Tensor, weight: Tensor, bias: Tensor | None, _transposed: list) -> Tensor:
    return nn.functional.linear(x, weight, bias)


def _is_amd() -> bool:
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and "AMD" in _cpu_vendor()


def _cpu_vendor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line for line in lines if line.startswith("vendor_id"))
    except (OSError, StopIteration):
        return ""


@contextmanager
def fast_single_queries(model: PreTrainedModel) -> Iterator[bool]:
    """Inside, attention of one query an example runs as two batched products; else as sdpa.

    May be nested.

    Yields:
        whether it does: not in a model that does not use sdpa, or on another device than the CPU.
    """
    if model.config._attn_implementation != "sdpa" or model.device.type != "cpu":
        yield model.config._attn_implementation == _ONE_QUERY
        return
    AttentionInterface.register(_ONE_QUERY, _one_query_attention)
    AttentionMaskInterface.register(_ONE_QUERY, sdpa_mask)
    model.set_attn_implementation(_ONE_QUERY)
    try:
        yield True
    finally:
        model.set_attn_implementation("sdpa")


_ONE_QUERY = "one_query"


def _one_query_attention(
    module: nn.Module,
    query: Float[Tensor, "batch head query width"],
    key: Float[Tensor, "batch head key width"],
    value: Float[Tensor, "batch head key width"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Float[Tensor, "batch query head width"], None]:
    batch, heads, n_queries, width = query.shape
    others = any(kwargs.get(name) is not None for name in ("position_bias", "softcap", "cache"))
    if (
        n_queries != 1
        or key.shape[1] != heads
        or value.shape[-1] != width
        or others
        or kwargs.get("dropout")
    ):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
    # a view where the keys are the first ones of a larger store: nothing is copied
    keys, values = key.flatten(0, 1), value.flatten(0, 1)
    scores = torch.bmm(query.reshape(-1, 1, width), keys.transpose(1, 2))
    scores = scores.view(batch, heads, 1, -1).mul_(width**-0.5 if scaling is None else scaling)
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        scores.masked_fill_(~attention_mask, -torch.inf)
    elif attention_mask is not None:
        scores += attention_mask
    weights = scores.softmax(-1)
    if attention_mask is not None:
        weights.nan_to_num_(0)  # a row that sees nothing attends to nothing, as under sdpa
    made = torch.bmm(weights.flatten(0, 1), values)
    return made.view(batch, heads, 1, width).transpose(1, 2), None


class _OneDNNLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, transposed: list
    ) -> Tensor:
        ctx.weight, ctx.transposed = weight, transposed
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.transposed:  # made once a layer, and only where a gradient comes
            ctx.transposed.append(ctx.weight.t().contiguous())
        given = torch.ops.mkldnn._linear_pointwise(
            gradient.contiguous(), ctx.transposed[0], None, "none", [], ""
        )
        return given, None, None, None


def _onednn_linear(module: nn.Linear) -> Callable[[Tensor], Tensor]:
    transposed: list[Tensor] = []
    own = [module.weight] if module.bias is None else [module.weight, module.bias]

    def forward(x: Tensor) -> Tensor:
        if torch.is_grad_enabled() and any(parameter.requires_grad for parameter in own):
            return nn.functional.linear(x, module.weight, module.bias)
        return _OneDNNLinear.apply(x, module.weight, module.bias, transposed)

    return forward
