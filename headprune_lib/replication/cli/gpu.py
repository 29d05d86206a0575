"""The command for a machine whose GPU is available for a while: a check of it, then measurements."""

from __future__ import annotations

import copy
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from headprune_lib.cli.app import short
from headprune_lib.messages import one_line, unknown
from headprune_lib.replication.cli.options import FOLDERS, command
from headprune_lib.replication.lazy import (
    ablation,
    measurements,
    planning,
    profiles,
    scoring,
    store,
    torch,
)
from headprune_lib.replication.paths import results_root

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
    lists = yaml.safe_load(
        resources.files("headprune_lib.replication").joinpath("gpu.yml").read_text("utf-8")
    )
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
    steps = planning.steps(settings := profiles.load_profile(profile, device=device))
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
    from headprune_lib.replication.measurements.speed import shaped

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
        apart = [float((found - cpu).abs().max() / cpu.abs().max()) for found, cpu in pairs]
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


def _reached(step: Step, device: str, until: float, out: Path | None) -> tuple[str, str]:
    """Measure one step, or find its result; return how, and where the result is."""
    from headprune_lib.replication.store.files import replace_files
    from headprune_lib.replication.store.results import part_path

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


@command(needs=FOLDERS, hidden=True)
def gpu(
    profile: Annotated[
        str, typer.Option(help="List of steps: default, or smoke, which takes seconds.")
    ] = "default",
    minutes: Annotated[
        float, typer.Option(min=0, help="Time limit; a step that may exceed it is skipped.")
    ] = 15,
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, …; if left out the GPU, or only a check without one."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            envvar="OUT",
            help="Folder that each result is also copied to, as soon as it is stored in its own "
            "place.",
        ),
    ] = None,
) -> None:
    """Check this machine's GPU, then measure what needs one, the most wanted first.

    Table 4 in BERT-base's shape comes first and needs no text; then further fine-tunings of MiniLM;
    then Figure 5 in the shape of the paper's IWSLT model. The same command resumes after an
    interruption. A step that fails is named, and the next one follows.
    """
    from headprune_lib.replication.measurements.obtaining import results_folder
    from headprune_lib.replication.store.files import check_writable, replace_files

    started = time.monotonic()
    judged, steps = read_list(profile)
    lacking = device is None and not torch.cuda.is_available()
    device = device or ("cpu" if lacking else "cuda")
    profiles.check_here(profiles.load_profile("smoke", device=device))
    path = (out or results_folder(profiles.load_profile(profile))) / "gpu.json"
    check_writable(path.parent)
    about: dict[str, Any] = {"check": {}, "steps": []}

    def write() -> None:
        seconds, devices = time.monotonic() - started, [store.computing_on(device)]
        words = f"headprune gpu --profile {profile}"
        about["provenance"] = store.provenance(words, seconds, devices)
        content = json.dumps(about, indent=1, sort_keys=True, default=asdict)
        replace_files({path: f"{content}\n".encode()})

    if lacking:
        typer.echo("There is no GPU here, so the CPU is checked.")
    try:
        about["check"] = check(device, judged)
        typer.echo("\n".join(_words(about["check"], judged)))
    except Exception as error:  # the measurements may still succeed
        typer.echo(f"check: failed, {one_line(error)}")
    if lacking:
        typer.echo("Nothing was measured. Give --device cpu to measure on the CPU.")
        raise typer.Exit(1)
    write()
    for record in run(steps, device, started + 60 * minutes, out):
        typer.echo("{step}: {state} in {seconds:.0f} s, {told}".format_map(record))
        about["steps"].append(record)
        write()
    states = Counter(record["state"] for record in about["steps"])
    counted = ", ".join(f"{n} {state}" for state, n in states.items())
    typer.echo(f"{counted} in {(time.monotonic() - started) / 60:.1f} min; see {short(path)}")
    if states["failed"] or not about["check"].get("agrees"):
        raise typer.Exit(1)


def _words(checked: dict, profile: str) -> Iterator[str]:
    memory, needed = checked["memory"], checked["needed"]
    yield checked["device"] + (f", {memory / 1e9:.1f} GB of memory" if memory else "")
    for way, apart in checked["apart"].items():
        yield f"{way} attention: differs from the CPU in float32 by {apart:.1e} of the largest value"
    yield "It agrees with the CPU." if checked["agrees"] else "It does NOT agree with the CPU."
    for speed, tasks in planning.told(checked["probes"]).items():
        yield f"{', '.join(tasks)}: {speed}"
    lacks = memory is not None and needed > memory
    yield (
        f"Profile {profile} takes {needed / 1e9:.1f} GB of memory at least"
        f"{', MORE than there is,' if lacks else ''} and {checked['hours']:.1f} hours at most."
    )
