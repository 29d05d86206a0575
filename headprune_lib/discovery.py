"""The attention blocks of a model: known by name, or found by their structure and verified.

Structure alone is not trusted: :mod:`headprune_lib.verify` tries each candidate on the model
itself. That costs a pass, so the result is stored with the model and its copies, and holds as long
as its attention modules and their code stay the same.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from headprune_lib.example_inputs import Inputs
from headprune_lib.specs import (
    ATTENTION_SPECS,
    CONVOLUTIONS,
    LINEAR,
    PRUNED,
    REGISTERED,
    AttentionLayer,
    AttentionSpec,
    NotAttention,
    UnknownArchitecture,
    columns_of,
    group_size,
    has_parts,
    is_released,
    layer_at,
    rows_of,
)
from headprune_lib.utils import Batch, check_batch
from headprune_lib.verify import Verified, as_it_was, capture_calls, keys_read, verify

# Names of the parts of attention in transformers and elsewhere, the most common first.
# fmt: off
QUERY = [
    "q_proj", "query", "q", "q_lin", "query_proj", "q_b_proj", "wq", "Wq", "to_q", "linear_q",
    "q_attn", "query_layer", "queries", "proj_q", "query_projection", "q_linear", "project_q",
]
KEY = [
    "k_proj", "key", "k", "k_lin", "key_proj", "wk", "Wk", "to_k", "linear_k", "key_layer",
    "keys", "proj_k", "key_projection", "k_linear", "project_k",
]
VALUE = [
    "v_proj", "value", "v", "v_lin", "value_proj", "wv", "Wv", "to_v", "linear_v",
    "value_layer", "values", "proj_v", "value_projection", "v_linear", "project_v",
]
KEY_AND_VALUE = ["kv_proj", "kv_b_proj", "kv", "to_kv", "key_value"]  # keys and values head by head
FUSED = [
    "qkv_proj", "qkv", "query_key_value", "c_attn", "Wqkv", "wqkv", "in_proj", "to_qkv",
    "att_proj", "qkv_layer", "fused_qkv",
]
OUTPUT = [
    "o_proj", "out_proj", "out", "o", "c_proj", "dense", "proj", "wo", "Wo", "output", "to_out",
    "out_lin", "projection", "linear_out", "proj_out", "fc_out", "post", "output_proj",
    "projection_layer", "final_linear", "linear_o", "o_linear", "attn_out", "proj_o",
    "output_projection", "resid_proj", "attention_out",
]
HEADS = [
    "num_heads", "num_attention_heads", "n_heads", "n_head", "heads", "nhead", "num_head",
    "attention_heads", "encoder_attention_heads", "decoder_attention_heads",
]
KEY_HEADS = [
    "num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_kv_head", "num_key_heads",
    "kv_heads", "num_local_key_value_heads",
]
GROUPS = ["num_key_value_groups", "n_rep", "num_queries_per_kv", "kv_groups"]
WIDTHS = [
    "v_head_dim", "head_dim", "attention_head_size", "head_size", "d_head", "dim_head", "d_kv",
    "key_value_proj_dim", "head_width", "kv_channels", "hidden_size_per_attention_head",
    "dim_per_head", "value_head_dim",
]
# fmt: on
_MAKERS = frozenset((*QUERY, *FUSED))

# Names of cross-attention modules.
_CROSS = re.compile(
    r"^(encoder_attn|encoder_attention|EncDecAttention|crossattention\w*|cross_attn\w*|"
    r"cross_attention\w*|multihead_cross_attn|\w*_cross_attn|\w*_cross_attention|enc_dec_attn)$"
)
# Words in names of the towers of a model.
_TOWERS = {
    "vision": {"vision", "visual", "image", "video", "vit", "pixel"},
    "audio": {"audio", "speech", "acoustic", "sound"},
    "text": {"text", "language", "lm", "llm"},
}

Modules = dict[str, nn.Module]
"""All modules of a model by path, in the model's order."""


