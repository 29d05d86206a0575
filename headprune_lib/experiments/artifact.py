"""What the library must know to measure one table or figure of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headprune_lib.journal import Arrays, Journal
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement, Result

Get = Callable[[str, Profile], Result]


@dataclass(frozen=True)
class Artifact:
    """One table or figure.

    Attributes:
        name: its name in the paper, such as ``"figure1b"``.
        version: of the measurement; bumped by hand when its meaning changes.
        statistics: version of ``summarise``; bumped when the same raw outcomes give other values.
        parameters: the profile's values that the measurement depends on.
        measure: ``(profile, journal, get) -> Measurement``; ``get`` fetches other artifacts.
        summarise: ``(raw, runs) -> values``, without model or data.
        tasks: names of the tasks whose text is read.
        all_seeds: whether every fine-tuning seed is measured, or the first alone.
        needs: names of the artifacts whose outcomes go into it through ``get``.
        translates: the translation tasks of an artifact of that half, the main one first; empty
            for the encoder half.
    """

    name: str
    version: int
    statistics: int
    parameters: Callable[[Profile], dict]
    measure: Callable[[Profile, Journal, Get], Measurement]
    summarise: Callable[[Arrays, list[dict]], dict]
    tasks: Callable[[Profile], list[str]] = lambda profile: [profile.task]
    all_seeds: bool = False
    needs: tuple[str, ...] = ()
    translates: Callable[[Profile], tuple[str, ...]] = lambda _profile: ()
