"""What each block's output projection is given, block after block, nothing run from the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from headprune_lib.batching import Batch, model_inputs
from headprune_lib.heads import AttentionBlock, HeadTensors, find_heads
from headprune_lib.hooking import hooking
from headprune_lib.masking import masked_heads
from headprune_lib.running import evaluating, recorded, replayed

Runs = dict[AttentionBlock, int]
"""Blocks in the order in which they run -> how many times each does in a pass."""


def block_runs(model: nn.Module, batch: Batch) -> Runs:
    """The blocks in the order in which they run in a pass of a batch, which is where the model is."""
    found: Runs = {}
    blocks = find_heads(model)
    outputs = [block.part(model, "output") for block in blocks]

    def count(block: AttentionBlock) -> Callable[[nn.Module, Any], None]:
        def hook(_module: nn.Module, _inputs: Any) -> None:
            found[block] = found.get(block, 0) + 1

        return hook

    with hooking(outputs), ExitStack() as stack, evaluating(model), torch.no_grad():
        for block, output in zip(blocks, outputs, strict=True):
            stack.callback(output.register_forward_pre_hook(count(block)).remove)
        model(**model_inputs(model, batch))
    return found


class BlockInputs:
    """What the output projections are given of some batches, asked for one block after another.

    A pass goes on where the last one of its batch ended: layers below return what they did. Only
    the last output of each list of layers is kept, for where layers follow one another, those
    before it may return anything. At each block that is proved on the first batch; where it does
    not hold, or a module runs several times, passes begin at the start.

    Args:
        batches: where the model is.
        runs: of :func:`block_runs`.
    """

    def __init__(self, model: nn.Module, batches: Sequence[Batch], runs: Runs) -> None:
        self.model, self.batches, self.runs = model, batches, runs
        self.layers = {block: _layer_of(model, block.path) for block in runs}
        self.resumes = max(runs.values(), default=0) == 1
        self._done: list[list[str]] = [[] for _ in batches]
        self._last: list[dict[str, Any]] = [{} for _ in batches]

    def of(self, block: AttentionBlock, gates: HeadTensors) -> list[list[Tensor]]:
        """What a block's projection is given, before its own gates: of each batch, at each run.

        Args:
            block: the one that was asked for last, or one that runs later.
            gates: those of blocks that were passed must not change any more.

        Returns:
            ``(example, position, heads * width)`` each, or as the block's own code has it.
        """
        output, times = block.part(self.model, "output"), self.runs[block]
        with (  # entered once: what they cost is more than a short pass
            evaluating(self.model),
            torch.no_grad(),
            _up_to(output, times) as found,  # before the hook of the block's own gates
            masked_heads(self.model, gates),
        ):
            return [self._of(block, number, found) for number in range(len(self.batches))]

    def _of(self, block: AttentionBlock, number: int, found: list[Tensor]) -> list[Tensor]:
        if not self.resumes:
            return self._passed(number, found)
        order = list(dict.fromkeys(self.layers.values()))
        done, last = self._done[number], self._last[number]
        new = [path for path in order[: order.index(self.layers[block])] if path not in done]
        returning, noted = ([self.model.get_submodule(p) for p in paths] for paths in (done, new))
        with (
            replayed(returning, [last[_list_of(path)] for path in done]),
            recorded(noted) as calls,
        ):
            given = self._passed(number, found)
        if number == 0 and done:
            plain = self._passed(number, found)
            if not _alike(given, plain):
                self.resumes = False
                return plain
        for path, call in zip(new, calls, strict=True):
            last[_list_of(path)] = call.output
        done += new
        return given

    def _passed(self, number: int, found: list[Tensor]) -> list[Tensor]:
        """One pass of a batch, up to where ``found`` has all that is wanted."""
        found.clear()
        with suppress(_Reached):
            self.model(**model_inputs(self.model, self.batches[number]))
        return list(found)


class _Reached(Exception):
    """A pass has come as far as it is needed."""


@contextmanager
def _up_to(output: nn.Module, times: int) -> Iterator[list[Tensor]]:
    """Inside, a pass ends before a projection's last run, and leaves what the runs were given."""
    found: list[Tensor] = []

    def keep(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        found.append(inputs[0])
        if len(found) == times:
            raise _Reached

    with hooking([output]), ExitStack() as stack:
        stack.callback(output.register_forward_pre_hook(keep).remove)
        yield found


def _layer_of(model: nn.Module, path: str) -> str:
    """The layer that a block is in: the highest that stands in a list, where there is one."""
    parts = path.split(".")
    for end in range(2, len(parts) + 1):
        if isinstance(model.get_submodule(".".join(parts[: end - 1])), nn.ModuleList):
            return ".".join(parts[:end])
    return path


def _list_of(layer: str) -> str:
    return layer.rpartition(".")[0]


def _alike(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """Equal but for rounding, with NaN in the same places."""
    return len(one) == len(other) and all(
        a.shape == b.shape
        and torch.allclose(a.float(), b.float(), rtol=1e-2, atol=1e-3, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )
