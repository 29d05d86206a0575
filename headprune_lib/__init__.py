"""Score, mask and remove attention heads of Transformers (Michel, Levy & Neubig 2019).

What is named here is imported when it is first asked for: the command's help must not wait for
torch and transformers.
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
    from headprune_lib.masking import cut_heads, full_mask, masked_heads
    from headprune_lib.pruning import prune_heads
    from headprune_lib.saving import load_pruned, save_pruned, unprune_heads
    from headprune_lib.scoring import head_importance, score_heads
    from headprune_lib.selection import (
        order_mask,
        prune_mask,
        prune_order,
        prune_schedule,
        uniform_mask,
    )
    from headprune_lib.specs import register_attention

__all__ = [
    "all_but_one",
    "cut_heads",
    "example_importance",
    "export_gguf",
    "export_onnx",
    "export_transformers",
    "find_heads",
    "fold_gates",
    "full_mask",
    "head_importance",
    "import_fairseq",
    "load_pruned",
    "masked_heads",
    "one_head_ablation",
    "order_mask",
    "prune_heads",
    "prune_mask",
    "prune_order",
    "prune_schedule",
    "register_attention",
    "register_criterion",
    "save_pruned",
    "score_heads",
    "tune_mask",
    "uniform_mask",
    "unprune_heads",
]

__version__ = version("headprune")

_HOMES = {
    "all_but_one": "ablation",
    "cut_heads": "masking",
    "example_importance": "criteria.gradient",
    "export_gguf": "export",
    "export_onnx": "export",
    "export_transformers": "export",
    "find_heads": "discovery",
    "fold_gates": "mask_tuning",
    "full_mask": "masking",
    "head_importance": "scoring",
    "import_fairseq": "fairseq_import",
    "load_pruned": "saving",
    "masked_heads": "masking",
    "one_head_ablation": "ablation",
    "order_mask": "selection",
    "prune_heads": "pruning",
    "prune_mask": "selection",
    "prune_order": "selection",
    "prune_schedule": "selection",
    "register_attention": "specs",
    "register_criterion": "criteria",
    "save_pruned": "saving",
    "score_heads": "scoring",
    "tune_mask": "mask_tuning",
    "uniform_mask": "selection",
    "unprune_heads": "saving",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"headprune_lib.{_HOMES[name]}"), name)
        globals()[name] = value  # found at once from now on
        return value
    try:  # headprune_lib.masking, without an import of its own
        return import_module(f"headprune_lib.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"headprune_lib.{name}":
            raise
    raise AttributeError(f"module 'headprune_lib' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
