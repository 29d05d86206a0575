"""What the parts of an attention module seem to be, read off its submodules and attributes.

Nothing here is believed: :mod:`headprune_lib.proving` tries each candidate on the model itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headprune_lib.architectures import Architecture
from headprune_lib.blocks import columns_of, group_size, rows_of
from headprune_lib.part_names import (
    BOTH,
    FUSED,
    GROUPS,
    HEADS,
    KEY,
    KEY_HEADS,
    OUTPUT,
    QUERY,
    VALUE,
    WIDTHS,
)

Linear = (nn.Linear, Conv1D)
_MAKERS = frozenset((*QUERY, *FUSED))
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class NotAttention(Exception):
    """A module that looks like attention but has parts that cannot be read; says which."""


@dataclass(frozen=True)
class Seen:
    """An attention module as its structure tells.

    Attributes:
        path: the module's name in the model.
        candidates: what its parts may be, the likeliest first.
    """

    path: str
    candidates: tuple[Architecture, ...]


def looks_like_attention(module: nn.Module) -> bool:
    """Whether the module has projections of queries, keys and values, or of queries alone."""
    if _MAKERS.isdisjoint(module._modules):  # nearly all modules, and this is asked of each of them
        return False
    names = dict(module.named_children())
    if any(name in names for name in FUSED) and _is_named_attention(module):
        return True
    if _first(names, QUERY) is None:
        return False
    makes_keys = _first(names, KEY) is not None or _first(names, BOTH) is not None
    if makes_keys or not _is_named_attention(module) or _first(names, OUTPUT) is None:
        return makes_keys
    # another layer makes its keys and values, if nothing here could
    return not any(
        isinstance(inner, Linear)
        for name, child in names.items()
        if name not in OUTPUT and not name.startswith("q")
        for inner in child.modules()
    )


def _is_named_attention(module: nn.Module) -> bool:
    name = type(module).__name__.lower()
    return "att" in name or "mha" in name


def read(model: nn.Module, path: str) -> Seen:
    """The module of this path, which :func:`looks_like_attention`, with what its parts may be.

    Raises:
        NotAttention: parts that are not there or are of another make; says which.
    """
    core = model.get_submodule(path)
    inputs = _inputs(core)
    found = list(_with_output(model, path, core))
    if not found:
        raise NotAttention("no output projection was seen beside its queries, keys and values")
    candidates = []
    for holder, prefix, output in found:
        module = model.get_submodule(holder)
        projection = module.get_submodule(output)
        for names in inputs:
            named: dict[str, Any] = {
                name: f"{prefix}.{part}" if prefix else part for name, part in names.items()
            }
            base = Architecture(output=output, core=prefix, returns=1, **named)
            candidates += [(holder, one) for one in _sized(core, module, projection, base, names)]
    if not candidates:
        raise NotAttention(
            "no attribute says into how many heads its output projection's "
            f"{columns_of(projection)} inputs split"
        )
    first = candidates[0][0]
    return Seen(first, tuple(one for holder, one in candidates if holder == first))


def _inputs(core: nn.Module) -> list[dict[str, str]]:
    """The names of what makes queries, keys and values."""
    children = dict(core.named_children())
    found = []
    query, key = _first(children, QUERY), _first(children, KEY)
    value, both = _first(children, VALUE), _first(children, BOTH)
    if query and key and value:
        found.append({"query": query, "key": key, "value": value})
    elif query and both:
        found.append({"query": query, "key": both, "value": both})
    elif query and key:  # keys are the values, too
        found.append({"query": query, "key": key, "value": key})
    fused = [name for name in FUSED if name in children]
    if not found:
        found += [{"fused": name} for name in fused]
    if not found and query:
        found.append({"query": query})
    for name in dict.fromkeys(part for names in found for part in names.values()):
        made = children[name]
        if isinstance(made, _CONVOLUTIONS):
            raise NotAttention(f"its {name} is a convolution ({type(made).__name__})")
        if not isinstance(made, Linear):
            raise NotAttention(f"its {name} is a {type(made).__name__}, not a linear projection")
    if not found:
        raise NotAttention("no projections of queries, keys and values were seen")
    return found


def _with_output(model: nn.Module, path: str, core: nn.Module) -> Iterator[tuple[str, str, str]]:
    """``(path of the whole, path of the core in it, path of the output projection in it)``."""
    for name, child in core.named_children():
        if name in OUTPUT and (inner := _linear_in(child)) is not None:
            yield path, "", f"{name}.{inner}" if inner else name
    parent_path, _, own = path.rpartition(".")
    if not own:
        return
    parent = model.get_submodule(parent_path)
    if isinstance(parent, nn.ModuleList | nn.Sequential):
        return
    for name, child in parent.named_children():
        if name != own and name in OUTPUT and (inner := _linear_in(child)) is not None:
            yield parent_path, own, f"{name}.{inner}" if inner else name


def _linear_in(child: nn.Module) -> str | None:
    """The linear projection that a child is, or holds before anything else; its path there."""
    if isinstance(child, Linear):
        return ""
    for name, inner in child.named_children():
        if isinstance(inner, Linear) and (name in OUTPUT or name in ("0", "dense")):
            return name
    return None


def _sized(
    core: nn.Module,
    module: nn.Module,
    output: nn.Module,
    base: Architecture,
    names: dict[str, str],
) -> Iterator[Architecture]:
    """The candidates with every attribute that may say how many heads there are, and how wide."""
    total = columns_of(output)
    for n_heads in _attributes(core, HEADS):
        count = attrgetter(n_heads)(core)
        if not 0 < count <= total or total % count:
            continue
        width = next(
            (one for one in _attributes(core, WIDTHS) if attrgetter(one)(core) * count == total),
            None,
        )
        for group in _grouping(core, count, base, names):
            one = replace(base, n_heads=n_heads, width=width, **group)
            if _rows_fit(module, one, count, group_size(core, one, count)):
                yield one


def _grouping(
    core: nn.Module, count: int, base: Architecture, names: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """What may say how many queries share a key and value head."""
    orders = [{"fused_by_head": False}, {"fused_by_head": True}] if base.fused else [{}]
    shared: list[dict[str, Any]] = []
    for name in _attributes(core, KEY_HEADS):
        heads = attrgetter(name)(core)
        if 0 < heads <= count and count % heads == 0:
            shared.append({"kv_heads": name})
            break
    for name in _attributes(core, GROUPS):
        if 0 < attrgetter(name)(core) <= count and count % attrgetter(name)(core) == 0:
            shared = [{"group": name, **(shared[0] if shared else {})}, *shared]
            break
    for order, one in itertools.product(orders, [*shared, {}]):
        yield {**order, **one}


def _rows_fit(module: nn.Module, one: Architecture, count: int, group: int) -> bool:
    """Whether every projection's rows split into the heads, or groups, that it is said to have."""
    if count % group:
        return False
    groups = count // group
    if one.fused:
        rows = rows_of(module.get_submodule(one.fused))
        return rows % (count + 2 * groups) == 0
    assert one.query
    if rows_of(module.get_submodule(one.query)) % count:
        return False
    if not (one.key and one.value):
        return True
    return (
        rows_of(module.get_submodule(one.key)) % groups == 0
        and rows_of(module.get_submodule(one.value)) % groups == 0
        # keys of a group are as wide as its queries are
        and (
            one.key == one.value
            or rows_of(module.get_submodule(one.value)) * group
            == columns_of(module.get_submodule(one.output))
        )
    )


