"""Plans: what a profile would fetch and compute, what is done, and how long the rest takes here.

Work is counted in passes and translations. It is timed on models of the same shapes with random
weights, so that nothing is fetched for it.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from headprune_lib.replication import paper, store
from headprune_lib.replication.data import TASKS, TRANSLATION_TASKS, data_folder
from headprune_lib.replication.data.classification import Benchmark
from headprune_lib.replication.data.iwslt import ARCHIVE, N_SCORE
from headprune_lib.replication.data.parallel import public_files
from headprune_lib.replication.lazy import generation, torch, transformers, utils
from headprune_lib.replication.measurements import Upcoming, artifacts, find_artifact
from headprune_lib.replication.measurements.base import Half
from headprune_lib.replication.measurements.obtaining import Request, results_folder
from headprune_lib.replication.measurements.orders import ONE_BY_ONE
from headprune_lib.replication.measurements.speed import config_of_shape
from headprune_lib.replication.models.fairseq import archive_of, converted
from headprune_lib.replication.models.pretrained import BASES
from headprune_lib.replication.models.translators import new_model, stored_weights, training_folder
from headprune_lib.replication.order_names import parse_part
from headprune_lib.replication.paths import absolute, models_root, trained_root
from headprune_lib.replication.profiles import (
    FairseqRecipe,
    Profile,
    Published,
    Recipe,
    Shape,
    load_profile,
)

_BYTES = {
    "google-bert/bert-base-uncased": 440_000_000,
    "nyu-mll/glue/mnli": 57_168_425,
    "nyu-mll/glue/sst2": 3_331_080,
    "nyu-mll/glue/cola": 326_394,
    "nyu-mll/glue/mrpc": 1_033_400,
    "model": 900_000_000,
    "news": 30_000_000,
    "talks": 20_000_000,
}
"""From the Hub's cards; roughly the size of the weights for a translator, of the lines for text."""


@dataclass(frozen=True)
class Step:
    """Something to be done: a training or a measurement.

    Attributes:
        passes: examples times passes, each as costly as a forward pass through the whole model.
        state: ``done``, ``missing``, or how much of it is there.
        translations: sentences that are translated, each once per mask.
        half: of the paper.
    """

    what: str
    task: str
    passes: float
    state: str
    translations: float = 0.0
    half: Half = "encoder"

    def hours(self, probe: Probe) -> float:
        """Upper bound on the hours that are left, at a machine's speed."""
        if self.state == "done":
            return 0.0
        seconds = self.passes / probe.passes_per_second
        if self.translations:
            seconds += self.translations / probe.translations_per_second
        return seconds / 3600


def steps(profile: Profile, only: str | None = None) -> list[Step]:
    """Every training and measurement of a profile, each after what it needs.

    Args:
        only: a table or figure of the paper, such as ``"figure3b"``.

    Raises:
        ValueError: an unknown name, or that of a measurement whose work is not counted.
    """
    by_work: dict[tuple[str, str], Step] = {}
    for name in artifacts(profile) if only is None else [only]:
        planned = _steps(find_artifact(name, profile), name=name)
        if not planned:
            raise ValueError(
                f"{name} is not in the paper, and its work is not estimated. Plan one of "
                f"{', '.join(artifacts(profile))}, or run headprune reproduce {name} to see its progress"
            )
        by_work = {(step.task, step.what): step for step in planned} | by_work
    return list(by_work.values())


def _steps(
    request: Request, parts: Sequence[str] | None = None, name: str | None = None
) -> list[Step]:
    """Trainings, other prerequisites, and the measurement; nothing if its work is not counted.

    Args:
        parts: of the measurement; all that a page wants if not given.
        name: of the table or figure; the paper's first of the measurement if not given.
    """
    measurement, half, profile, task, _ = request
    if measurement.name not in {artifact.measurement for artifact in paper.ARTIFACTS.values()}:
        return []
    wanted = request.parts
    asked = wanted if parts is None else parts
    of_parts = [measurement.own(profile, half, part) for part in asked]
    usual = profile.seeds[:1] if half == "encoder" else profile.trainings(task)[:1]
    planned = []
    for seed in dict.fromkeys(seed for each in of_parts for seed in each.seeds or usual):
        planned += _training(half, profile, task, seed)
    for needed in {need.name: need for each in of_parts for need in each.needs}.values():
        planned += _steps(request._replace(measurement=needed))
    kept = store.stored(request.key, _results_of(request))
    stored_parts = [part for part in wanted if kept is not None and part in kept.parts]
    state = f"{len(stored_parts)} of {len(wanted)} parts" if stored_parts else "missing"
    state = "done" if len(stored_parts) == len(wanted) else state
    passes, translations = work_of(request, asked)
    what = f"{name or paper.name_of(measurement.name, half, task)} ({measurement.name})"
    measured = Step(what, task, passes, state, translations, half)
    return [*dict.fromkeys(planned), measured]  # prerequisites may need the same training


