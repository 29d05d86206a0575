"""One attention module's weights, sliced down to some of its heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headprune_lib.pruned_forward import (
    counted_beside,
    fit_caches,
    run_without_heads,
    take_bias_of_all_heads,
)
from headprune_lib.records import record_of, write_record
from headprune_lib.specs import AttentionBlock, rows_of

if TYPE_CHECKING:
    from jaxtyping import Int


def keep_heads(model: nn.Module, block: AttentionBlock, keep: Sequence[int]) -> None:
    """Slice one block's weights down to the heads ``keep`` (original indices).

    Raises:
        ValueError: groups that lose unequally many heads; the weights are not checked.
    """
    names, group = block.architecture, block.group_left(keep)
    core: Any = block.part(model, "core")  # its class knows what attributes it has
    module: Any = model.get_submodule(block.path)
    positions = [block.kept.index(head) for head in keep]
    for path, rows in head_rows(model, block, keep).items():
        _keep_features(module.get_submodule(path), rows.sort().values, "out")
    columns = _features(positions, block.width)
    for path in names.more_rows:
        if (more := _submodule(module, path)) is not None:
            width = rows_of(more) // max(1, len(block.kept))
            _keep_features(more, _features(positions, width), "out")
    if not hasattr(core, "headprune_axes"):
        # once: a table of 4 rows and 8 heads has two axes of 4 when 4 heads are left
        core.headprune_axes = dict(_axes_of_heads(module, names.per_head, len(block.kept)))
    for path, axis in core.headprune_axes.items():
        _keep_entries(module, path, axis, positions)
    _keep_features(block.part(model, "output"), columns, "in")
    _say_sizes(core, block, len(keep), group, len(columns))
    if not hasattr(core, "headprune_kept"):
        fit_caches(core)
        if names.bias_argument:
            take_bias_of_all_heads(core, names)
    core.headprune_n_heads, core.headprune_kept = block.n_heads, tuple(keep)
    core.headprune_width, core.headprune_group = block.width, group
    # with the module: a copy that is loaded where nobody taught its class is understood too
    record = record_of(block, keep)
    module.headprune_architecture, module.headprune_found = names, record["found"]
    write_record(model, block.path, record)
    if not keep:
        beside = counted_beside(model, block.path, core)
        run_without_heads(core, block.part(model, "output"), names, beside=beside)


def head_rows(
    model: nn.Module, block: AttentionBlock, heads: Sequence[int]
) -> dict[str, Int[Tensor, " row"]]:
    """The rows of some heads (original indices) in each projection that makes them.

    Returns:
        path below the block's module -> rows; of a fused projection those of all queries come
        before those of all keys and values.
    """
    names, module = block.architecture, model.get_submodule(block.path)
    positions = [block.kept.index(head) for head in heads]
    groups = list(dict.fromkeys(place // block.group for place in positions))
    n_heads, n_groups = len(block.kept), len(block.kept) // block.group
    rows: dict[str, Tensor] = {}
    if names.fused:
        queries = 0 if names.query else block.group  # in the fused projection, of each group
        width = rows_of(module.get_submodule(names.fused)) // max(1, n_groups * (queries + 2))
        if names.fused_by_head:
            step = queries + 2
            first = [place + place // block.group * 2 for place in positions]
            keys = [j * step + queries for j in groups]
            values = [j * step + queries + 1 for j in groups]
        else:
            first = positions
            keys = [n_groups * queries + j for j in groups]
            values = [n_groups * (queries + 1) + j for j in groups]
        rows[names.fused] = _features([*(first if queries else []), *keys, *values], width)
    for path, places, units in (
        (names.query, positions, n_heads),
        (names.key, groups, n_groups),
        (names.value, groups, n_groups),
    ):
        if path is not None:  # else it is fused, or another layer makes the keys and values
            rows[path] = _features(places, rows_of(module.get_submodule(path)) // max(1, units))
    return rows


def value_rows(
    model: nn.Module, block: AttentionBlock, heads: Sequence[int]
) -> Int[Tensor, " row"]:
    """The rows that make the values of some heads, in the fused projection or that of the values."""
    names, rows = block.architecture, head_rows(model, block, heads)
    if not names.fused:
        assert names.value is not None
        return rows[names.value]
    fused = rows[names.fused]  # queries, keys, values: as many as heads, as groups, as groups
    n_groups = len({block.kept.index(head) // block.group for head in heads})
    n_queries = 0 if names.query else len(heads)
    return fused[len(fused) - len(fused) * n_groups // (n_queries + 2 * n_groups) :]


def _say_sizes(core: Any, block: AttentionBlock, n_heads: int, group: int, total: int) -> None:
    """Put the new sizes where the module's own code reads them."""
    names = block.architecture
    changed = {names.n_heads: n_heads, **dict.fromkeys(names.sizes, total)}
    if names.kv_heads:
        changed[names.kv_heads] = n_heads // group
    if names.group:
        changed[names.group] = group
    in_config = {k[7:]: v for k, v in changed.items() if k.startswith("config.")}
    for name, value in changed.items():
        if not name.startswith("config."):
            setattr(core, name, value)
    if names.own_config:
        for name in ("num_attention_heads", "num_heads"):
            if names.n_heads.endswith(name) and hasattr(core.config, name):
                in_config[name] = n_heads
        if getattr(core.config, "num_key_value_heads", None):
            in_config["num_key_value_heads"] = n_heads // group
        whole = vars(core.config).get("_of_model", core.config)
        core.config = _ConfigOfModule(whole, in_config)


