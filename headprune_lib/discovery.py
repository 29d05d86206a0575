"""The attention blocks of a model: those known by name, and those found by structure and proved.

Finding is asked for often and proving costs a pass of the model, so what is proved of a model is
remembered as long as the model lives and its attention modules are the same.

What a structure seems to be is not believed: :mod:`headprune_lib.verify` tries each candidate on the
model itself.
"""

from __future__ import annotations

import itertools
import re
import warnings
import weakref
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import torch
from torch import nn

from headprune_lib.batching import Batch
from headprune_lib.running import evaluating
from headprune_lib.specs import (
    ARCHITECTURES,
    REGISTERED,
    Architecture,
    AttentionBlock,
    NotAttention,
    UnknownArchitecture,
    block_of,
    columns_of,
    group_size,
    is_released,
    rows_of,
)
from headprune_lib.verify import (
    CONVOLUTIONS,
    Linear,
    Proof,
    Ran,
    as_it_was,
    check,
    keys_read,
    prove,
    reached,
    said,
)

QUERY = [
    "q_proj",
    "query",
    "q",
    "q_lin",
    "query_proj",
    "q_b_proj",
    "wq",
    "Wq",
    "to_q",
    "linear_q",
    "q_attn",
    "query_layer",
    "queries",
    "proj_q",
    "query_projection",
    "q_linear",
    "project_q",
]
KEY = [
    "k_proj",
    "key",
    "k",
    "k_lin",
    "key_proj",
    "wk",
    "Wk",
    "to_k",
    "linear_k",
    "key_layer",
    "keys",
    "proj_k",
    "key_projection",
    "k_linear",
    "project_k",
]
VALUE = [
    "v_proj",
    "value",
    "v",
    "v_lin",
    "value_proj",
    "wv",
    "Wv",
    "to_v",
    "linear_v",
    "value_layer",
    "values",
    "proj_v",
    "value_projection",
    "v_linear",
    "project_v",
]
BOTH = ["kv_proj", "kv_b_proj", "kv", "to_kv", "key_value"]  # keys and values by head
FUSED = [
    "qkv_proj",
    "qkv",
    "query_key_value",
    "c_attn",
    "Wqkv",
    "wqkv",
    "in_proj",
    "to_qkv",
    "att_proj",
    "qkv_layer",
    "fused_qkv",
]
OUTPUT = [
    "o_proj",
    "out_proj",
    "out",
    "o",
    "c_proj",
    "dense",
    "proj",
    "wo",
    "Wo",
    "output",
    "to_out",
    "out_lin",
    "projection",
    "linear_out",
    "proj_out",
    "fc_out",
    "post",
    "output_proj",
    "projection_layer",
    "final_linear",
    "linear_o",
    "o_linear",
    "attn_out",
    "proj_o",
    "output_projection",
    "resid_proj",
    "attention_out",
]
HEADS = [
    "num_heads",
    "num_attention_heads",
    "n_heads",
    "n_head",
    "heads",
    "nhead",
    "num_head",
    "attention_heads",
    "encoder_attention_heads",
    "decoder_attention_heads",
]
KEY_HEADS = [
    "num_key_value_heads",
    "num_kv_heads",
    "n_kv_heads",
    "n_kv_head",
    "num_key_heads",
    "kv_heads",
    "num_local_key_value_heads",
]
GROUPS = ["num_key_value_groups", "n_rep", "num_queries_per_kv", "kv_groups"]
WIDTHS = [
    "v_head_dim",
    "head_dim",
    "attention_head_size",
    "head_size",
    "d_head",
    "dim_head",
    "d_kv",
    "key_value_proj_dim",
    "head_width",
    "kv_channels",
    "hidden_size_per_attention_head",
    "dim_per_head",
    "value_head_dim",
]


def find_heads(
    model: nn.Module, *, verify: bool = True, inputs: Batch | None = None
) -> list[AttentionBlock]:
    """Every attention block of ``model``, in order of layers.

    Classes in the table, and those that ``register_attention`` taught, are known by name. Others
    are found by their structure and proved on the model itself, once a model: a pass of a few
    random inputs, with no weight, mode or random state changed. What is seen and not taken is
    named in a warning.

    Args:
        verify: whether what is found by structure is proved before it is believed. What is once
            assumed of a model stays assumed of it.
        inputs: the model's keyword arguments for the proof, where random ones do not do.

    Raises:
        TypeError: not a model.
        ValueError: a model in DataParallel's wrapper, which runs copies of it, or a traced one.
        UnknownArchitecture: no attention module that is known or was proved; the message says
            what was seen of each class.
    """
    if not isinstance(model, nn.Module):
        given = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(
            f"expected a model, a torch.nn.Module that holds weights, given {given}; load one, "
            "AutoModel….from_pretrained(…), and of a pipeline give its .model"
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            f"{type(model).__name__}: what torch.jit made runs without Python, where heads are "
            "masked; give the model that it was made of"
        )
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise ValueError(
            f"{type(model).__name__} wraps the model and runs copies of it; give the model "
            "itself, wrapper.module"
        )
    return discovered(model, verify=verify, inputs=inputs).blocks


