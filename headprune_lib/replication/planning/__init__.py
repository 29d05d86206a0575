"""What a profile would fetch and compute, what is done, and how long the rest takes on this machine.

Work is timed on models of the same shapes with random weights, so that nothing is fetched for it.
"""

from __future__ import annotations

from headprune_lib.replication.measurements import artifacts, find_artifact
from headprune_lib.replication.planning import encoder, translation
from headprune_lib.replication.planning.work import Probe, Step
from headprune_lib.replication.profiles import Profile

__all__ = ["Probe", "Step", "downloads", "probes", "steps"]


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
