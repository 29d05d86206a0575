"""The heads of one attention layer, and the parts that make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from headprune_lib.architectures import Architecture


@dataclass(frozen=True)
class AttentionBlock:
    """The heads of one attention layer.

    Attributes:
        kind: ``"self"``, or in an encoder-decoder ``"enc-enc"``, ``"enc-dec"`` (the decoder's
            attention to the encoder) or ``"dec-dec"``, as in the paper; ``"vision"``, ``"audio"``
            and ``"text"`` where a model has several towers, and ``"cross"`` for attention to
            something from outside in a model without an encoder of its own.
        layer: index among the blocks of this kind, from 0.
        n_heads: heads the layer was built with; masks and scores keep this width for good.
        width: numbers a head contributes to the output projection's input.
        kept: original indices of the heads still there, ascending (all, before any removal).
        group: query heads that share a key and value head, of those still there.
        path: name of the attention module in the model.
        layer_path: name of the Transformer layer that holds it.
        architecture: names of the parts below ``path``.
        how: how the block was found: ``"table"``, ``"registered"``, ``"found"`` (by its structure,
            and proved) or ``"assumed"`` (by its structure alone).
        masks_only: why heads cannot be removed, only masked; empty where they can.
        keeps_one: why the layer cannot lose all its heads; empty where it can.
        whole_groups: why heads that share a key and value head can only go together; empty where
            every group may lose equally many of its heads and keep its key and value head.
        keeps_groups: why key and value heads cannot go, only some of the heads that share each:
            another layer reads them, or they are another layer's; empty where they can.
        by_example: whether the output projection takes (example, position, …); else examples are
            windowed, flattened or turned there, and what is asked of each takes one a batch.
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
    how: str = "table"
    masks_only: str = ""
    keeps_one: str = ""
    whole_groups: str = ""
    keeps_groups: str = ""
    by_example: bool = True

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The heads still there (original indices), those that share a key and value head together.

        >>> AttentionBlock("self", 0, 6, 2, (0, 1, 4, 5), 2, "", "", Architecture(
        ...     fused="qkv", output="o")).groups
        [(0, 1), (4, 5)]
        """
        return [self.kept[i : i + self.group] for i in range(0, len(self.kept), self.group)]

    def group_left(self, keep: Sequence[int]) -> int:
        """How many of ``keep`` share a key and value head, once these heads alone are left.

        Raises:
            ValueError: groups that lose unequally many heads and not all, so that no number of
                queries a key would be right; a part of a group where only all of it can go; or
                all of a group whose keys and values another layer reads, or makes.
        """
        left = [len(set(group) & set(keep)) for group in self.groups]
        sizes = sorted(set(left) - {0})
        if self.keeps_groups and sizes and 0 in left:
            gone = [list(g) for g, n in zip(self.groups, left, strict=True) if not n]
            raise ValueError(
                f"{self.path}: heads {gone} are all that use a key and value head each, which "
                f"cannot be removed: {self.keeps_groups}. Keep equally many heads of each group "
                f"(prune_mask does), or use masked_heads. The groups are "
                f"{[list(g) for g in self.groups]}"
            )
        part = [list(g) for g, n in zip(self.groups, left, strict=True) if 0 < n < self.group]
        if part and (len(sizes) > 1 or self.whole_groups):
            how = (
                f"they can only go together ({self.whole_groups}): cut or keep all of a group"
                if self.whole_groups
                else "cut all of a group, or equally many in every group that is left "
                "(prune_mask has per_group)"
            )
            raise ValueError(
                f"{self.kind} layer {self.layer}: heads {part} share a key and value head each; "
                f"{how}, or use masked_heads. The groups are {[list(g) for g in self.groups]}"
            )
        return sizes[0] if sizes else self.group

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
        return model.get_submodule(".".join(filter(None, [self.path, relative])))


def block_of(
    model: nn.Module, path: str, architecture: Architecture, **said: Any
) -> AttentionBlock:
    """The block of the attention module of this path, whose parts have these names.

    Args:
        said: the fields that the module itself does not tell.

    Raises:
        AttributeError: a part that the module does not have.
    """
    module = model.get_submodule(path)
    core: Any = module.get_submodule(architecture.core)
    n_heads = getattr(core, "headprune_n_heads", None) or attrgetter(architecture.n_heads)(core)
    width = getattr(core, "headprune_width", None) or (
        attrgetter(architecture.width)(core)
        if architecture.width
        else columns_of(module.get_submodule(architecture.output)) // n_heads
    )
    return AttentionBlock(
        n_heads=n_heads,
        width=width,
        kept=getattr(core, "headprune_kept", tuple(range(n_heads))),
        group=getattr(core, "headprune_group", None) or group_size(core, architecture, n_heads),
        path=path,
        architecture=architecture,
        **said,
    )


def group_size(core: Any, architecture: Architecture, n_heads: int) -> int:
    """How many query heads share a key and value head in a module that was not pruned."""
    if architecture.group:
        return attrgetter(architecture.group)(core)
    if architecture.kv_heads:
        return n_heads // attrgetter(architecture.kv_heads)(core)
    return 1


def rows_of(projection: Any) -> int:
    """How many numbers a projection returns."""
    return projection.nf if isinstance(projection, Conv1D) else projection.out_features


def columns_of(projection: Any) -> int:
    """How many numbers a projection takes."""
    return projection.nx if isinstance(projection, Conv1D) else projection.in_features