def find_heads(
    model: nn.Module, *, verify: bool = True, inputs: Batch | None = None
) -> list[AttentionLayer]:
    """Return every attention block of ``model``, in order of layers.

    Classes in the table, and those added by ``register_attention``, are known by name. Others are
    found by their structure and verified on the model itself, once per model, by a pass of a few
    random inputs that changes no weight, mode or random state. An attribute of the model and its
    copies stores the result. A warning names attention modules that were found but rejected.

    Args:
        verify: whether blocks found by structure are checked on the model before they are returned.
            Blocks that were once returned unchecked are not checked later.
        inputs: the model's keyword arguments for that check, if random ones do not work.

    Raises:
        TypeError: not a model.
        ValueError: a model wrapped in DataParallel, which runs copies of it, or a traced model.
        UnknownArchitecture: no known or verified attention module; the message says what was
            found of each class.
    """
    if not isinstance(model, nn.Module):
        name = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(
            f"expected a model (a torch.nn.Module with weights), given {name}. Load one with "
            "AutoModel….from_pretrained(…), or give the .model of a pipeline"
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            f"{type(model).__name__} was made by torch.jit and runs without Python, where heads "
            "are masked. Give the model that it was made from"
        )
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise ValueError(
            f"{type(model).__name__} runs copies of the model. Give the model, wrapper.module"
        )
    return discovered(model, verify=verify, inputs=inputs)[0]


@dataclass
class _Memory:
    """Stored verification results of a model, by path: what holds, or why a module was rejected."""

    signature: tuple  # the examined modules and their code; a change invalidates the results
    source: str  # "found" if they were verified, "assumed" if not
    verified: dict[str, Verified] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    outside: dict[str, bool] = field(default_factory=dict)  # whether keys come from outside
    readers: dict[str, set[str]] = field(default_factory=dict)  # maker of keys -> their readers
    not_run: list[str] = field(default_factory=list)  # readers that did not run: makers unknown

    def __deepcopy__(self, memo: dict[int, Any]) -> _Memory:
        return _Memory(**{name: copy.deepcopy(value, memo) for name, value in vars(self).items()})

    def __reduce__(self) -> tuple:
        return type(None), ()  # a pickled model must load without this library


_MEMORY = "_headprune_discovery"  # the attribute of a model


def discovered(
    model: nn.Module, *, verify: bool = True, inputs: Batch | None = None
) -> tuple[list[AttentionLayer], dict[str, str]]:
    """The blocks that :func:`headprune_lib.find_heads` returns, and rejected path -> reason."""
    modules = dict(model.named_modules())
    known, unsure, unknown = _split(modules)
    signature = tuple(_signature(modules, path) for path in (*unknown, *unsure))
    memory: _Memory | None = vars(model).get(_MEMORY)
    again = inputs is not None or (not verify and memory is not None and memory.source == "found")
    if memory is None or memory.signature != signature or (signature and again):
        memory = _Memory(signature, source="found" if verify else "assumed")
        candidates: dict[str, tuple[AttentionSpec, ...]] = {}  # the likeliest first
        for path in unknown:
            try:
                holder, specs = _read(modules, path)
                candidates.setdefault(holder, specs)
            except NotAttention as reason:
                memory.refused[path] = str(reason)
        passes = []
        if not verify:
            assumed = {"source": "assumed"}
            memory.verified = {path: Verified(s[0], assumed) for path, s in candidates.items()}
        elif candidates or unsure:
            passes = _prove(model, modules, candidates, unsure, inputs, memory)
        memory.refused |= _unread(modules, {*known, *unknown, *memory.verified})
        _note_readers(model, _taken(known, memory), passes, memory)
        if signature or memory.refused:  # known classes alone leave nothing to store
            vars(model)[_MEMORY] = memory
        if memory.refused and (known.keys() - memory.refused.keys() or memory.verified):
            warnings.warn(
                f"{len(memory.refused)} attention modules of {type(model).__name__} were seen but "
                f"are not supported: {_told(modules, memory.refused)}. Their heads are neither "
                "masked nor scored",
                stacklevel=3,
            )
    accepted = _taken(known, memory)
    if not accepted:
        classes = {type(module).__name__ for module in modules.values()}
        named = sorted(name for name in classes if "attention" in name.lower())
        state = f"it holds {named or 'no module named like attention'}"
        if memory.refused:
            state = f"seen and refused: {_told(modules, memory.refused)}"
        raise UnknownArchitecture(
            f"no known attention module in {type(model).__name__}; {state}. Known: "
            f"{sorted(ATTENTION_SPECS)}. Teach it yours with "
            'headprune_lib.register_attention("ClassName", query=…, key=…, value=…, output=…).'
        )
    blocks = list(_with_sharing(_blocks(model, modules, accepted, memory), memory))
    _check_apart(model, blocks)
    return blocks, memory.refused


