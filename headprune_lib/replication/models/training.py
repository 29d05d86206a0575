"""The training loop of every model: transformers' ``Trainer`` over ready-made batches."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainingArguments
from transformers.trainer_utils import sort_checkpoints

from headprune_lib.losses import default_loss, n_labels
from headprune_lib.messages import quiet
from headprune_lib.replication.models.pretrained import check_installed
from headprune_lib.replication.models.weights import BFLOAT16, working_precision
from headprune_lib.replication.paths import trained_root
from headprune_lib.replication.store.files import locked
from headprune_lib.utils import to_device

if TYPE_CHECKING:
    from peft import PeftModel


def fit(
    model: nn.Module,
    batches: Sequence[dict[str, Tensor]] | Dataset,
    folder: Path,
    title: str,
    *,
    seed: int,
    device: str,
    precision: str,
    epochs: int,
    trainer: Callable[..., Trainer] | None = None,
    data: Mapping[str, Any] | None = None,
    **further: Any,
) -> nn.Module:
    """Train all weights that require a gradient, and return the model in evaluation mode.

    Each epoch ends with a checkpoint in ``folder``; an interrupted training resumes from the last
    whole one.

    Args:
        model: changed in place.
        batches: each item is a whole batch.
        precision: of the recipe; float32 is used on a CPU without bfloat16.
        data: further arguments of the trainer.
        further: arguments of transformers' ``TrainingArguments``.
    """
    arguments = TrainingArguments(
        output_dir=str(folder),
        seed=seed,
        bf16=working_precision(precision, device) == BFLOAT16,
        use_cpu=torch.device(device).type == "cpu",
        num_train_epochs=epochs,
        per_device_train_batch_size=1,
        max_grad_norm=1.0,
        save_strategy="epoch",
        save_total_limit=1,
        report_to=[],
        remove_unused_columns=False,
        disable_tqdm=True,
        **{"lr_scheduler_type": "linear", "logging_strategy": "no", **further},
    )
    # several GPUs would split a batch, and draw other dropout masks
    arguments._n_gpu = min(1, arguments.n_gpu)
    fitter = (trainer or BatchTrainer)(
        model=model,
        args=arguments,
        train_dataset=batches,
        data_collator=_whole_batch,
        **(data or {}),
    )
    fitter.remove_callback(PrinterCallback)
    fitter.add_callback(_Bar(title))
    with quiet():  # else each file of a checkpoint shows a progress bar
        fitter.train(resume_from_checkpoint=last_checkpoint(folder))
    # unwrap the forward pass, which autocast would otherwise stay around
    return fitter.accelerator.unwrap_model(model, keep_fp32_wrapper=False).to(device).eval()


def _whole_batch(items: list[dict]) -> dict:
    (item,) = items
    return dict(item)


def checkpoint_folder(name: str, depends_on: list) -> Path:
    """The folder of a training's checkpoints; another value in ``depends_on`` gives another."""
    digest = hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()[:12]
    return trained_root() / "training" / f"{name}-{digest}"


@contextmanager
def checkpoints_in(folder: Path) -> Iterator[None]:
    """Context for a training; its checkpoints are removed once the block ends without error.

    One process at a time may enter: a second one would remove the checkpoints of the first.
    """
    with locked(folder):
        yield
        shutil.rmtree(folder, ignore_errors=True)


def last_checkpoint(folder: Path) -> str | None:
    """The newest whole checkpoint; newer ones that were cut short are removed, with a warning."""
    for path in map(Path, reversed(sort_checkpoints(str(folder)))):
        if _is_whole(path):
            return str(path)
        warnings.warn(f"{path} is damaged or was cut short, and is removed", stacklevel=2)
        shutil.rmtree(path)
    return None


def _is_whole(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / "trainer_state.json").read_bytes())  # written last
        adapters = checkpoint / "adapter_model.safetensors"  # LoRA saves no other weights
        weights = adapters if adapters.is_file() else checkpoint / "model.safetensors"
        with safe_open(weights, "pt"):
            pass
        for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
            with zipfile.ZipFile(checkpoint / name) as archive:
                if archive.testzip() is not None:
                    return False
    except (OSError, ValueError, SafetensorError, zipfile.BadZipFile):
        return False
    return True


