"""Attention weights of every head, from the modules where masks act, and statistics of them.

A weight belongs to a query (a row) and a key (a column); a query's weights sum to 1 over the keys
that it may attend to. Padding counts as neither query nor key. Statistics are sums over real
queries, with the number of queries, so that they can be added over batches.
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
        seen: (example, query, key), whether a real query may attend to the key.
        ids: (example, key), token ids of the keys; None where keys are not tokens.
    """

    values: Float[Tensor, "example head query key"]
    seen: Bool[Tensor, "example query key"]
    ids: Tensor | None


Recorded = tuple[Tensor, Tensor | None]
"""A layer's weights in one pass, (example, kept head, query, key), and the mask that was added to
the scores, (example or 1, 1, query or 1, key), or None if it is not known."""


@contextmanager
def recorded_weights(
    model: nn.Module, blocks: Sequence[AttentionLayer]
) -> Iterator[list[list[Recorded]]]:
    """Record attention weights in all passes that are run inside, in a list for each block.

    A block gets several records where layers share a module. The passes may serve any purpose.
    Clear the records before the next batch.

    Raises:
        ValueError: an attention kernel that never makes the weights (sdpa, flash attention), or a
            module that does not return weights for every query (local attention).
    """
    config: Any = model.config
    kernel = getattr(config, "_attn_implementation", "eager")
    if kernel != "eager":
        raise ValueError(
            f"attention weights are needed, and the kernel {kernel!r} makes none. Load the model "
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
    """Inside the block, run all parts of the model with the kernel that makes attention weights.

    Afterwards each part has its own kernel again.
    """
    kernels = _kernels(getattr(model, "config", None))
    if not kernels:  # such as timm's: not a transformers model, so no kernel to choose
        yield
        return
    choosing: Any = model
    choosing.set_attn_implementation("eager")
    try:
        yield
    finally:
        choosing.set_attn_implementation(kernels)


def _kernels(config: Any) -> dict[str, Any]:
    """The kernels of a configuration and those inside it, for ``set_attn_implementation``."""
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
                f"{block.path} returns no attention weights. Use a criterion that reads none"
            )
        values, states = weights[-1].detach(), outputs[0]
        others = states.ndim == 3 and values.shape[2] not in states.shape[:2]
        if others or values.shape[1] != len(block.kept_heads):
            raise ValueError(
                f"{block.path} returns weights of shape {tuple(values.shape)} for states of shape "
                f"{tuple(states.shape)} and {len(block.kept_heads)} heads, not (example, head, "
                "query, key): it may be local attention. Use a criterion that reads no weights"
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
    """Yield a batch's recorded weights as ``(block number, Weights)``, and clear the records."""
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
    """The ``(block number, Weights)`` of a batch on the model's device, from one forward pass."""
    with eval_mode(model), torch.no_grad(), recorded_weights(model, blocks) as recorded:
        model(**model_inputs(model, batch))
    return read_weights(blocks, recorded, batch)


_OPEN = -50.0  # masks add less than this to hide a key (Swin: -100)


def _visible(
    block: AttentionLayer, values: Tensor, mask: Tensor | None, batch: Batch
) -> Bool[Tensor, "example query key"]:
    """Which keys each query sees: neither padding nor masked, as later or distant tokens are.

    A key that the mask leaves open is seen even where every head's weight on it underflows. If a
    module was given no mask, only its weights show which keys are hidden.
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
                f"{block.path} has {n_queries} queries and {n_keys} keys in {rows} rows, but a "
                f"mask of {tuple(real.shape)}, so padding is unknown. Give batches without padding"
            )
    return visible


def query_mask(block: AttentionLayer, batch: Batch) -> Bool[Tensor, "example position"] | None:
    """Which of a block's queries are not padding; None if the batch does not tell."""
    return _real(batch, target=block.kind in ("enc-dec", "dec-dec"))


def _real(batch: Batch, *, target: bool) -> Bool[Tensor, "example position"] | None:
    """Which source or target positions are not padding; None if the batch does not tell."""
    if not target:
        mask = batch.get("attention_mask")
        return None if mask is None or mask.ndim != 2 else mask.bool()
    if "decoder_attention_mask" in batch:
        return batch["decoder_attention_mask"].bool()
    return batch["labels"] != NO_LABEL if "labels" in batch else None


ENDS = ("eos", "sep")
"""Names of the end and separator tokens in configurations and tokenizers."""
_SPECIAL = ("pad", "bos", "eos", "cls", "sep", "decoder_start")


def special_ids(model: nn.Module, names: Sequence[str] = _SPECIAL) -> tuple[int, ...]:
    """Special token ids in a model's configuration: pad, bos, eos, cls, sep, decoder_start."""
    return _named_ids(model.config, names)


def end_ids(tokenizer: transformers.PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Ids of a tokenizer's end and separator tokens."""
    return _named_ids(tokenizer, ENDS)


def _named_ids(names_ids: Any, names: Sequence[str]) -> tuple[int, ...]:
    values = [getattr(names_ids, f"{name}_token_id", None) for name in names]
    flat = (id_ for ids in values for id_ in (ids if isinstance(ids, list) else [ids]))
    return tuple(sorted({id_ for id_ in flat if id_ is not None}))


def entropies(weights: Weights, leave_out: Collection[int] = ()) -> tuple[Tensor, Tensor]:
    """Entropy of each query's weights, divided by the log of the number of keys it sees: 0 to 1.

    Queries that see fewer than two keys have no choice and are left out.

    Args:
        leave_out: ids of tokens whose keys do not count; the other weights are renormalised to sum
            to 1. A query without weight on the other keys is left out.

    Returns:
        sums over queries and numbers of queries, each (kept head,), float64.
    """
    keys = weights.seen & ~_named(weights, leave_out)
    values = in_double(weights.values) * keys[:, None]
    mass, n_keys = values.sum(-1, keepdim=True), keys.sum(-1)[:, None]
    counted = (n_keys > 1) & (mass[..., 0] > 0)  # (example, head, query)
    shares = values / mass.where(mass > 0, 1)
    entropy = -torch.special.xlogy(shares, shares).sum(-1)
    return _summed(entropy / in_double(n_keys.clamp(min=2)).log(), counted)


def greatest(weights: Weights, leave_out: Collection[int] = ()) -> tuple[Tensor, Tensor]:
    """The largest weight of each query, summed over queries; see :func:`entropies`.

    Keys that are left out do not count, but the weights are not renormalised (Voita et al. 2019
    leave out the end token).
    """
    keys = weights.seen & ~_named(weights, leave_out)
    values = in_double(weights.values) * keys[:, None]
    return _summed(values.amax(-1), keys.any(-1)[:, None])


def mass_on(weights: Weights, ids: Collection[int]) -> tuple[Tensor, Tensor]:
    """The weight of each query on these token ids, summed over queries; see :func:`entropies`."""
    values = in_double(weights.values) * (weights.seen & _named(weights, ids))[:, None]
    return _summed(values.sum(-1), weights.seen.any(-1)[:, None])


def mass_at(weights: Weights, offset: int) -> tuple[Tensor, Tensor]:
    """The weight of each query on the position at ``offset`` from its own, summed over queries.

    Queries that see no key there are left out, such as the first one for the previous position.

    Args:
        offset: -1 for the previous position, 0 for the query's own, 1 for the next.

    Returns:
        See :func:`entropies`.
    """
    weight = in_double(weights.values.diagonal(offset, -2, -1))  # (example, head, query)
    return _summed(weight, weights.seen.diagonal(offset, -2, -1)[:, None])


def _summed(values: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over the counted queries, and their numbers: (example, head, query) -> (head,)."""
    counted = counted.expand(values.shape)
    return (values * counted).sum((0, 2)), in_double(counted.sum((0, 2)))


def _named(weights: Weights, ids: Collection[int]) -> Tensor:
    """Whether a key's token has one of these ids, (example, 1, key)."""
    if not ids or weights.ids is None:
        return torch.zeros_like(weights.seen[:, :1])
    wanted = torch.tensor(sorted(ids), device=weights.ids.device)
    return torch.isin(weights.ids, wanted)[:, None]