def _split(modules: Modules) -> tuple[dict[str, Verified], list[str], list[str]]:
    """Modules known by name; those of them to be verified; others that look like attention."""
    known: dict[str, Verified] = {}
    unsure: list[str] = []
    unknown: list[str] = []
    for path, module in modules.items():
        name = type(module).__name__
        entry = ATTENTION_SPECS.get(name)
        if left := vars(module).get(PRUNED):  # pruned: it has its own entry
            known[path] = Verified(left.spec, left.limits)
        elif entry and name not in REGISTERED and is_released(module):
            known[path] = Verified(entry, {"source": "table"})
        elif entry and (name in REGISTERED or has_parts(module, entry)):
            source = "registered" if name in REGISTERED else "assumed"
            known[path] = Verified(entry, {"source": source})
            unsure.append(path)
        elif _looks_like_attention(module):
            unknown.append(path)
    return known, unsure, [path for path in unknown if not _inside(path, known)]


def _signature(modules: Modules, path: str) -> tuple:
    """A module, its entry, and the code that runs when it or its parent is called."""
    module, around = modules[path], modules[path.rpartition(".")[0]]
    code = tuple((type(m).forward, vars(m).get("forward")) for m in (around, *module.modules()))
    return path, module, ATTENTION_SPECS.get(type(module).__name__), code


def _taken(known: dict[str, Verified], memory: _Memory) -> dict[str, Verified]:
    by_name = {path: names for path, names in known.items() if path not in memory.refused}
    return by_name | memory.verified


def _ancestors(path: str) -> list[str]:
    """The paths of the modules around a path, outermost first, without the model itself."""
    parts = path.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _inside(path: str, others: Container[str]) -> bool:
    """Whether a path is one of ``others`` or below one of them."""
    return any(outer in others for outer in (*_ancestors(path), path))


def _unread(modules: Modules, taken: set[str]) -> dict[str, str]:
    """Path -> reason for innermost modules named attention that have weights but were not read."""
    named = [
        path
        for path, module in modules.items()
        if "attention" in type(module).__name__.lower()
        and next(module.parameters(), None) is not None
    ]
    around = {"", *(outer for path in (*named, *taken) for outer in _ancestors(path))}
    unread = [path for path in named if path not in around and not _inside(path, taken)]
    return {
        path: "torch's class never calls out_proj, where a mask would act, but takes its weights "
        'alone; write the projections as nn.Linear, as the page "Teach it an architecture" does'
        if isinstance(modules[path], nn.MultiheadAttention)
        else "its class is named attention, and no projections of queries, keys and values that "
        "could be read were seen in it"
        for path in unread
    }


def _prove(
    model: nn.Module,
    modules: Modules,
    candidates: dict[str, tuple[AttentionSpec, ...]],
    unsure: list[str],
    inputs: Batch | None,
    memory: _Memory,
) -> list[tuple[str, Inputs]]:
    """Verify modules and store the results; return the passes that reached one: path and inputs."""
    paths = [*candidates, *unsure]
    results: dict[Any, Verified | str] = {}
    batch = check_batch(inputs) if inputs is not None else None
    with as_it_was(model):
        calls, passes, problem = capture_calls(model, paths, batch)
    memory.outside = {path: call.keys_from_outside for path, call in calls.items()}
    with as_it_was(model):
        # those that ran come first: their results also hold for identical modules that did not
        for path in sorted(paths, key=lambda path: path not in calls):
            module, specs, call = modules[path], candidates.get(path), calls.get(path)
            name = type(module).__name__
            key: tuple = (*alike(module), specs)
            by_call = key if call is None else (*key, call.by_head)
            if call is not None and by_call not in results:
                source = "registered" if specs is None and name in REGISTERED else memory.source
                entry = specs is None
                try:
                    verified = verify(module, specs or (ATTENTION_SPECS[name],), call, entry=entry)
                    result: Any = replace(verified, limits={"source": source, **verified.limits})
                except NotAttention as reason:
                    other = "its class has the name of a known one but other code: "
                    by_entry = "as registered: " if name in REGISTERED else other
                    result = f"{by_entry if entry else ''}{reason}"
                results[by_call] = result
                results.setdefault(key, result)
            result = results.get(by_call)
            if isinstance(result, Verified):
                memory.verified[path] = result
            elif result is not None:
                memory.refused[path] = result
            elif specs is not None or name not in REGISTERED:
                # a registered class that does not run is trusted
                memory.refused[path] = (
                    "it did not run on random inputs, so nothing about it could be proved"
                    f"{f' ({problem})' if problem else ''}: give "
                    "find_heads(model, inputs=…) a batch that reaches it"
                )
    memory.not_run = [
        path for path, names in candidates.items() if path not in calls and not names[0].makes_keys
    ]
    return passes


