"""A tiny random model of a model type: its configuration with every size made small."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto as auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

_TABLE = tomllib.loads(Path(__file__).with_name("sizes.toml").read_text("utf-8"))
SIZES, AT_MOST, ALIKE, DOUBLING = (
    {name: int(size) for size, names in _TABLE[part].items() for name in names.split()}
    for part in ("set", "at_most", "alike", "doubling")
)
OVERRIDES = {name: one["values"] for one in _TABLE["overrides"] for name in one["types"].split()}

# A type is built as the class for the first of these tasks that it has one for.
TASKS = (
    auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
    auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    auto.MODEL_FOR_CAUSAL_LM_MAPPING,
    auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    auto.MODEL_FOR_MASKED_LM_MAPPING,
    auto.MODEL_MAPPING,
    auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING,
    auto.MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING,
    auto.MODEL_FOR_CTC_MAPPING,
)

_NEEDED = {
    *("num_key_value_heads", "head_dim", "num_experts_per_tok", "topk_group", "n_group"),
    *("n_routed_experts", "num_local_experts"),
}
"""Fields that some configurations leave open but their models need."""


def tiny_config(model_type: str) -> PreTrainedConfig:
    """The type's configuration with every size that is known by name made small."""
    config_class = CONFIG_MAPPING[model_type]
    overrides = OVERRIDES.get(model_type, {})
    return config_class(**_merged(_small(config_class()), overrides))


def _small(config: PreTrainedConfig) -> dict[str, Any]:
    """Arguments that make a configuration of this class small, including nested configurations."""
    taken = inspect.signature(type(config).__init__).parameters
    small: dict[str, Any] = {}
    for name, value in vars(config).items():
        if name not in taken:
            continue
        if isinstance(value, PreTrainedConfig):
            inner = _small(value)
            inner["model_type"] = value.model_type
            small[name] = inner
        elif isinstance(value, bool) or (value is None and name not in _NEEDED):
            continue
        elif name == "rope_parameters" and isinstance(value, dict):
            small[name] = _with_sections(value, _SECTIONED.search(config.model_type))
        elif isinstance(value, list | tuple):
            if name in ALIKE:
                small[name] = [ALIKE[name]] * len(value)
            elif name in DOUBLING:
                small[name] = [DOUBLING[name] * 2**i for i in range(len(value))]
        elif isinstance(value, int | None):
            if name in SIZES:
                small[name] = SIZES[name]
            elif name in AT_MOST:
                small[name] = AT_MOST[name] if value is None else min(value, AT_MOST[name])
            elif name == "patch_size":
                small[name] = 8 if value > 4 else value
    heads = small.get("num_attention_heads")
    if heads and "num_key_value_heads" in small:
        own = getattr(config, "num_attention_heads", None)
        kept = getattr(config, "num_key_value_heads", None)
        small["num_key_value_heads"] = heads if own == kept else 1 if kept == 1 else heads // 2
    return small


# Types whose rotary positions have time, height and width, whether their defaults say so or not.
_SECTIONED = re.compile(r"vl|glm.*(v|image|ocr)|omni|colqwen|glmga|paddleocr|keye|ernie4_5_vl")


def _with_sections(rope: dict[str, Any], sectioned: object) -> dict[str, Any]:
    """Rotary parameters whose sections of time, height and width add up to half a head of 8."""
    made = {
        name: _with_sections(value, False) if isinstance(value, dict) else value
        for name, value in rope.items()
    }
    if sectioned or "mrope_section" in made:
        made["mrope_section"] = [2, 1, 1]
    return made


def _merged(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    inner = {
        name: _merged(base[name], value)
        for name, value in more.items()
        if isinstance(value, dict) and isinstance(base.get(name), dict)
    }
    return {**base, **more, **inner}


def model_class(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """The class that the type is built as: one of an auto class, or the first of its module."""
    for mapping in TASKS:
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, tuple) else found
    name = type(config).__module__.replace(".configuration_", ".modeling_")
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:
        return None
    fitting = [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, PreTrainedModel)
        and one.__module__ == name
        and one.config_class is type(config)
        and not one.__name__.endswith("PreTrainedModel")
    ]
    return fitting[0] if fitting else None


def build(model_type: str, seed: int = 0) -> nn.Module:
    """A random model whose weights are large enough for every head to matter.

    Raises:
        LookupError: no class of transformers is built from the type's configuration alone.
    """
    config = tiny_config(model_type)
    found = model_class(config)
    if found is None:
        raise LookupError("no auto class")
    torch.manual_seed(seed)
    model = found(config)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter, std=0.1)
        elif parameter.ndim > 1 and parameter.is_floating_point():
            nn.init.normal_(parameter, std=min(0.3, 1.7 / parameter.shape[-1] ** 0.5))
    generation: Any = getattr(model, "generation_config", None)
    if config.is_encoder_decoder and generation and generation.decoder_start_token_id is None:
        generation.decoder_start_token_id = 1  # T5's configuration leaves it to the checkpoint
    return model.eval()