def _results_of(request: Request) -> Path:
    """The folder of a result; if that would need the network, the profile's own folder."""
    profile = request.profile
    if request.half == "encoder":
        known = not BASES[profile.model].hub and profile.data != "hub"
    else:
        trained = profile.translator(request.task, profile.model_of(request.task))
        known = isinstance(trained, Published) and trained.folder is not None
    return request._replace(by=None).path.parents[1] if known else results_folder(profile)


def _training(half: Half, profile: Profile, task: str, seed: int) -> Iterator[Step]:
    """Yield a training, whether its weights are here or not; nothing for published weights."""
    if half == "encoder":
        if BASES[profile.model].classes:
            return
        what, name = f"fine-tune, seed {seed}", f"{TASKS[task].whole}-{profile.model}-seed{seed}"
        stored = [models_root() / f"{name}.safetensors"]
        stored += (trained_root() / "models").glob(f"{name}-*.safetensors")
        is_stored = any(path.is_file() for path in stored)
    else:
        model = profile.model_of(task)
        what, recipe = f"train {model}, seed {seed}", profile.translator(task, model)
        if isinstance(recipe, Published):
            return
        if isinstance(recipe, FairseqRecipe):  # its text would have to be prepared to tell more
            is_stored = converted(training_folder(task, seed, model), recipe.epochs).is_file()
        else:
            is_stored = stored_weights(profile, task, seed, model=model) is not None
    passes = training_passes(half, profile, task)
    yield Step(what, task, passes, "done" if is_stored else "missing", half=half)


def downloads(profile: Profile, only: str | None = None) -> dict[str, tuple[int, bool]]:
    """Downloads that the steps need -> their bytes, and whether they are already here."""
    sizes: dict[str, tuple[int, bool]] = {}
    tasks = sorted({(step.half, step.task) for step in steps(profile, only)})
    hub, own = BASES[profile.model].hub, data_folder()
    given = {path.name for path in own.iterdir()} if own and own.is_dir() else {}
    if hub and any(half == "encoder" for half, _ in tasks):
        sizes[hub] = (_BYTES.get(hub, 0), _cached(hub, "model"))
    for half, name in tasks:
        if half == "encoder":
            task = TASKS[name]
            if profile.data == "hub" and isinstance(task, Benchmark) and task.hub is not None:
                is_here = _cached(task.hub.path, "dataset", task.hub.config)
                where = f"{task.hub.path}/{task.hub.config}"
                sizes[where] = (_BYTES.get(where, 0), is_here)
            continue
        recipe = profile.translator(name, profile.model_of(name))
        if isinstance(recipe, Published) and not recipe.folder:
            archive = archive_of(recipe)
            sizes[archive.url] = (_BYTES["model"], archive.here)
        if name == "wmt14-enfr" and "newstest" not in given:
            sizes["newstest and MTNT, by sacrebleu"] = (_BYTES["news"], public_files())
        if name == "iwslt14-deen" and name not in given:
            sizes[ARCHIVE.url] = (_BYTES["talks"], ARCHIVE.here)
    return sizes


def _cached(repository: str, kind: str, folder: str = "") -> bool:
    from huggingface_hub.constants import HF_HUB_CACHE

    snapshots = absolute(HF_HUB_CACHE) / f"{kind}s--{repository.replace('/', '--')}" / "snapshots"
    return any(snapshots.glob(f"*/{folder}/*" if folder else "*/*.safetensors"))


