"""Mask attention heads while a ``with`` block lasts; nothing of it stays behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils import checkpoint
from torch.utils.checkpoint import CheckpointFunction

from headprune_lib.heads import AttentionBlock, HeadTensors, check_mask, find_heads
from headprune_lib.hooking import hooking

if TYPE_CHECKING:
    from jaxtyping import Float

Hook = Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor, ...]]
Hooks = list[tuple[nn.Module, Hook]]
"""Modules and what is done to their inputs."""


@contextmanager
def masked_heads(model: nn.Module, mask: HeadTensors | Tensor) -> Iterator[nn.Module]:
    """Multiply each head's output by its entry of ``mask`` inside the block (paper, section 2.3).

    The mask acts on the *input* of the attention output projection, where heads are still apart.
    Works under every attention implementation, in training and in generation. While it lasts,
    what :func:`torch.compile` made of the model (or of any other) runs uncompiled: compiled code
    would not look at the mask.

    ``backward()`` may come after the block, and gives the masked model's gradients. So it does with
    activation checkpointing, which runs layers again in the backward pass; but where a model's own
    code calls :func:`torch.utils.checkpoint.checkpoint` with ``use_reentrant=False``, or where that
    form is switched on inside the block, ``backward()`` belongs inside (torch raises an error else).

    Args:
        model: a transformers model that :func:`headprune_lib.find_heads` knows.
        mask: kind -> tensor of shape ``(layer, head)``, bool or floating; 1 keeps, 0 cuts. The
            tensor alone will do for a model of one kind. Entries of heads that were removed from
            the model are ignored.

    Raises:
        TypeError, ValueError: see :func:`headprune_lib.heads.check_mask`.
        RuntimeError: another thread masks the model; or a pass that was made outside the block is
            repeated inside, by activation checkpointing.

    Example:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(BertConfig(hidden_size=8, num_attention_heads=4, vocab_size=10,
        ...                              num_hidden_layers=1, intermediate_size=8)).eval()
        >>> mask = {"self": torch.tensor([[1.0, 0.0, 1.0, 1.0]])}
        >>> with masked_heads(model, mask):
        ...     hidden = model(torch.tensor([[1, 2, 3]])).last_hidden_state
    """
    with _gated(model, check_mask(model, mask)):
        yield model


@contextmanager
def masked_rows(
    model: nn.Module, masks: Sequence[HeadTensors], rows: Sequence[int]
) -> Iterator[nn.Module]:
    """As :func:`headprune_lib.masked_heads`, with a mask of its own for each example of a batch.

    Args:
        masks: masks as for :func:`headprune_lib.masked_heads`.
        rows: for each example of the batch the index of its mask. In a beam search each example
            stands for as many rows of the batch as there are beams.
    """
    with gated_rows(model, stacked_masks(model, masks), rows):
        yield model


def stacked_masks(
    model: nn.Module, masks: Sequence[HeadTensors]
) -> dict[str, Float[Tensor, "layer mask head"]]:
    """Several masks, checked, as kind -> ``(layer, mask, head)``."""
    checked = [check_mask(model, mask) for mask in masks]
    return {kind: torch.stack([mask[kind] for mask in checked], dim=1) for kind in checked[0]}


@contextmanager
def gated_rows(
    model: nn.Module, stacked: dict[str, Float[Tensor, "layer mask head"]], rows: Sequence[int]
) -> Iterator[None]:
    """As :func:`masked_rows`, for masks that are checked and stacked once and used many times."""
    with _gated(model, {kind: values[:, list(rows)] for kind, values in stacked.items()}):
        yield


@contextmanager
def _gated(
    model: nn.Module, factors: dict[str, Float[Tensor, "layer *example head"]]
) -> Iterator[None]:
    """Hooks that multiply, by one factor a head or by one an example and head."""
    blocks = find_heads(model)
    outputs = [block.part(model, "output") for block in blocks]
    use = _Use(model)
    hooks: Hooks = []
    for block, output in zip(blocks, outputs, strict=True):
        gates = factors[block.kind][block.layer][..., : block.n_heads]
        if not bool((gates == 1).all()):
            hooks.append((output, _scaling_hook(block, gates, use)))
    with hooking(outputs), _registered(hooks), use.remembered(hooks), _reentrant(use, hooks):
        yield


@contextmanager
def _registered(hooks: Hooks) -> Iterator[None]:
    with ExitStack() as stack:
        for module, hook in hooks:
            stack.callback(module.register_forward_pre_hook(hook).remove)
        yield


_CHECKPOINT = "_gradient_checkpointing_func"  # what transformers hands a layer's forward to


class _Use:
    """One use of a mask, and which passes it is for.

    Activation checkpointing runs a layer again in the backward pass, when the mask may have been
    taken off, or another put on. While the mask lasts, the function that a layer is handed to for
    that is wrapped, so that what ran under the mask runs under it again.
    """

    def __init__(self, model: nn.Module) -> None:
        self.backward = _running_backward()
        self.over = False
        self.repeating: set[int] = set()  # threads: autograd has one for each GPU
        self.layers = [layer for layer in model.modules() if _CHECKPOINT in layer.__dict__]
        self.wrapped: list[Callable[..., Any]] = []

    def holds(self) -> bool:
        """Whether the pass that runs now is under the mask.

        Raises:
            RuntimeError: it repeats a pass that was made outside.
        """
        if threading.get_ident() in self.repeating:
            return True
        if self.over:  # a copy of the model that was made inside keeps the hooks
            return False
        if not self._first_pass() and any(map(self._wraps, self.layers, self.wrapped)):
            raise RuntimeError(
                "activation checkpointing repeats, inside this masked_heads block, a pass that was "
                "made outside, and the mask would change its gradients. Call backward() outside "
                "the block, or make the pass inside"
            )
        return True

    def remembering(self, function: Callable[..., Any], hooks: Hooks) -> Callable[..., Any]:
        """What is run under the mask again wherever a backward pass repeats it."""

        def run(*given: Any) -> Any:
            with nullcontext() if self._first_pass() else self._repetition(hooks):
                return function(*given)

        return function if self.over else run

    @contextmanager
    def remembered(self, hooks: Hooks) -> Iterator[None]:
        """Inside, layers that are checkpointed remember the mask for their repetition."""
        before = [layer.__dict__[_CHECKPOINT] for layer in self.layers]
        for layer, handed in zip(self.layers, before, strict=True):
            inside = set(layer.modules())
            self.wrapped.append(self._wrap(handed, [hook for hook in hooks if hook[0] in inside]))
            layer.__dict__[_CHECKPOINT] = self.wrapped[-1]
        try:
            yield
        finally:
            self.over = True
            for layer, own, handed in zip(self.layers, self.wrapped, before, strict=True):
                if self._wraps(layer, own):
                    layer.__dict__[_CHECKPOINT] = handed

    def _wraps(self, layer: nn.Module, own: Callable[..., Any]) -> bool:
        """Whether a layer still has our function: checkpointing may be switched on meanwhile."""
        return layer.__dict__.get(_CHECKPOINT) is own

    def _wrap(self, handed: Callable[..., Any], hooks: Hooks) -> Callable[..., Any]:
        return lambda function, *args, **kwargs: handed(
            self.remembering(function, hooks), *args, **kwargs
        )

    @contextmanager
    def _repetition(self, hooks: Hooks) -> Iterator[None]:
        thread = threading.get_ident()
        if thread in self.repeating:
            yield
            return
        self.repeating.add(thread)
        try:
            with ExitStack() as stack:
                if self.over:
                    stack.enter_context(hooking([module for module, _ in hooks]))
                    stack.enter_context(_registered(hooks))
                yield
        finally:
            self.repeating.discard(thread)

    def _first_pass(self) -> bool:
        return _running_backward() in (-1, self.backward)


_REMEMBERED: list[tuple[_Use, Hooks]] = []  # by every use of a mask that lasts
_LOCK = threading.Lock()


class _Reentrant(CheckpointFunction):
    """Stands in for torch's function while masks last: what they act on is repeated under them.

    A model's own code may hold :func:`torch.utils.checkpoint.checkpoint` under any name, but that
    looks this function up by its own.
    """

    @classmethod
    def apply(cls, function: Callable[..., Any], *args: Any) -> Any:
        for use, hooks in tuple(_REMEMBERED):
            function = use.remembering(function, hooks)
        return CheckpointFunction.apply(function, *args)


@contextmanager
def _reentrant(use: _Use, hooks: Hooks) -> Iterator[None]:
    entry = use, hooks
    with _LOCK:
        _REMEMBERED.append(entry)
        checkpoint.CheckpointFunction = _Reentrant  # type: ignore[misc]
    try:
        yield
    finally:
        with _LOCK:
            _REMEMBERED.remove(entry)
            if not _REMEMBERED:
                checkpoint.CheckpointFunction = CheckpointFunction  # type: ignore[misc]


def _running_backward() -> int:
    """The number of the backward pass that this thread is in; -1 outside of any."""
    return torch._C._current_graph_task_id()


def _scaling_hook(block: AttentionBlock, gates: Float[Tensor, "*example head"], use: _Use) -> Hook:
    # (..., head) -> (..., kept heads * width): one factor a column of the projection's input
    columns = gates[..., list(block.kept)].repeat_interleave(block.width, dim=-1)
    placed: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def scale(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if not use.holds():
            return inputs
        context = inputs[0]
        place = context.device, context.dtype
        if place not in placed:  # once, not at every piece that is generated
            placed[place] = columns.to(*place)
        factors = placed[place]
        if factors.ndim == 2:
            if not block.by_example and len(factors) > 1:
                raise ValueError(
                    f"{block.path} takes its examples windowed, flattened or turned, so that a "
                    "mask an example cannot be told apart there; give one example a batch"
                )
            if len(context) % len(factors):
                raise ValueError(
                    f"a batch of {len(context)} rows, but masks for {len(factors)}: "
                    "give the index of a mask for each example"
                )
            factors = factors.repeat_interleave(len(context) // len(factors), dim=0)[:, None]
        return (context * factors, *inputs[1:])

    return scale
