"""How sure a head is: the greatest of its attention weights."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable

import torch
from torch import nn

from headprune_lib.attention import ENDS, special_ids
from headprune_lib.attention_statistics import greatest
from headprune_lib.batching import Batch
from headprune_lib.criteria.entropy import mean_over_queries
from headprune_lib.criteria.registry import Look, register_criterion
from headprune_lib.heads import HeadTensors
from headprune_lib.losses import Loss


@register_criterion(
    "confidence",
    label="confidence",
    formula=r"\mathbb{E}_{x, q} \max_{k \neq \text{end}} a_{qk}",
    source="Voita et al. 2019, section 4: the mean of the maximal attention weight",
    look=Look("red", "--"),
    cost="a forward pass, eager",
    weights=True,
    version=2,
)
def confidence(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    loss: Loss | None = None,
    device: str | torch.device | None = None,
    leave_out: Collection[int] | None = None,
) -> HeadTensors:
    """Mean over real queries of the greatest weight on a key other than an end mark, 0 to 1.

    Args:
        leave_out: ids of tokens whose keys do not count, such as :func:`end_ids` of the tokenizer;
            the end mark and the separator that the model's configuration names if not given, with a
            warning where it names neither, as BERT's does not.

    Raises:
        ValueError: no batches, or an attention kernel that makes no weights.
    """
    ends = special_ids(model, ENDS) if leave_out is None else leave_out
    if leave_out is None and not ends and getattr(model, "main_input_name", "") == "input_ids":
        warnings.warn(
            "the model's configuration names no end mark and no separator, so that weights on them "
            "count: give leave_out=end_ids(tokenizer), or leave_out=() if they are to count",
            stacklevel=3,
        )
    return mean_over_queries(model, batches, greatest, ends, device)
