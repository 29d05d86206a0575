"""What a plan is made of: steps of work, and how fast this machine does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headprune_lib.replication import store
from headprune_lib.replication.measurements.measurement import Half, Measurement
from headprune_lib.replication.measurements.obtaining import Request, results_folder
from headprune_lib.replication.profiles import Profile

TRAINING = 3
"""A training step costs about this many forward passes; so does I_h."""


@dataclass(frozen=True)
class Step:
    """Something to be done: a training or a measurement.

    Attributes:
        passes: examples times passes, each as costly as a forward pass through the whole model.
        state: ``done``, ``missing``, or how much of it is there.
        translations: sentences that are translated, each once a mask.
        half: of the paper.
    """

    what: str
    task: str
    passes: float
    state: str
    translations: float = 0.0
    half: Half = "encoder"

    def hours(self, probe: Probe) -> float:
        """What is still to be done, at most, at a machine's speed."""
        if self.state == "done":
            return 0.0
        seconds = self.passes / probe.passes_per_second
        if self.translations:
            seconds += self.translations / probe.translations_per_second
        return seconds / 3600


@dataclass(frozen=True)
class Probe:
    """What this machine does with a task's model: passes and translations a second.

    ``training_bytes`` are what a training step takes, at least; 0 where nothing is trained.
    ``translating_bytes`` are what a batch takes to translate: on a GPU at the peak, else of the weights
    alone; 0 where nothing is translated.
    """

    passes_per_second: float
    training_bytes: int
    measured: bool
    translations_per_second: float = 0.0
    translating_bytes: int = 0


def told(probes: Mapping[str, Probe]) -> dict[str, list[str]]:
    """What a machine does, in words -> the tasks whose models were timed so."""
    found: dict[str, list[str]] = {}
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
        found.setdefault(words, []).append(task)
    return found


def state_of(measurement: Measurement, half: Half, profile: Profile, task: str) -> str:
    """Whether a result is there, in all of the parts that a page wants."""
    kept = store.stored(Request(measurement, half, profile, task).key, results_folder(profile))
    wanted = measurement.parts(profile, half, task)
    there = [part for part in wanted if kept is not None and part in kept.parts]
    if len(there) == len(wanted):
        return "done"
    return f"{len(there)} of {len(wanted)} parts" if there else "missing"
