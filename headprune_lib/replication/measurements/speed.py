"""Table 4 (section 4.3): examples a second before and after half of the heads are removed."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.lazy import (
    discovery,
    pruning,
    saving,
    selection,
    setups,
    torch,
    transformers,
    utils,
)
from headprune_lib.replication.measurements.base import Context, measurement
from headprune_lib.replication.measurements.orders import random_order
from headprune_lib.replication.models.encoders import make_batches
from headprune_lib.replication.models.pretrained import BASES, load_tokenizer
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import Arrays, Journal, Measured, prefixed

_VARIANTS = ("unpruned", "pruned")


def _of_device(profile: Profile) -> dict[str, Any]:
    """The parameters: times depend on the device, and on the sentences if there are fewer."""
    parameters = {"n_scoring": profile.n_scoring, **vars(profile.speed)}
    if profile.n_examples is not None and profile.n_examples < profile.speed.n_sentences:
        parameters["n_examples"] = profile.n_examples
    if (kind := profile.device.partition(":")[0]) != "cpu":
        parameters["device"] = kind
    return parameters


@measurement("speed", version=1, parameters=_of_device)
def speed(context: Context) -> Measured:
    """Seconds per pass with all heads and without half of them, and the sizes of both models."""
    profile, journal, subject = context.profile, context.journal, context.subject()
    raw: Arrays = {"batch_sizes": np.array(profile.speed.batch_sizes)}
    order = selection.rank_heads(subject.importance(journal))
    for name, pair in timed_pairs(subject, order).items():
        finetuned = name == "finetuned"
        batches = _texts(subject) if finetuned else _random_ids(profile, pair["unpruned"])
        raw |= context.settled(
            [f"{name}/{what}" for what in ("seconds", "n_sentences", "file", "memory")],
            partial(_timed, pair, batches, profile, journal, name),
            costly=True,
        )
        raw[f"{name}/parameters"] = np.array([utils.n_parameters(each) for each in pair.values()])
        raw[f"{name}/attention"] = np.array([attention_parameters(each) for each in pair.values()])
    return subject.measured(
        raw, n_examples=profile.speed.n_sentences, metric="throughput", unit="examples/s"
    )


def timed_pairs(
    subject: setups.EncoderSubject, order: list[selection.Head]
) -> dict[str, dict[str, torch.nn.Module]]:
    """The fine-tuned model and one of a published shape, each ``unpruned`` and ``pruned``.

    Args:
        order: the order of removal in the fine-tuned model; the other model's is arbitrary.
    """
    timed = subject.profile.speed
    shape = shaped(timed.shape)
    heads = [
        (block.kind, block.layer, head)
        for block in discovery.find_heads(shape)
        for head in block.kept_heads
    ]

    def pair(model: torch.nn.Module, order: list[selection.Head]) -> dict[str, torch.nn.Module]:
        cut = selection.order_mask(model, order, round(timed.share * len(order)))
        return {"unpruned": model, "pruned": pruning.prune_heads(copy.deepcopy(model), cut)}

    return {"finetuned": pair(subject.model, order), "shape": pair(shape, random_order(heads, 0))}


def shaped(shape: str) -> torch.nn.Module:
    """A classifier of a published shape with random weights: for speed only."""
    torch.manual_seed(0)
    config = config_of_shape(shape)
    return transformers.AutoModelForSequenceClassification.from_config(config).eval()


def config_of_shape(shape: str) -> transformers.PretrainedConfig:
    """The configuration of a published shape; BERT-base's is the class's default."""
    return transformers.BertConfig() if shape == "bert-base" else BASES[shape].build()


Padded: TypeAlias = "dict[int, list[dict[str, torch.Tensor]]]"


def _texts(subject: setups.EncoderSubject) -> Padded:
    """The first test sentences, sorted by length, at each batch size."""
    profile = subject.profile
    tokenizer, sentences = (
        load_tokenizer(profile.model),
        subject.test.first(profile.speed.n_sentences),
    )
    return {
        size: [
            utils.without_labels(batch)
            for batch in make_batches(
                tokenizer, sentences, size, profile.finetuning.max_length
            ).batches
        ]
        for size in profile.speed.batch_sizes
    }


def _random_ids(profile: Profile, model: torch.nn.Module) -> Padded:
    """Sentences of random tokens, all of one length, without padding."""
    generator = torch.Generator().manual_seed(0)
    shape = profile.speed.shape_sentences, profile.speed.shape_length
    ids = torch.randint(4, model.config.vocab_size, shape, generator=generator)
    return {
        size: [
            {"input_ids": part, "attention_mask": torch.ones_like(part)} for part in ids.split(size)
        ]
        for size in profile.speed.batch_sizes
    }


def _timed(
    pair: dict[str, torch.nn.Module], batches: Padded, profile: Profile, journal: Journal, name: str
) -> Arrays:
    """Seconds (batch sizes, repetitions, variants) of a pass over all sentences, and the sizes.

    The two models take turns within a repetition, so that a slower moment hits both.

    Raises:
        ValueError: a GPU is to be timed, and this process, the only one that times, has none.
    """
    if profile.lacks_gpu:
        raise ValueError(
            f"speed on {profile.device} needs a GPU, and this machine has none. "
            "Measure it on a machine with a GPU"
        )
    for model in pair.values():
        model.to(profile.device)
    batches = {
        size: [utils.to_device(batch, profile.device) for batch in parts]
        for size, parts in batches.items()
    }

    def once(size: int, repetition: int) -> Arrays:
        order = _VARIANTS if repetition % 2 == 0 else _VARIANTS[::-1]
        seconds = {variant: utils.pass_seconds(pair[variant], batches[size]) for variant in order}
        return {"seconds": np.array([seconds[variant] for variant in _VARIANTS])}

    on_gpu = torch.device(profile.device).type == "cuda"  # which loads a kernel when first used
    for size in profile.speed.batch_sizes:  # warm-up, not counted
        for variant in _VARIANTS:
            utils.pass_seconds(pair[variant], batches[size] if on_gpu else batches[size][:1])
    timed = {
        f"{name} batch {size} run {run}": partial(once, size, run)
        for size in profile.speed.batch_sizes
        for run in range(profile.speed.repetitions)
    }
    done = run_units(timed, journal, f"speed, {name}", here=True).values()
    seconds = np.stack([unit["seconds"] for unit in done])
    key, title = f"{name} sizes", f"size and memory, {name}"
    sizes = run_units({key: lambda: _sizes(pair, batches)}, journal, title, here=True)[key]
    n_sentences = sum(len(batch["input_ids"]) for batch in batches[profile.speed.batch_sizes[0]])
    return {
        f"{name}/seconds": seconds.reshape(len(profile.speed.batch_sizes), -1, 2),
        f"{name}/n_sentences": np.array(n_sentences),
        **prefixed(f"{name}/", sizes),
    }


def _sizes(pair: dict[str, torch.nn.Module], batches: Padded) -> Arrays:
    """Bytes of the saved file and peak memory of a process."""
    files, memory = [], []
    size = max(s for s in batches if s <= 16)
    length = max(batch["input_ids"].shape[1] for batch in batches[size])
    for variant in _VARIANTS:
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / variant
            saving.save_pruned(pair[variant], folder)
            files.append((folder / "model.safetensors").stat().st_size)
            memory.append(_peak_memory(folder, size, length))
    return {"file": np.array(files), "memory": np.array(memory)}


def attention_parameters(model: torch.nn.Module) -> int:
    """The number of parameters in the query, key, value and output projections."""
    return sum(
        utils.n_parameters(block.part(model, part))
        for block in discovery.find_heads(model)
        for part in block.spec.projections
    )


_PEAK = """
import pathlib, re, resource, sys, torch
from headprune_lib import load_pruned
torch.set_num_threads(1)
def peak():
    status = pathlib.Path("/proc/self/status")  # getrusage's peak starts at the parent's on Linux
    if status.is_file():
        return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
