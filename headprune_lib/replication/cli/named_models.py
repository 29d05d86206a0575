"""The replication's trained models under the names of their tasks, for ``headprune inspect`` etc.

Nothing is trained here: if weights are not stored, the error names the command that makes them.
The paper's own translator is fetched.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headprune_lib.cli.models import NamedModel, register_named_models
from headprune_lib.messages import unknown
from headprune_lib.replication.lazy import encoders, profiles, translators
from headprune_lib.replication.paths import models_root

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedTokenizerBase


@register_named_models
def named_models() -> dict[str, NamedModel]:
    """The models of the classification and translation tasks, such as ``reviews`` or ``enfr``.

    ``wmt14-enfr`` is the paper's own translator, fetched the first time.
    """
    from headprune_lib.replication.data import TASKS, TRANSLATION_TASKS

    loads = {
        **dict.fromkeys(TRANSLATION_TASKS, (_translator, _no_tokenizer)),
        "wmt14-enfr": (_public_translator, _no_tokenizer),
        **dict.fromkeys(TASKS, (_classifier, _tokenizer)),
    }
    return {
        task: NamedModel(partial(load, task), partial(load_tokenizer, task))
        for task, (load, load_tokenizer) in loads.items()
    }


def _public_translator(_task: str) -> nn.Module:
    from headprune_lib.replication.models.fairseq import public_translator

    return public_translator().fairseq.model


def _classifier(task: str) -> nn.Module:
    from headprune_lib.replication.models.weights import read_weights

    profile = profiles.load_profile(task=task)
    wanted = encoders.recipe(profile, profile.seed)
    weights = read_weights(encoders.weights_path(profile.model, wanted), wanted)
    if weights is None:
        raise FileNotFoundError(
            f"no weights of {task} are stored here. Run `headprune train {task}` to make them"
        )
    return encoders.with_weights(task, profile.model, profile.seed, weights, "sdpa")


def _tokenizer(task: str) -> PreTrainedTokenizerBase:
    from headprune_lib.replication.models.pretrained import load_tokenizer

    return load_tokenizer(profiles.load_profile(task=task).model)


def _translator(task: str) -> nn.Module:
    profile = profiles.load_profile()
    if task not in profile.translation:
        raise ValueError(unknown("translation task", task, profile.translation))
    model = profile.translation_model
    name = translators.file_name(task, model, profile.trainings(task)[0])
    if not (models_root() / f"{name}.safetensors").is_file():
        raise FileNotFoundError(
            f"no weights of {task} are stored in {models_root()}. Run `headprune train {task} "
            "--publish` to make them"
        )
    return translators.load_translator(profile, task, model=model).model


def _no_tokenizer(task: str) -> PreTrainedTokenizerBase:
    raise ValueError(
        f"{task} has pieces of its own vocabulary, not a tokenizer of transformers. Use `headprune "
        f"inspect {task}` to see its heads, and `headprune reproduce` to score them"
    )
