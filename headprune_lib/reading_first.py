"""Tell which classifiers read one position of their last layer, as they are made and hooked now."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import nn


class Names(NamedTuple):
    """How a class names its layers, and the parts of one (paths below it).

    Attributes:
        layers: the list of layers, below the base model.
        core: the attention module; its queries, keys and values, and the output projection where
            it applies that itself.
        after: the module that is given the attention's output and the layer's input.
        ends: modules whose inputs are all that is read after attention, position by position.
        own_kernel: whether the module attends by its own code, in place of transformers' kernels.
    """

    layers: str
    core: str
    query: str
    key: str
    value: str
    output: str | None
    after: str
    ends: tuple[str, ...]
    own_kernel: bool = False


_LAYERS, _ENDS = "encoder.layer", ("intermediate", "output")
_BERT = Names(_LAYERS, "attention.self", "query", "key", "value", None, "attention.output", _ENDS)
_MPNET = Names(_LAYERS, "attention.attn", "q", "k", "v", "o", "attention.LayerNorm", _ENDS, True)
_NORM = "sa_layer_norm"
_DISTILBERT = Names(
    "transformer.layer", "attention", "q_lin", "k_lin", "v_lin", "out_lin", _NORM, (_NORM,)
)

# Their classifiers read the first position of the last layer.
READ_FIRST = {
    f"{name}ForSequenceClassification": names
    for name, names in {
        **dict.fromkeys(("Bert", "Camembert", "Electra", "Ernie", "Roberta", "XLMRoberta"), _BERT),
        "DistilBert": _DISTILBERT,
        "MPNet": _MPNET,
    }.items()
}
# Whose code keeps to positions where it takes the place of a projection or an activation, and whose
# hooks are there for a reason that is known here.
_TRUSTED = ("headprune_lib.", "transformers.", "torch.", "peft.", "bitsandbytes.")


def names_of(model: nn.Module, batch: Mapping[str, Any]) -> Names | None:
    """How the parts are called, if nothing but the first position of the last layer is read.

    None for other classes than a few of transformers and for classes derived from them; where
    hidden states are asked for; and where somebody changed what comes after the last layer's
    attention: another head or pooler, a ``forward`` or a hook of one's own, a layer that is used
    twice.
    """
    inner: Any = getattr(model, "_orig_mod", model)  # of what torch.compile wrapped
    kind: Any = type(inner)
    names = READ_FIRST.get(kind.__name__) if _is_of_transformers(kind) else None
    if names is None:
        return None
    base = inner.base_model
    for config in (inner.config, base.config):
        if batch.get("output_hidden_states", config.output_hidden_states):
            return None
    if getattr(inner.config, "chunk_size_feed_forward", 0):
        return None  # positions in parts of a size that one position cannot be cut into
    return names if _as_made(inner, base, names) else None


def core_is_own(core: nn.Module, config: Any, batch: Mapping[str, Any]) -> bool:
    """Whether nothing but the context of the first query is asked of an attention module."""
    return (
        "forward" not in core.__dict__  # of a layer without heads
        and not getattr(config, "is_decoder", False)
        and config._attn_implementation in ("eager", "sdpa")
        and not batch.get("output_attentions", config.output_attentions)
    )


def _is_of_transformers(kind: type) -> bool:
    return kind.__module__.startswith("transformers.models.")


def _as_made(model: Any, base: Any, names: Names) -> bool:
    """Whether all that a last layer's states pass through is what the class makes, and unhooked."""
    kind: Any = type(model)
    layers = base.get_submodule(names.layers)
    below = {id(module) for layer in layers[:-1] for module in layer.modules()}
    core = layers[-1].get_submodule(names.core)
    if any(id(module) in below for module in layers[-1].modules()):
        return False
    for path, made in _types(kind).items():
        module = _found(model, path.replace("\0", str(len(layers) - 1)))
        if not _is_made_so(module, made) or not _unhooked(module):
            return False
        if "forward" in module.__dict__ and not (isinstance(module, nn.Linear) or module is core):
            return False
    return True


def _is_made_so(module: nn.Module | None, made: type[nn.Module]) -> bool:
    """A projection or an activation, which keep to a position, may be another of a known package."""
    if type(module) is made:
        return True
    simple = made.__module__.startswith(("torch.", "transformers.activations"))
    named = made in (nn.Dropout, nn.LayerNorm)
    return simple and not named and type(module).__module__.startswith(_TRUSTED)


def _unhooked(module: Any) -> bool:
    hooks = (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    return all(map(_is_trusted, hooks)) and not (
        module._backward_hooks or module._backward_pre_hooks
    )


def _is_trusted(hook: Any) -> bool:
    while isinstance(hook, partial):
        hook = hook.func
    return (getattr(hook, "__module__", None) or type(hook).__module__).startswith(_TRUSTED)


def _found(model: nn.Module, path: str) -> nn.Module | None:
    try:
        return model.get_submodule(path)
    except AttributeError:
        return None


@cache
def _types(kind: Any) -> dict[str, type[nn.Module]]:
    r"""Path -> type of what a model of one layer is made of, but for embeddings; \0 is its layer."""
    config = kind.config_class()
    config.num_hidden_layers = 1
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        made = kind(copy.deepcopy(config))
    layer = f"{made.base_model_prefix}.{READ_FIRST[kind.__name__].layers}."
    return dict(_paths(made, layer))


def _paths(made: nn.Module, layer: str) -> Iterator[tuple[str, type[nn.Module]]]:
    for path, module in made.named_modules():
        if ".embeddings" not in path:
            yield path.replace(f"{layer}0", f"{layer}\0"), type(module)