model = load_pruned(sys.argv[1])
ids = torch.ones(int(sys.argv[2]), int(sys.argv[3]), dtype=torch.long)
with torch.inference_mode():
    model(input_ids=ids)
print(peak() - before)
"""


def _peak_memory(folder: Path, batch_size: int, length: int) -> int:
    """Bytes that a fresh process needs beyond the libraries to load the model and run a batch."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, str(folder), str(batch_size), str(length)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return int(done.stdout)


@speed.summary
def _(raw: Arrays) -> dict[str, Any]:
    """Values of the fine-tuned model, and of one of a published shape with random weights.

    The interval of a ratio is over paired repetitions.
    """
    return {name: _summary(raw, name) for name in ("finetuned", "shape")}


def _summary(raw: Arrays, name: str) -> dict[str, Any]:
    """Speed by batch size, and sizes, of the unpruned and the pruned model in this order."""
    seconds, n = raw[f"{name}/seconds"], int(raw[f"{name}/n_sentences"])
    rows = []
    for size, runs in zip(raw["batch_sizes"], seconds, strict=True):
        speeds = n / runs  # (repetition, variant)
        ratio, low, high = stats.ratio_interval(speeds[:, 1], speeds[:, 0])
        rows.append(
            {
                "batch_size": int(size),
                "mean": speeds.mean(0),
                "sd": speeds.std(0, ddof=1),
                "ratio": ratio,
                "interval": [low, high],
            }
        )
    sizes = {key: raw[f"{name}/{key}"] for key in ("parameters", "attention", "file", "memory")}
    return {"n_sentences": n, "columns": list(_VARIANTS), "speed": rows, **sizes}
