"""Which attention modules are known, and what their parts are called: one entry a class."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import FunctionType
from typing import Any

import transformers
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from headprune_lib import messages


class UnknownArchitecture(ValueError):
    """The model holds no attention module that the table below describes."""


@dataclass(frozen=True)
class Architecture:
    """How one class of attention modules names its parts (paths below the module).

    Attributes:
        query: projection with one row block a head; None where ``fused`` has it.
        key: the same for the keys; None with ``value`` where the module reads the keys and values
            that another layer makes.
        value: the same for the values.
        output: the projection whose input holds the heads side by side; masks act there.
        n_heads: attribute with the number of heads; ``config.…`` where only the configuration
            knows.
        width: attribute with the numbers a head contributes; None where the output projection's
            inputs over the number of heads are that.
        core: the submodule that turns hidden states into the heads side by side; ``""`` where the
            module itself does so and applies ``output`` as well.
        fused: one projection for query, key and value, in this order, in place of the three.
        fused_by_head: whether its rows lie head by head, each head's three together, in place of
            all queries before all keys before all values. With ``group`` the rows of a group lie
            together: its queries, its key, its value.
        more_rows: further projections with a row block a head; those a model lacks are passed over.
        per_head: parameters and buffers with an axis that is as long as there are heads, such as a
            table of position biases; those a model lacks are passed over.
        size: attribute with ``n_heads * width``, where the module's code reads it; or several.
        group: attribute with the number of query heads that share a key and value head.
        kv_heads: attribute with the number of key and value heads, where the module's code reads
            it, or where there is no ``group`` to say how many queries share one.
        own_config: whether the module's code reads its sizes from its configuration, so that a
            module with fewer heads needs a configuration of its own.
        bias_argument: argument with something a head (a relative position bias), computed once and
            handed from layer to layer.
        bias_output: place of that bias among what the core returns, where it does. A core that
            makes the bias names things as T5's does: ``has_relative_attention_bias``,
            ``compute_bias``.
        norm: submodule that normalises the module's input plus the projection's output; only where
            the module is its own core.
        returns: how many things the core returns; 1 is the tensor alone.
        in_tuple: whether a single thing comes in a tuple.
        weights: places of attention weights among what the core returns, under a kernel that makes
            them, or if it is asked for them.

    Raises:
        ValueError, TypeError: names that contradict each other.
    """

    query: str | None = None
    key: str | None = None
    value: str | None = None
    output: str = ""
    n_heads: str = "num_heads"
    width: str | None = "head_dim"
    core: str = ""
    fused: str | None = None
    fused_by_head: bool = False
    more_rows: tuple[str, ...] = ()
    per_head: tuple[str, ...] = ()
    size: str | tuple[str, ...] | None = None
    group: str | None = None
    kv_heads: str | None = None
    own_config: bool = False
    bias_argument: str | None = None
    bias_output: int | None = None
    norm: str | None = None
    returns: int = 2
    in_tuple: bool = False
    weights: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        three = [self.query, self.key, self.value]
        if (self.key is None) != (self.value is None) or (
            three != [None] * 3 if self.fused else self.query is None
        ):
            raise ValueError(
                f"query, key and value are {three}, fused is {self.fused!r}; name all three "
                "projections, or the fused one, or the query's alone where another layer makes "
                "the keys and values"
            )
        for field in ("output", "n_heads", "width"):
            if getattr(self, field) == "" or (field != "width" and not getattr(self, field)):
                raise ValueError(
                    f"{field} is {getattr(self, field)!r}; every attention module has "
                    "one, so name it"
                )
        for field in ("more_rows", "per_head"):
            if isinstance(getattr(self, field), str):
                raise TypeError(f"{field} is {getattr(self, field)!r}; give a tuple of names")
        if self.fused_by_head and not self.fused:
            raise ValueError("fused_by_head says how the rows of a fused projection lie; name it")
        if self.norm and self.core:
            raise ValueError(
                f"norm is {self.norm!r} and core {self.core!r}: the module around a "
                "core normalises by itself, so leave norm out"
            )
        if self.bias_output is not None and not self.bias_argument:
            raise ValueError(
                f"bias_output is {self.bias_output}, but no bias_argument is named: "
                "a bias that is returned is handed to the next layer by an argument"
            )
        if self.returns < 1:
            raise ValueError(f"returns is {self.returns}; attention returns at least one tensor")
        if self.bias_output is not None and not 0 < self.bias_output < self.returns:
            raise ValueError(
                f"bias_output is {self.bias_output}, returns {self.returns}: the bias "
                "comes after the heads, among what is returned"
            )

    @property
    def sizes(self) -> tuple[str, ...]:
        """The attributes that ``size`` names."""
        return (self.size,) if isinstance(self.size, str) else self.size or ()

    @property
    def projections(self) -> tuple[str, ...]:
        """The fields that name the projections these modules have, the output's last."""
        names = ("fused", "query", "key", "value", "output")
        return tuple(name for name in names if getattr(self, name))

    @property
    def makes_keys(self) -> bool:
        """Whether the module makes its own keys and values; else it reads another layer's."""
        return bool(self.fused or self.key)


