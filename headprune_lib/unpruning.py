"""A pruned model at its original size again: zeros, or another model's heads, where some were removed."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from headprune_lib.heads import find_heads
from headprune_lib.records import Kept, heads_left
from headprune_lib.slicing import keep_heads


def unprune_heads(
    model: PreTrainedModel, original: PreTrainedModel | None = None
) -> PreTrainedModel:
    """A new model of the size before :func:`headprune_lib.prune_heads`; the old one is left as it is.

    With zeros it computes what the pruned model does, in the time that the unpruned one took, and
    is a plain model of transformers: ``save_pretrained`` writes what any program opens. With an
    original model's weights the heads are back, among whatever the others learned meanwhile.

    Args:
        model: of a class that its configuration alone makes; that configuration is the unpruned
            model's, as ``prune_heads`` and ``load_pruned`` leave it.
        original: the unpruned model, whose weights the removed heads get; zeros if not given.

    Raises:
        ValueError: a model that its class and configuration do not make again, or an original of
            other sizes.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from headprune_lib import cut_heads, prune_heads
        >>> model = BertModel(BertConfig(hidden_size=8, num_attention_heads=4, vocab_size=10,
        ...                              num_hidden_layers=1, intermediate_size=8))
        >>> pruned = prune_heads(model, cut_heads(model, [("self", 0, 2)]))
        >>> unprune_heads(pruned).encoder.layer[0].attention.self.query.weight.shape
        torch.Size([8, 8])
    """
    weights = dict(model.state_dict())
    whole = _made_again(model)
    sizes = {name: values.shape for name, values in whole.state_dict().items()}
    changed = [name for name, values in weights.items() if values.shape != sizes.get(name)]
    places = _places(_made_again(model), heads_left(model), changed)
    unlike = [
        name for name in changed if name not in places or places[name].shape != weights[name].shape
    ]
    if unlike or weights.keys() != sizes.keys():
        name = next(iter([*unlike, *(weights.keys() ^ sizes.keys())]))
        raise ValueError(
            f"{type(model).__name__} was changed beside its heads, so that its configuration does "
            f"not describe it: {name}. Merge adapters (merge_and_unload), and put other changes "
            "into model.config"
        )
    given = _weights_of(original, sizes) if original is not None else {}
    for name in changed:
        values = weights[name]
        full = given[name].to(values).clone() if given else values.new_zeros(sizes[name])
        full.view(-1)[places[name].to(full.device)] = values
        weights[name] = full
    whole.load_state_dict({name: values.clone() for name, values in weights.items()}, assign=True)
    whole.tie_weights()
    if getattr(model, "generation_config", None) is not None:
        whole.generation_config = copy.deepcopy(model.generation_config)
    for (_, mine), (_, theirs) in zip(
        sorted(whole.named_parameters()), sorted(model.named_parameters()), strict=True
    ):
        mine.requires_grad_(theirs.requires_grad)
    return whole.to(model.device).train(model.training)


def _made_again(model: PreTrainedModel) -> Any:
    """An unpruned model with random weights, made of the class and the configuration."""
    own: Any = type(model)
    try:
        with torch.random.fork_rng(devices=[]):
            return own(copy.deepcopy(model.config))
    except TypeError as error:
        raise ValueError(
            f"{own.__module__}.{own.__qualname__} is not made of its configuration alone ({error})"
        ) from error


def _places(whole: nn.Module, kept: Kept, changed: list[str]) -> dict[str, Tensor]:
    """Where the numbers of pruned weights stood: name -> places in the flattened unpruned weights.

    An unpruned model whose weights are their own places is pruned in the same way, so that nothing
    here needs to know how an architecture lays its heads out.
    """
    blocks = find_heads(whole)  # before the weights are places: some are found by running the model
    for name in changed:
        holder, _, own = name.rpartition(".")
        tensors = whole.get_submodule(holder)
        tensor: Tensor | None = getattr(tensors, own, None)
        if tensor is None:
            continue
        places = torch.arange(tensor.numel(), dtype=torch.float64).view(tensor.shape)  # exact
        if own in tensors._parameters:
            setattr(tensors, own, nn.Parameter(places, requires_grad=False))
        else:
            setattr(tensors, own, places)
    for block in blocks:
        keep_heads(whole, block, kept[block.path])
    return {name: values.long() for name, values in whole.state_dict().items() if name in changed}


def _weights_of(original: PreTrainedModel, sizes: dict[str, torch.Size]) -> dict[str, Tensor]:
    given = dict(original.state_dict())
    for name, size in sizes.items():
        if name not in given or given[name].shape != size:
            found = tuple(given[name].shape) if name in given else "missing"
            raise ValueError(
                f"the original's {name} is {found}, and the unpruned model has {tuple(size)}: give "
                "the model that the heads were removed from"
            )
    return given
