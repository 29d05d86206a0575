"""What a profile would fetch and compute, what is done, and how long the rest takes on this machine.

Work is timed on models of the same shapes with random weights, so that nothing is fetched for it.
"""

from __future__ import annotations

import dataclasses
import sys

from headprune_lib.replication import store
from headprune_lib.replication.measurements import Upcoming, artifacts, find_artifact
from headprune_lib.replication.measurements.measurement import Half, Measurement
from headprune_lib.replication.measurements.obtaining import Request, results_folder
from headprune_lib.replication.planning import encoder, translation
from headprune_lib.replication.planning.work import Probe, Step, told
from headprune_lib.replication.profiles import Profile, load_profile

__all__ = ["Probe", "Step", "announce", "downloads", "most_seconds", "probes", "steps", "told"]


_ESTIMATED = {"encoder": encoder.PASSES, "translation": translation.WORK}


def steps(profile: Profile, only: str | None = None) -> list[Step]:
    """Every training and measurement of a profile, what they need before them.

    Args:
        only: a table or figure of the paper, such as ``"figure3b"``.

    Raises:
        ValueError: an unknown name, or that of a measurement whose work is not estimated.
    """
    found: dict[tuple[str, str], Step] = {}
    for name in artifacts(profile) if only is None else [only]:
        measurement, half, own, task = find_artifact(name, profile)
        if measurement.name not in _ESTIMATED.get(half, ()):
            raise ValueError(
                f"{name} is not in the paper, and its work is not estimated: plan one of "
                f"{', '.join(artifacts(profile))}; headprune reproduce {name} shows how far it is"
            )
        of = (encoder if half == "encoder" else translation).measured_with_trainings
        for key, step in of(name, measurement, own, task):
            found.setdefault(key, step)
    return list(found.values())


def downloads(profile: Profile, only: str | None = None) -> dict[str, tuple[int, bool]]:
    """What the steps read from the network -> its bytes, and whether it was fetched before."""
    found: dict[str, tuple[int, bool]] = {}
    for half, of in (("encoder", encoder), ("translation", translation)):
        if tasks := {step.task for step in steps(profile, only) if step.half == half}:
            found |= of.downloads(profile, tasks)
    return found


def probes(profile: Profile, planned: list[Step], seconds: float = 2.0) -> dict[str, Probe]:
    """Task -> what this machine does with its model; tasks that share a shape are timed once."""
    found: dict[str, Probe] = {}
    for task in dict.fromkeys(step.task for step in planned if step.half == "translation"):
        found[task] = translation.probe(profile, task, seconds)
    tasks = {step.task for step in planned if step.half == "encoder"}
    if tasks:
        found |= dict.fromkeys(sorted(tasks), encoder.probe(profile, seconds))
    return found


def announce(upcoming: Upcoming) -> None:
    """Say on standard error what is about to be measured, and how long it takes."""
    measurement, half, profile, task, parts, left_out = upcoming
    key = Request(measurement, half, profile, task).key
    told = f"{'/'.join(key)}: {len(parts)} of its parts are to be measured"
    if left_out:
        told += f" on the first training alone, without {', '.join(left_out)}"
    steps = _steps_of(measurement, half, profile, task)
    for training in steps[:-1]:
        if training.state != "done":
            told += f", after a training that is not here ({training.what})"
    kept = store.stored(key, results_folder(profile))
    timed = kept is not None and {*parts} <= {*kept.parts}
    sys.stderr.write(f"{told}. {_by_stored(upcoming, kept) if timed else _by_probe(upcoming)}\n")


def _steps_of(measurement: Measurement, half: Half, profile: Profile, task: str) -> list[Step]:
    """The trainings and the measurement itself; nothing where work is not counted."""
    if measurement.name not in _ESTIMATED.get(half, ()):
        return []
    of = (encoder if half == "encoder" else translation).measured_with_trainings
    return [step for _, step in of(measurement.name, measurement, profile, task)]


def _by_stored(upcoming: Upcoming, kept: store.Result) -> str:
    """From what the stored parts took; of fewer texts the share of the work, where it is counted."""
    measurement, half, profile, task, parts, _ = upcoming
    records = [kept.parts[name].provenance for name in parts]
    # parts that were measured together have the time of all of them
    seconds = sum({record["date"]: record["seconds"] for record in records}.values())
    machines = [record["hardware"] for record in records]
    where = ", ".join(
        sorted({one["gpu"] or f"{one['cpu']} with {one['cores']} cores" for one in machines})
    )
    usual = load_profile(kept.profile, task=profile.task)
    works = [_steps_of(measurement, half, each, task)[-1:] for each in (profile, usual)]
    if not all(works):
        return f"The stored ones took {_minutes(seconds)} on {where}; fewer texts take less."
    now, then = (step.translations or step.passes for (step,) in works)
    return f"This takes about {_minutes(seconds * now / then)} on {where}, as the stored ones did."


def _by_probe(upcoming: Upcoming) -> str:
    seconds = most_seconds(upcoming, {})
    if seconds is None:
        return "How long this takes is not known; a bar shows what is left of each step."
    return f"This takes at most {_minutes(seconds)} on this machine."


def most_seconds(upcoming: Upcoming, timed: dict[tuple, Probe]) -> float | None:
    """How long something takes here at most, by passes that are timed now; None if not counted.

    Args:
        timed: what was timed before and is not timed again; what is timed now is added.
    """
    measurement, half, profile, task, parts, _ = upcoming
    steps = _steps_of(measurement, half, profile, task)
    if not steps:
        return None
    share = len(parts) / len(measurement.parts(profile, half, task))
    steps[-1] = dataclasses.replace(
        steps[-1],
        passes=share * steps[-1].passes,
        translations=share * steps[-1].translations,
        state="missing",
    )
    model = profile.model if half == "encoder" else (task, profile.model_of(task))
    shape = (model, profile.batch_size, profile.device_here)
    if shape not in timed:
        here = dataclasses.replace(profile, device=profile.device_here)
        timed[shape] = probes(here, steps, seconds=1.0)[task]
    return 3600 * sum(step.hours(timed[shape]) for step in steps)


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min"