class BatchTrainer(Trainer):
    """Trainer that splits a batch too large for memory into parts, and adds up their gradients.

    The update is that of the whole batch, except for dropout's random draws. A size that did not
    fit once is not tried again.
    """

    _room = math.inf  # token ids of the largest part

    def training_step(self, model: nn.Module, inputs: dict, num_items_in_batch=None) -> Tensor:
        """Accumulate the gradients of a batch, and return its loss."""
        rows, length = inputs["input_ids"].shape
        while True:
            at_once = int(max(1, min(rows, self._room // length)))
            try:
                if at_once == rows:
                    return super().training_step(model, inputs, num_items_in_batch)
                return self._step_in_parts(model, self._prepare_inputs(inputs), at_once)
            except torch.OutOfMemoryError:
                if at_once == 1:
                    raise
            self._room = at_once // 2 * length
            model.zero_grad()  # discard the gradients of the failed attempt
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _prepare_inputs(self, inputs: dict) -> dict:
        return super()._prepare_inputs(to_device(inputs, self.args.device))

    def _step_in_parts(self, model: nn.Module, inputs: dict, at_once: int) -> Tensor:
        model.train()
        usual, losses = default_loss(model), []
        whole = n_labels(usual, inputs)
        for start in range(0, len(inputs["labels"]), at_once):
            part = {name: value[start : start + at_once] for name, value in inputs.items()}
            # counted first: label smoothing removes the labels
            share = n_labels(usual, part) / whole
            with self.compute_loss_context_manager():
                loss = self.compute_loss(model, part) * share
            self.accelerator.backward(loss)
            losses.append(loss.detach())
        return torch.stack(losses).sum()


class _Loader(DataLoader):
    """Loader of batches in order; draws nothing from the random generator that dropout uses."""

    def __init__(self, epochs: Dataset) -> None:
        super().__init__(epochs, batch_size=None, generator=torch.Generator())

    def set_epoch(self, epoch: int) -> None:
        self.dataset.begin(epoch)


class EpochTrainer(BatchTrainer):
    """Trainer with the mean loss of a batch and weight decay on all parameters, biases included."""

    def __init__(self, **given) -> None:
        with torch.random.fork_rng(devices=[]):  # dropout continues the new weights' random stream
            super().__init__(**given)
        self.model_accepts_loss_kwargs = False

    def get_train_dataloader(self) -> DataLoader:
        """The loader of batches that are made when their epoch begins."""
        return _Loader(self.train_dataset)

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """The names of all parameters."""
        return [name for name, _ in model.named_parameters()]


class JudgedTrainer(BatchTrainer):
    """Trainer that evaluates by a function of the model, such as the BLEU of its translations."""

    def __init__(self, judge: Callable[[nn.Module], float], **given) -> None:
        super().__init__(**given)
        self.judge = judge

    def evaluate(self, *_args, **_kwargs) -> dict[str, float]:
        """Return the function's score, and pass it to the log and the callbacks."""
        metrics = {"eval_bleu": self.judge(self.model)}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics


class _Bar(ProgressCallback):
    """A progress bar over all updates, without log lines."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        self.training_bar.set_description(self.title)

    def on_log(self, *_args, **_kwargs) -> None:
        pass


def adapted(
    model: nn.Module, targets: Iterable[str], rank: int, task_type: str | None = None
) -> PeftModel:
    """Add low-rank adapters (LoRA, Hu et al. 2021) to ``targets`` in place, and freeze the rest.

    ``merge_and_unload()`` of the returned model merges the adapters into the weights. Adapters are
    scaled by 2 (alpha is twice the rank). Their initial weights are drawn from torch's random
    generator, which the caller seeds. Layers with empty weights, as where all heads of a layer were
    removed, are left out.
    """
    check_installed("peft")
    import peft

    wanted = [name for name in targets if model.get_parameter(f"{name}.weight").numel()]
    if not wanted:
        raise ValueError("no layer with weights is named. Name the linear layers to adapt")
    with warnings.catch_warnings():  # peft uses a name that transformers has since changed
        warnings.simplefilter("ignore", FutureWarning)
        return peft.get_peft_model(
            model,
            peft.LoraConfig(
                r=rank, lora_alpha=2 * rank, target_modules=wanted, task_type=task_type
            ),
        )
