"""Whether masking a head of a module means what it says: tried with what one pass gave it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headprune_lib.blocks import AttentionBlock
from headprune_lib.rehearsing import Ran, close, contexts_of, output_of, tolerance, zeroed
from headprune_lib.slicing import head_rows, value_rows
from headprune_lib.structure import NotAttention


def check_masks(module: nn.Module, block: AttentionBlock, ran: Ran) -> Tensor:
    """What the projection takes, if masking a head before it means what it says.

    Raises:
        NotAttention: if not; says what was seen.
    """
    count, width, group = block.n_heads, block.width, block.group
    with contexts_of(module, block) as contexts:
        first = output_of(module, ran)
        again = output_of(module, ran)
    if len(contexts) != 2:
        never = (
            ", for its code never calls it, and a mask acts where it is called "
            "(torch.nn.MultiheadAttention never calls out_proj: it takes the weights alone)"
        )
        raise NotAttention(
            f"its output projection ran {len(contexts) // 2} times in one pass of the module"
            f"{'' if contexts else never}"
        )
    context = contexts[0]
    if context.shape[-1] != count * width:
        raise NotAttention(
            f"its output projection takes {context.shape[-1]} numbers, not {count} heads of {width}"
        )
    if not torch.equal(first, again):
        raise NotAttention("it returns something else at each pass")
    places = {0, count // group - 1}
    moved = "values" if block.architecture.makes_keys else "queries"
    _check_columns(block.part(module, "output"), context, [p * group for p in places], width)
    for place in places:
        changed = _changed_heads(module, block, ran, place, context)
        own = list(range(place * group, (place + 1) * group))
        if not changed:
            raise NotAttention(
                f"changing the {moved} of head {own[0]} changes nothing that its output projection "
                "takes"
            )
        if changed != own:
            raise NotAttention(
                f"changing the {moved} of heads {own} changes heads {changed}: heads mix before "
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
            if not close(moved.reshape(said.shape), said, plain):
                raise NotAttention(
                    f"scaling the slice of head {head} does not move the output as the "
                    "projection's columns say"
                )


def _changed_heads(
    module: nn.Module, block: AttentionBlock, ran: Ran, place: int, context: Tensor
) -> list[int]:
    """The heads whose numbers change where the values of one head, or group, are changed.

    Or its queries, where another layer makes the values.
    """
    names, heads = block.architecture, range(place * block.group, (place + 1) * block.group)
    if names.query is not None and not names.makes_keys:
        name, rows = "query", head_rows(module, block, heads)[names.query]
    else:
        name, rows = "fused" if names.fused else "value", value_rows(module, block, heads)

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
    return (most > tolerance(context)).nonzero().flatten().tolist()
