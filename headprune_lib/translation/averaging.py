"""The final weights of a training: the mean of those after its last epochs.

A step size that decays with the square root of the updates leaves the weights moving about; their
mean translates better than any of them (Vaswani et al. 2017, section 6.1, average the last five
checkpoints of their base models).
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file

from headprune_lib.models import write_weights
from headprune_lib.translation.recipe import Recipe, final_recipe
from headprune_lib.translation.training import epoch_path, read_curve


def final_weights(folder: Path, task: str, recipe: Recipe, seed: int) -> Path:
    """The file of a finished training's final weights (float16), made now if there is none."""
    path = folder / "final.safetensors"
    if not path.is_file():
        last = [record["epoch"] for record in read_curve(folder)][-recipe.averaged_epochs:]
        weights = [load_file(epoch_path(folder, epoch)) for epoch in last]
        mean = {name: torch.stack([one[name].float() for one in weights]).mean(0)
                for name in weights[0]}
        write_weights(mean, path, final_recipe(task, recipe, seed))
    return path
