"""What a profile would fetch and compute, what is done, and how long the rest takes on this machine.

Work is timed on models of the same shapes with random weights, so that nothing is fetched for it.
"""

from __future__ import annotations

import dataclasses
import sys

from headprune_lib.replication import store
from headprune_lib.replication.measurements import Upcoming, artifacts, find_artifact
from headprune_lib.replication.measurements.obtaining import key_of, results_folder
from headprune_lib.replication.planning import encoder, translation
from headprune_lib.replication.planning.work import Probe, Step
from headprune_lib.replication.profiles import Profile

__all__ = ["Probe", "Step", "announce", "downloads", "probes", "steps"]


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
    """Say on standard error what is about to be measured and how long it takes on this machine."""
    measurement, parts = upcoming.measurement, upcoming.parts
    key = key_of(measurement, upcoming.half, upcoming.profile, upcoming.task)
    told = f"{'/'.join(key)}: {len(parts)} of its parts are to be measured"
    if upcoming.left_out:
        told += f" on the first training alone, without {', '.join(upcoming.left_out)}"
    sys.stderr.write(f"{told}. {_duration(upcoming)}\n")


def _duration(upcoming: Upcoming) -> str:
    """At most, from passes that are timed now; else what the stored parts took."""
    measurement, half, profile, task, parts, _ = upcoming
    if measurement.name in _ESTIMATED.get(half, ()):
        of = (encoder if half == "encoder" else translation).measured_with_trainings
        *trainings, (_, own) = of(measurement.name, measurement, profile, task)
        share = len(parts) / len(measurement.parts(profile, half, task))
        todo = dataclasses.replace(
            own, passes=share * own.passes, translations=share * own.translations, state="missing"
        )
        planned = [*(training for _, training in trainings), todo]
        here = dataclasses.replace(profile, device=profile.device_here)
        probe = probes(here, planned, seconds=1.0)[task]
        minutes = 60 * sum(step.hours(probe) for step in planned)
        return f"This takes at most {max(1, round(minutes))} min on this machine."
    kept = store.stored(key_of(measurement, half, profile, task), results_folder(profile))
    records = [kept.parts[name].provenance for name in parts if kept and name in kept.parts]
    if not records:
        return "How long this takes is not known; a bar shows what is left of each step."
    # parts that were measured together have the time of all of them
    seconds = sum({record["date"]: record["seconds"] for record in records}.values())
    machines = {record["hardware"]["gpu"] or record["hardware"]["cpu"] for record in records}
    return (
        f"The stored ones, on {kept.n_examples:,} texts, took {max(1, round(seconds / 60))} min on "
        f"{', '.join(sorted(machines))}."
    )
