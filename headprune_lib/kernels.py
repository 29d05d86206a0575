"""Faster exact float32 linear layers and attention of single queries for CPUs.

PyTorch sends float32 matrix products to MKL, which leaves half the speed of AMD processors unused;
oneDNN, also part of PyTorch, does not. Measured on a Zen 5 core pair: 188 against 410 GFLOP/s.
The arithmetic is float32 in both: results agree to rounding.

Decoding word by word attends with one query a sentence. PyTorch's fused attention takes about
twice as long for it as two batched products, and more where the keys lie in a larger store.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask


@contextmanager
def fast_linears(model: nn.Module) -> Iterator[None]:
    """Inside, the model's float32 linear layers on the CPU run on oneDNN, where that helps.

    A gradient flows to the layers' inputs, never to their weights: for inference and for scores of
    heads, not for training. Does nothing on other devices or dtypes, on processors that are not
    AMD's, or where PyTorch was built without oneDNN.
    """
    patched = [module for module in model.modules() if _helps(module)]
    for module in patched:
        module.forward = _onednn_linear(module)
    try:
        yield
    finally:
        for module in patched:
            del module.forward


def _helps(module: nn.Module) -> bool:
    return (
        type(module) is nn.Linear
        and module.weight.device.type == "cpu"
        and module.weight.dtype == torch.float32
        and module.weight.numel() > 0
        and "forward" not in module.__dict__
        and torch.backends.mkldnn.is_available()
        and _is_amd()
    )


def _is_amd() -> bool:
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and "AMD" in _cpu_vendor()


def _cpu_vendor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line for line in lines if line.startswith("vendor_id"))
    except (OSError, StopIteration):
        return ""


@contextmanager
def fast_single_queries(model: PreTrainedModel) -> Iterator[None]:
    """Inside, attention of one query an example runs as two batched products; else as sdpa.

    Does nothing for a model that does not use sdpa, or on another device than the CPU.
    """
    if model.config._attn_implementation != "sdpa" or model.device.type != "cpu":
        yield
        return
    AttentionInterface.register(_ONE_QUERY, _one_query_attention)
    AttentionMaskInterface.register(_ONE_QUERY, sdpa_mask)
    model.set_attn_implementation(_ONE_QUERY)
    try:
        yield
    finally:
        model.set_attn_implementation("sdpa")


_ONE_QUERY = "one_query"


def _one_query_attention(module: nn.Module, query: Tensor, key: Tensor, value: Tensor,
                         attention_mask: Tensor | None, scaling: float | None = None,
                         **kwargs) -> tuple[Tensor, None]:
    """Queries, keys and values (batch, head, position, width) -> (batch, 1, head, width)."""
    batch, heads, n_queries, width = query.shape
    others = any(kwargs.get(name) is not None for name in ("position_bias", "softcap", "cache"))
    if (n_queries != 1 or key.shape[1] != heads or value.shape[-1] != width or others
            or kwargs.get("dropout")):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling,
                                      **kwargs)
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
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None, transposed: list) -> Tensor:
        ctx.weight, ctx.transposed = weight, transposed
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.transposed:  # made once a layer, and only where a gradient comes
            ctx.transposed.append(ctx.weight.t().contiguous())
        given = torch.ops.mkldnn._linear_pointwise(
            gradient.contiguous(), ctx.transposed[0], None, "none", [], "")
        return given, None, None, None


def _onednn_linear(module: nn.Linear):
    transposed: list[Tensor] = []

    def forward(x: Tensor) -> Tensor:
        return _OneDNNLinear.apply(x, module.weight, module.bias, transposed)

    return forward