@dataclass
class Discovery:
    """What was found in a model.

    Attributes:
        blocks: attention whose heads can be masked, in order of layers.
        refused: path of each attention module that was seen and not taken -> why.
    """

    blocks: list[AttentionBlock]
    refused: dict[str, str]


@dataclass
class _Memory:
    """What was proved of a model: by path the proof, or why there is none.

    Attributes:
        readers: path of a module that makes keys and values -> those of others that read them.
        not_run: modules that read keys of another and did not run, so that whose was not seen.
    """

    modules: tuple = ()
    proofs: dict[str, Proof] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    elsewhere: dict[str, bool] = field(default_factory=dict)
    readers: dict[str, set[str]] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)
    how: str = "found"


_REMEMBERED: weakref.WeakKeyDictionary[nn.Module, _Memory] = weakref.WeakKeyDictionary()


def discovered(model: nn.Module, *, verify: bool = True, inputs: Batch | None = None) -> Discovery:
    """The blocks of a model and what was not taken; see :func:`headprune_lib.find_heads`."""
    named, unknown = _split(model)
    memory = _REMEMBERED.get(model)
    taught = [
        path
        for path, (_, how) in named.items()
        if how != "table" and not hasattr(model.get_submodule(path), "headprune_found")
    ]
    again = inputs is not None or (not verify and memory is not None and memory.how == "found")
    modules = tuple(
        (
            path,
            id(module := model.get_submodule(path)),
            ARCHITECTURES.get(type(module).__name__),
            _forwards(model, path),
        )
        for path in (*unknown, *taught)
    )
    if memory is None or memory.modules != modules or (modules and again):
        memory, passes = _look(model, unknown, taught, verify, inputs)
        memory.modules = modules
        memory.refused |= _unread(model, {*named, *unknown, *memory.proofs})
        memory.readers = _readers(model, _proofs(named, memory), memory.refused, passes)
        _REMEMBERED[model] = memory
        if memory.refused and (named.keys() - memory.refused.keys() or memory.proofs):
            warn_of(model, memory.refused)
    proofs = _proofs(named, memory)
    if not proofs:
        raise UnknownArchitecture(nothing_found(model, memory.refused))
    ways = {path: how for path, (_, how) in named.items()}
    blocks = list(_sharing(list(_blocks(model, proofs, ways, memory)), memory))
    _check_apart(model, blocks)
    return Discovery(blocks, memory.refused)


def _forwards(model: nn.Module, path: str) -> tuple:
    """What runs where a module, or the one around it, is called."""
    around = model.get_submodule(path.rpartition(".")[0])
    inside = model.get_submodule(path).modules()
    return tuple((type(one).forward, vars(one).get("forward")) for one in (around, *inside))


def _proofs(named: dict[str, tuple[Proof, str]], memory: _Memory) -> dict[str, Proof]:
    by_name = {path: proof for path, (proof, _) in named.items() if path not in memory.refused}
    return by_name | memory.proofs


def _readers(
    model: nn.Module,
    proofs: dict[str, Proof],
    refused: Container[str],
    passes: list[tuple[str, Batch]],
) -> dict[str, set[str]]:
    """Path of each module whose keys and values others read -> the paths of these."""
    readers: dict[str, set[str]] = {}
    for root_path, inputs in passes:
        root, prefix = model.get_submodule(root_path), f"{root_path}." if root_path else ""
        below = [path for path, _ in root.named_modules() if path]
        blocks = [
            block_of(
                root, path, proof.architecture, kind="self", layer=0, layer_path="", how="found"
            )
            for path in below
            if (proof := proofs.get(prefix + path))
        ]
        others = [path for path in below if prefix + path in refused]
        with as_it_was(root):
            for maker, found in keys_read(root, blocks, others, inputs).items():
                known = {prefix + path if path else "" for path in found}
                readers.setdefault(prefix + maker, set()).update(known)
    return readers


