"""A pruned model at its original size again: zeros, or another model's heads, where some were removed."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import type_before_parametrizations
from transformers import PreTrainedModel

from headprune_lib.heads import find_heads
from headprune_lib.hooking import hooked
from headprune_lib.records import RECORD, Record, records_of, renumbered
from headprune_lib.saving import keep_recorded


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
        ValueError: a model that its class and configuration do not make again, modules put in
            others' places among it, or an original of other sizes. Hooks are not carried over.
        RuntimeError: the model is masked right now.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from headprune_lib import cut_heads, prune_heads
        >>> model = BertModel(BertConfig(hidden_size=8, num_attention_heads=4, vocab_size=10,
        ...                              num_hidden_layers=1, intermediate_size=8))
        >>> pruned = prune_heads(model, cut_heads(model, [("self", 0, 2)]))
        >>> unprune_heads(pruned).encoder.layer[0].attention.self.query.weight.shape
        torch.Size([8, 8])
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
    _check_plain(model)
    weights, whole = dict(model.state_dict()), _made_again(model)
    weights = {name: values for name, values in weights.items() if not name.endswith(RECORD)}
    sizes = {name: values.shape for name, values in whole.state_dict().items()}
    changed = [name for name, values in weights.items() if values.shape != sizes.get(name)]
    _check_same_parts(model, whole)
    places = _places(copy.deepcopy(whole), records_of(model), changed)
    for name in (*changed, *sorted(weights.keys() ^ sizes.keys())):
        if name not in places or places[name].shape != weights[name].shape:
            raise _changed(model, name)
    given = _weights_of(original, sizes) if original is not None else {}
    for name in changed:
        values = weights[name]
        full = given[name].to(values).clone() if given else values.new_zeros(sizes[name])
        full.view(-1)[places[name].to(full.device)] = values
        weights[name] = full
    _fill(whole, model, weights)
    if getattr(model, "generation_config", None) is not None:
        whole.generation_config = copy.deepcopy(model.generation_config)
    blocks = find_heads(model)
    every = [range(block.n_heads) for block in blocks]
    for owner, name, value in renumbered(whole, blocks, [block.kept for block in blocks], every):
        setattr(owner, name, value)
    return whole.train(model.training)


def _check_plain(model: Any) -> None:
    if not isinstance(model, PreTrainedModel):
        raise ValueError(
            f"{type(model).__module__}.{type(model).__qualname__} is no model of transformers: "
            "give the one in it, without adapters (merge_and_unload)"
        )
    if hooked(block.part(model, "output") for block in find_heads(model)):
        raise RuntimeError(
            "the model is masked or measured right now (masked_heads, a sweep), which a new model "
            "would not be: put its heads back before or after the with block"
        )


def _made_again(model: PreTrainedModel) -> Any:
    """An unpruned model with random weights, made of the class and the configuration."""
    own: Any = type(model)
    try:
        with torch.random.fork_rng(devices=[]):
            return own(copy.deepcopy(model.config)).to(model.dtype)
    except TypeError as error:
        raise ValueError(
            f"{own.__module__}.{own.__qualname__} is not made of its configuration alone ({error})"
        ) from error


def _check_same_parts(model: PreTrainedModel, whole: PreTrainedModel) -> None:
    """Raises ValueError where a module was put in another's place: weights do not tell."""
    # torch makes each parametrized module (weight_norm in wav2vec 2.0) a class of its own
    made = {path: type_before_parametrizations(module) for path, module in whole.named_modules()}
    for path, module in model.named_modules():
        if made.get(path) is not type_before_parametrizations(module):
            raise _changed(model, f"{path or 'the model'} is {type(module).__name__}")


def _changed(model: PreTrainedModel, what: str) -> ValueError:
    return ValueError(
        f"{type(model).__name__} was changed beside its heads, or made with more than its "
        f"configuration, which does not describe it: {what}. Merge adapters (merge_and_unload), and "
        "put other changes into model.config"
    )


def _fill(whole: PreTrainedModel, model: PreTrainedModel, weights: dict[str, Tensor]) -> None:
    """Give the unpruned model its weights, and what the pruned one has besides.

    Raises:
        ValueError: the class ties weights that are not tied in the pruned model.
    """
    whole.load_state_dict({name: values.clone() for name, values in weights.items()}, assign=True)
    whole.tie_weights()
    for name, values in whole.state_dict().items():
        if not values.is_meta and not torch.equal(values, weights[name]):
            raise _changed(model, f"{name} is not tied as its class ties it")
    asking = dict(model.named_parameters(remove_duplicate=False))
    for name, parameter in whole.named_parameters(remove_duplicate=False):
        parameter.requires_grad_(asking[name].requires_grad)
    whole.to(model.device)
    for name, values in model.named_buffers():  # those that are not stored: positions
        holder, _, own = name.rpartition(".")
        module = whole.get_submodule(holder)
        there = module._buffers.get(own)
        if name not in weights and there is not None and there.shape == values.shape:
            setattr(module, own, values.clone())


def _places(whole: nn.Module, records: dict[str, Record], changed: list[str]) -> dict[str, Tensor]:
    """Where the numbers of pruned weights stood: name -> places in the flattened unpruned weights.

    An unpruned model whose weights are their own places is pruned in the same way, so that nothing
    here needs to know how an architecture lays its heads out.
    """
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
    keep_recorded(whole, records)
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
