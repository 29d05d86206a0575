"""The use of a GPU while there is one: a check of it, then measurements, most wanted first."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from headprune_lib.messages import one_line, unknown
from headprune_lib.replication import measurements, planning
from headprune_lib.replication.lazy import ablation, scoring, torch
from headprune_lib.replication.measurements.speed import shaped
from headprune_lib.replication.paths import results_root
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store.files import replace_files
from headprune_lib.replication.store.results import part_path

BOUNDS = {"float32": 1e-3, "bfloat16": 0.1}
"""Largest difference from the CPU's float32, over the largest value, at which a device agrees."""


@dataclass(frozen=True)
class Step:
    """A measurement, as arguments of :func:`headprune_lib.replication.measurements.asked`."""

    measure: str
    profile: str = "default"
    task: str | None = None
    model: str | None = None
    seed: int | None = None
    by: str | None = None
    set: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        choices = {name: getattr(self, name) for name in ("task", "model", "seed", "by")} | self.set
        words = [f"{name} {value}" for name, value in choices.items() if value is not None]
        return ", ".join([self.measure, f"profile {self.profile}", *words])


def read_list(name: str) -> tuple[str, list[Step]]:
    """Read a list of ``gpu.yml``: the profile to check a machine by, and the steps in order.

    Raises:
        ValueError: there is no such list (the nearest names are suggested).
    """
    lists = yaml.safe_load(resources.files(__package__).joinpath("gpu.yml").read_text("utf-8"))
    if name not in lists:
        raise ValueError(unknown("list of steps", name, lists))
    steps = []
    for entry in lists[name]["steps"]:
        choices = [value if isinstance(value, list) else [value] for value in entry.values()]
        steps += [
            Step(**dict(zip(entry, each, strict=True))) for each in itertools.product(*choices)
        ]
    return lists[name]["check"], steps


def check(device: str, profile: str) -> dict[str, Any]:
    """Check whether a device computes as the CPU does, and whether it can run a profile.

    Returns:
        ``device``; ``memory`` in bytes (None on the CPU); ``apart`` from :func:`differences`, and
        ``agrees`` if all of it is within ``BOUNDS``. For the profile: ``probes``, the timings;
        ``needed``, the least bytes that its largest model takes; and ``hours`` at most.
    """
    on_gpu, apart = torch.device(device).type == "cuda", differences(device)
    steps = planning.steps(settings := load_profile(profile, device=device))
    probes = planning.probes(settings, steps, seconds=0.5)
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else device,
        "memory": torch.cuda.mem_get_info(device)[1] if on_gpu else None,
        "apart": apart,
        "agrees": all(value <= BOUNDS[way.split()[0]] for way, value in apart.items()),
        "probes": probes,
        "needed": max(
            max(probe.training_bytes, probe.translating_bytes) for probe in probes.values()
        ),
        "hours": sum(step.hours(probes[step.task]) for step in steps),
    }


def differences(device: str) -> dict[str, float]:
    """Differences of a small model's outputs on a device from those on the CPU in float32.

    Returns:
        For each precision (bfloat16: products under autocast) and attention kernel, the largest
        absolute difference over the largest value, of logits and of importance (Eq. 2).
    """
    model = shaped("tiny")
    drawn = torch.Generator().manual_seed(0)
    ids = torch.randint(4, model.config.vocab_size, (64, 32), generator=drawn)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids[:, 0] % 2}

    def numbers(where: str, precision: str, kernel: str) -> list[torch.Tensor]:
        placed = copy.deepcopy(model).to(where)
        placed.set_attn_implementation(kernel)
        half = precision == "bfloat16"
        with torch.autocast(torch.device(where).type, torch.bfloat16, enabled=half):
            (logits,) = ablation.masked_logits(placed, [batch])
            scores = scoring.head_importance(placed, [batch], normalize=None)["self"]
        return [logits.cpu().double(), scores.cpu().double()]

    expected, apart_by_way = numbers("cpu", "float32", "eager"), {}
    for precision, kernel in itertools.product(BOUNDS, ("eager", "sdpa")):
        pairs = zip(numbers(device, precision, kernel), expected, strict=True)
        apart = [float((one - other).abs().max() / other.abs().max()) for one, other in pairs]
        apart_by_way[f"{precision} {kernel}"] = max(apart)
    return apart_by_way


class _NoTimeLeft(Exception):
    pass


def run(
    steps: list[Step], device: str, until: float, out: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Measure one step after another, and yield a record of each as soon as it ends.

    A step that fails does not keep the next from being measured, nor does one that is skipped
    because it may take longer than the time left.

    Args:
        until: the deadline, on the clock of ``time.monotonic``.
        out: a folder that the files of each result are copied to, besides where they are stored.

    Returns:
        ``step``; ``state``: measured, stored (before), skipped or failed; ``told``: where the
        result is, or why there is none; ``seconds`` that it took now.
    """
    for step in steps:
        started = time.monotonic()
        try:
            state, told = _reached(step, device, until, out)
        except _NoTimeLeft as error:
            state, told = "skipped", str(error)
        except Exception as error:  # whatever it is, the next step may still succeed
            state, told = "failed", one_line(error, 160)
        seconds = round(time.monotonic() - started, 1)
        yield {"step": str(step), "state": state, "told": told, "seconds": seconds}


def _reached(
    step: Step,
    device: str,
    until: float,
    out: Path | None,
) -> tuple[str, str]:
    state = "stored"

    def begin(upcoming: measurements.Upcoming) -> None:
        nonlocal state
        needed, left = planning.most_seconds(upcoming) or 0.0, until - time.monotonic()
        if needed >= left:
            raise _NoTimeLeft(
                f"may take {needed / 60:.1f} min, and {max(left, 0.0) / 60:.1f} min are left"
            )
        state = "measured"

    parts = None if step.by is None else [step.by]
    settings, pair = measurements.asked(
        step.measure,
        step.profile,
        parts=parts,
        task=step.task,
        model=step.model,
        seed=step.seed,
        values={**step.set, "device": device},
    )
    result = measurements.get(step.measure, settings, task=pair, parts=parts, announce=begin)
    path = measurements.where(step.measure, settings, pair, parts)
    if out is None:
        return state, str(path)
    # with custom parameters it is in the cache, as <digest>/<measurement>/<file>
    relative, root = Path("own", *path.parts[-3:]), results_root()
    copied = out / (path.relative_to(root) if path.is_relative_to(root) else relative)
    files = [path, *(part_path(path, name) for name in result.parts)]
    replace_files({copied.with_name(file.name): file.read_bytes() for file in files})
    return state, str(copied)
