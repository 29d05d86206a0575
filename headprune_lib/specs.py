"""Known attention classes, the names of their parts, and the heads of one layer."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from operator import attrgetter
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import transformers
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headprune_lib import messages

LINEAR = (nn.Linear, Conv1D)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
FORMER = {
    "architecture": "spec", "by_example": "batch_first", "fused_by_head": "qkv_interleaved",
    "group": "queries_per_kv", "how": "source", "keeps_groups": "why_keep_groups",
    "keeps_one": "why_keep_one", "kept": "kept_heads", "masks_only": "why_not_prunable",
    "more_rows": "extra_projections", "own_config": "copies_config",
    "whole_groups": "why_whole_groups", "width": "head_dim",
}  # fmt: skip
"""Former name of a field -> its current name."""


class NotAttention(Exception):
    """A module that looks like attention but has parts that cannot be read; says which."""


class UnknownArchitecture(ValueError):
    """The model has no attention module that is known or could be verified."""


class _FormerFields:
    """A base whose fields are also found under former names, with a DeprecationWarning."""

    if not TYPE_CHECKING:  # type checkers should know only the new names

        def __getattr__(self, name: str) -> Any:
            owner, new = type(self), FORMER.get(name)
            if new not in owner.__dataclass_fields__:
                raise AttributeError(f"{owner.__name__!r} has no attribute {name!r}")
            messages.warn_of_former(f"{owner.__name__}.{name}", new)
            return getattr(self, new)


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of fields by name, with former names replaced by current ones."""
    return {FORMER.get(name, name): value for name, value in values.items()}


@dataclass(frozen=True)
class AttentionSpec(_FormerFields):
    """How one class of attention modules names its parts (paths below the module).

    Attributes:
        query: projection with one block of rows per head; None where ``fused`` includes it. Given
            with ``fused``, it belongs to cross-attention, whose fused projection makes only keys
            and values; modules without it make all three in the fused one.
        key: the same for the keys; None, like ``value``, where the module reads the keys and values
            that another layer makes.
        value: the same for the values.
        output: the projection whose input is the heads side by side; masks act there.
        n_heads: attribute with the number of heads; ``config.…`` where only the configuration
            has it.
        head_dim: attribute with the width of one head; None where it is the output projection's
            input width divided by the number of heads.
        core: the submodule that turns hidden states into the heads side by side; ``""`` where the
            module itself does so and applies ``output`` as well.
        fused: one projection for query, key and value, in this order, instead of the three.
        qkv_interleaved: whether its rows are ordered head by head, each head's three together,
            instead of all queries, all keys, all values. With ``queries_per_kv``, the rows are
            ordered group by group: its queries, its key, its value.
        extra_projections: further projections with one block of rows per head; those missing in a
            model are skipped.
        per_head: parameters and buffers with an axis over the heads, such as a table of position
            biases; those missing in a model are skipped.
        size: attribute, or several, with ``n_heads * head_dim``, where the module's code reads it.
        queries_per_kv: attribute with the number of query heads that share a key and value head.
        kv_heads: attribute with the number of key and value heads, where the module's code reads
            it, or where there is no ``queries_per_kv`` to say how many queries share one.
        copies_config: whether the module's code reads its sizes from its configuration, so that a
            module with fewer heads needs a configuration of its own.
        bias_argument: argument with values per head (a relative position bias), computed once and
            passed from layer to layer.
        bias_output: index of that bias among the core's outputs, where it is one. A core that
            makes the bias uses T5's names: ``has_relative_attention_bias``, ``compute_bias``.
        norm: submodule that normalises the module's input plus the projection's output; only where
            the module is its own core.
        returns: number of outputs of the core; 1 is the tensor alone.
        in_tuple: whether a single output comes in a tuple.
        weights: indices of attention weights among the core's outputs, with a kernel that makes
            them, or on request.

    Raises:
        ValueError, TypeError: names that contradict each other.
    """

    query: str | None = None
    key: str | None = None
    value: str | None = None
    output: str = ""
    n_heads: str = "num_heads"
    head_dim: str | None = "head_dim"
    core: str = ""
    fused: str | None = None
    qkv_interleaved: bool = False
    extra_projections: tuple[str, ...] = ()
    per_head: tuple[str, ...] = ()
    size: str | tuple[str, ...] | None = None
    queries_per_kv: str | None = None
    kv_heads: str | None = None
    copies_config: bool = False
    bias_argument: str | None = None
    bias_output: int | None = None
    norm: str | None = None
    returns: int = 2
    in_tuple: bool = False
    weights: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        apart = [self.query, self.key, self.value]
        named = [bool(name) for name in apart]
        alone = named == [True, False, False]
        if not (alone or (not any(named) if self.fused else all(named))):
            raise ValueError(
                f"query, key and value are {apart}, fused is {self.fused!r}. Name all three "
                "projections, or the fused one (and the query's if cross-attention has a separate "
                "one), or the query's alone if another layer makes the keys and values"
            )
        for name in ("output", "n_heads"):
            if not getattr(self, name):
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, but every attention module has one"
                )
        for name in ("extra_projections", "per_head"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"{name} is {getattr(self, name)!r}. Give a tuple of names")

    def of_module(self, module: nn.Module) -> AttentionSpec:
        """The entry, without ``query`` where the module's fused projection makes all three."""
        if self.fused and self.query and not _has(module, self.query):
            return replace(self, query=None)
        return self

    @property
    def sizes(self) -> tuple[str, ...]:
        """The attributes that ``size`` names."""
        return (self.size,) if isinstance(self.size, str) else self.size or ()

    @property
    def projections(self) -> tuple[str, ...]:
        """The fields that name a projection of these modules, the output's last."""
        names = ("fused", "query", "key", "value", "output")
        return tuple(name for name in names if getattr(self, name))

    @property
    def makes_keys(self) -> bool:
        """Whether the module makes its own keys and values; else it reads another layer's."""
        return bool(self.fused or self.key)