def alike(module: nn.Module) -> tuple:
    """A key shared by modules that are verified once: class, sizes, plain attributes, own code."""
    plain = tuple(
        (path, name, value)
        for path, inner in module.named_modules()
        for name, value in sorted(vars(inner).items())
        if name == "forward"
        or (isinstance(value, int | float | str | bool) and name not in ("layer_idx", "layer_id"))
    )
    shapes = tuple((name, tuple(p.shape)) for name, p in module.named_parameters())
    return type(module), plain, shapes


def _note_readers(
    model: nn.Module, taken: dict[str, Verified], passes: list[tuple[str, Inputs]], memory: _Memory
) -> None:
    """Store whose keys and values other modules read in the passes of the model's parts."""
    for root_path, inputs in passes:
        root, prefix = model.get_submodule(root_path), f"{root_path}." if root_path else ""
        below = [path for path, _ in root.named_modules() if path]
        here = [path for path in below if prefix + path in taken]
        blocks = [layer_at(root, path, taken[prefix + path].spec) for path in here]
        others = [path for path in below if prefix + path in memory.refused]
        with as_it_was(root):
            for maker, paths in keys_read(root, blocks, others, inputs).items():
                users = {prefix + path if path else "" for path in paths}
                memory.readers.setdefault(prefix + maker, set()).update(users)


def _blocks(
    model: nn.Module, modules: Modules, taken: dict[str, Verified], memory: _Memory
) -> list[AttentionLayer]:
    order = [path for path in modules if path in taken]
    kinds, layers, blocks = _kinds(modules, order, memory.outside), Counter[str](), []
    for path in order:
        fields = {"kind": kinds[path], **taken[path].limits}  # a pruned module keeps its kind
        # the nearest enclosing module that is in a list; the module itself if there is none
        outer = reversed([*_ancestors(path), path])
        around = (p for p in outer if isinstance(modules[p.rpartition(".")[0]], nn.ModuleList))
        where: dict[str, Any] = {"layer": layers[fields["kind"]], "layer_path": next(around, path)}
        blocks.append(layer_at(model, path, taken[path].spec, **where, **fields))
        layers[fields["kind"]] += 1
    return blocks


def _with_sharing(blocks: list[AttentionLayer], memory: _Memory) -> Iterator[AttentionLayer]:
    """Yield the blocks with the limits that follow from keys and values shared between layers."""
    readers = memory.readers
    makers = {reader: maker for maker, by in readers.items() for reader in by}
    reading = [b.path for b in blocks if not (b.spec.makes_keys or b.why_keep_groups)]
    # it was not seen whose keys these read: possibly any layer's
    unknown = {*reading, *memory.not_run} - makers.keys()
    for block in blocks:
        why, makes = block.why_keep_groups, block.spec.makes_keys
        if users := readers.get(block.path, unknown if makes else set()):
            first, *others = sorted(users - {""}) or ["another part of the model"]
            more = f" (and {len(others)} more)" if others else ""
            reads = "reads" if block.path in readers else "may read"
            why = f"{first}{more} {reads} its keys and values"
            block = replace(block, why_keep_one=why)
        elif (block.path in makers or not makes) and not why:
            why = f"it reads the keys and values of {makers.get(block.path, 'another layer')}"
        # some layers cannot lose single heads, only all heads of the layer or of a group
        single = block.why_keep_one and block.queries_per_kv == 1
        stuck = why and (block.why_whole_groups or single)
        why_not_prunable = block.why_not_prunable or (why if stuck else "")
        yield replace(block, why_keep_groups=why, why_not_prunable=why_not_prunable)


def _check_apart(model: nn.Module, blocks: list[AttentionLayer]) -> None:
    """Raises ValueError where two blocks share an output projection: a mask would act on both."""
    users: dict[nn.Module, str] = {}
    for block in blocks:
        first = users.setdefault(block.part(model, "output"), block.path)
        if first != block.path:
            raise ValueError(
                f"{first} and {block.path} share one output projection, so their heads cannot "
                "be masked separately. Give each module its own copy"
            )