_BERT = Architecture(
    core="self",
    query="self.query",
    key="self.key",
    value="self.value",
    output="output.dense",
    n_heads="num_attention_heads",
    width="attention_head_size",
    size="all_head_size",
)
_BART = Architecture(query="q_proj", key="k_proj", value="v_proj", output="out_proj")
_LLAMA = Architecture(
    query="q_proj",
    key="k_proj",
    value="v_proj",
    output="o_proj",
    n_heads="config.num_attention_heads",
    group="num_key_value_groups",
)

ARCHITECTURES: dict[str, Architecture] = {
    "BertAttention": _BERT,
    "RobertaAttention": _BERT,
    "ElectraAttention": _BERT,
    "DistilBertSelfAttention": Architecture(
        query="q_lin",
        key="k_lin",
        value="v_lin",
        output="out_lin",
        n_heads="n_heads",
        width="attention_head_size",
    ),
    "MPNetSelfAttention": Architecture(
        query="q",
        key="k",
        value="v",
        output="o",
        n_heads="num_attention_heads",
        width="attention_head_size",
        size="all_head_size",
        bias_argument="position_bias",
    ),
    "DebertaV2Attention": Architecture(
        core="self",
        query="self.query_proj",
        key="self.key_proj",
        value="self.value_proj",
        output="output.dense",
        n_heads="num_attention_heads",
        width="attention_head_size",
        size="all_head_size",
        more_rows=("self.pos_key_proj", "self.pos_query_proj"),
    ),
    "ModernBertAttention": Architecture(
        fused="Wqkv", output="Wo", n_heads="config.num_attention_heads"
    ),
    # one module for all layers: what is cut is cut in each
    "AlbertAttention": Architecture(
        query="query",
        key="key",
        value="value",
        output="dense",
        n_heads="num_attention_heads",
        width="attention_head_size",
        norm="LayerNorm",
    ),
    "ViTAttention": Architecture(
        query="q_proj", key="k_proj", value="v_proj", output="o_proj", n_heads="num_attention_heads"
    ),
    "BartAttention": _BART,
    "MarianAttention": _BART,
    "M2M100Attention": _BART,
    "T5Attention": Architecture(
        query="q",
        key="k",
        value="v",
        output="o",
        n_heads="n_heads",
        width="key_value_proj_dim",
        size="inner_dim",
        bias_argument="position_bias",
        bias_output=1,
        returns=3,
        weights=(2,),
    ),
    "GPT2Attention": Architecture(fused="c_attn", output="c_proj", size="split_size"),
    "GPTNeoXAttention": Architecture(
        fused="query_key_value",
        fused_by_head=True,
        output="dense",
        n_heads="config.num_attention_heads",
        width="head_size",
    ),
    "OPTAttention": _BART,
    "LlamaAttention": _LLAMA,
    "MistralAttention": _LLAMA,
    "Qwen3Attention": _LLAMA,
    "Gemma3Attention": _LLAMA,
}

REGISTERED: set[str] = set()
"""The classes that were taught, by name."""


def is_known(module: nn.Module) -> bool:
    """Whether a module's entry can be believed without a proof: its class was taught, or released."""
    return type(module).__name__ in REGISTERED or is_released(module)