def probes(profile: Profile, planned: list[Step], seconds: float = 2.0) -> dict[str, Probe]:
    """Task -> the speed of its model on this machine; encoder tasks share one timing."""
    timed: dict[str, Probe] = {}
    for task in dict.fromkeys(step.task for step in planned if step.half == "translation"):
        timed[task] = probe_translator(profile, task, seconds)
    tasks = {step.task for step in planned if step.half == "encoder"}
    if tasks:
        timed |= dict.fromkeys(sorted(tasks), probe_encoder(profile, seconds))
    return timed


def announce(upcoming: Upcoming) -> None:
    """Say on standard error what is about to be measured, and how long it takes."""
    request, parts, left_out = upcoming
    words = f"{'/'.join(request.key)}: {len(parts)} of its parts will be measured"
    if left_out:
        words += f" on the first training alone, without {', '.join(left_out)}"
    before = _steps(request, parts)[:-1]
    if missing := [step.what for step in before if step.state != "done"]:
        words += f", after steps that are missing here ({', '.join(missing)})"
    kept = store.stored(request.key, results_folder(request.profile))
    if kept is not None and {*parts} <= {*kept.parts}:
        time = _as_stored(upcoming, kept)
    elif (seconds := most_seconds(upcoming)) is None:
        time = "How long this takes is not known; a bar shows what is left of each step."
    else:
        time = f"This takes at most {_minutes(seconds)} on this machine."
    tqdm.write(f"{words}. {time}", file=sys.stderr)  # above the progress bar


def _as_stored(upcoming: Upcoming, kept: store.Result) -> str:
    """Estimate the time by that of the stored parts, scaled by the work where it is counted."""
    request, parts, _ = upcoming
    records = [kept.parts[name].provenance for name in parts]
    # parts that were measured together each have the time of all
    seconds = sum({record["date"]: record["seconds"] for record in records}.values())
    machines = [record["hardware"] for record in records]
    names = {each["gpu"] or f"{each['cpu']} with {each['cores']} cores" for each in machines}
    where = ", ".join(sorted(names))
    fields = ("task", "model", "translation_model", "language_task", "language_model")
    usual = load_profile(
        kept.profile, **{field: getattr(request.profile, field) for field in fields}
    )
    planned = [
        _steps(request._replace(profile=profile), parts) for profile in (request.profile, usual)
    ]
    if not all(planned):
        return f"The stored parts took {_minutes(seconds)} on {where}. Fewer texts take less."
    now, then = (step.translations or step.passes for *_, step in planned)
    missing = any(step.state == "missing" for step in planned[0][:-1])
    return (
        f"This takes about {_minutes(seconds * now / then)} on {where}, as the stored parts did."
        f"{' The missing steps come on top.' if missing else ''}"
    )


_TIMED: dict[tuple, Probe] = {}
"""Timings of this process, by profile, model, batch size and device."""


def most_seconds(upcoming: Upcoming) -> float | None:
    """Upper bound on the seconds of a measurement here, by timed passes; None if not counted."""
    request, parts, _ = upcoming
    _, half, profile, task, _ = request
    planned = _steps(request, parts)
    if not planned:
        return None
    planned[-1] = dataclasses.replace(planned[-1], state="missing")
    model = profile.model if half == "encoder" else (task, profile.model_of(task))
    shape = (profile.name, model, profile.batch_size, profile.device_here)
    if shape not in _TIMED:
        here = dataclasses.replace(profile, device=profile.device_here)
        _TIMED[shape] = probes(here, planned, seconds=1.0)[task]
    return 3600 * sum(step.hours(_TIMED[shape]) for step in planned)


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min"


# --- the amount of work in a measurement ----------------------------------------------------------

TRAINING = 3
"""A training step costs about this many forward passes; so does I_h."""
_EACH, _ORDER = ("each head", "test"), ("order", "test")
MASKS: dict[Half, dict[str, list[tuple[str, str]]]] = {
    "encoder": {
        "one_head": [_EACH],
        "all_but_one": [_EACH],
        "best_heads": [("best head", "test"), ("each head", "selection")],
        "across_domains": [("each head", "domains")],
        "pruning_curve": [_ORDER],
    },
    "translation": {
        "one_head": [("each head", "headline")],
        "all_but_one": [_EACH],
        "best_heads": [("best head", "reported"), ("each head", "choice")],
        "across_domains": [("encoder's head", "far")],
        "pruning_curve": [_ORDER],
        "pruning_by_kind": [_ORDER],
        "along_training": [_ORDER],
    },
}
"""Masks of a measurement, and the text that they are measured on.

An order has one mask per step, the ``best head`` one per layer. The measurement itself states its
parts, trainings, draws and needs.
"""
Work = tuple[float, float]
"""Passes of a text through the model, and sentences that are translated, each once per mask."""