def _check_apart(model: nn.Module, blocks: list[AttentionBlock]) -> None:
    """Raises ValueError where two blocks have one output projection: a mask would act on both."""
    users: dict[nn.Module, list[str]] = {}
    for block in blocks:
        users.setdefault(block.part(model, "output"), []).append(block.path)
    shared = next((paths for paths in users.values() if len(paths) > 1), None)
    if shared:
        raise ValueError(
            f"{' and '.join(shared)} share one output projection, where their heads are masked: "
            "those of one could not be told from those of another. Give each a copy of it"
        )


def _split(model: nn.Module) -> tuple[dict[str, tuple[Proof, str]], list[str]]:
    """The modules whose parts are known by name, and the others that look like attention.

    How the parts are known is ``""`` where a name is known and the code under it is not: what the
    entry says is then to be proved.
    """
    named: dict[str, tuple[Proof, str]] = {}
    unknown: list[str] = []
    for path, module in model.named_modules():
        name = type(module).__name__
        # a pruned module brings its own entry
        own = getattr(module, "headprune_architecture", None)
        architecture = own or ARCHITECTURES.get(name)
        if own is not None and hasattr(module, "headprune_found"):
            said = dict(module.headprune_found)
            how, _ = said.pop("how"), said.pop("kind")
            named[path] = Proof(own, **said), how
        elif architecture is not None and name in REGISTERED:
            named[path] = Proof(architecture), "registered"
        elif architecture is not None and (own is not None or is_released(module)):
            named[path] = Proof(architecture), "table"
        elif architecture is not None and _has_parts(module, architecture):
            named[path] = Proof(architecture), ""
        elif looks_like_attention(module):
            unknown.append(path)
    return named, [path for path in unknown if not _inside(path, named)]


def _has_parts(module: nn.Module, architecture: Architecture) -> bool:
    try:
        for name in (*architecture.projections, "core"):
            module.get_submodule(getattr(architecture, name))
    except AttributeError:
        return False
    return True


def _unread(model: nn.Module, taken: set[str]) -> dict[str, str]:
    """The innermost modules that are named attention, hold weights, and were not looked at."""
    named = [
        path
        for path, module in model.named_modules()
        if "attention" in type(module).__name__.lower()
        and next(module.parameters(), None) is not None
    ]
    holding = {
        ".".join(path.split(".")[:end])
        for path in (*named, *taken)
        for end in range(path.count(".") + 1)
    }
    unread = (
        "its class is named attention, and no projections of queries, keys and values that could "
        "be read were seen in it"
    )
    torchs = (
        "torch's class never calls out_proj, where a mask would act, but takes its weights alone; "
        'write the projections as nn.Linear, as the page "Teach it an architecture" does'
    )
    return {
        path: torchs if isinstance(model.get_submodule(path), nn.MultiheadAttention) else unread
        for path in named
        if path not in holding and not _inside(path, taken)
    }


def _inside(path: str, others: Container[str]) -> bool:
    """Whether a path is, or lies below, one of others."""
    parts = path.split(".")
    return any(".".join(parts[:end]) in others for end in range(1, len(parts) + 1))


def _look(
    model: nn.Module, paths: list[str], taught: list[str], verify: bool, inputs: Batch | None
) -> tuple[_Memory, list[tuple[str, Batch]]]:
    """Read the structure of modules, run the model, and prove what was read or taught.

    Returns:
        what was proved, and the passes that reached the modules, as :func:`reached` gives them.
    """
    memory, seen = _Memory(how="found" if verify else "assumed"), dict[str, Seen]()
    for path in paths:
        try:
            one = read(model, path)
            seen.setdefault(one.path, one)
        except NotAttention as reason:
            memory.refused[path] = str(reason)
    if not verify:
        memory.proofs = {path: Proof(one.candidates[0]) for path, one in seen.items()}
        return memory, []
    if not seen and not taught:
        return memory, []
    ran, problem, passes = reached(model, [*seen, *taught], inputs)
    memory.elsewhere = {path: one.keys_from_outside() for path, one in ran.items()}
    proved: dict[Any, Proof | str] = {}
    # those that ran come first: what they prove holds of modules that are alike and did not run
    for path in sorted([*seen, *taught], key=lambda path: path not in ran):
        key: Any = alike(model.get_submodule(path), seen.get(path))
        if path in ran:
            given = key, ran[path].by_head()
            if given not in proved:
                proved[given] = _proved(model, path, seen.get(path), ran[path])
                proved.setdefault(key, proved[given])
            key = given
        found = proved.get(key)
        if isinstance(found, Proof):
            memory.proofs[path] = found
        elif found is not None:
            memory.refused[path] = found
        elif path in seen or type(model.get_submodule(path)).__name__ not in REGISTERED:
            # what was taught and does not run is taken at its word
            memory.refused[path] = did_not_run(problem)
    memory.not_run = [
        path for path, one in seen.items() if path not in ran and not one.candidates[0].makes_keys
    ]
    return memory, passes