def _told(modules: Modules, refused: dict[str, str]) -> str:
    """A message that lists rejected modules by class and reason, with the first module of each."""
    groups: dict[tuple[str, str], list[str]] = {}
    for path, reason in refused.items():
        groups.setdefault((type(modules[path]).__name__, reason), []).append(path)
    return "; ".join(
        f"{name} ({paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}): {reason}"
        for (name, reason), paths in groups.items()
    )


def _kinds(modules: Modules, paths: Sequence[str], outside: Mapping[str, bool]) -> dict[str, str]:
    """The kind of each attention module, by the source of its keys and by its tower."""
    two_sided = bool(getattr(getattr(modules[""], "config", None), "is_encoder_decoder", False))
    plain = "enc-enc" if two_sided else "self"
    kinds: dict[str, str] = {}
    towers: dict[str, str | None] = {}
    for path in paths:
        parts = path.split(".")
        says = getattr(modules[path], "is_cross_attention", None)
        crosses = any(_CROSS.match(part) for part in parts[-2:])
        if (says if isinstance(says, bool) else crosses) or outside.get(path, False):
            kinds[path] = "enc-dec" if two_sided else "cross"
        elif two_sided and any("decoder" in part.split("_") for part in parts[:-1]):
            kinds[path] = "dec-dec"
        else:
            kinds[path] = plain
            # the first tower that a part of the path is named after
            words = (set(part.lower().split("_")) for part in parts)
            after = (tower for some in words for tower, names in _TOWERS.items() if some & names)
            towers[path] = next(after, None)
    if len(set(towers.values())) > 1:
        # in an encoder-decoder, the tower that is its encoder keeps the encoder's kind
        main = None if None in towers.values() else "text"
        for path, tower in towers.items():
            if not two_sided or tower not in (None, main):
                kinds[path] = tower or "text"
    return kinds


# The structure of a module: what its parts may be.


def _looks_like_attention(module: nn.Module) -> bool:
    """Whether the module has projections of queries, keys and values, or of queries alone."""
    if _MAKERS.isdisjoint(module._modules):  # a quick exit for nearly all modules
        return False
    children = dict(module.named_children())
    named = any(part in type(module).__name__.lower() for part in ("att", "mha"))
    if named and _first(children, FUSED):
        return True
    if not _first(children, QUERY):
        return False
    makes_keys = _first(children, [*KEY, *KEY_AND_VALUE]) is not None
    if makes_keys or not named or not _first(children, OUTPUT):
        return makes_keys
    # another layer makes its keys and values if nothing in here could
    return not any(
        isinstance(inner, LINEAR)
        for name, child in children.items()
        if name not in OUTPUT and not name.startswith("q")
        for inner in child.modules()
    )


def _read(modules: Modules, path: str) -> tuple[str, tuple[AttentionSpec, ...]]:
    """The path of the module that has the output projection, and candidates for its parts."""
    core, inputs = modules[path], _projections_in(modules[path])
    outer, _, name = path.rpartition(".")
    holders = [(path, "", list(_outputs_in(core)))]
    if name and not isinstance(modules[outer], nn.ModuleList | nn.Sequential):
        holders.append((outer, name, list(_outputs_in(modules[outer], but=name))))
    columns = 0
    for holder, prefix, outputs in holders:
        specs: list[AttentionSpec] = []
        for output in outputs:
            columns = columns_of(modules[holder].get_submodule(output))
            for parts in inputs:
                named: dict[str, Any] = {
                    field: f"{prefix}.{part}" if prefix else part for field, part in parts.items()
                }
                base = AttentionSpec(output=output, core=prefix, returns=1, **named)
                specs += _sized(core, modules[holder], base, columns)
        if specs:
            return holder, tuple(specs)
    if not columns:
        raise NotAttention("no output projection was seen beside its queries, keys and values")
    raise NotAttention(
        f"no attribute says into how many heads its output projection's {columns} inputs split"
    )