_PLAIN = AttentionSpec(
    query="query", key="key", value="value", output="dense",
    n_heads="num_attention_heads", head_dim="attention_head_size",
)  # fmt: skip
_BERT = replace(
    _PLAIN, core="self", query="self.query", key="self.key", value="self.value",
    output="output.dense", size="all_head_size",
)  # fmt: skip
_BART = AttentionSpec(query="q_proj", key="k_proj", value="v_proj", output="out_proj")
_LLAMA = replace(
    _BART, output="o_proj", n_heads="config.num_attention_heads",
    queries_per_kv="num_key_value_groups",
)  # fmt: skip

# fmt: off
ATTENTION_SPECS: dict[str, AttentionSpec] = {
    # one module for all layers: a head cut in one is cut in each
    "AlbertAttention": replace(_PLAIN, norm="LayerNorm"),
    "BartAttention": _BART,
    "BertAttention": _BERT,
    "DebertaV2Attention": replace(
        _BERT, query="self.query_proj", key="self.key_proj", value="self.value_proj",
        extra_projections=("self.pos_key_proj", "self.pos_query_proj"),
    ),
    "DistilBertSelfAttention": replace(
        _PLAIN, query="q_lin", key="k_lin", value="v_lin", output="out_lin", n_heads="n_heads"
    ),
    "ElectraAttention": _BERT,
    "GPT2Attention": AttentionSpec(
        fused="c_attn", query="q_attn", output="c_proj", size="split_size"
    ),
    "GPTNeoXAttention": AttentionSpec(
        fused="query_key_value", qkv_interleaved=True, output="dense",
        n_heads="config.num_attention_heads", head_dim="head_size",
    ),
    "Gemma3Attention": _LLAMA,
    "LlamaAttention": _LLAMA,
    "M2M100Attention": _BART,
    "MPNetSelfAttention": replace(
        _PLAIN, query="q", key="k", value="v", output="o", size="all_head_size",
        bias_argument="position_bias",
    ),
    "MarianAttention": _BART,
    "MistralAttention": _LLAMA,
    "ModernBertAttention": AttentionSpec(
        fused="Wqkv", output="Wo", n_heads="config.num_attention_heads"
    ),
    "OPTAttention": _BART,
    "Qwen3Attention": _LLAMA,
    "RobertaAttention": _BERT,
    "T5Attention": AttentionSpec(
        query="q", key="k", value="v", output="o", n_heads="n_heads",
        head_dim="key_value_proj_dim", size="inner_dim", bias_argument="position_bias",
        bias_output=1, returns=3, weights=(2,),
    ),
    "ViTAttention": replace(_BART, output="o_proj", n_heads="num_attention_heads"),
}
# fmt: on

