"""The attention blocks of a model: those known by name, and those found by structure and proved.

Finding is asked for often and proving costs a pass of the model, so what is proved of a model is
remembered as long as the model lives and its attention modules are the same.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from headprune_lib.architectures import (
    ARCHITECTURES,
    REGISTERED,
    Architecture,
    UnknownArchitecture,
    is_released,
)
from headprune_lib.batching import Batch
from headprune_lib.blocks import AttentionBlock, block_of
from headprune_lib.kinds import kinds_of
from headprune_lib.proving import Proof, check, prove
from headprune_lib.refusals import did_not_run, nothing_found, warn_of
from headprune_lib.rehearsing import Ran, as_it_was, keys_read, reached, said
from headprune_lib.running import evaluating
from headprune_lib.structure import NotAttention, Seen, looks_like_attention, read


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
