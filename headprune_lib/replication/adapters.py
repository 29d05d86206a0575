"""Low-rank adapters (LoRA, Hu et al. 2021): few weights that are trained beside frozen ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING

from torch import nn

from headprune_lib.replication.language.models import check_installed

if TYPE_CHECKING:
    from peft import PeftModel


def adapted(
    model: nn.Module, targets: Iterable[str], rank: int, task_type: str | None = None
) -> PeftModel:
    """The model with an adapter at each of its modules that are named; all else is frozen.

    ``merge_and_unload()`` of what is returned puts the adapters into the weights again. An adapter
    counts twice (alpha is twice the rank); the caller draws its first weights with the seed that it
    has set.

    Args:
        model: changed in place.
        targets: whole names of linear layers; those whose weights are empty, as where all heads of
            a layer were removed, are left out.
        task_type: as peft calls it.

    Raises:
        ValueError: peft is not installed, or no layer is left.
    """
    check_installed("peft")
    import peft

    wanted = [name for name in targets if model.get_parameter(f"{name}.weight").numel()]
    if not wanted:
        raise ValueError("no layer with weights is named: name the linear layers to adapt")
    with warnings.catch_warnings():  # peft asks transformers for what is named otherwise by now
        warnings.simplefilter("ignore", FutureWarning)
        return peft.get_peft_model(
            model,
            peft.LoraConfig(
                r=rank, lora_alpha=2 * rank, target_modules=wanted, task_type=task_type
            ),
        )
