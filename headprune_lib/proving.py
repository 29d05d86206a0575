"""Whether a module is what its structure says: tried on the model itself, with nothing changed.

Three things are tried on what one pass of random inputs gives the module. Its output projection
takes the heads side by side, and a scaled slice moves what it returns as its columns say. Changing
one head's values changes that head's slice and no other: heads do not mix before the projection.
And a copy whose head is really removed returns what the module does with that head masked.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from headprune_lib.architectures import Architecture
from headprune_lib.blocks import AttentionBlock, block_of
from headprune_lib.rehearsing import (
    Ran,
    contexts_of,
    core_outputs,
    output_of,
    outputs_of,
    said,
    zeroed,
)
from headprune_lib.slicing import keep_heads, value_rows
from headprune_lib.structure import NotAttention, further_parts


@dataclass(frozen=True)
class Proof:
    """What of a module is proved.

    Attributes:
        architecture: names of its parts.
        masks_only: why heads cannot be removed; empty where they can.
        keeps_one: why a layer cannot lose all its heads; empty where it can.
        whole_groups: why heads that share a key and value head can only go together; empty where
            each group may lose equally many.
        by_example: whether its output projection takes (example, position, …).
    """

    architecture: Architecture
    masks_only: str = ""
    keeps_one: str = ""
    whole_groups: str = ""
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
            context = _check_masks(module, block, ran)
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
    block = block_of(module, "", entry, kind="self", layer=0, layer_path="", how="registered")
    context = _check_masks(module, block, ran)
    kept = [h for h in range(block.n_heads) if h // block.group != 1]
    several = block.n_heads > block.group
    problem = _removal_problem(module, block, ran, kept) if several else ""
    with core_outputs(block.part(module, "core")) as made:
        output_of(module, ran)
    returned = len(made[0]) if isinstance(made[0], tuple | list) else 1
    keeps_one = (
        f"it returns {returned} things, and its entry says returns={entry.returns}"
        if returned == 1 != entry.returns or returned > 1 == entry.returns
        else _removal_problem(module, block, ran, [])
    )
    return Proof(
        entry,
        masks_only=problem,
        keeps_one="" if problem else keeps_one,
        whole_groups="" if problem else _group_problem(module, block, ran),
        by_example=context.ndim == 3 and len(context) == ran.examples,
    )


def _check_masks(module: nn.Module, block: AttentionBlock, ran: Ran) -> Tensor:
    """What the projection takes, if masking a head before it means what it says.

    Raises:
        NotAttention: if not; says what was seen.
    """
    count, width, group = block.n_heads, block.width, block.group
    with contexts_of(module, block) as contexts:
        first = output_of(module, ran)
        again = output_of(module, ran)
    if len(contexts) != 2:
        raise NotAttention(
            f"its output projection ran {len(contexts) // 2} times in one pass of the module"
        )
    context = contexts[0]
    if context.shape[-1] != count * width:
        raise NotAttention(
            f"its output projection takes {context.shape[-1]} numbers, not {count} heads of {width}"
        )
    if not torch.equal(first, again):
        raise NotAttention("it returns something else at each pass")
    places = {0, count // group - 1}
    _check_columns(block.part(module, "output"), context, [p * group for p in places], width)
    for place in places:
        changed = _changed_heads(module, block, ran, place, context)
        own = list(range(place * group, (place + 1) * group))
        if not changed:
            raise NotAttention(
                f"changing the values of head {own[0]} changes nothing that its output projection "
                "takes"
            )
        if changed != own:
            raise NotAttention(
                f"changing the values of heads {own} changes heads {changed}: heads mix before "
                "the output projection, or lie otherwise than it seems"
            )
    with zeroed(module, block, [0]):
        masked = output_of(module, ran)
    if torch.equal(masked, first):
        raise NotAttention("masking a head changes nothing that the module returns")
    return context


def _check_columns(output: nn.Module, context: Tensor, heads: list[int], width: int) -> None:
    weight = getattr(output, "weight", None)
    if not isinstance(weight, Tensor) or not weight.is_floating_point() or weight.ndim != 2:
        return  # quantised: what its columns are cannot be read
    turned = weight if hasattr(output, "nf") else weight.T  # (in, out)
    with torch.no_grad():
        plain = output(context)
        for head in heads:
            scaled, place = context.clone(), slice(head * width, (head + 1) * width)
            scaled[..., place] *= 3
            moved = output(scaled) - plain
            said = 2 * context[..., place] @ turned[place]
            if not _close(moved.reshape(said.shape), said, plain):
                raise NotAttention(
                    f"scaling the slice of head {head} does not move the output as the "
                    "projection's columns say"
                )


def _changed_heads(
    module: nn.Module, block: AttentionBlock, ran: Ran, place: int, context: Tensor
) -> list[int]:
    """The heads whose numbers change where the values of one head, or group, are changed."""
    name = "fused" if block.architecture.fused else "value"
    rows = value_rows(module, block, range(place * block.group, (place + 1) * block.group))

    # neither a factor, which a norm of the head would undo, nor a sign, which one of all heads would
    factors = torch.linspace(-1, 2.5, len(rows))

    def change(_module: nn.Module, _inputs: tuple, output: Tensor) -> Tensor:
        output = output.clone()
        output[..., rows.to(output.device)] *= factors.to(output)
        return output

    handle = block.part(module, name).register_forward_hook(change)
    try:
        with contexts_of(module, block) as contexts:
            output_of(module, ran)
    finally:
        handle.remove()
    moved = (contexts[0] - context).abs().unflatten(-1, (block.n_heads, block.width))
    most = moved.transpose(-1, -2).flatten(0, -2).amax(0)
    return (most > _tolerance(context)).nonzero().flatten().tolist()


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
    units = block.n_heads // block.group
    # the second unit goes, or all that there are
    kept = [h for h in range(block.n_heads) if units == 1 or h // block.group != 1]
    reason, second = "", None  # a proof of less than all
    for one in _variants(module, core, names, ran, outputs):
        block = replace(block, architecture=one)
        problem = _removal_problem(module, block, ran, kept) if units > 1 else ""
        if problem:
            reason = reason or problem
            continue
        torn = _group_problem(module, block, ran)
        # the code around it may want the list that a module returns
        why = "it returns a list" if isinstance(outputs, list) else ""
        for candidate in _emptied(module, one) if not why else ():
            found = _removal_problem(module, replace(block, architecture=candidate), ran, [])
            if not found and not torn:
                return Proof(candidate)
            if not found:
                second = second or Proof(candidate, whole_groups=torn)
            why = why or found
        if units > 1 or (block.group > 1 and not torn):
            second = second or Proof(one, keeps_one=why, whole_groups=torn)
            if not torn:
                return Proof(one, keeps_one=why)
        reason = reason or why
    return second or Proof(names, masks_only=reason)


def _group_problem(module: nn.Module, block: AttentionBlock, ran: Ran) -> str:
    """What is wrong where each group loses one of its heads and keeps its key and value head."""
    kept = [head for head in range(block.n_heads) if head % block.group != 1]
    return _removal_problem(module, block, ran, kept) if block.group > 1 else ""


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


def _removal_problem(module: nn.Module, block: AttentionBlock, ran: Ran, kept: list[int]) -> str:
    """What is wrong with really removing heads; empty where it equals masking them."""
    gone = [head for head in range(block.n_heads) if head not in kept]
    with zeroed(module, block, gone):
        expected = outputs_of(module, ran)
    try:
        pruned = copy.deepcopy(module)
        keep_heads(pruned, block, kept)
        found = outputs_of(pruned, ran)
    except Exception as error:  # whatever the module's own code makes of it
        return f"its code does not run with fewer heads ({said(error)})"
    if not kept:  # there are no weights of attention to return
        expected = [expected[0], *(one for one in expected[1:] if not _weights(one))]
        if len(found) < len(expected):
            return "with no head left it does not return what it hands on to other layers"
    if len(found) < len(expected) or found[0].shape != expected[0].shape:
        return "with a head removed it returns something of another shape"
    for left, right in zip(found, expected, strict=False):
        # weights of attention have fewer heads; a bias that is handed on must be that of all
        if left.shape == right.shape and not _close(left, right, right):
            return "with a head removed it returns something else than with that head masked"
    return ""


def _weights(returned: Tensor) -> bool:
    """Whether this is how much each query attends to each key: shares that sum to 1 at most.

    Less than 1 goes to the keys where a part goes to none of them (an attention sink), and nothing
    where a query sees no key.
    """
    if not returned.is_floating_point() or returned.ndim < 3:
        return False
    shares = returned.double().nan_to_num()
    return bool((shares >= 0).all() and (shares.sum(-1) <= 1 + 1e-3).all())


def _tolerance(like: Tensor) -> float:
    return 4 * torch.finfo(like.dtype).eps * float(like.abs().max())


def _close(found: Tensor, expected: Tensor, scale: Tensor) -> bool:
    if not scale.is_floating_point():  # places of tokens that an indexer chose, or a mask
        return torch.equal(found, expected)
    limit = 64 * torch.finfo(scale.dtype).eps * float(scale.abs().nan_to_num().max())
    limit = max(limit, 64 * torch.finfo(torch.float32).eps * float(scale.abs().nan_to_num().max()))
    both = found.isnan() & expected.isnan()
    return bool(((found - expected).abs().masked_fill(both, 0) <= limit + 1e-12).all())