_N = {
    "mnli": {"train": 392_702, "test": 9_815},
    "mnli-mismatched": {"test": 9_832},
    "sst2": {"train": 67_349, "test": 872},
    "cola": {"train": 8_551, "test": 1_043},
    "mrpc": {"train": 3_668, "test": 408},
    "wmt14-enfr": {"score": 11_020, "test": 3_000, "valid": 3_003},
    "mtnt-enfr": {"test": 1_020},
    "iwslt14-deen": {"train": 160_239, "valid": 7_283, "test": 6_750, "score": N_SCORE},
}
"""Sizes of texts that may be absent, by the Hub's cards and MTNT's authors, cleaned by fairseq."""


def work_of(request: Request, parts: Sequence[str]) -> Work:
    """Upper bound on the work of measuring some parts, without that of other measurements."""
    if request.measurement.name == "speed":
        return _timed(request.profile), 0.0
    return (_encoder if request.half == "encoder" else _translation)(request, parts)


def training_passes(half: Half, profile: Profile, task: str) -> float:
    """Cost of one training, in passes of a text through the model."""
    n = _n(profile, half, task, "train")
    if half == "encoder":
        tuning = profile.finetuning
        return TRAINING * min(n, tuning.n_train or n) * tuning.epochs
    recipe = profile.translator(task, profile.model_of(task))
    epochs = recipe.epochs if isinstance(recipe, FairseqRecipe) else recipe.max_epochs
    return TRAINING * n * epochs


def _n(profile: Profile, half: Half, task: str, split: str, most: int | None = None) -> int:
    """Number of texts of a split, at most ``most``; nothing is fetched to count them."""
    if task in _N and (half == "translation" or profile.data == "hub"):
        n = _N[task].get(split, 0)
    elif half == "encoder":
        n = len(TASKS[task].load(profile.data).get(split, ()))
    else:
        n = len(TRANSLATION_TASKS[task].split(split))
    return n if most is None else min(n, most)


def _encoder(request: Request, parts: Sequence[str]) -> Work:
    measurement, _, profile, task, _ = request
    config = config_of(profile)
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    test = _n(profile, "encoder", task, "test") - profile.n_used
    # the outcomes of the task itself are taken from another measurement
    domains = [_n(profile, "encoder", name, "test", profile.n_domain) for name in profile.domains]
    texts = {
        "test": min(test, profile.n_examples or test),
        "selection": profile.n_selection,
        "domains": sum(domains),
    }
    along, scored, passes = set(), set(), 0.0
    for part in parts:
        of_part, order = measurement.own(profile, "encoder", part), parse_part(part).curve
        seeds = of_part.seeds or (profile.seed,)
        chosen = [("each head", "selection")] if order == ONE_BY_ONE else []
        for masks, text in (*MASKS["encoder"][measurement.name], *chosen):
            n = texts[text]
            if masks == "each head":  # only layers from the cut one upwards
                passes += n * (1 + heads * (layers + 1) / 2)
            elif masks == "best head":
                passes += 0 if of_part.needs else n * (1 + layers)
            else:  # both ends of all orders on a training are evaluated once
                passes += n * of_part.values.get("draws", len(seeds)) * (profile.steps - 1)
                passes += n * 2 * len({*seeds} - along)
                along |= {*seeds}
        if "n_scoring" in of_part.values:
            again = order.endswith("rescored")  # at each step
            scores = order if again or "criterion" in of_part.values else "importance"
            new = {(scores, seed) for seed in seeds} - scored
            passes += TRAINING * profile.n_scoring * len(new) * (profile.steps if again else 1)
            scored |= new
    return passes, 0.0


