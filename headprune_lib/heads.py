"""Where the attention heads of a model are, and masks that fit them.

>>> from transformers import BertConfig, BertForSequenceClassification
>>> config = BertConfig(hidden_size=8, num_attention_heads=4, num_hidden_layers=2,
...                     intermediate_size=8, vocab_size=10)
>>> model = BertForSequenceClassification(config)
>>> [(block.kind, block.layer, block.n_heads, block.width) for block in find_heads(model)]
[('self', 0, 4, 2), ('self', 1, 4, 2)]
>>> {kind: tuple(mask.shape) for kind, mask in full_mask(model).items()}
{'self': (2, 4)}
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from headprune_lib.architectures import ARCHITECTURES, Architecture, UnknownArchitecture

Head = tuple[str, int, int]
"""A head as ``(kind, layer, head)``, counted from 0."""

if TYPE_CHECKING:
    from jaxtyping import Shaped

    HeadTensors = dict[str, Shaped[Tensor, "layer head"]]
else:
    HeadTensors = dict[str, Tensor]
    """One tensor of shape ``(layer, head)`` for each kind of attention; in a mask 1 keeps a head."""

KINDS = ("enc-enc", "enc-dec", "dec-dec")
"""Those of an encoder-decoder, as the paper names them: the encoder's own attention, the decoder's
attention to the encoder, and the decoder's own."""

# What models call the decoder's attention to the encoder.
_CROSS = frozenset({"encoder_attn", "EncDecAttention", "crossattention"})


@dataclass(frozen=True)
class AttentionBlock:
    """The heads of one attention layer.

    Attributes:
        kind: ``"self"``, or in an encoder-decoder ``"enc-enc"``, ``"enc-dec"`` (the decoder's
            attention to the encoder) or ``"dec-dec"``, as in the paper.
        layer: index among the blocks of this kind, from 0.
        n_heads: heads the layer was built with; masks and scores keep this width for good.
        width: numbers a head contributes to the output projection's input.
        kept: original indices of the heads still there, ascending (all, before any removal).
        group: query heads that share a key and value head; only whole groups can be removed.
        path: name of the attention module in the model.
        layer_path: name of the Transformer layer that holds it.
        architecture: names of the parts below ``path``.
    """

    kind: str
    layer: int
    n_heads: int
    width: int
    kept: tuple[int, ...]
    group: int
    path: str
    layer_path: str
    architecture: Architecture

    def part(self, model: nn.Module, name: str) -> nn.Module:
        """The submodule that a field of :class:`headprune_lib.architectures.Architecture` names.

        Args:
            name: ``"core"``, ``"output"``, ``"query"``, …; the entry's ``projections`` are those
                that hold weights.

        Raises:
            ValueError: these modules have no such part, such as ``"query"`` where one projection
                serves query, key and value.
        """
        relative = getattr(self.architecture, name)
        if relative is None:
            raise ValueError(
                f"{self.path} has no part {name!r}; its projections are "
                f"{self.architecture.projections}"
            )
        return model.get_submodule(f"{self.path}.{relative}" if relative else self.path)


def find_heads(model: nn.Module) -> list[AttentionBlock]:
    """Every attention block of ``model``, in order of layers.

    Raises:
        ValueError: a model in DataParallel's wrapper, which runs copies of it.
        UnknownArchitecture: no attention module of a known class; the message lists the classes
            whose name looks like attention, and the known ones.
    """
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise ValueError(
            f"{type(model).__name__} wraps the model and runs copies of it; give the model "
            "itself, wrapper.module"
        )
    blocks: list[AttentionBlock] = []
    layers: Counter[str] = Counter()
    two_sided = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    for path, module in model.named_modules():
        # a pruned module brings its own entry
        architecture = getattr(module, "headprune_architecture", None) or ARCHITECTURES.get(
            type(module).__name__
        )
        if architecture is None:
            continue
        core = module.get_submodule(architecture.core) if architecture.core else module
        n_heads = getattr(core, "headprune_n_heads", None) or attrgetter(architecture.n_heads)(core)
        kind = _kind(path) if two_sided else "self"
        blocks.append(
            AttentionBlock(
                kind=kind,
                layer=layers[kind],
                n_heads=n_heads,
                width=getattr(core, architecture.width),
                kept=getattr(core, "headprune_kept", tuple(range(n_heads))),
                group=getattr(core, architecture.group) if architecture.group else 1,
                path=path,
                layer_path=_layer_path(model, path),
                architecture=architecture,
            )
        )
        layers[kind] += 1
    if not blocks:
        classes = {type(module).__name__ for module in model.modules()}
        seen = {name for name in classes if "attention" in name.lower()}
        raise UnknownArchitecture(
            f"no known attention module in {type(model).__name__}; it holds "
            f"{sorted(seen) or 'no module named like attention'}. Known: {sorted(ARCHITECTURES)}. "
            'Teach it yours with headprune_lib.register_attention("ClassName", query=…, key=…, '
            "value=…, output=…)."
        )
    return blocks


