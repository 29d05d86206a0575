"""Score, mask and remove attention heads of Transformers (Michel, Levy & Neubig 2019)."""

from importlib.metadata import version

from headprune_lib.ablation import all_but_one, one_head_ablation
from headprune_lib.architectures import register_attention
from headprune_lib.criteria import register_criterion
from headprune_lib.criteria.importance import example_importance
from headprune_lib.fairseq_import import import_fairseq
from headprune_lib.heads import cut_heads, find_heads, full_mask
from headprune_lib.masking import masked_heads
from headprune_lib.orders import order_mask, prune_mask, prune_order, prune_schedule
from headprune_lib.pruning import prune_heads
from headprune_lib.saving import load_pruned, save_pruned
from headprune_lib.scoring import head_importance, score_heads

__all__ = [
    "all_but_one",
    "cut_heads",
    "example_importance",
    "find_heads",
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
]

__version__ = version("headprune")
