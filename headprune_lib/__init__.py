"""Score, mask and remove attention heads of Transformers (Michel, Levy & Neubig 2019).

Public names are imported on first access, so that the command's help does not wait for torch and
transformers.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headprune_lib.ablation import all_but_one, one_head_ablation
    from headprune_lib.criteria import register_criterion
    from headprune_lib.criteria.gradient import example_importance
    from headprune_lib.discovery import find_heads
    from headprune_lib.export import export_gguf, export_onnx, export_transformers
    from headprune_lib.fairseq_import import import_fairseq
    from headprune_lib.mask_tuning import fold_gates, tune_mask
    from headprune_lib.masking import head_mask, masked_heads, ones_mask
    from headprune_lib.pruning import prune_heads
    from headprune_lib.saving import load_pruned, save_pruned, unprune_heads
    from headprune_lib.scoring import head_importance, score_heads
    from headprune_lib.selection import (
        order_mask,
        prune_mask,
        prune_schedule,
        rank_heads,
        uniform_mask,
    )
    from headprune_lib.specs import register_attention

__all__ = [
    "all_but_one",
    "example_importance",
    "export_gguf",
    "export_onnx",
    "export_transformers",
    "find_heads",
    "fold_gates",
    "head_importance",
    "head_mask",
    "import_fairseq",
    "load_pruned",
    "masked_heads",
    "one_head_ablation",
    "ones_mask",
    "order_mask",
    "prune_heads",
    "prune_mask",
    "prune_schedule",
    "rank_heads",
    "register_attention",
    "register_criterion",
    "save_pruned",
    "score_heads",
    "tune_mask",
    "uniform_mask",
    "unprune_heads",
]

__version__ = version("headprune")

_NAMES = {
    "ablation": "all_but_one one_head_ablation",
    "criteria": "register_criterion",
    "criteria.gradient": "example_importance",
    "discovery": "find_heads",
    "export": "export_gguf export_onnx export_transformers",
    "fairseq_import": "import_fairseq",
    "mask_tuning": "fold_gates tune_mask",
    "masking": "head_mask masked_heads ones_mask",
    "pruning": "prune_heads",
    "saving": "load_pruned save_pruned unprune_heads",
    "scoring": "head_importance score_heads",
    "selection": "order_mask prune_mask prune_schedule rank_heads uniform_mask",
    "specs": "register_attention",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
_FORMER = {"cut_heads": "head_mask", "full_mask": "ones_mask", "prune_order": "rank_heads"}


def __getattr__(name: str) -> Any:
    if name in _FORMER:
        messages = import_module("headprune_lib.messages")
        messages.warn_of_former(f"headprune_lib.{name}", _FORMER[name])
        return __getattr__(_FORMER[name])
    if name in _HOMES:
        value = getattr(import_module(f"headprune_lib.{_HOMES[name]}"), name)
        globals()[name] = value  # __getattr__ is not asked again
        return value
    try:  # a submodule that was not imported, such as headprune_lib.masking
        return import_module(f"headprune_lib.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"headprune_lib.{name}":
            raise
    raise AttributeError(f"module 'headprune_lib' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
