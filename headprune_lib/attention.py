"""Attention weights of every head, taken where masks act, and what is said of them.

A weight belongs to a query (a row) and a key (a column): of the keys that a query may look at, its
weights sum to 1. Padding is neither: it asks nothing, and nothing looks at it. Statistics are sums
over real queries with the number of them, so that batches add up.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from headprune_lib.hooks import hooking
from headprune_lib.specs import AttentionLayer
from headprune_lib.utils import NO_LABEL, Batch, eval_mode, in_double, model_inputs

if TYPE_CHECKING:
    import transformers
    from jaxtyping import Bool, Float


class Weights(NamedTuple):
    """The attention of one layer on one batch.

    Attributes:
        values: (example, kept head, query, key), each row summing to 1 over the keys it sees.
        seen: (example, query, key), whether a real query may look at the key.
        ids: (example, key) ids of the tokens behind the keys; None where they are not tokens.
    """

    values: Float[Tensor, "example head query key"]
    seen: Bool[Tensor, "example query key"]
    ids: Tensor | None


Recorded = tuple[Tensor, Tensor | None]
"""What a pass left of a layer: weights (example, kept head, query, key), and the mask that was added
to the scores, (example or 1, 1, query or 1, key), None if not known."""


@contextmanager
def recorded_weights(
    model: nn.Module, blocks: Sequence[AttentionLayer]
) -> Iterator[list[list[Recorded]]]:
    """Inside, a pass of the model leaves every block's weights in its place of the list.

    Several in a place are of layers that share a module. The pass may have any purpose: the
    weights come on the way. Empty the places before the next batch.

    Raises:
        ValueError: an attention kernel that never makes the weights (sdpa, flash attention), or a
            module that returns none of every query (local attention).
    """
    config: Any = model.config
    kernel = getattr(config, "_attn_implementation", "eager")
    if kernel != "eager":
        raise ValueError(
            f"attention weights are wanted, and the kernel {kernel!r} makes none: load the model "
            'with attn_implementation="eager", or call model.set_attn_implementation("eager")'
        )
    recorded: list[list[Recorded]] = [[] for _ in blocks]
    cores = [block.part(model, "core") for block in blocks]
    outputs = [block.part(model, "output") for block in blocks]
    with hooking(cores + outputs), ExitStack() as stack:
        for block, core, records in zip(blocks, cores, recorded, strict=True):
            hook = core.register_forward_hook(_recording(records, block), with_kwargs=True)
            stack.callback(hook.remove)
        before = getattr(config, "output_attentions", False)
        stack.callback(setattr, config, "output_attentions", before)
        config.output_attentions = True
        yield recorded


@contextmanager
def eager_attention(model: nn.Module) -> Iterator[None]:
    """Inside, the model runs under the kernel that makes attention weights, in each of its parts.

    Afterwards each part has its own kernel again.
    """
    kernels = _kernels(getattr(model, "config", None))
    if not kernels:  # of timm, say: no model of transformers chooses
        yield
        return
    choosing: Any = model
    choosing.set_attn_implementation("eager")
    try:
        yield
    finally:
        choosing.set_attn_implementation(kernels)


def _kernels(config: Any) -> dict[str, Any]:
    """The kernel of a configuration and of those inside it, as ``set_attn_implementation`` takes."""
    if config is None:
        return {}
    inner = {name: getattr(config, name, None) for name in config.sub_configs}
    named = {name: _kernels(sub) for name, sub in inner.items() if sub is not None}
    return {"": config._attn_implementation, **named}


def _recording(records: list[Recorded], block: AttentionLayer) -> Callable[..., None]:
    def hook(module: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        outputs = output if isinstance(output, tuple) else (output,)
        # a relative position bias has four axes too, and comes first
        weights = [x for x in outputs if isinstance(x, Tensor) and x.ndim == 4]
        if not weights:
            raise ValueError(
                f"{block.path} returns no attention weights; take a criterion that reads none"
            )
        values, states = weights[-1].detach(), outputs[0]
        others = states.ndim == 3 and values.shape[2] not in states.shape[:2]
        if others or values.shape[1] != len(block.kept_heads):
            raise ValueError(
                f"{block.path} returns weights of shape {tuple(values.shape)} for states of shape "
                f"{tuple(states.shape)} and {len(block.kept_heads)} heads, not (example, head, "
                "query, key), as local attention does; take a criterion that reads no weights"
            )
        names = inspect.signature(module.forward).parameters
        named = {**dict(zip(names, args, strict=False)), **kwargs}
        rows, _, n_queries, n_keys = values.shape
        fitting = {(n, 1, m, n_keys) for n in (1, rows) for m in (1, n_queries)}
        masks = (x for name, x in named.items() if "mask" in name and isinstance(x, Tensor))
        added = (x for x in masks if x.is_floating_point() and tuple(x.shape) in fitting)
        records.append((values, next(added, None)))

    return hook


def read_weights(
    blocks: Sequence[AttentionLayer], found: list[list[Recorded]], batch: Batch
) -> Iterator[tuple[int, Weights]]:
    """What was recorded of a batch as ``(number of the block, Weights)``; the places are emptied."""
    for number, (block, records) in enumerate(zip(blocks, found, strict=True)):
        for values, mask in records:
            ids = batch.get("decoder_input_ids" if block.kind == "dec-dec" else "input_ids")
            if ids is not None and ids.shape != (len(values), values.shape[-1]):
                ids = None
            yield number, Weights(values, _visible(block, values, mask, batch), ids)
        records.clear()


def attention_weights(
    model: nn.Module, blocks: Sequence[AttentionLayer], batch: Batch
) -> Iterator[tuple[int, Weights]]:
    """``(number of the block, Weights)`` of a batch where the model is, from one forward pass."""
    with eval_mode(model), torch.no_grad(), recorded_weights(model, blocks) as recorded:
        model(**model_inputs(model, batch))
    return read_weights(blocks, recorded, batch)


_OPEN = -50.0  # what masks close, they close with less (Swin with -100)


def _visible(
    block: AttentionLayer, values: Tensor, mask: Tensor | None, batch: Batch
) -> Bool[Tensor, "example query key"]:
    """No padding, as the batch says, nor what is masked: later tokens, far ones.

    What the mask leaves open is seen, also where every head's weight on it is too small for the
    precision. A module that was given no mask shows what it closes by the weights alone.
    """
    rows, _, n_queries, n_keys = values.shape
    queries, keys = query_mask(block, batch), _real(batch, target=block.kind == "dec-dec")
    visible = (values > 0).any(1)
    if mask is not None:
        visible = visible | (mask[:, 0] > _OPEN)
    for real, n, across in ((queries, n_queries, 2), (keys, n_keys, 1)):
        if real is not None and real.shape == (rows, n):
            visible = visible & real.unsqueeze(across)
        elif real is not None and not real.all():
            raise ValueError(
                f"{block.path} has {n_queries} queries and {n_keys} keys in {rows} rows, the mask "
                f"{tuple(real.shape)}: which are padding is not known. Give batches without padding"
            )
    return visible


def query_mask(block: AttentionLayer, batch: Batch) -> Bool[Tensor, "example position"] | None:
    """Which of a block's queries are no padding; None where nothing says so."""
    return _real(batch, target=block.kind in ("enc-dec", "dec-dec"))


