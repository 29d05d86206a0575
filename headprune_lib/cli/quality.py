"""How good and how fast models are on batches."""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headprune_lib.cli.data import kind_of, positions
from headprune_lib.discovery import find_heads
from headprune_lib.losses import NOTHING_COUNTS, default_loss, n_labels
from headprune_lib.utils import Batch, model_inputs, pass_seconds, to_device

_ROUNDS = 3

Figures = dict[str, float]


def measure(models: Mapping[str, nn.Module], batches: Sequence[Batch]) -> dict[str, Figures]:
    """Quality and speed of each model.

    Returns:
        for each name what :func:`quality` returns; ``examples_per_second``, the median of three
        passes after a warm-up, the models in turn, so that a slower moment of the machine hits all;
        ``parameters``, ``heads``.

    Raises:
        ValueError: the first model's loss is no finite number.
    """
    device = next(next(iter(models.values())).parameters()).device
    batches = [to_device(batch, device) for batch in batches]
    figures = {name: quality(model, batches) for name, model in models.items()}
    first, loss = next((name, each["loss"]) for name, each in figures.items())
    if not math.isfinite(loss):
        raise ValueError(
            f"the loss {first} anything is removed is {loss}: are weights not numbers, or does "
            "float16 overflow? Nothing can be said of heads then"
        )
    rounds = [
        {name: pass_seconds(model, batches) for name, model in models.items()}
        for _ in range(_ROUNDS)
    ]
    n_examples = sum(len(batch["labels"]) for batch in batches)
    for name, model in models.items():
        seconds = statistics.median(each[name] for each in rounds)
        figures[name] |= {
            "examples_per_second": n_examples / seconds,
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "heads": sum(len(block.kept_heads) for block in find_heads(model)),
        }
    return figures


def quality(model: nn.Module, batches: Sequence[Batch]) -> Figures:
    """Loss, and accuracy where labels are classes, on batches that are where the model is.

    Returns:
        ``loss`` in nats an example, or a token where the labels are tokens, or of a regression the
        squared error; ``accuracy``, 0 to 1.

    Raises:
        ValueError: no label counts in any batch.
    """
    loss, classes = default_loss(model), names_classes(batches[0])
    losses, right, total = [], [], 0
    with torch.inference_mode():
        for batch in batches:
            outputs, labels = model(**model_inputs(model, batch)), batch["labels"]
            losses.append(loss(outputs, batch).sum())  # read off the device after the last batch
            total += n_labels(loss, batch)
            if classes:
                right.append((outputs.logits.argmax(-1) == labels).sum())
    if not total:
        raise ValueError(f"there is no loss to tell: {NOTHING_COUNTS}")
    accuracy = {"accuracy": sum(torch.stack(right).tolist()) / total} if classes else {}
    return {**accuracy, "loss": sum(torch.stack(losses).tolist()) / total}


def names_classes(batch: Batch) -> bool:
    """Whether the labels are classes of texts: no tokens, and no numbers of a regression."""
    return batch["labels"].ndim == 1 and not batch["labels"].is_floating_point()


def check_bleu(model: PreTrainedModel) -> None:
    """Refuse before minutes are spent.

    Raises:
        ValueError: the model does not translate, or sacrebleu is not installed.
    """
    if kind_of(model) != "translation":
        raise ValueError(
            f"--bleu is for translators, {type(model).__name__} is for {kind_of(model)}"
        )
    if find_spec("sacrebleu") is None:
        raise ValueError(
            "--bleu needs sacrebleu, not installed: pip install 'headprune[translation]'"
        )


def bleu(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    numbered: Sequence[tuple[list[int], Batch]],
    references: Sequence[str],
    max_length: int,
) -> float:
    """sacrebleu's BLEU, 0 to 100, of the translations that the model's generation settings give.

    Args:
        numbered: sources as :func:`headprune_lib.cli.data.numbered_batches` makes them, once for
            all models that are compared.
        references: what translations are compared with, in the order of the rows.
        max_length: tokens that a translation has at most.
    """
    import sacrebleu

    settings = copy.deepcopy(model.generation_config)
    settings.max_length = None  # of which transformers would warn beside the other
    settings.max_new_tokens = min(max_length, positions(model) or max_length)
    translations = [""] * len(references)
    device = next(model.parameters()).device
    for members, batch in numbered:
        # decoder_input_ids are the reference, which a translation must not see
        source = {name: batch[name] for name in ("input_ids", "attention_mask") if name in batch}
        with torch.inference_mode():
            tokens = model.generate(**to_device(source, device), generation_config=settings)
        texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
        for i, text in zip(members, texts, strict=True):
            translations[i] = text
    return sacrebleu.corpus_bleu(translations, [list(references)]).score