def _translation(request: Request, parts: Sequence[str]) -> Work:
    measurement, _, profile, task, _ = request
    shape, far = shape_of(profile, task), profile.translation_far
    (choice, reported), several = TRANSLATION_TASKS[task].chosen, profile.n_headline
    verses = profile.n_verses
    points, further = 1, 0  # checkpoints, and masks of other orders than the stored one
    if measurement.name == "pruning_curve" and task == profile.translation_task:
        verses = several
    if measurement.name == "along_training":
        wanted = profile.checkpoints_of(task)
        points = len(wanted.shares) + len(wanted.epochs) + wanted.within
        if wanted.every:
            recipe = profile.translator(task, profile.model_of(task))
            points += recipe.max_epochs // wanted.every + 1
        further = wanted.unnormalised + (wanted.random_orders or 0)
        verses = wanted.n_verses or verses
    texts = {
        "test": (task, "test", verses),
        "headline": (task, "test", several),
        "choice": (task, choice, verses),
        "reported": (task, reported, several),
        "valid": (task, "valid", profile.n_verses),
        "far": (far, TRANSLATION_TASKS[far].far, verses),
    }
    passes = translations = 0.0
    scored = set()
    for part in parts:
        of_part, order = measurement.own(profile, "translation", part), parse_part(part).curve
        chosen = [("each head", "valid")] if order == ONE_BY_ONE else []
        for masks, text in (*MASKS["translation"][measurement.name], *chosen):
            n = _n(profile, "translation", *texts[text])
            n_masks = {
                "order": of_part.values.get("draws", 1) * profile.steps + further,
                "best head": 3 * shape.layers,
                "each head": 3 * shape.layers * shape.heads,
                "encoder's head": shape.layers * shape.heads,
            }[masks]
            # besides each mask the uncut model, and its translations, which are kept unless a
            # mask changes them
            translations += points * n * (n_masks + 2)
            passes += points * n * (n_masks + 1)
            if masks == "order":
                scored |= {*(of_part.seeds or profile.trainings(task)[:1])}
            if measurement.name == "along_training":  # the references are scored, too
                passes += points * n * (n_masks + 1)
    n_scored = points * len(scored) * _n(profile, "translation", task, "score") if scored else 0
    return passes + TRAINING * n_scored, translations


def _timed(profile: Profile) -> float:
    """Work of timing the model's shape and a published one, and of I_h, in passes of the former."""
    speed, fine_tuned = profile.speed, config_of(profile)
    shape = config_of_shape(speed.shape)
    # the cost of a pass grows with its tokens times a layer's weights, in every layer
    costs = [
        config.num_hidden_layers * config.hidden_size**2 * length
        for config, length in ((shape, speed.shape_length), (fine_tuned, LENGTH))
    ]
    n = speed.n_sentences + speed.shape_sentences * costs[0] / costs[1]
    return 2 * n * len(speed.batch_sizes) * speed.repetitions + TRAINING * profile.n_scoring


# --- how fast this machine is ---------------------------------------------------------------------

LENGTH = 64
"""Tokens per sentence for an encoder: more than most sentences of these tasks have."""
_PIECES = 30  # of a sentence to translate and of its translation
_GPU_BATCH, _CPU_BATCH = 64, 4
# For recipes without a shape: transformer_vaswani_wmt_en_fr_big, transformer_iwslt_de_en.
_SHAPES = {
    "wmt14-enfr": Shape(6, 16, 1024, 4096, 44_512, 0.1),
    "iwslt14-deen": Shape(6, 8, 512, 1024, 8_000, 0.3, "before"),
}


@dataclass(frozen=True)
class Probe:
    """Speed of a task's model on this machine, in passes and translations per second.

    ``training_bytes`` is the least memory of a training step; 0 if nothing is trained.
    ``translating_bytes`` is that of translating a batch, at the peak on a GPU, else of the weights
    alone; 0 if nothing is translated.
    """

    passes_per_second: float
    training_bytes: int
    measured: bool
    translations_per_second: float = 0.0
    translating_bytes: int = 0


