"""The paper's names of measurements on tasks, in one table that commands and pages read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from headprune_lib.replication.data import TRANSLATION_TASKS

Half = Literal["encoder", "translation"]


@dataclass(frozen=True)
class Artifact:
    """A table or figure of the paper.

    Attributes:
        measurement: its name here.
        half: of the paper.
        task: on which it is measured. ``main`` is a profile's main task (the encoder half's figures
            are on MNLI, which has stand-ins); ``enfr`` and ``deen`` are the two language pairs.
    """

    measurement: str
    half: Half
    task: str


MAIN = "main"

ARTIFACTS: dict[str, Artifact] = {
    "table1": Artifact("one_head", "translation", "enfr"),
    "figure1a": Artifact("one_head", "translation", "enfr"),
    "figure1b": Artifact("one_head", "encoder", MAIN),
    "table2": Artifact("all_but_one", "translation", "enfr"),
    "table3": Artifact("all_but_one", "encoder", MAIN),
    "table5": Artifact("best_heads", "translation", "enfr"),
    "table6": Artifact("best_heads", "encoder", MAIN),
    "figure2a": Artifact("across_domains", "translation", "enfr"),
    "figure2b": Artifact("across_domains", "encoder", MAIN),
    "figure3a": Artifact("pruning_curve", "translation", "enfr"),
    "figure3b": Artifact("pruning_curve", "encoder", MAIN),
    "figure6a": Artifact("pruning_curve", "encoder", "sst2"),
    "figure6b": Artifact("pruning_curve", "encoder", "cola"),
    "figure6c": Artifact("pruning_curve", "encoder", "mrpc"),
    "figure6d": Artifact("pruning_curve", "translation", "deen"),
    "table4": Artifact("speed", "encoder", MAIN),
    "figure4": Artifact("pruning_by_kind", "translation", "enfr"),
    "figure5": Artifact("along_training", "translation", "deen"),
}


def name_of(measurement: str, half: str, task: str) -> str:
    """The paper's name of a measurement on a task, or on the paper's task in its place.

    For a translation task that is the one with the same languages. If the paper has no name, it is
    the measurement's own.

    >>> name_of("pruning_curve", "encoder", "sst2"), name_of("pruning_curve", "encoder", "snli")
    ('figure6a', 'figure3b')
    >>> name_of("pruning_curve", "translation", "multi30k")
    'figure6d'
    """
    names = [
        name
        for name, artifact in ARTIFACTS.items()
        if (artifact.measurement, artifact.half) == (measurement, half)
    ]

    def distance(name: str) -> int:
        named = ARTIFACTS[name].task
        return [named == task, _same_languages(named, task), named == MAIN, True].index(True)

    return min(names, key=distance, default=measurement)


def _same_languages(one: str, two: str) -> bool:
    read = [TRANSLATION_TASKS.get(name) for name in (one, two)]
    return None not in read and read[0].languages == read[1].languages


def as_in_the_paper(artifact: str) -> str:
    """A table or figure as the paper writes it.

    >>> as_in_the_paper("figure3b")
    'Figure 3b'
    """
    return re.sub(r"^(figure|table)(?=\d)", lambda word: f"{word[1].title()} ", artifact)
