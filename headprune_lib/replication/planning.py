"""What a profile's measurements of encoders would fetch and compute, and how long on this machine.

Work is counted in passes of one example through the model and timed on a model of the same shape
with random weights, so that nothing is fetched for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers

from headprune_lib.replication import store
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.data.benchmarks import Benchmark
from headprune_lib.replication.measurements import artifacts, find_artifact
from headprune_lib.replication.measurements.measurement import Measurement
from headprune_lib.replication.measurements.obtaining import key_of, results_folder
from headprune_lib.replication.measurements.orders import ENCODER, ONE_BY_ONE
from headprune_lib.replication.paths import models_root, trained_root
from headprune_lib.replication.pretrained import BASES
from headprune_lib.replication.profiles import Profile

# Rows of train and of the set that is reported on, and bytes of the parquet files, as the cards of
# these repositories on the Hub say; of the weights, model.safetensors.
_ROWS = {
    "mnli": (392_702, 9_815),
    "mnli-mismatched": (0, 9_832),
    "sst2": (67_349, 872),
    "cola": (8_551, 1_043),
    "mrpc": (3_668, 408),
}
_BYTES = {
    "google-bert/bert-base-uncased": 440_000_000,
    "nyu-mll/glue/mnli": 57_168_425,
    "nyu-mll/glue/sst2": 3_331_080,
    "nyu-mll/glue/cola": 326_394,
    "nyu-mll/glue/mrpc": 1_033_400,
}
_TRAINING = 3  # a training step costs about this many forward passes; so does I_h
_LENGTH = 64  # tokens of a probed sentence: longer than most of these tasks'


@dataclass(frozen=True)
class Step:
    """Something to be done: a training or a measurement.

    Attributes:
        passes: examples times passes, each as costly as a forward pass through the whole model.
        state: ``done``, ``missing``, or how much of it is there.
    """

    what: str
    task: str
    passes: float
    state: str

    @property
    def left(self) -> float:
        """The passes that are still to be made, at most."""
        return 0.0 if self.state == "done" else self.passes


@dataclass(frozen=True)
class Probe:
    """What this machine does: passes a second, and bytes that a training step takes at least."""

    passes_per_second: float
    training_bytes: int
    measured: bool


def steps(profile: Profile, only: str | None = None) -> list[Step]:
    """Every training and measurement of a profile's encoder half, what they need before them.

    Args:
        only: a table or figure of the paper, such as ``"figure3b"``.

    Raises:
        ValueError: an unknown name, or one of the translation half.
    """
    names = artifacts(profile) if only is None else [only]
    found: dict[tuple[str, str], Step] = {}
    for name in names:
        measurement, half, own, task = find_artifact(name, profile)
        if half != "encoder":
            raise ValueError(f"{name} is of the translation half, which is not planned yet")
        for seed in own.seeds if measurement.name == "pruning_curve" else own.seeds[:1]:
            found.setdefault((task, f"training {seed}"), _training(own, task, seed))
        found.setdefault((task, name), _measured(name, measurement, own, task))
    return list(found.values())


def _training(profile: Profile, task: str, seed: int) -> Step:
    train, _ = _sizes(profile, task)
    n, epochs = min(train, profile.finetuning.n_train or train), profile.finetuning.epochs
    name = f"{TASKS[task].whole}-{profile.model}-seed{seed}"
    stored = [models_root() / f"{name}.safetensors"]
    stored += (trained_root() / "models").glob(f"{name}-*.safetensors")
    there = any(path.is_file() for path in stored)
    return Step(
        f"fine-tune, seed {seed}", task, _TRAINING * n * epochs, "done" if there else "missing"
    )


def _measured(name: str, measurement: Measurement, profile: Profile, task: str) -> Step:
    kept = store.stored(key_of(measurement, "encoder", profile, task), results_folder(profile))
    wanted = measurement.parts(profile, "encoder", task)
    there = [part for part in wanted if kept is not None and part in kept.parts]
    state = f"{len(there)} of {len(wanted)} parts" if there else "missing"
    state = "done" if len(there) == len(wanted) else state
    return Step(
        f"{name} ({measurement.name})", task, _PASSES[measurement.name](profile, task), state
    )


def _sizes(profile: Profile, task: str) -> tuple[int, int]:
    """Examples of ``train`` and ``test``."""
    if profile.data == "hub" and task in _ROWS:
        return _ROWS[task]
    splits = TASKS[task].load(profile.data)
    return len(splits["train"]) if "train" in splits else 0, len(splits["test"])


def _n_test(profile: Profile, task: str) -> int:
    n = _sizes(profile, task)[1] - profile.n_used
    return n if profile.n_examples is None else min(n, profile.n_examples)


def _sweep(profile: Profile, n: int) -> float:
    """Every head in turn: only the layers from the cut one upwards are computed again."""
    config = config_of(profile)
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    return n * (1 + heads * (layers + 1) / 2)


def _curve(profile: Profile, task: str) -> float:
    n, orders = _n_test(profile, task), ENCODER[profile.orders]
    runs = len(profile.seeds) + profile.random_orders + len(orders) - 2  # each other order once
    scored = _TRAINING * profile.n_scoring * len(profile.seeds)
    rescored = _TRAINING * profile.n_scoring * profile.steps * ("importance rescored" in orders)
    chosen = _sweep(profile, profile.n_selection) * (ONE_BY_ONE in orders)
    chosen += _sweep(profile, n) * ("oracle" in orders)
    return runs * profile.steps * n + scored + rescored + chosen


def _far(profile: Profile, task: str) -> float:
    tests = [_sizes(profile, domain)[1] for domain in profile.domains]
    return sum(_sweep(profile, min(n, profile.n_domain or n)) for n in tests)


def _timed(profile: Profile, _task: str) -> float:
    speed = profile.speed
    n = speed.n_sentences + speed.shape_sentences
    return 2 * n * len(speed.batch_sizes) * speed.repetitions + _TRAINING * profile.n_scoring


_PASSES: dict[str, Callable[[Profile, str], float]] = {
    "one_head": lambda profile, task: _sweep(profile, _n_test(profile, task)),
    "all_but_one": lambda profile, task: _sweep(profile, _n_test(profile, task)),
    "best_heads": lambda profile, _task: _sweep(profile, profile.n_selection),
    "across_domains": _far,
    "pruning_curve": _curve,
    "speed": _timed,
}


def downloads(profile: Profile, only: str | None = None) -> dict[str, tuple[int, bool]]:
    """What the steps read from the Hub -> its bytes, and whether it was fetched to here before."""
    tasks = {step.task for step in steps(profile, only)}
    base, found = BASES[profile.model], {}
    if base.hub:
        found[base.hub] = (_BYTES[base.hub], _cached(base.hub, "model"))
    for name in sorted(tasks):
        task = TASKS[name]
        if profile.data == "hub" and isinstance(task, Benchmark) and task.hub is not None:
            where = f"{task.hub.path}/{task.hub.config}"
            found[where] = (
                _BYTES.get(where, 0),
                _cached(task.hub.path, "dataset", task.hub.config),
            )
    return found


def _cached(repository: str, kind: str, folder: str = "") -> bool:
    from huggingface_hub.constants import HF_HUB_CACHE

    from headprune_lib.replication.paths import absolute

    there = absolute(HF_HUB_CACHE) / f"{kind}s--{repository.replace('/', '--')}" / "snapshots"
    return any(there.glob(f"*/{folder}/*" if folder else "*/*.safetensors"))


def config_of(profile: Profile) -> transformers.PretrainedConfig:
    """The shape of a profile's encoder; nothing is fetched for it."""
    base = BASES[profile.model]
    if base.build is not None:
        return base.build()
    if base.hub:
        return transformers.BertConfig()  # BERT-base's is the class's own
    return transformers.AutoConfig.from_pretrained(base.folder())