def told(probes: Mapping[str, Probe]) -> dict[str, list[str]]:
    """Speed in words -> the tasks whose models have it."""
    by_speed: dict[str, list[str]] = {}
    for task, probe in probes.items():
        words = f"{probe.passes_per_second:.0f} passes a second"
        if probe.translations_per_second:
            words += f", {probe.translations_per_second:.1f} translations"
        if probe.translating_bytes:
            words += f"; at least {probe.translating_bytes / 1e9:.1f} GB of memory to translate"
        if probe.training_bytes:
            words += (
                f"; {'' if probe.measured else 'at least '}{probe.training_bytes / 1e9:.1f} GB to "
                f"train{'' if probe.measured else ', activations not counted'}"
            )
        by_speed.setdefault(words, []).append(task)
    return by_speed


def config_of(profile: Profile) -> transformers.PretrainedConfig:
    """The configuration of a profile's encoder; nothing is fetched for it."""
    base = BASES[profile.model]
    if base.build is not None:
        return base.build()
    if base.hub and not base.given:
        return transformers.BertConfig()  # BERT-base's is the class's own
    return transformers.AutoConfig.from_pretrained(base.folder())


def shape_of(profile: Profile, task: str) -> Shape:
    """The shape of a profile's translator for a task."""
    recipe = profile.translator(task, profile.model_of(task))
    if isinstance(recipe, Published) and recipe.folder:
        config = transformers.AutoConfig.from_pretrained(recipe.folder)
        size = (config.d_model, config.encoder_ffn_dim, config.vocab_size, config.dropout)
        return Shape(config.encoder_layers, config.encoder_attention_heads, *size)
    return recipe.shape if isinstance(recipe, Recipe) else _SHAPES[task]


def probe_encoder(profile: Profile, seconds: float) -> Probe:
    """Time forward passes on the profile's device, after a warm-up."""
    device = torch.device(profile.device)
    with torch.random.fork_rng(devices=[]):
        model = transformers.AutoModelForSequenceClassification.from_config(config_of(profile))
    model.to(device).eval()
    longest = min(LENGTH, model.config.max_position_embeddings)
    # on a CPU a larger batch is no faster per example, and takes a minute with a large model
    rows = profile.batch_size if device.type == "cuda" else min(8, profile.batch_size)
    ids = torch.ones(rows, longest, dtype=torch.long, device=device)

    def once() -> None:
        model(input_ids=ids)[0].cpu()

    with torch.inference_mode():
        speed = _rate(once, len(ids), seconds)
    if device.type == "cuda":
        return Probe(speed, _training_peak(model, profile), measured=True)
    # weights, gradients and Adam's two moments in float32
    return Probe(speed, 16 * utils.n_parameters(model), measured=False)


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


def probe_translator(profile: Profile, task: str, seconds: float) -> Probe:
    """Time passes and translations of a task's shape on the profile's device, after a warm-up."""
    device = torch.device(profile.device)
    with torch.random.fork_rng(devices=[]):
        model = new_model(shape_of(profile, task), 0).to(device).eval()
    size = _CPU_BATCH if device.type == "cpu" else _GPU_BATCH
    marks, rows = generation.marks_of(model), [[5] * _PIECES] * size
    batch = utils.teacher_forced(rows, rows, marks.pad, marks.start)
    batch = utils.to_device(utils.without_labels(batch), device)
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}
    lengths = {"min_new_tokens": _PIECES, "max_new_tokens": _PIECES}

    def once() -> None:
        model(**batch).logits[0, 0].cpu()

    def translate() -> None:
        model.generate(**source, num_beams=profile.beams, do_sample=False, **lengths).cpu()

    n_weights = utils.n_parameters(model)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with torch.inference_mode():
        forward = _rate(once, size, seconds)
        translated = _rate(translate, size, seconds)
    held = torch.cuda.max_memory_allocated() if device.type == "cuda" else 4 * n_weights
    recipe = profile.translator(task, profile.model_of(task))
    trained = 0 if isinstance(recipe, Published) else 16 * n_weights
    return Probe(forward, trained, False, translated, held)


def _rate(work: Callable[[], object], size: int, seconds: float) -> float:
    """Examples per second, after a warm-up; ``work`` waits for the device."""
    work()
    done, started = 0, time.perf_counter()
    while not done or time.perf_counter() - started < seconds:
        work()
        done += size
    return done / (time.perf_counter() - started)