REGISTERED: set[str] = set()
"""Names of the registered classes."""


def is_known(module: nn.Module) -> bool:
    """Whether a module's entry can be trusted unverified: its class was registered, or released."""
    return type(module).__name__ in REGISTERED or is_released(module)


def is_released(module: nn.Module) -> bool:
    """Whether a module has an entry and computes attention by the released code of transformers.

    A name is not enough: another class may have the same one, and a ``forward`` may be replaced in
    the class or in the module. Projections may be any modules, such as adapters or quantised ones.
    """
    entry = ATTENTION_SPECS.get(type(module).__name__)
    if entry is None or not has_parts(module, entry):  # another class of that name
        return False
    parts = (getattr(entry, name) for name in entry.of_module(module).projections)
    holders = {"", entry.core, *(part.rpartition(".")[0] for part in parts)}
    return all(_runs_released_code(module.get_submodule(path)) for path in holders)


def has_parts(module: nn.Module, entry: AttentionSpec) -> bool:
    """Whether a module has the core and the projections that an entry names."""
    parts = (getattr(entry, name) for name in entry.of_module(module).projections)
    return all(_has(module, path) for path in (entry.core, *parts))


def _has(module: nn.Module, path: str) -> bool:
    try:
        module.get_submodule(path)
    except AttributeError:
        return False
    return True


def _runs_released_code(module: nn.Module) -> bool:
    """Whether the class, and everything its functions call, is transformers' own."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # takes seconds

    kind, home = type(module), sys.modules.get(type(module).__module__)
    members = [getattr(value, "__func__", value) for value in vars(kind).values()]
    methods = [value for value in members if isinstance(value, FunctionType)]
    if (
        getattr(home, kind.__name__, None) is not kind
        or kind.forward not in methods
        or getattr(module.forward, "__func__", None) is not kind.forward
        or any(not f.__code__.co_qualname.startswith(f"{kind.__name__}.") for f in methods)
    ):
        return False
    kernel = getattr(getattr(module, "config", None), "_attn_implementation", None)
    names = (name for function in methods for name in function.__code__.co_names)
    called = [*(getattr(home, name, None) for name in names), ALL_ATTENTION_FUNCTIONS.get(kernel)]
    functions = [f for f in (*methods, *called) if isinstance(f, FunctionType)]
    return all(f.__code__.co_filename.startswith(RELEASED) for f in functions)


RELEASED = f"{Path(transformers.__file__).parent}{os.sep}"
"""The prefix of the paths of transformers' own code."""