def probe(profile: Profile, seconds: float = 2.0) -> Probe:
    """Time forward passes of the profile's shape on its device, random weights, after a warm-up."""
    device = torch.device(profile.device)
    with torch.random.fork_rng(devices=[]):
        model = transformers.AutoModelForSequenceClassification.from_config(config_of(profile))
    model.to(device).eval()
    longest = min(_LENGTH, model.config.max_position_embeddings)
    ids = torch.ones(profile.batch_size, longest, dtype=torch.long, device=device)
    done, started = 0, 0.0
    with torch.inference_mode():
        model(input_ids=ids)
        started = time.perf_counter()
        while time.perf_counter() - started < seconds or not done:
            model(input_ids=ids)[0].cpu()  # waits for the device
            done += len(ids)
    speed = done / (time.perf_counter() - started)
    if device.type != "cuda":  # weights, gradients and Adam's two moments in float32
        return Probe(speed, 16 * sum(p.numel() for p in model.parameters()), measured=False)
    return Probe(speed, _training_peak(model, profile), measured=True)


def _training_peak(model: transformers.PreTrainedModel, profile: Profile) -> int:
    """Bytes at the peak of one update at the longest sentences."""
    torch.cuda.reset_peak_memory_stats()
    optimizer, size = torch.optim.AdamW(model.parameters()), profile.finetuning.batch_size
    longest = min(profile.finetuning.max_length, model.config.max_position_embeddings)
    ids = torch.ones(size, longest, dtype=torch.long, device=model.device)
    with torch.autocast("cuda", torch.bfloat16):
        loss = model.train()(input_ids=ids, labels=ids[:, 0] * 0).loss
    loss.backward()
    optimizer.step()
    return torch.cuda.max_memory_allocated()