def is_released(module: nn.Module) -> bool:
    """Whether a module has an entry and computes attention by the released code of transformers.

    A name does not say so: another class may have the same one, and a ``forward`` may be replaced
    in the class or in the module. So the class must be the one that transformers has under its name,
    and the functions must have been compiled from its file. Projections may be any modules, such as
    adapters or quantised ones.
    """
    entry = ARCHITECTURES.get(type(module).__name__)
    if entry is None:
        return False
    names = [getattr(entry, name) for name in entry.projections]
    holders = {"", entry.core, *(name.rpartition(".")[0] for name in names)}
    try:
        return all(_runs_released_code(module.get_submodule(path)) for path in holders)
    except AttributeError:  # another class of that name, without these parts
        return False


_TRANSFORMERS = f"{Path(transformers.__file__).parent}{os.sep}"


def _runs_released_code(module: nn.Module) -> bool:
    kind = type(module)
    home: Any = sys.modules.get(kind.__module__)
    if getattr(home, kind.__name__, None) is not kind or not _is_from(home.__file__):
        return False
    forward = vars(module).get("forward")  # a bound method of the class changes nothing
    if forward is not None and getattr(forward, "__func__", None) is not kind.forward:
        return False
    own = [getattr(value, "__func__", value) for value in vars(kind).values()]
    functions = [value for value in own if isinstance(value, FunctionType)]
    if kind.forward not in functions:
        return False
    chosen = getattr(getattr(module, "config", None), "_attn_implementation", None)
    called = [
        kind.forward.__globals__.get(name)
        for function in functions
        for name in function.__code__.co_names
    ]
    return all(
        function.__code__.co_filename == home.__file__
        and function.__code__.co_qualname == f"{kind.__name__}.{function.__code__.co_name}"
        for function in functions
    ) and all(
        _is_from(function.__code__.co_filename)
        for function in (*called, ALL_ATTENTION_FUNCTIONS.get(chosen))
        if isinstance(function, FunctionType)
    )


def _is_from(file: str | None) -> bool:
    return (file or "").startswith(_TRANSFORMERS)


def register_attention(
    module: type | str, *, like: type | str | Architecture | None = None, **names: Any
) -> Architecture:
    """Teach the library a class of attention modules; masks, scores and removal work from then on.

    What it is taught is proved on the first model of it (:func:`headprune_lib.find_heads`).

    Args:
        module: the class, or its name.
        like: a class in the table, its name, or an entry: what ``names`` does not say is as there.
        names: fields of :class:`headprune_lib.architectures.Architecture`: ``output`` and either
            ``query``, ``key`` and ``value`` or ``fused`` are needed without ``like`` (``query``
            alone where another layer makes the keys and values); others are such as
            ``n_heads="n_head"``, ``width="head_size"`` or ``returns=1``.

    Returns:
        the new entry.

    Raises:
        ValueError: neither a query's nor a fused projection is named, or both, or a key's without
            a value's; other names that contradict each other; or a class in ``like`` that is not in
            the table.
        TypeError: a field that :class:`headprune_lib.architectures.Architecture` does not have.

    Example:
        >>> entry = register_attention("MyLlamaAttention", like="LlamaAttention", output="wo")
        >>> entry.query, entry.output
        ('q_proj', 'wo')
        >>> del ARCHITECTURES["MyLlamaAttention"]
        >>> REGISTERED.remove("MyLlamaAttention")
    """
    name = _class_name(module)
    unknown = sorted(names.keys() - {field.name for field in fields(Architecture)})
    if unknown:
        raise TypeError(
            f"no field {unknown[0]!r} of an attention class; there are "
            f"{[field.name for field in fields(Architecture)]}"
        )
    entry = Architecture(**names) if like is None else replace(_entry(like), **names)
    ARCHITECTURES[name] = entry
    REGISTERED.add(name)
    return entry


def _class_name(module: type | str) -> str:
    return module if isinstance(module, str) else module.__name__


def _entry(like: type | str | Architecture) -> Architecture:
    if isinstance(like, Architecture):
        return like
    if _class_name(like) not in ARCHITECTURES:
        raise ValueError(messages.unknown("attention class", _class_name(like), ARCHITECTURES))
    return ARCHITECTURES[_class_name(like)]