def register_attention(
    module: type | str, *, like: type | str | AttentionSpec | None = None, **names: Any
) -> AttentionSpec:
    """Register a class of attention modules, so that masks, scores and removal work on it.

    The entry is checked on the first model with such a module (:func:`headprune_lib.find_heads`).

    Args:
        module: the class, or its name.
        like: a class in the table, its name, or an entry: the source of fields not in ``names``.
        names: fields of :class:`headprune_lib.specs.AttentionSpec`. Without ``like``, these must
            include ``output`` and either ``fused`` or ``query``, ``key`` and ``value`` (``query``
            alone where another layer makes the keys and values). Others are, for example,
            ``n_heads="n_head"``, ``head_dim="head_size"`` or ``returns=1``.

    Returns:
        the new entry.

    Raises:
        ValueError: names that contradict each other, or a class in ``like`` that is not in the
            table.
        TypeError: a field that :class:`headprune_lib.specs.AttentionSpec` does not have.

    Example:
        >>> entry = register_attention("MyLlamaAttention", like="LlamaAttention", output="wo")
        >>> entry.query, entry.output
        ('q_proj', 'wo')
        >>> del ATTENTION_SPECS["MyLlamaAttention"]
        >>> REGISTERED.remove("MyLlamaAttention")
    """
    known = [field.name for field in fields(AttentionSpec)]
    for former in names.keys() & FORMER.keys():
        messages.warn_of_former(f"{former}=", f"{FORMER[former]}=")
    names = renamed(names)
    if unknown := sorted(names.keys() - set(known)):
        raise TypeError(f"unknown field {unknown[0]!r} of an attention class. Known: {known}")
    base = ATTENTION_SPECS.get(_class_name(like)) if isinstance(like, type | str) else like
    if base is None and like is not None:
        raise ValueError(messages.unknown("attention class", _class_name(like), ATTENTION_SPECS))
    entry = AttentionSpec(**names) if base is None else replace(base, **names)
    name = _class_name(module)
    ATTENTION_SPECS[name] = entry
    REGISTERED.add(name)
    return entry


def _class_name(module: Any) -> str:
    return module if isinstance(module, str) else module.__name__