def full_mask(model: nn.Module) -> HeadTensors:
    """A mask that keeps every head: float32 ones of shape ``(layer, head)`` for each kind."""
    return {kind: torch.ones(shape) for kind, shape in head_grid(model).items()}


def head_grid(model: nn.Module) -> dict[str, tuple[int, int]]:
    """``{kind: (layers, heads)}``: the shape of masks and scores, unchanged by removal."""
    grid: dict[str, tuple[int, int]] = {}
    for block in find_heads(model):
        layers, heads = grid.get(block.kind, (0, block.n_heads))
        if heads != block.n_heads:
            raise ValueError(
                f"layer {block.layer} of kind {block.kind!r} was built with {block.n_heads} heads, "
                f"the layers before it with {heads}: they do not fit one (layer, head) tensor"
            )
        grid[block.kind] = (layers + 1, heads)
    return grid


def check_mask(model: nn.Module, mask: HeadTensors) -> HeadTensors:
    """``mask`` as float32 tensors, or an error that says what is wrong with it.

    Raises:
        TypeError: not a dict of tensors, or integers or complex numbers in it.
        ValueError: a kind missing or unknown, another shape than ``(layer, head)``, NaN or
            infinity.
    """
    if not isinstance(mask, dict):
        raise TypeError(
            f"a mask is a dict of kind -> tensor, given {type(mask).__name__}; "
            "start from headprune_lib.full_mask(model)"
        )
    grid = head_grid(model)
    if set(mask) != set(grid):
        raise ValueError(
            f"the mask has kinds {sorted(mask)}, {type(model).__name__} has {sorted(grid)}; "
            "give one tensor for each kind (headprune_lib.full_mask(model) makes them)"
        )
    checked = {}
    for kind, values in mask.items():
        if not isinstance(values, Tensor) or not (
            values.dtype == torch.bool or values.is_floating_point()
        ):
            given = getattr(values, "dtype", type(values).__name__)
            raise TypeError(
                f"mask[{kind!r}] must be a bool or floating-point tensor, given {given}; "
                "convert it with .bool() or .float()"
            )
        if tuple(values.shape) != grid[kind]:
            raise ValueError(
                f"mask[{kind!r}] has shape {tuple(values.shape)}, expected (layer, head) = "
                f"{grid[kind]}"
            )
        if not torch.isfinite(values.float()).all():
            layer, head = (~torch.isfinite(values)).nonzero()[0].tolist()
            raise ValueError(
                f"mask[{kind!r}][{layer}, {head}] is {values[layer, head].item()}; "
                "every entry must be finite, 1 to keep a head and 0 to cut it"
            )
        checked[kind] = values.detach().float().cpu()
    return checked


def cut_heads(model: nn.Module, heads: list[Head]) -> HeadTensors:
    """A mask that cuts the heads given as ``(kind, layer, head)``, from 0, and keeps the others.

    Raises:
        IndexError: a head outside the model.
    """
    mask = full_mask(model)
    for kind, layer, head in heads:
        shape = tuple(mask[kind].shape) if kind in mask else None
        if shape is None or not (0 <= layer < shape[0] and 0 <= head < shape[1]):
            raise IndexError(
                f"no head ({kind!r}, layer {layer}, head {head}); the model has "
                f"{ {k: tuple(m.shape) for k, m in mask.items()} } as (layer, head), counted from 0"
            )
        mask[kind][layer, head] = 0
    return mask


def _kind(path: str) -> str:
    """The kind of an attention module of an encoder-decoder, by the names on its path."""
    *outer, own = path.split(".")
    if own in _CROSS:
        return "enc-dec"
    return "dec-dec" if "decoder" in outer else "enc-enc"


def _layer_path(model: nn.Module, path: str) -> str:
    """The nearest ancestor that sits in a list of layers; the module itself where there is none."""
    parts = path.split(".")
    for end in range(len(parts), 1, -1):
        if isinstance(model.get_submodule(".".join(parts[: end - 1])), nn.ModuleList):
            return ".".join(parts[:end])
    return path
