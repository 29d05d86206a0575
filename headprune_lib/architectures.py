"""Which attention modules are known, and what their parts are called: one entry a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class UnknownArchitecture(ValueError):
    """The model holds no attention module that the table below describes."""


@dataclass(frozen=True)
class Architecture:
    """How one class of attention modules names its parts (paths below the module).

    Attributes:
        query: projection with one row block a head; None where ``fused`` has it.
        key: the same for the keys.
        value: the same for the values.
        output: the projection whose input holds the heads side by side; masks act there.
        n_heads: attribute with the number of heads; ``config.…`` where only the configuration
            knows.
        width: attribute with the numbers a head contributes.
        core: the submodule that turns hidden states into the heads side by side; ``""`` where the
            module itself does so and applies ``output`` as well.
        fused: one projection for query, key and value, in this order, in place of the three.
        fused_by_head: whether its rows lie head by head, each head's three together, in place of
            all queries before all keys before all values.
        more_rows: further projections with a row block a head; those a model lacks are passed over.
        size: attribute with ``n_heads * width``, where the module's code reads it.
        group: attribute with the number of query heads that share a key and value head.
        bias_argument: argument with something a head (a relative position bias), computed once and
            handed from layer to layer.
        bias_output: place of that bias among what the core returns, where it does. A core that
            makes the bias names things as T5's does: ``has_relative_attention_bias``,
            ``compute_bias``.
        norm: submodule that normalises the module's input plus the projection's output; only where
            the module is its own core.
        returns: how many things the core returns; 1 is the tensor alone.

    Raises:
        ValueError, TypeError: names that contradict each other.
    """

    query: str | None = None
    key: str | None = None
    value: str | None = None
    output: str = ""
    n_heads: str = "num_heads"
    width: str = "head_dim"
    core: str = ""
    fused: str | None = None
    fused_by_head: bool = False
    more_rows: tuple[str, ...] = ()
    size: str | None = None
    group: str | None = None
    bias_argument: str | None = None
    bias_output: int | None = None
    norm: str | None = None
    returns: int = 2

    def __post_init__(self) -> None:
        three = [self.query, self.key, self.value]
        if (None in three) != (three == [None] * 3) or (None in three) != bool(self.fused):
            raise ValueError(
                f"query, key and value are {three}, fused is {self.fused!r}; "
                "name all three projections, or the fused one"
            )
        for field in ("output", "n_heads", "width"):
            if not getattr(self, field):
                raise ValueError(
                    f"{field} is {getattr(self, field)!r}; every attention module has "
                    "one, so name it"
                )
        if isinstance(self.more_rows, str):
            raise TypeError(f"more_rows is {self.more_rows!r}; give a tuple of names")
        if self.fused_by_head and not self.fused:
            raise ValueError("fused_by_head says how the rows of a fused projection lie; name it")
        if self.fused and self.group:
            raise ValueError(
                f"fused is {self.fused!r} and group {self.group!r}: a fused "
                "projection is cut as three blocks of one size, and a group's are not"
            )
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
    def projections(self) -> tuple[str, ...]:
        """The fields that name the projections these modules have, the output's last."""
        return ("fused", "output") if self.fused else ("query", "key", "value", "output")


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


def register_attention(
    module: type | str,
    *,
    output: str,
    query: str | None = None,
    key: str | None = None,
    value: str | None = None,
    **names: Any,
) -> Architecture:
    """Teach the library a class of attention modules; masks, scores and removal work from then on.

    Args:
        module: the class, or its name.
        output: name of the output projection below the module.
        query, key, value: names of the three projections; or ``fused="…"`` for one of all three.
        names: further fields of :class:`headprune_lib.architectures.Architecture`, such as
            ``n_heads="n_head"``, ``width="head_size"`` or ``returns=1``.

    Returns:
        the new entry.

    Raises:
        ValueError: neither three projections nor a fused one are named, or both; or other names
            that contradict each other.
        TypeError: a field that :class:`headprune_lib.architectures.Architecture` does not have.
    """
    entry = Architecture(query=query, key=key, value=value, output=output, **names)
    ARCHITECTURES[module if isinstance(module, str) else module.__name__] = entry
    return entry