def _first(children: dict[str, nn.Module], names: list[str]) -> str | None:
    return next((name for name in names if name in children), None)


def _attributes(core: nn.Module, names: list[str]) -> list[str]:
    """Those that the module or its configuration has as whole numbers."""
    found = [name for name in names if _whole(getattr(core, name, None))]
    config = getattr(core, "config", None)
    if config is not None:
        found += [f"config.{name}" for name in names if _whole(_of_config(config, name))]
    return found


def _of_config(config: Any, name: str) -> Any:
    try:
        return getattr(config, name, None)
    except Exception:  # some configurations refuse what differs from layer to layer
        return None


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def further_parts(module: nn.Module, one: Architecture, core: nn.Module) -> Iterator[Architecture]:
    """The candidate with what else has a part a head, and with the sizes its code may read.

    Removal needs these; the proof says which of them are so.
    """
    count = attrgetter(one.n_heads)(core)
    total = columns_of(module.get_submodule(one.output))
    named = {one.query, one.key, one.value, one.fused, one.output}
    prefix = f"{one.core}." if one.core else ""
    rows = tuple(
        f"{prefix}{name}"
        for name, child in core.named_children()
        if isinstance(child, Linear)
        and f"{prefix}{name}" not in named
        and rows_of(child) in (count, total)
    )
    tables = tuple(
        f"{prefix}{name}"
        for name, tensor in _own_tensors(core)
        if tensor.ndim and list(tensor.shape).count(count) == 1
    )
    sizes = tuple(
        name
        for name, value in vars(core).items()
        if _whole(value) and value == total and name not in (one.n_heads, one.width)
    )
    in_config = one.n_heads.startswith("config.") or hasattr(core, "config")
    for more, table in itertools.product(_with_and_without(rows), _with_and_without(tables)):
        base = replace(one, more_rows=more, per_head=table)
        yield base
        yield from (replace(base, size=name) for name in sizes)
        if len(sizes) > 1:
            yield replace(base, size=sizes)
        if in_config:
            yield replace(base, own_config=True, size=sizes or None)


def _with_and_without(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [names, ()] if names else [()]


def _own_tensors(core: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers of the module itself, of its embeddings and its small modules."""
    yield from core.named_parameters(recurse=False)
    yield from core.named_buffers(recurse=False)
    for name, child in core.named_children():
        if not isinstance(child, (*Linear, *_CONVOLUTIONS)):
            yield from ((f"{name}.{own}", t) for own, t in child.named_parameters())
