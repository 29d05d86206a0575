"""Whether a module is what its structure says: tried on the model itself, with nothing changed.

Three things are tried on what one pass of random inputs gives the module. Its output projection
takes the heads side by side, and a scaled slice moves what it returns as its columns say. Changing
one head's values changes that head's slice and no other: heads do not mix before the projection.
And a copy whose head is really removed returns what the module does with that head masked.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from headprune_lib.architectures import Architecture
from headprune_lib.blocks import AttentionBlock, block_of
from headprune_lib.rehearsing import Ran, core_outputs, output_of, said
from headprune_lib.structure import NotAttention, further_parts
from headprune_lib.trying_masks import check_masks
from headprune_lib.trying_removal import group_problem, looks_like_weights, removal_problem


@dataclass(frozen=True)
class Proof:
    """What of a module is proved.

    Attributes:
        architecture: names of its parts.
        masks_only: why heads cannot be removed; empty where they can.
        keeps_one: why a layer cannot lose all its heads; empty where it can.
        whole_groups: why heads that share a key and value head can only go together; empty where
            each group may lose equally many.
        keeps_groups: why key and value heads cannot go; see :class:`headprune_lib.AttentionBlock`.
        by_example: whether its output projection takes (example, position, …).
    """

    architecture: Architecture
    masks_only: str = ""
    keeps_one: str = ""
    whole_groups: str = ""
    keeps_groups: str = ""
    by_example: bool = True


def prove(module: nn.Module, candidates: Sequence[Architecture], ran: Ran) -> Proof:
    """The first candidate that holds on the module.

    Raises:
        NotAttention: none does; says what was seen of the first.
    """
    reasons: list[str] = []
    for one in candidates:
        try:
            block = block_of(module, "", one, kind="self", layer=0, layer_path="", how="found")
            context = check_masks(module, block, ran)
        except (NotAttention, RuntimeError, ValueError, IndexError, TypeError) as error:
            reasons.append(said(error))
            continue
        by_example = context.ndim == 3 and len(context) == ran.examples
        return replace(_with_removal(module, block, ran), by_example=by_example)
    raise NotAttention(reasons[0] if reasons else "no candidate was seen")


def check(module: nn.Module, entry: Architecture, ran: Ran) -> Proof:
    """What of an entry that was taught holds on the module; nothing else is tried.

    Raises:
        NotAttention: masking a head would not mean what it says; says what was seen.
    """
    _check_names(module, entry)
    block = block_of(module, "", entry, kind="self", layer=0, layer_path="", how="registered")
    context = check_masks(module, block, ran)
    kept = [h for h in range(block.n_heads) if h // block.group != 1]
    several = block.n_heads > block.group and entry.makes_keys
    problem = removal_problem(module, block, ran, kept) if several else ""
    with core_outputs(block.part(module, "core")) as made:
        output_of(module, ran)
    returned = len(made[0]) if isinstance(made[0], tuple | list) else 1
    keeps_one = (
        f"it returns {returned} things, and its entry says returns={entry.returns}"
        if returned == 1 != entry.returns or returned > 1 == entry.returns
        else removal_problem(module, block, ran, [])
    )
    return Proof(
        entry,
        masks_only=problem,
        keeps_one="" if problem else keeps_one,
        whole_groups="" if problem else group_problem(module, block, ran),
        by_example=context.ndim == 3 and len(context) == ran.examples,
    )


def _check_names(module: nn.Module, entry: Architecture) -> None:
    """Raises NotAttention where an entry names what the module does not have."""
    for field in (*entry.projections, "n_heads", "width"):
        name = getattr(entry, field)
        if name is None:
            continue
        inside = f"{entry.core}." if entry.core and field in ("n_heads", "width") else ""
        try:
            there = attrgetter(inside + name)(module)
        except AttributeError:
            raise NotAttention(f"its entry says {field}={name!r}, which it does not have") from None
        if field in entry.projections and not isinstance(there, nn.Module):
            raise NotAttention(
                f"its entry says {field}={name!r}, a {type(there).__name__} and no module: heads are "
                "masked and removed at linear layers, so write the projection as an nn.Linear"
            )


def _with_removal(module: nn.Module, block: AttentionBlock, ran: Ran) -> Proof:
    """The proof for masks, with what is proved of removal."""
    names = block.architecture
    core = block.part(module, "core")
    with core_outputs(core) as made:
        output_of(module, ran)
    outputs = made[0] if made else None
    many = isinstance(outputs, tuple)
    returns = len(outputs) if isinstance(outputs, tuple) else 1
    names = replace(names, returns=returns, in_tuple=many and returns == 1)
    names = replace(names, weights=_places_of_weights(module, core, ran, returns))
    units = block.n_heads // block.group
    # a key and value head can go alone, unless it is the only one, or another layer's
    alone = units > 1 and names.makes_keys
    kept = [h for h in range(block.n_heads) if h // block.group != 1]
    reason, second = "", None  # a proof of less than all
    for one in _variants(module, core, names, ran, outputs):
        block = replace(block, architecture=one)
        problem = removal_problem(module, block, ran, kept) if alone else ""
        if problem:
            reason = reason or problem
            continue
        torn = group_problem(module, block, ran)
        # the code around it may want the list that a module returns
        why = "it returns a list" if isinstance(outputs, list) else ""
        for candidate in _emptied(module, one) if not why else ():
            found = removal_problem(module, replace(block, architecture=candidate), ran, [])
            if not found and not torn:
                return Proof(candidate)
            if not found:
                second = second or Proof(candidate, whole_groups=torn)
            why = why or found
        if alone or (block.group > 1 and not torn):
            second = second or Proof(one, keeps_one=why, whole_groups=torn)
            if not torn:
                return Proof(one, keeps_one=why)
        reason = reason or why
    return second or Proof(names, masks_only=reason)


def _places_of_weights(module: nn.Module, core: Any, ran: Ran, returns: int) -> tuple[int, ...]:
    """Where the core returns attention weights, asked for them, under the kernel that makes them.

    What it returns only if it is asked for them is taken for such.
    """
    if "output_attentions" in inspect.signature(module.forward).parameters:
        ran = replace(ran, kwargs={**ran.kwargs, "output_attentions": True})
    try:
        with _eager(getattr(core, "config", None)), core_outputs(core) as made:
            output_of(module, ran)
    except Exception:  # the mask was made for another kernel
        return Architecture.weights
    outputs = made[0] if made and isinstance(made[0], tuple) else ()
    return tuple(
        place
        for place, one in enumerate(outputs)
        if place and torch.is_tensor(one) and (place >= returns or looks_like_weights(one))
    )


@contextmanager
def _eager(config: Any) -> Iterator[None]:
    """Inside, this configuration, and none inside it, names the kernel that makes weights."""
    name = "_attn_implementation_internal"
    before = getattr(config, name, None)
    if before is not None:
        setattr(config, name, "eager")
    try:
        yield
    finally:
        if before is not None:
            setattr(config, name, before)


def _variants(
    module: nn.Module, core: Any, names: Architecture, ran: Ran, outputs: Any
) -> Iterator[Architecture]:
    count = attrgetter(names.n_heads)(core)
    biases = [
        name
        for name, value in ran.kwargs.items()
        if isinstance(value, Tensor) and value.ndim == 4 and value.shape[1] == count > 1
    ]
    made = [
        place
        for place, value in enumerate(outputs if isinstance(outputs, tuple) else ())
        if place and isinstance(value, Tensor) and value.ndim == 4 and value.shape[1] == count
    ]
    if hasattr(core, "compute_bias") and made:
        names = replace(names, bias_argument="position_bias", bias_output=made[0])
        yield from further_parts(module, replace(names), core)
        return
    yield from further_parts(module, names, core)
    for name in biases:
        yield from further_parts(module, replace(names, bias_argument=name), core)


def _emptied(module: nn.Module, names: Architecture) -> Iterator[Architecture]:
    """Candidates for a module that loses all its heads: with a norm of its own, or without."""
    yield names
    if not names.core:
        for name, child in module.named_children():
            if "norm" in type(child).__name__.lower():
                yield replace(names, norm=name)
