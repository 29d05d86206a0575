"""What a profile's measurements of encoders would fetch and compute.

Work is counted in passes of one example through the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator

import torch
import transformers

from headprune_lib.replication.data import TASKS
from headprune_lib.replication.measurements.measurement import Measurement
from headprune_lib.replication.measurements.orders import ENCODER, ONE_BY_ONE
from headprune_lib.replication.measurements.speed import config_of_shape
from headprune_lib.replication.models.pretrained import BASES
from headprune_lib.replication.paths import models_root, trained_root
from headprune_lib.replication.planning.work import TRAINING, Probe, Step, state_of
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
_LENGTH = 64  # tokens of a probed sentence: longer than most of these tasks'


def measured_with_trainings(
    name: str, measurement: Measurement, profile: Profile, task: str
) -> Iterator[tuple[tuple[str, str], Step]]:
    """The trainings that a table or figure needs, each under its own name, and the measurement."""
    for seed in profile.seeds if measurement.name == "pruning_curve" else profile.seeds[:1]:
        yield (task, f"training {seed}"), _training(profile, task, seed)
    passes = PASSES[measurement.name](profile, task)
    state = state_of(measurement, "encoder", profile, task)
    yield (task, name), Step(f"{name} ({measurement.name})", task, passes, state)


def _training(profile: Profile, task: str, seed: int) -> Step:
    train, _ = _sizes(profile, task)
    n, epochs = min(train, profile.finetuning.n_train or train), profile.finetuning.epochs
    name = f"{TASKS[task].whole}-{profile.model}-seed{seed}"
    stored = [models_root() / f"{name}.safetensors"]
    stored += (trained_root() / "models").glob(f"{name}-*.safetensors")
    there = any(path.is_file() for path in stored)
    return Step(
        f"fine-tune, seed {seed}", task, TRAINING * n * epochs, "done" if there else "missing"
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
    scored = TRAINING * profile.n_scoring * len(profile.seeds)
    rescored = TRAINING * profile.n_scoring * profile.steps * ("importance rescored" in orders)
    chosen = _sweep(profile, profile.n_selection) * (ONE_BY_ONE in orders)
    chosen += _sweep(profile, n) * ("oracle" in orders)
    return runs * profile.steps * n + scored + rescored + chosen


def _far(profile: Profile, task: str) -> float:
    tests = [_sizes(profile, domain)[1] for domain in profile.domains]
    return sum(_sweep(profile, min(n, profile.n_domain or n)) for n in tests)


def _timed(profile: Profile, _task: str) -> float:
    speed, shape = profile.speed, config_of_shape(profile.speed.shape)
    relative = _products(shape, speed.shape_length) / _products(config_of(profile), _LENGTH)
    n = speed.n_sentences + relative * speed.shape_sentences
    return 2 * n * len(speed.batch_sizes) * speed.repetitions + TRAINING * profile.n_scoring


def _products(config: transformers.PretrainedConfig, length: int) -> int:
    """What the cost of a pass grows with: its tokens times a layer's weights, in every layer."""
    return config.num_hidden_layers * config.hidden_size**2 * length


PASSES: dict[str, Callable[[Profile, str], float]] = {
    "one_head": lambda profile, task: _sweep(profile, _n_test(profile, task)),
    "all_but_one": lambda profile, task: _sweep(profile, _n_test(profile, task)),
    "best_heads": lambda profile, _task: _sweep(profile, profile.n_selection),
    "across_domains": _far,
    "pruning_curve": _curve,
    "speed": _timed,
}


def downloads(profile: Profile, tasks: Collection[str]) -> dict[str, tuple[int, bool]]:
    """What tasks read from the Hub -> its bytes, and whether it was fetched to here before."""
    base, found = BASES[profile.model], {}
    if base.hub:
        found[base.hub] = (_BYTES[base.hub], _cached(base.hub, "model"))
    for name in sorted(tasks):
        task = TASKS[name]
        if profile.data == "hub" and task.hub is not None:
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
