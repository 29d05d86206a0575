"""Quality, speed and cost of models, and the heads that a bound on them removes."""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from headprune_lib import budgets, utils
from headprune_lib.cli.bounds import HELD_OUT, Bound
from headprune_lib.cli.data import Rows, kind_of, padding_token, positions
from headprune_lib.discovery import find_heads
from headprune_lib.losses import NOTHING_COUNTS, default_loss, n_labels
from headprune_lib.masking import HeadTensors, masked_heads, ones_mask
from headprune_lib.selection import Step

_ROUNDS = 3

Figures = dict[str, float]


def measure(models: Mapping[str, nn.Module], batches: Sequence[utils.Batch]) -> dict[str, Figures]:
    """Each model's :func:`quality`, ``examples_per_second``, ``parameters`` and ``heads``.

    Speed is the median of three passes after a warm-up; models alternate, so that a slower moment
    of the machine hits all. ValueError if the first model's loss is not finite.
    """
    figures = {name: quality(model, batches) for name, model in models.items()}
    first, loss = next((name, each["loss"]) for name, each in figures.items())
    if not math.isfinite(loss):
        raise ValueError(
            f"the loss {first} anything is removed is {loss}. Look for NaNs and overflow in float16"
        )
    rounds = [
        {name: utils.pass_seconds(model, batches) for name, model in models.items()}
        for _ in range(_ROUNDS)
    ]
    n_examples = sum(len(batch["labels"]) for batch in batches)
    for name, model in models.items():
        seconds = statistics.median(each[name] for each in rounds)
        figures[name] |= {
            "examples_per_second": n_examples / seconds,
            "parameters": utils.n_parameters(model),
            "heads": sum(len(block.kept_heads) for block in find_heads(model)),
        }
    return figures


def quality(model: nn.Module, batches: Sequence[utils.Batch]) -> Figures:
    """``loss``, and ``accuracy`` (0 to 1) for class labels, on batches on the model's device.

    The loss is in nats per example, per token if the labels are tokens, or the squared error of a
    regression. ValueError if no label counts in any batch.
    """
    loss, classes = default_loss(model), names_classes(batches[0])
    losses, right, total = [], [], 0
    with torch.inference_mode():
        for batch in batches:
            outputs, labels = model(**utils.model_inputs(model, batch)), batch["labels"]
            losses.append(loss(outputs, batch).sum())  # copied from the device after the last batch
            total += n_labels(loss, batch)
            if classes:
                right.append((outputs.logits.argmax(-1) == labels).sum())
    if not total:
        raise ValueError(f"no loss can be computed: {NOTHING_COUNTS}")
    accuracy = {"accuracy": sum(torch.stack(right).tolist()) / total} if classes else {}
    return {**accuracy, "loss": sum(torch.stack(losses).tolist()) / total}


def names_classes(batch: utils.Batch) -> bool:
    """Whether the labels are classes of texts, not tokens or regression targets."""
    return batch["labels"].ndim == 1 and not batch["labels"].is_floating_point()


def check_bleu(model: PreTrainedModel) -> None:
    """Raise ValueError if the model does not translate or sacrebleu is not installed."""
    if kind_of(model) != "translation":
        raise ValueError(f"--bleu is for translation models, not for {kind_of(model)}")
    if find_spec("sacrebleu") is None:
        raise ValueError("--bleu needs sacrebleu: pip install 'headprune[translation]'")


def bleu(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Rows,
    batch_size: int,
    max_length: int,
) -> float:
    """sacrebleu's BLEU, 0 to 100, of translations under the model's generation settings.

    Sources and translations have at most ``max_length`` tokens.
    """
    import sacrebleu

    settings = copy.deepcopy(model.generation_config)
    settings.max_length = None  # transformers would warn about setting both
    settings.max_new_tokens = min(max_length, positions(model) or max_length)
    sources = tokenizer(rows.texts, truncation=True, max_length=max_length)["input_ids"]
    device, padding = next(model.parameters()).device, padding_token(model, tokenizer)
    translations = [""] * len(sources)
    for members in utils.by_length(sources, batch_size):
        chosen = [sources[i] for i in members]
        batch = {"input_ids": utils.pad(chosen, padding)}
        batch["attention_mask"] = utils.pad([[1] * len(each) for each in chosen], 0)
        with torch.inference_mode():
            tokens = model.generate(**utils.to_device(batch, device), generation_config=settings)
        texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
        for i, text in zip(members, texts, strict=True):
            translations[i] = text
    return sacrebleu.corpus_bleu(translations, [rows.targets]).score


class Budget:
    """A bound on a model, to which orders of removal are cut; its inputs are measured once.

    ``limit`` is the highest cost or the lowest quality allowed; None for a share of the heads.
    ``steps`` may be of any order of the model under the same options. ValueError for a bound that
    no order can meet, or that the model has no figure for.
    """

    def __init__(
        self, bound: Bound, model: nn.Module, steps: Sequence[Step], held_out: Sequence[utils.Batch]
    ) -> None:
        self.bound, self.model, whole = bound, model, ones_mask(model)
        self.limit: float | None = None
        if bound.option in HELD_OUT:
            self.value = _masked_quality(bound.option, model, held_out)
            unit = 100 if bound.option == "--lose-points" else 1
            self.limit = self.value(whole) - bound.value / unit
        elif bound.option != "--amount":
            if bound.at is None:
                self.value = budgets.parameters_cost(model)
            elif bound.option == "--cache-bytes":
                self.value = budgets.cache_cost(model, *bound.at)
            else:
                tokens = budgets.random_tokens(model, *bound.at)
                self.value = budgets.seconds_cost(model, tokens, steps)
            share = bound.option == "--parameters" and bound.value <= 1
            self.limit = bound.value * (self.value(whole) if share else 1)
            # refuses a bound that is out of reach before minutes are spent on scoring
            everything = [[head for step in steps for head in step]]
            budgets.prune_to_budget(model, everything, self.value, self.limit)

    def cut(self, steps: Sequence[Step], mask: HeadTensors) -> budgets.BudgetResult:
        """Return what to remove along an order; a bound on the share of heads takes ``mask``."""
        if self.limit is None:
            return budgets.BudgetResult(mask, len(removed_units(steps, mask)), ())
        walk = budgets.prune_while if self.bound.option in HELD_OUT else budgets.prune_to_budget
        return walk(self.model, steps, self.value, self.limit)

    def shown(self, value: float) -> float:
        """A value along the order for display: counts are rounded, the loss gets its own sign."""
        if self.bound.option in ("--parameters", "--cache-bytes"):
            return round(value)
        return -value if self.bound.option == "--lose-nats" else value


def removed_units(steps: Sequence[Step], mask: HeadTensors) -> list[Step]:
    """The steps whose heads a mask removes."""
    return [s for s in steps if all(mask[kind][layer, head] == 0 for kind, layer, head in s)]


def _masked_quality(
    option: str, model: nn.Module, batches: Sequence[utils.Batch]
) -> Callable[[HeadTensors], float]:
    """Return a function from a mask to the model's accuracy, or to its negated loss."""
    if option == "--lose-points" and not names_classes(batches[0]):
        raise ValueError("--lose-points needs a model that classifies texts. Use --lose-nats")

    def value(mask: HeadTensors) -> float:
        with masked_heads(model, mask):
            figures = quality(model, batches)
        return figures["accuracy"] if option == "--lose-points" else -figures["loss"]

    return value
