"""Export of a pruned model as an ONNX graph, whose weights have their pruned sizes."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import torch
from torch import Tensor
from torch.export import Dim
from transformers import PreTrainedModel

from headprune_lib.example_inputs import Inputs
from headprune_lib.export.comparing import difference, floating, inputs_for, unwrap_compiled
from headprune_lib.messages import one_line, quiet
from headprune_lib.saving import new_folder
from headprune_lib.utils import eval_mode

GRAPH = "model.onnx"
_TOLERANCE = 1e-4
# Examples and tokens of the traced inputs, then of the compared ones.
_TRACED, _COMPARED = (3, 7), ((1, 5), (4, 11))


@dataclass(frozen=True)
class ExportedGraph:
    """An exported ONNX graph.

    Attributes:
        folder: contains the graph, ``model.onnx``, and its weights, ``model.onnx.data``.
        difference: largest difference between the outputs of the model and of the graph in ONNX
            Runtime, on random inputs of other batch sizes and lengths than those traced.
    """

    folder: Path
    difference: float


def export_onnx(model: PreTrainedModel, folder: str | os.PathLike) -> ExportedGraph:
    """Write one forward pass of a model as ``model.onnx``, by transformers' own exporter.

    Layers may have any number of heads left, or none; removed heads are not in the file. The batch
    size is dynamic, and so is the length if the model reads tokens. Outputs are those of
    ``model(**inputs)`` without a cache: generation computes each prefix anew. The graph is
    compared with the model in ONNX Runtime before the folder gets its name.

    Raises:
        FileExistsError: the folder is not empty.
        ValueError: the extra ``onnx`` is not installed or this transformers has no exporter; the
            model cannot be traced; or the graph's outputs differ by more than 1e-4.
    """
    _check_installed()
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    model, folder = unwrap_compiled(model), Path(folder)
    inputs = inputs_for(model)
    traced = _sized(inputs, *_TRACED)
    free = {
        name: dict.fromkeys([0, 1] if _has_length(value) else [0], Dim.DYNAMIC)
        for name, value in traced.items()
    }
    with new_folder(folder) as staged, _silent():
        try:
            with torch.no_grad(), eval_mode(model), _without_cache(model):
                exported = OnnxExporter().export(model, traced, OnnxConfig(dynamic_shapes=free))
        except Exception as error:  # tracing may raise anything for a model's code
            raise ValueError(
                f"{type(model).__name__} cannot be traced as one graph ({one_line(error)}). "
                "Use save_pruned and load_pruned"
            ) from error
        if not hasattr(exported, "save_pretrained"):
            raise ValueError(_OLD_EXPORTER)
        exported.save_pretrained(staged)
        largest = max(_difference(model, staged / GRAPH, _sized(inputs, *at)) for at in _COMPARED)
    return ExportedGraph(folder, largest)


# the exporter of transformers 5.17 returns another kind of graph
_OLD_EXPORTER = (
    "this version of transformers has no ONNX exporter (transformers.exporters) whose graphs can be "
    "saved. Install a newer one: pip install -U transformers"
)


def _check_installed() -> None:
    missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"ONNX export needs {', '.join(missing)}. Run pip install 'headprune[onnx]'"
        )
    if find_spec("transformers.exporters") is None:
        raise ValueError(_OLD_EXPORTER)


def _sized(inputs: Inputs, n: int, length: int) -> dict[str, Tensor]:
    """Inputs of another batch size and length; the last row's last two tokens are padding."""
    sized: dict[str, Tensor] = {}
    for name, value in inputs.items():
        if isinstance(value, Tensor):
            sized[name] = value[torch.arange(n) % len(value)]
            if _has_length(value):
                sized[name] = sized[name][:, torch.arange(length) % value.shape[1]]
    if "attention_mask" in sized and _has_length(sized["attention_mask"]):
        sized["attention_mask"][-1, -2:] = 0
    return sized


def _has_length(value: Tensor) -> bool:
    return value.ndim == 2 and not value.is_floating_point()


def _difference(model: PreTrainedModel, graph: Path, inputs: dict[str, Tensor]) -> float:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    feed = {value.name: inputs[value.name].numpy(force=True) for value in session.get_inputs()}
    output = torch.from_numpy(session.run(None, feed)[0]).double()
    with torch.no_grad(), eval_mode(model), _without_cache(model):
        return difference(floating(model(**inputs)), [output], model, _TOLERANCE)


@contextmanager
def _without_cache(model: PreTrainedModel) -> Iterator[None]:
    """Turn off the model's cache, whose keys and values would be outputs of the graph."""
    # every module's configuration, since parts may have copies
    configs = [module.config for module in model.modules() if hasattr(module, "config")]
    with ExitStack() as stack:
        for config in configs:
            if hasattr(config, "use_cache"):
                stack.callback(setattr, config, "use_cache", config.use_cache)
                config.use_cache = False
        yield


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress the exporters' warnings about versions and their printed steps."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"), quiet(), redirect_stdout(StringIO()):
            yield
    finally:
        logging.disable(before)
