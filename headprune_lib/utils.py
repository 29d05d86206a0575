"""Batches, and running a model on them: on its device, in evaluation mode, in halves, or timed."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Int

Batch = dict[str, Tensor]
"""A model's keyword arguments, ``labels`` among them."""

Device = str | torch.device | None
"""The device to compute on; None for the model's own."""

NO_LABEL = -100
"""transformers' mark of a position without a label."""

_CLASSES = ("labels", "start_positions", "end_positions")
_FLAGS = (bool, int, float, str)
_AXES = {"input_ids": 2, "decoder_input_ids": 2, **dict.fromkeys(_CLASSES, 1)}


def check_batch(batch: object) -> Batch:
    """Check a batch, drop values that are None, and convert class numbers to int64.

    Flags (a bool, a number, a text) and model-specific objects (a cache) stay as they are.

    Raises:
        TypeError: not a dict, as when a single batch is given as the list of batches; or lists or
            arrays of numbers or texts instead of tensors.
        ValueError: a single example, as in a Dataset, instead of a batch; or no example.
    """
    if not isinstance(batch, Mapping):
        raise TypeError(
            f"a batch is a dict of the model's arguments, given {type(batch).__name__}. Give a "
            "list of such dicts, even for a single one: [batch]"
        )
    checked = {name: value for name, value in batch.items() if value is not None}
    for name, value in checked.items():
        if _is_data(value):
            raise TypeError(
                f"batch[{name!r}] is of type {type(value).__name__}, not a tensor with one row "
                "per example. Convert it, or a Dataset of the Hub with dataset.with_format('torch')"
            )
        axes = value.ndim if isinstance(value, Tensor) else 0
        if axes < _AXES.get(name, 0) and isinstance(value, (Tensor, *_FLAGS)):
            shape = tuple(value.shape) if isinstance(value, Tensor) else ()
            raise ValueError(
                f"batch[{name!r}] has shape {shape}: that is one example, not a batch with a row "
                "per example. Give torch.utils.data.DataLoader(dataset, batch_size=32) for a "
                "Dataset, or tensor[None] instead of each tensor of a single example"
            )
        if axes and not len(value):
            raise ValueError(f"batch[{name!r}] has no rows. Give at least one example per batch")
        if axes and name in _CLASSES and value.dtype in (torch.int8, torch.int16, torch.int32):
            checked[name] = value.long()  # the only integers that PyTorch's losses take
    return checked


def _is_data(value: Any) -> bool:
    """Whether a value holds numbers or texts that should be in a tensor."""
    if isinstance(value, list | tuple):
        first = next(iter(value), None)
        return isinstance(first, _FLAGS) or _is_data(first)
    return hasattr(value, "__array__") and not isinstance(value, Tensor)  # of NumPy


def n_rows(batch: Batch) -> int:
    """The number of rows in every tensor of a batch; 0 if the batch cannot be split by rows.

    It cannot if tensors differ in their rows, or if a value is neither a tensor nor a flag.
    """
    sizes = {
        (len(value) if value.ndim else 0) if isinstance(value, Tensor) else 0
        for value in batch.values()
        if not isinstance(value, _FLAGS)
    }
    return sizes.pop() if len(sizes) == 1 else 0


def rows(batch: Batch, part: slice) -> Batch:
    """Some rows of a batch whose :func:`n_rows` is not 0, with its flags."""
    return {k: value if isinstance(value, _FLAGS) else value[part] for k, value in batch.items()}


def by_length(rows: Sequence[Sequence], size: int) -> list[list[int]]:
    """Indices of the rows in groups of at most ``size``, shortest rows first.

    >>> by_length(["ccc", "a", "bb"], 2)
    [[1, 2], [0]]
    """
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    return [order[start : start + size] for start in range(0, len(order), size)]


def pad(rows: Sequence[Sequence[int]], value: int) -> Int[Tensor, "row longest"]:
    """Rows of numbers as one tensor, padded on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows])


def teacher_forced(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], padding: int, start: int
) -> dict[str, Int[Tensor, "row longest"]]:
    """A batch with the target as the decoder's input, shifted by one behind ``start``."""
    source = pad(sources, padding)
    return {
        "input_ids": source,
        "attention_mask": (source != padding).long(),
        "decoder_input_ids": pad([[start, *row[:-1]] for row in targets], padding),
        "labels": pad(targets, NO_LABEL),
    }


@contextmanager
def staged_path(path: Path) -> Iterator[Path]:
    """Yield a path to write a file or folder to, renamed at the end, or deleted after an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # in the same folder, since renaming is atomic only within a file system
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as around:
        yield (staged := Path(around) / path.name)
        staged.replace(path)


def uncompiled(model: Any) -> Any:
    """The model itself, without the wrapper of torch.compile."""
    return getattr(model, "_orig_mod", model)


def n_parameters(module: nn.Module) -> int:
    """The number of a module's parameters; shared ones count once."""
    return sum(parameter.numel() for parameter in module.parameters())


def without_labels(batch: Mapping[str, Tensor]) -> Batch:
    """A batch without labels, with which a model would compute a loss of its own."""
    return {name: value for name, value in batch.items() if name != "labels"}


def model_inputs(model: nn.Module, batch: Batch) -> Batch:
    """Like :func:`without_labels`, unless an encoder-decoder makes its decoder's input from them.

    Without either, BART would take the source as the target.
    """
    two_sided = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    needed = two_sided and not {"decoder_input_ids", "decoder_inputs_embeds"} & batch.keys()
    return batch if needed else without_labels(batch)