def _projections_in(core: nn.Module) -> list[dict[str, str]]:
    """Candidate names of the projections that make queries, keys and values."""
    children = dict(core.named_children())
    query, key = _first(children, QUERY), _first(children, KEY)
    value, both = _first(children, VALUE), _first(children, KEY_AND_VALUE)
    fused = [{"fused": name} for name in FUSED if name in children]
    ways: list[dict[str, str]] = []
    if query and key and value:
        ways = [{"query": query, "key": key, "value": value}]
    elif query and (shared := both or key):  # the keys' projection makes the values, too
        ways = [{"query": query, "key": shared, "value": shared}]
    elif query and fused:  # next to a query projection, it makes keys and values
        ways = [*({**way, "query": query} for way in fused), *fused]
    elif query or fused:
        ways = [{"query": query}] if query else fused
    for name in dict.fromkeys(part for parts in ways for part in parts.values()):
        if isinstance(children[name], CONVOLUTIONS):
            raise NotAttention(f"its {name} is a convolution ({type(children[name]).__name__})")
        if not isinstance(children[name], LINEAR):
            raise NotAttention(
                f"its {name} is a {type(children[name]).__name__}, not a linear projection"
            )
    if not ways:
        raise NotAttention("no projections of queries, keys and values were seen")
    return ways


def _outputs_in(module: nn.Module, but: str = "") -> Iterator[str]:
    """Yield paths of children named like outputs, if linear, or of the first such layer inside."""
    for name, child in module.named_children():
        if name == but or name not in OUTPUT:
            continue
        inside = (
            f"{name}.{inner}"
            for inner, part in child.named_children()
            if isinstance(part, LINEAR) and (inner in OUTPUT or inner in ("0", "dense"))
        )
        if (path := name if isinstance(child, LINEAR) else next(inside, None)) is not None:
            yield path


def _sized(
    core: nn.Module, module: nn.Module, base: AttentionSpec, total: int
) -> Iterator[AttentionSpec]:
    """Yield candidates for every attribute that may give the number of heads, with their width."""
    for n_heads, count in _numbers(core, HEADS).items():
        if not 0 < count <= total or total % count:
            continue
        widths = (name for name, n in _numbers(core, WIDTHS).items() if n * count == total)
        sized = replace(base, n_heads=n_heads, head_dim=next(widths, None))
        for groups in _grouping(core, count, base):
            names = replace(sized, **groups)
            if _rows_fit(module, names, count, group_size(core, names, count), total):
                yield names


def _grouping(core: nn.Module, count: int, base: AttentionSpec) -> list[dict[str, Any]]:
    """Candidate fields for the number of queries per key and value head, and the fused order."""

    def dividing(names: list[str]) -> str | None:
        numbers = _numbers(core, names).items()
        return next((name for name, n in numbers if 0 < n <= count and count % n == 0), None)

    kv_heads, group = dividing(KEY_HEADS), dividing(GROUPS)
    ways: list[dict[str, Any]] = [{"kv_heads": kv_heads}] if kv_heads else []
    if group:
        ways.insert(0, {"queries_per_kv": group, **(ways[0] if ways else {})})
    orders = (False, True) if base.fused else (False,)
    return [{"qkv_interleaved": order, **way} for order in orders for way in (*ways, {})]


def _rows_fit(module: nn.Module, names: AttentionSpec, count: int, group: int, total: int) -> bool:
    """Whether the rows of every projection divide into its assumed heads or groups."""
    if count % group:
        return False
    rows = {part: rows_of(module.get_submodule(getattr(names, part))) for part in names.projections}
    groups = count // group
    if "query" in rows and rows["query"] % count:
        return False
    if "fused" in rows:
        return rows["fused"] % ((0 if "query" in rows else count) + 2 * groups) == 0
    if "key" not in rows:
        return True
    # once repeated for each head of a group, values are as wide as the output projection's input
    wide = names.key == names.value or rows["value"] * group == total
    return rows["key"] % groups == 0 and rows["value"] % groups == 0 and wide


def _first(children: dict[str, nn.Module], names: list[str]) -> str | None:
    return next((name for name in names if name in children), None)


def _numbers(core: nn.Module, names: list[str]) -> dict[str, int]:
    """The attributes of these names that are integers, in the module or its configuration."""
    numbers = {name: getattr(core, name, None) for name in names}
    for name in names:
        with suppress(Exception):  # some configurations raise for values that differ between layers
            numbers[f"config.{name}"] = getattr(getattr(core, "config", None), name, None)
    return {name: n for name, n in numbers.items() if type(n) is int}