def _real(batch: Batch, *, target: bool) -> Bool[Tensor, "example position"] | None:
    """Which positions of the source, or the target, are no padding; None where nothing says so."""
    if not target:
        mask = batch.get("attention_mask")
        return None if mask is None or mask.ndim != 2 else mask.bool()
    if "decoder_attention_mask" in batch:
        return batch["decoder_attention_mask"].bool()
    return batch["labels"] != NO_LABEL if "labels" in batch else None


ENDS = ("eos", "sep")
"""What configurations and tokenizers call an end mark and a separator."""
_SPECIAL = ("pad", "bos", "eos", "cls", "sep", "decoder_start")


def special_ids(model: nn.Module, names: Sequence[str] = _SPECIAL) -> tuple[int, ...]:
    """Ids that the model's configuration names: padding, begin, end, classification, separator."""
    return _named_ids(model.config, names)


def end_ids(tokenizer: transformers.PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Ids of the end mark and the separator, as a tokenizer names them."""
    return _named_ids(tokenizer, ENDS)


def _named_ids(names_ids: Any, names: Sequence[str]) -> tuple[int, ...]:
    values = [getattr(names_ids, f"{name}_token_id", None) for name in names]
    flat = (id_ for ids in values for id_ in (ids if isinstance(ids, list) else [ids]))
    return tuple(sorted({id_ for id_ in flat if id_ is not None}))


def entropies(weights: Weights, leave_out: Collection[int] = ()) -> tuple[Tensor, Tensor]:
    """Entropy of every query's weights over the log of the number of keys that it sees: 0 to 1.

    A query that sees one key has nothing to choose, and one that sees none nothing at all: both are
    left out.

    Args:
        leave_out: ids of tokens whose keys do not count; the weights of the others are brought to
            sum 1 again. A query that gives them nothing is left out.

    Returns:
        (kept head,) sums over queries, and (kept head,) numbers of queries, both float64.
    """
    keys = weights.seen & ~_named(weights, leave_out)
    values = in_double(weights.values) * keys[:, None]
    mass, n_keys = values.sum(-1, keepdim=True), keys.sum(-1)[:, None]
    counted = (n_keys > 1) & (mass[..., 0] > 0)  # (example, head, query)
    shares = values / mass.where(mass > 0, 1)
    entropy = -torch.special.xlogy(shares, shares).sum(-1)
    return _summed(entropy / in_double(n_keys.clamp(min=2)).log(), counted)


def greatest(weights: Weights, leave_out: Collection[int] = ()) -> tuple[Tensor, Tensor]:
    """The greatest weight of every query, summed over queries; see :func:`entropies`.

    Keys that are left out do not count, and nothing is brought to sum 1 (Voita et al. 2019 leave
    the end mark out).
    """
    keys = weights.seen & ~_named(weights, leave_out)
    values = in_double(weights.values) * keys[:, None]
    return _summed(values.amax(-1), keys.any(-1)[:, None])


def mass_on(weights: Weights, ids: Collection[int]) -> tuple[Tensor, Tensor]:
    """The weight that every query puts on some tokens, summed over queries; see :func:`entropies`."""
    values = in_double(weights.values) * (weights.seen & _named(weights, ids))[:, None]
    return _summed(values.sum(-1), weights.seen.any(-1)[:, None])


def mass_at(weights: Weights, offset: int) -> tuple[Tensor, Tensor]:
    """The weight that every query puts on one place beside it, summed over queries.

    Queries whose place is no key that they see are left out: the first has no previous one.

    Args:
        offset: -1 for the previous position, 0 for the query's own, 1 for the next.

    Returns:
        See :func:`entropies`.
    """
    weight = in_double(weights.values.diagonal(offset, -2, -1))  # (example, head, query)
    return _summed(weight, weights.seen.diagonal(offset, -2, -1)[:, None])


def _summed(values: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over the queries that count and their numbers, (head,), of (example, head, query)."""
    counted = counted.expand(values.shape)
    return (values * counted).sum((0, 2)), in_double(counted.sum((0, 2)))


def _named(weights: Weights, ids: Collection[int]) -> Tensor:
    """(example, 1, key): whether the token behind a key is one of these."""
    if not ids or weights.ids is None:
        return torch.zeros_like(weights.seen[:, :1])
    wanted = torch.tensor(sorted(ids), device=weights.ids.device)
    return torch.isin(weights.ids, wanted)[:, None]