def _proved(model: nn.Module, path: str, seen: Seen | None, ran: Ran) -> Proof | str:
    """The proof of a module whose structure was seen, or whose class was taught; or why not."""
    module = model.get_submodule(path)
    with evaluating(model), torch.random.fork_rng(devices=[]):
        try:
            if seen is not None:
                return prove(module, seen.candidates, ran)
            return check(module, ARCHITECTURES[type(module).__name__], ran)
        except NotAttention as reason:
            return str(reason) if seen is not None else f"{_as(module)}: {reason}"
        except (AttributeError, RuntimeError, ValueError, IndexError, TypeError) as error:
            if type(module).__name__ in REGISTERED:
                raise
            return f"{_as(module)}: {said(error)}"


def _as(module: nn.Module) -> str:
    """Whose entry a module was held to."""
    if type(module).__name__ in REGISTERED:
        return "as registered"
    return "its class is named like a known one and runs other code"


def alike(module: nn.Module, seen: Seen | None = None) -> tuple:
    """Modules with the same of this are proved once: class, sizes, plain attributes, own code."""
    plain = tuple(
        (path, name, value)
        for path, inner in module.named_modules()
        for name, value in sorted(vars(inner).items())
        if name == "forward"
        or (isinstance(value, int | float | str | bool) and name not in ("layer_idx", "layer_id"))
    )
    shapes = tuple((name, tuple(p.shape)) for name, p in module.named_parameters())
    return type(module), seen and seen.candidates, plain, shapes


def _blocks(
    model: nn.Module, proofs: dict[str, Proof], ways: dict[str, str], memory: _Memory
) -> Iterator[AttentionBlock]:
    order = [path for path, _ in model.named_modules() if path in proofs]
    kinds = kinds_of(model, order, memory.elsewhere)
    layers: Counter[str] = Counter()
    for path in order:
        # a pruned module keeps its kind
        found = getattr(model.get_submodule(path), "headprune_found", {})
        kind = found.get("kind", kinds[path])
        proof = proofs[path]
        yield block_of(
            model,
            path,
            proof.architecture,
            kind=kind,
            layer=layers[kind],
            layer_path=_layer_path(model, path),
            how=ways.get(path) or memory.how,
            masks_only=proof.masks_only,
            keeps_one=proof.keeps_one,
            whole_groups=proof.whole_groups,
            keeps_groups=proof.keeps_groups,
            by_example=proof.by_example,
        )
        layers[kind] += 1


def _sharing(blocks: list[AttentionBlock], memory: _Memory) -> Iterator[AttentionBlock]:
    """The blocks with what follows from keys and values that layers share."""
    readers = memory.readers
    makers = {reader: maker for maker, by in readers.items() for reader in by}
    reading = [b.path for b in blocks if not (b.architecture.makes_keys or b.keeps_groups)]
    # whose keys these read was not seen: anybody's, then
    unknown = {*reading, *memory.not_run} - makers.keys()
    for block in blocks:
        why, makes = block.keeps_groups, block.architecture.makes_keys
        if own := readers.get(block.path, unknown if makes else set()):
            first, *others = sorted(own - {""}) or ["another part of the model"]
            more = f" (and {len(others)} more)" if others else ""
            reads = "reads" if block.path in readers else "may read"
            why = f"{first}{more} {reads} its keys and values"
            block = replace(block, keeps_one=why)
        elif block.path in makers or not makes:
            maker = makers.get(block.path, "another layer")
            why = why or f"it reads the keys and values of {maker}"
        # of some layers no head could go, only all heads of the layer or of a group
        stuck = why and (block.whole_groups or (block.keeps_one and block.group == 1))
        masks_only = block.masks_only or (why if stuck else "")
        yield replace(block, keeps_groups=why, masks_only=masks_only)


def _layer_path(model: nn.Module, path: str) -> str:
    """The nearest ancestor that sits in a list of layers; the module itself where there is none."""
    parts = path.split(".")
    for end in range(len(parts), 1, -1):
        if isinstance(model.get_submodule(".".join(parts[: end - 1])), nn.ModuleList):
            return ".".join(parts[:end])
    return path


_MAKERS = frozenset((*QUERY, *FUSED))


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
        if isinstance(made, CONVOLUTIONS):
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