Result = TypeVar("Result")


def ensure_device(model: nn.Module, device: Device) -> torch.device:
    """Move the model to a device, if one is given, and return the device for its inputs.

    Raises:
        ValueError: weights that are not in memory (offloaded to a disk, or on the meta device), or
            a device for a model that is spread over several.
    """
    away = next((name for name, parameter in model.named_parameters() if parameter.is_meta), None)
    if away is not None:
        raise ValueError(
            f"the weights of {away} are not in memory (offloaded to a disk, or on the meta "
            "device). Load the whole model, without offload_folder or device_map"
        )
    places = set(map(str, (getattr(model, "hf_device_map", None) or {}).values()))
    if len(places) > 1:
        if device is not None:
            raise ValueError(f"the model is spread over {sorted(places)}. Leave device out")
        return next(model.parameters()).device  # accelerate moves inputs on from here
    device = torch.device(device) if device is not None else next(model.parameters()).device
    model.to(device)
    return device


def to_device(batch: Mapping[str, Any], device: str | torch.device) -> Batch:
    """A batch checked by :func:`check_batch`, with its tensors on a device."""
    moved = check_batch(batch)
    to_gpu = torch.device(device).type == "cuda"
    for name, value in moved.items():
        if isinstance(value, Tensor) and value.device.type != torch.device(device).type:
            # pinned and asynchronous: it is copied while the GPU still computes
            value = value.pin_memory() if to_gpu and not value.is_cuda else value
            moved[name] = value.to(device, non_blocking=to_gpu)
    return moved


def on_device(model: nn.Module, batches: Iterable[Batch], device: Device) -> Iterator[Batch]:
    """Move the model to a device, and yield each batch on it.

    Raises:
        ValueError: no batches.
    """
    device, batch = ensure_device(model, device), None
    for batch in batches:
        yield to_device(batch, device)
    if batch is None:
        raise ValueError("no batches given. Give at least one, with one example or more")


def rounding(model: nn.Module) -> float:
    """The relative rounding of the coarsest type that a pass computes in, including autocast's."""
    weights = [weight for weight in model.parameters() if weight.is_floating_point()]
    dtypes = {weight.dtype for weight in weights}
    for kind in {weight.device.type for weight in weights}:
        if torch.is_autocast_enabled(kind):
            dtypes.add(torch.get_autocast_dtype(kind))
    return max((torch.finfo(dtype).eps for dtype in dtypes), default=0.0)


def in_double(values: Tensor) -> Tensor:
    """Values in float64, in which sums over batches are exact; in float32 on Apple's GPUs."""
    return values.float() if values.device.type == "mps" else values.double()


@dataclass
class OomLimit:
    """The size, in numbers over all tensors, of the smallest batch that did not fit in memory."""

    numbers: float = math.inf


def split_on_oom(
    compute: Callable[[Batch], Result],
    batch: Batch,
    join: Callable[[list[Result]], Result],
    oom_limit: OomLimit | None = None,
) -> Result:
    """Compute the result of a batch, or join the results of its halves if memory runs out.

    Raises:
        torch.OutOfMemoryError: a single example does not fit, or the batch cannot be halved,
            because some tensor does not have one row per example.
    """
    oom_limit, n = oom_limit or OomLimit(), n_rows(batch)
    numbers = sum(value.numel() for value in batch.values() if isinstance(value, Tensor))
    if numbers < oom_limit.numbers or n < 2:
        try:
            return compute(batch)
        except torch.OutOfMemoryError:
            if n < 2:
                raise
        oom_limit.numbers = min(oom_limit.numbers, numbers)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # outside ``except``, no traceback keeps tensors
    halves = [rows(batch, part) for part in (slice(n // 2), slice(n // 2, n))]
    return join([split_on_oom(compute, half, join, oom_limit) for half in halves])


@contextmanager
def eval_mode(model: nn.Module, *, frozen: bool = False) -> Iterator[None]:
    """Put every module of the model in evaluation mode inside the block, and restore it afterwards.

    Never yield to a caller from inside: a generator that pauses there, perhaps for good, would
    leave the model changed. Enter the block once per batch instead; that is cheap.

    Args:
        frozen: also turn off gradients of parameters, where only activations need them.
    """
    if frozen and any(parameter.is_inference() for parameter in model.parameters()):
        raise ValueError("weights made in torch.inference_mode take no gradient. Load them outside")
    modes = [(module, module.training) for module in model.modules()]
    learned = [p for p in model.parameters() if p.requires_grad] if frozen else []
    model.eval()
    for parameter in learned:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter in learned:
            parameter.requires_grad_(True)


def pass_seconds(model: nn.Module, batches: Sequence[Batch]) -> float:
    """Seconds of one forward pass over batches on the model's device.

    Labels are left out, unless a decoder's input is made from them.
    """

    def run() -> None:
        for batch in batches:
            model(**model_inputs(model, batch))

    with torch.inference_mode():
        return seconds_of(run, next(model.parameters()).device)


def seconds_of(run: Callable[[], Any], device: torch.device) -> float:
    """Seconds of one call, including its work on this device."""
    synchronize(device)
    start = time.perf_counter()
    run()
    synchronize(device)
    return time.perf_counter() - start


def synchronize(device: torch.device) -> None:
    """Wait until a device has finished its queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
