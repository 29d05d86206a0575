"""What a profile's measurements of translators would fetch and compute.

Work is counted in sentences that are translated, each once a mask, and in passes of a pair through
the model. Greedy sweeps take less: most of their translations stand as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import torch

from headprune_lib.replication.data import TRANSLATION_TASKS, data_folder
from headprune_lib.replication.data.iwslt import ARCHIVE, N_SCORE
from headprune_lib.replication.data.parallel import public_files
from headprune_lib.replication.measurements.measurement import Measurement
from headprune_lib.replication.models.fairseq import archive_of, converted
from headprune_lib.replication.models.generation import marks_of
from headprune_lib.replication.models.translators import new_model, stored_weights, training_folder
from headprune_lib.replication.planning.work import TRAINING, Probe, Step, state_of
from headprune_lib.replication.profiles import FairseqRecipe, Profile, Published, Recipe, Shape
from headprune_lib.utils import teacher_forced, to_device, without_labels

# Pairs of each split: newstest's own, MTNT's as its authors say, IWSLT's after fairseq's cleaning.
_PAIRS = {
    "wmt14-enfr": {"score": 11_020, "test": 3_000, "valid": 3_003},
    "mtnt-enfr": {"test": 1_020},
    "iwslt14-deen": {"train": 160_239, "valid": 7_283, "test": 6_750, "score": N_SCORE},
}
# Shapes of models that are not made here: transformer_vaswani_wmt_en_fr_big, transformer_iwslt_de_en.
_SHAPES = {
    "wmt14-enfr": Shape(6, 16, 1024, 4096, 44_512, 0.1),
    "iwslt14-deen": Shape(6, 8, 512, 1024, 8_000, 0.3, "before"),
}
# Estimates: of the model from the number of its weights, of the text from the number of its lines.
_BYTES = {"model": 900_000_000, "news": 30_000_000, "talks": 20_000_000}
_LENGTH = 30  # pieces of a probed sentence and of its translation
_GPU_BATCH, _CPU_BATCH = 64, 4


def measured_with_trainings(
    name: str, measurement: Measurement, profile: Profile, task: str
) -> Iterator[tuple[tuple[str, str], Step]]:
    """The trainings that a table or figure needs, each under its own name, and the measurement."""
    several = ("pruning_curve", "pruning_by_kind", "along_training")
    every = profile.trainings(task)
    for seed in every if measurement.name in several else every[:1]:
        if not isinstance(profile.translator(task, profile.model_of(task)), Published):
            yield (task, f"training {seed}"), _training(profile, task, seed)
    translations, passes = WORK[measurement.name](profile, task)
    state = state_of(measurement, "translation", profile, task)
    what = f"{name} ({measurement.name})"
    yield (task, name), Step(what, task, passes, state, translations, "translation")


def _training(profile: Profile, task: str, seed: int) -> Step:
    model = profile.model_of(task)
    recipe = profile.translator(task, model)
    epochs = recipe.epochs if isinstance(recipe, FairseqRecipe) else recipe.max_epochs
    path = _stored(profile, task, seed)
    return Step(
        f"train {model}, seed {seed}",
        task,
        TRAINING * epochs * _n(profile, "train", task),
        "done" if path is not None else "missing",
        half="translation",
    )


def _stored(profile: Profile, task: str, seed: int) -> Path | None:
    """The weights of a training, if they are here."""
    model = profile.model_of(task)
    recipe = profile.translator(task, model)
    if isinstance(recipe, FairseqRecipe):  # its text would have to be prepared to tell more
        path = converted(training_folder(task, seed, model), recipe.epochs)
        return path if path.is_file() else None
    return stored_weights(profile, task, seed, model=model)


def _folder(task: str) -> bool:
    """Whether a folder of one's own has the task's text."""
    root = data_folder()
    return root is not None and (root / task).is_dir()


def _n(profile: Profile, split: str, task: str, most: int | None = None) -> int:
    """Pairs of a split that are used; nothing is fetched to count them."""
    known = _PAIRS.get(task)
    n = known[split] if known else len(TRANSLATION_TASKS[task].split(split))
    return n if most is None else min(n, most)


def _shape(profile: Profile, task: str) -> Shape:
    recipe = profile.translator(task, profile.model_of(task))
    return recipe.shape if isinstance(recipe, Recipe) else _SHAPES[task]


def _heads(profile: Profile, task: str) -> tuple[int, int]:
    """Heads of one kind, and layers of all three."""
    shape = _shape(profile, task)
    return shape.layers * shape.heads, 3 * shape.layers


def _swept(n: int, n_masks: float) -> tuple[float, float]:
    """Translations and passes of a sweep: each mask, the model as it is, and its drafts."""
    return n * (n_masks + 2), n * (n_masks + 1)


def _added(*work: tuple[float, float]) -> tuple[float, float]:
    translations, passes = zip(*work, strict=True)
    return sum(translations), sum(passes)


def _scored(profile: Profile, task: str, times: int = 1) -> tuple[float, float]:
    return 0.0, TRAINING * times * _n(profile, "score", task)


def _one_head(profile: Profile, task: str) -> tuple[float, float]:
    return _swept(_n(profile, "test", task, profile.n_headline), 3 * _heads(profile, task)[0])


def _all_but_one(profile: Profile, task: str) -> tuple[float, float]:
    return _swept(_n(profile, "test", task, profile.n_verses), 3 * _heads(profile, task)[0])


def _best(profile: Profile, task: str) -> tuple[float, float]:
    heads, layers = _heads(profile, task)
    choice, reported = TRANSLATION_TASKS[task].chosen
    once = _added(
        _swept(_n(profile, choice, task, profile.n_verses), 3 * heads),
        _swept(_n(profile, reported, task, profile.n_headline), layers),
    )
    return _added(*[once] * len(profile.trainings(task)))


def _far(profile: Profile, task: str) -> tuple[float, float]:
    far = profile.translation_far
    n = _n(profile, TRANSLATION_TASKS[far].far, far, profile.n_verses)
    return _swept(n, _heads(profile, task)[0])


def _curve(profile: Profile, task: str) -> tuple[float, float]:
    further, draws = len(profile.trainings(task)) - 1, profile.translation_orders
    scored = _scored(profile, task, 1 + further)
    if task != profile.translation_task:
        n = _n(profile, "test", task, profile.n_verses)
        return _added(scored, *[_swept(n, profile.steps)] * (1 + further),
                      _swept(n, draws * profile.steps))  # fmt: skip
    n, valid = (_n(profile, split, task, most) for split, most in (
        ("test", profile.n_headline), ("valid", profile.n_verses)))  # fmt: skip
    orders = [_swept(n, profile.steps)] * (4 + further)  # two of I_h, two one by one
    chosen = _swept(valid, 3 * _heads(profile, task)[0])
    return _added(scored, chosen, *orders, _swept(n, draws * profile.steps))


def _by_kind(profile: Profile, task: str) -> tuple[float, float]:
    further = len(profile.trainings(task)) - 1
    n = _n(profile, "test", task, profile.n_verses)
    once = [_swept(n, profile.steps)] * (1 + further)
    random = _swept(n, profile.translation_orders * profile.steps)
    return _added(_scored(profile, task, 1 + further), *[*once, random] * 3)


def _along(profile: Profile, task: str) -> tuple[float, float]:
    wanted = profile.checkpoints[profile.model_of(task)]
    points = len(wanted.shares) + len(wanted.epochs) + wanted.within
    if wanted.every:
        points += profile.translator(task, profile.model_of(task)).max_epochs // wanted.every + 1
    masks = profile.steps + wanted.unnormalised + (wanted.random_orders or 0)
    n = _n(profile, "test", task, wanted.n_verses or profile.n_verses)
    references = (0.0, n * (masks + 1))
    once = _added(_swept(n, masks), references, _scored(profile, task))
    return _added(*[once] * points * len(profile.trainings(task)))


WORK: dict[str, Callable[[Profile, str], tuple[float, float]]] = {
    "one_head": _one_head,
    "all_but_one": _all_but_one,
    "best_heads": _best,
    "across_domains": _far,
    "pruning_curve": _curve,
    "pruning_by_kind": _by_kind,
    "along_training": _along,
}


def downloads(profile: Profile, tasks: Collection[str]) -> dict[str, tuple[int, bool]]:
    """What tasks read from the network -> its bytes, about, and whether it was fetched before."""
    found: dict[str, tuple[int, bool]] = {}
    for task in sorted(tasks):
        recipe = profile.translator(task, profile.model_of(task))
        if isinstance(recipe, Published):
            archive = archive_of(recipe)
            found[archive.url] = (_BYTES["model"], archive.here)
        if task == "wmt14-enfr" and not _folder("newstest"):
            found["newstest and MTNT, by sacrebleu"] = (_BYTES["news"], public_files())
        if task == "iwslt14-deen" and not _folder(task):
            found[ARCHIVE.url] = (_BYTES["talks"], ARCHIVE.here)
    return found


def probe(profile: Profile, task: str, seconds: float) -> Probe:
    """Time translations and passes of a task's shape on the profile's device, random weights."""
    device = torch.device(profile.device)
    with torch.random.fork_rng(devices=[]):
        model = new_model(_shape(profile, task), 0).to(device).eval()
    size = _CPU_BATCH if device.type == "cpu" else _GPU_BATCH
    marks, rows = marks_of(model), [[5] * _LENGTH] * size
    batch = teacher_forced(rows, rows, marks.pad, marks.start)
    batch = to_device(without_labels(batch), device)
    source = {name: batch[name] for name in ("input_ids", "attention_mask")}

    def once() -> None:
        model(**batch).logits[0, 0].cpu()  # waits for the device

    def translate() -> None:
        model.generate(
            **source,
            num_beams=profile.beams,
            do_sample=False,
            min_new_tokens=_LENGTH,
            max_new_tokens=_LENGTH,
        ).cpu()

    n_weights = sum(p.numel() for p in model.parameters())
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with torch.inference_mode():
        forward = _rate(once, size, seconds)
        translated = _rate(translate, size, seconds)
    held = torch.cuda.max_memory_allocated() if device.type == "cuda" else 4 * n_weights
    recipe = profile.translator(task, profile.model_of(task))
    return Probe(
        forward,
        training_bytes=0 if isinstance(recipe, Published) else 16 * n_weights,
        measured=False,
        translations_per_second=translated,
        translating_bytes=held,
    )


def _rate(work: Callable[[], object], size: int, seconds: float) -> float:
    """Examples a second, after a warm-up."""
    work()
    done, started = 0, time.perf_counter()
    while not done or time.perf_counter() - started < seconds:
        work()
        done += size
    return done / (time.perf_counter() - started)