KINDS = ("enc-enc", "enc-dec", "dec-dec")
"""Those of an encoder-decoder, as the paper names them: the encoder's own attention, the decoder's
attention to the encoder, and the decoder's own."""

# What models call attention to something from outside.
_CROSS = re.compile(
    r"^(encoder_attn|encoder_attention|EncDecAttention|crossattention\w*|cross_attn\w*|"
    r"cross_attention\w*|multihead_cross_attn|\w*_cross_attn|\w*_cross_attention|enc_dec_attn)$"
)
# What models call their towers, as words of a name.
_TOWERS = {
    "vision": {"vision", "visual", "image", "video", "vit", "pixel"},
    "audio": {"audio", "speech", "acoustic", "sound"},
    "text": {"text", "language", "lm", "llm"},
}


def kinds_of(
    model: nn.Module, paths: Sequence[str], elsewhere: Mapping[str, bool]
) -> dict[str, str]:
    """The kind of each attention module.

    Args:
        paths: of all attention modules of the model.
        elsewhere: of those that were seen running, whether their keys come from outside.
    """
    two_sided = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
    cross = {path: _is_cross(model, path) or elsewhere.get(path, False) for path in paths}
    if two_sided:
        return _of_two_sides(paths, cross)
    towers = {path: _tower(path) for path in paths if not cross[path]}
    several = len(set(towers.values())) > 1
    return {
        path: "cross" if cross[path] else (towers[path] or "text") if several else "self"
        for path in paths
    }


def _of_two_sides(paths: Sequence[str], cross: Mapping[str, bool]) -> dict[str, str]:
    kinds = {}
    for path in paths:
        *outer, _ = path.split(".")
        decoding = any("decoder" in part.split("_") for part in outer)
        if cross[path]:
            kinds[path] = "enc-dec"
        elif decoding:
            kinds[path] = "dec-dec"
        else:
            kinds[path] = "enc-enc"
    # the towers beside an encoder; a tower that is the encoder is that
    encoding = [path for path in paths if kinds[path] == "enc-enc"]
    towers = {path: _tower(path) for path in encoding}
    if len(set(towers.values())) > 1:
        main = None if None in towers.values() else "text"
        for path in encoding:
            if towers[path] != main and towers[path] is not None:
                kinds[path] = str(towers[path])
    return kinds


def _is_cross(model: nn.Module, path: str) -> bool:
    module: Any = model.get_submodule(path)
    if isinstance(said := getattr(module, "is_cross_attention", None), bool):
        return said
    return any(_CROSS.match(part) for part in path.split(".")[-2:])


def _tower(path: str) -> str | None:
    """The first tower that a part of the path is named after."""
    for part in path.split("."):
        words = set(part.lower().split("_"))
        for tower, names in _TOWERS.items():
            if words & names:
                return tower
    return None


def did_not_run(problem: str) -> str:
    """Why nothing could be proved of a module that no inputs reached."""
    return (
        "it did not run on random inputs, so nothing about it could be proved"
        f"{f' ({problem})' if problem else ''}: give find_heads(model, inputs=…) a batch that "
        "reaches it"
    )


def warn_of(model: nn.Module, refused: dict[str, str]) -> None:
    """Warn of attention modules that were seen and not taken: path -> why."""
    warnings.warn(
        f"{len(refused)} attention modules of {type(model).__name__} were seen and not taken: "
        f"{said_of(model, refused)}. Their heads are neither masked nor scored",
        stacklevel=4,
    )


def said_of(model: nn.Module, refused: dict[str, str]) -> str:
    """What was not taken, a class and reason at a time, with the first module of each."""
    groups: dict[tuple[str, str], list[str]] = {}
    for path, reason in refused.items():
        name = type(model.get_submodule(path)).__name__
        groups.setdefault((name, reason), []).append(path)
    return "; ".join(
        f"{name} ({paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}): {reason}"
        for (name, reason), paths in groups.items()
    )


def nothing_found(model: nn.Module, refused: dict[str, str]) -> str:
    """The message where no attention module was taken at all."""
    classes = {type(module).__name__ for module in model.modules()}
    seen = {name for name in classes if "attention" in name.lower()}
    what = (
        f"seen and refused: {said_of(model, refused)}"
        if refused
        else f"it holds {sorted(seen) or 'no module named like attention'}"
    )
    return (
        f"no known attention module in {type(model).__name__}; {what}. Known: "
        f"{sorted(ARCHITECTURES)}. Teach it yours with "
        'headprune_lib.register_attention("ClassName", query=…, key=…, value=…, output=…).'
    )