class _ConfigOfModule:
    """A configuration with sizes of its own; all else, also what is set later, is the model's.

    That of the model still says what was built.
    """

    def __init__(self, of_model: Any, sizes: dict[str, int]) -> None:
        vars(self).update(sizes, _of_model=of_model)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_of_model" not in vars(self):  # while it is unpickled
            raise AttributeError(name)
        return getattr(self._of_model, name)


def _features(places: Sequence[int], width: int) -> Int[Tensor, " heads*width"]:
    """Columns of the heads at these places, side by side."""
    return (torch.tensor(places, dtype=torch.long)[:, None] * width + torch.arange(width)).flatten()


def _submodule(module: nn.Module, path: str) -> nn.Module | None:
    try:
        return module.get_submodule(path)
    except AttributeError:
        return None


def _axes_of_heads(
    module: nn.Module, paths: Sequence[str], n_heads: int
) -> Iterator[tuple[str, int]]:
    """Path -> the axis of ``n_heads``, of the parameters and buffers that have one."""
    for path in paths:
        holder_path, _, name = path.rpartition(".")
        tensor = getattr(_submodule(module, holder_path), name, None)
        if isinstance(tensor, Tensor) and n_heads in tensor.shape:
            yield path, list(tensor.shape).index(n_heads)


def _keep_entries(module: nn.Module, path: str, axis: int, positions: list[int]) -> None:
    """Keep some heads' entries of a parameter or buffer along its axis of heads."""
    holder_path, _, name = path.rpartition(".")
    holder = module.get_submodule(holder_path)
    tensor = getattr(holder, name)
    index = torch.tensor(positions, dtype=torch.long, device=tensor.device)
    kept = tensor.detach().index_select(axis, index)
    if name in holder._parameters:
        setattr(holder, name, nn.Parameter(kept, tensor.requires_grad))
    else:
        holder._buffers[name] = kept
    if isinstance(holder, nn.Embedding):
        holder.embedding_dim = holder.weight.shape[1]


def _keep_features(linear: nn.Linear | Conv1D, index: Tensor, side: str) -> None:
    """Keep some of a projection's outputs (``"out"``) or inputs (``"in"``)."""
    turned = isinstance(linear, Conv1D)  # (in, out) where a linear layer has (out, in)
    index, weight = index.to(linear.weight.device), linear.weight
    linear.weight = nn.Parameter(
        weight.detach().index_select(int((side == "in") != turned), index), weight.requires_grad
    )
    size = {
        ("out", False): "out_features",
        ("in", False): "in_features",
        ("out", True): "nf",
        ("in", True): "nx",
    }[side, turned]
    setattr(linear, size, len(index))
    if side == "out" and linear.bias is not None:
        linear.bias = nn.Parameter(
            linear.bias.detach().index_select(0, index), linear.bias.requires_grad
        )
