"""Plans: what a profile would fetch and compute, what is done, and how long the rest takes here.

Work is counted in :mod:`~headprune_lib.replication.planning.work` and timed on models of the same
shapes with random weights, so that nothing is fetched for it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from headprune_lib.replication import paper, store
from headprune_lib.replication.data import TASKS, data_folder
from headprune_lib.replication.data.classification import Benchmark
from headprune_lib.replication.data.iwslt import ARCHIVE
from headprune_lib.replication.data.parallel import public_files
from headprune_lib.replication.lazy import probing
from headprune_lib.replication.measurements import Upcoming, artifacts, find_artifact
from headprune_lib.replication.measurements.base import Half
from headprune_lib.replication.measurements.obtaining import Request, results_folder
from headprune_lib.replication.models.fairseq import archive_of, converted
from headprune_lib.replication.models.pretrained import BASES
from headprune_lib.replication.models.translators import stored_weights, training_folder
from headprune_lib.replication.paths import absolute, models_root, trained_root
from headprune_lib.replication.planning.work import training_passes, work_of
from headprune_lib.replication.profiles import FairseqRecipe, Profile, Published, load_profile

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

    def hours(self, probe: probing.Probe) -> float:
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
    hub = BASES[profile.model].hub
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
        if name == "wmt14-enfr" and not _given("newstest"):
            sizes["newstest and MTNT, by sacrebleu"] = (_BYTES["news"], public_files())
        if name == "iwslt14-deen" and not _given(name):
            sizes[ARCHIVE.url] = (_BYTES["talks"], ARCHIVE.here)
    return sizes


def _given(task: str) -> bool:
    """Whether the user's data folder has a task's text."""
    root = data_folder()
    return root is not None and (root / task).is_dir()


def _cached(repository: str, kind: str, folder: str = "") -> bool:
    from huggingface_hub.constants import HF_HUB_CACHE

    snapshots = absolute(HF_HUB_CACHE) / f"{kind}s--{repository.replace('/', '--')}" / "snapshots"
    return any(snapshots.glob(f"*/{folder}/*" if folder else "*/*.safetensors"))


def probes(profile: Profile, planned: list[Step], seconds: float = 2.0) -> dict[str, probing.Probe]:
    """Task -> the speed of its model on this machine; encoder tasks share one timing."""
    timed: dict[str, probing.Probe] = {}
    for task in dict.fromkeys(step.task for step in planned if step.half == "translation"):
        timed[task] = probing.probe_translator(profile, task, seconds)
    tasks = {step.task for step in planned if step.half == "encoder"}
    if tasks:
        timed |= dict.fromkeys(sorted(tasks), probing.probe_encoder(profile, seconds))
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
    elif (seconds := most_seconds(upcoming, {})) is None:
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
    where = ", ".join(
        sorted(
            {
                machine["gpu"] or f"{machine['cpu']} with {machine['cores']} cores"
                for machine in machines
            }
        )
    )
    named = ("task", "model", "translation_model", "language_task", "language_model")
    usual = load_profile(
        kept.profile, **{field: getattr(request.profile, field) for field in named}
    )
    profiles = request.profile, usual
    works = [_steps(request._replace(profile=each), parts)[-1:] for each in profiles]
    if not all(works):
        return f"The stored parts took {_minutes(seconds)} on {where}. Fewer texts take less."
    now, then = (step.translations or step.passes for (step,) in works)
    return f"This takes about {_minutes(seconds * now / then)} on {where}, as the stored parts did."


def most_seconds(upcoming: Upcoming, timed: dict[tuple, probing.Probe]) -> float | None:
    """Upper bound on the seconds of a measurement here, by timed passes; None if not counted.

    Args:
        timed: earlier timings, which are not repeated; new ones are added.
    """
    request, parts, _ = upcoming
    _, half, profile, task, _ = request
    planned = _steps(request, parts)
    if not planned:
        return None
    planned[-1] = dataclasses.replace(planned[-1], state="missing")
    model = profile.model if half == "encoder" else (task, profile.model_of(task))
    shape = (model, profile.batch_size, profile.device_here)
    if shape not in timed:
        here = dataclasses.replace(profile, device=profile.device_here)
        timed[shape] = probes(here, planned, seconds=1.0)[task]
    return 3600 * sum(step.hours(timed[shape]) for step in planned)


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min"
