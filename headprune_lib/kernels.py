"""A faster exact float32 linear layer for CPUs.

PyTorch sends float32 matrix products to MKL, which leaves half the speed of AMD processors unused;
oneDNN, also part of PyTorch, does not. Measured on a Zen 5 core pair: 188 against 410 GFLOP/s.
The arithmetic is float32 in both: results agree to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


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