@dataclass(frozen=True)
class AttentionLayer(_FormerFields):
    """The heads of one attention layer.

    Attributes:
        kind: ``"self"``, or in an encoder-decoder ``"enc-enc"``, ``"enc-dec"`` (the decoder's
            attention to the encoder) or ``"dec-dec"``, as in the paper; ``"vision"``, ``"audio"``
            and ``"text"`` where a model has several towers, and ``"cross"`` for attention to
            something from outside in a model without an encoder of its own.
        layer: index among the blocks of this kind, from 0.
        n_heads: heads the layer was built with; masks and scores keep this width after a removal.
        head_dim: numbers a head contributes to the output projection's input.
        kept_heads: original indices of the heads still there, ascending (all, before any removal).
        queries_per_kv: number of query heads per key and value head, among those still there.
        path: name of the attention module in the model.
        layer_path: name of the Transformer layer that holds it.
        spec: names of the parts below ``path``.
        source: how the block was found: ``"table"``, ``"registered"``, ``"found"`` (by its
            structure, and verified) or ``"assumed"`` (by its structure alone).
        why_not_prunable: why heads cannot be removed, only masked; empty where they can.
        why_keep_one: why the layer cannot lose all its heads; empty where it can.
        why_whole_groups: why heads that share a key and value head can only be removed together;
            empty where all groups may lose equally many heads and keep their key and value heads.
        why_keep_groups: why key and value heads cannot be removed, only some of the heads that
            share each: another layer reads them, or they are another layer's; empty where they can.
        batch_first: whether the output projection takes (example, position, …); else examples are
            windowed, flattened or transposed there, and values per example need batches of one.
    """

    kind: str
    layer: int
    n_heads: int
    head_dim: int
    kept_heads: tuple[int, ...]
    queries_per_kv: int
    path: str
    layer_path: str
    spec: AttentionSpec
    source: str = "table"
    why_not_prunable: str = ""
    why_keep_one: str = ""
    why_whole_groups: str = ""
    why_keep_groups: str = ""
    batch_first: bool = True

    @property
    def limits(self) -> dict[str, Any]:
        """The fields that the module itself does not tell: its kind, and what was verified."""
        proved = (field.name for field in fields(self) if field.default is not MISSING)
        return {name: getattr(self, name) for name in ("kind", *proved)}

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The heads still there (original indices), grouped by key and value head.

        >>> AttentionLayer("self", 0, 6, 2, (0, 1, 4, 5), 2, "", "", AttentionSpec(
        ...     fused="qkv", output="o")).groups
        [(0, 1), (4, 5)]
        """
        heads, size = self.kept_heads, self.queries_per_kv
        return [heads[i : i + size] for i in range(0, len(heads), size)]

    def group_left(self, keep: Sequence[int]) -> int:
        """The number of query heads per key and value head once only the heads ``keep`` are left.

        Raises:
            ValueError: groups that lose different numbers of heads and not all, so that no single
                number of queries per key fits; part of a group that can only be removed whole; or
                all of a group whose keys and values another layer reads, or makes.
        """
        groups = [list(group) for group in self.groups]
        counts = [len(set(group) & set(keep)) for group in groups]
        sizes = sorted(set(counts) - {0})
        gone = [group for group, n in zip(groups, counts, strict=True) if not n]
        if self.why_keep_groups and sizes and gone:
            raise ValueError(
                f"{self.path}: only heads {gone} use their key and value heads, which "
                f"cannot be removed: {self.why_keep_groups}. Keep equally many heads of each group "
                f"(prune_mask does), or use masked_heads. The groups are {groups}"
            )
        size = self.queries_per_kv
        split = [group for group, n in zip(groups, counts, strict=True) if 0 < n < size]
        if split and (len(sizes) > 1 or self.why_whole_groups):
            how = (
                f"they can only be removed together ({self.why_whole_groups}): "
                "cut or keep all of a group"
                if self.why_whole_groups
                else "cut all of a group, or equally many in every group that is left "
                "(prune_mask has per_group)"
            )
            raise ValueError(
                f"{self.kind} layer {self.layer}: heads {split} share a key and value head each; "
                f"{how}, or use masked_heads. The groups are {groups}"
            )
        return sizes[0] if sizes else self.queries_per_kv

    def part(self, model: nn.Module, name: str) -> nn.Module:
        """The submodule that a field of the entry names: ``"core"``, ``"output"``, ``"query"``, ….

        Raises:
            ValueError: no such part, such as ``"query"`` where one projection serves all three.
        """
        relative = getattr(self.spec, name)
        if relative is None:
            raise ValueError(f"{self.path} has no part {name!r}, only {self.spec.projections}")
        return model.get_submodule(".".join(filter(None, [self.path, relative])))


PRUNED = "headprune_layer"
"""Attribute of a pruned attention module and its copies: the :class:`AttentionLayer` left."""


def layer_at(
    model: nn.Module, path: str, spec: AttentionSpec, kind: str = "self", **known: Any
) -> AttentionLayer:
    """The heads of the module at this path; ``known`` are fields that it does not tell itself."""
    known = {"path": path, "kind": kind, "layer": 0, "layer_path": "", **known}
    module = model.get_submodule(path)
    if (left := vars(module).get(PRUNED)) is not None:
        return replace(left, **known)
    names = spec.of_module(module)
    core: Any = module.get_submodule(names.core)
    n_heads = attrgetter(names.n_heads)(core)
    return AttentionLayer(
        n_heads=n_heads,
        head_dim=attrgetter(names.head_dim)(core)
        if names.head_dim
        else columns_of(module.get_submodule(names.output)) // n_heads,
        kept_heads=tuple(range(n_heads)),
        queries_per_kv=group_size(core, names, n_heads),
        spec=names,
        **known,
    )


def group_size(core: Any, spec: AttentionSpec, n_heads: int) -> int:
    """The number of query heads per key and value head in a module that was not pruned."""
    if spec.queries_per_kv:
        return attrgetter(spec.queries_per_kv)(core)
    return n_heads // attrgetter(spec.kv_heads)(core) if spec.kv_heads else 1


def rows_of(projection: Any) -> int:
    """The output width of a projection."""
    return projection.nf if isinstance(projection, Conv1D) else projection.out_features


def matrix_of(projection: Any) -> Tensor:
    """A view of a projection's weight, (out, in)."""
    return projection.weight.T if isinstance(projection, Conv1D) else projection.weight


def columns_of(projection: Any) -> int:
    """The input width of a projection."""
    return projection.nx if isinstance(projection, Conv1D) else projection.in_features
