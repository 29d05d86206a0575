"""Train a model again, beside the one that was measured, and look for the stored numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass

from headprune_lib.replication import store
from headprune_lib.replication.measurements import find_artifact
from headprune_lib.replication.measurements.obtaining import Request, results_folder
from headprune_lib.replication.paths import cache_root, trained_apart
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import Journal, Key, Result
from headprune_lib.replication.verification.another_training import check_comparable, compare
from headprune_lib.replication.verification.quantities import Quantity
from headprune_lib.replication.verification.same_weights import find_again

CELLS = 4
"""Masks that are drawn where the weights are the measured ones."""


@dataclass(frozen=True)
class Verification:
    """What a training that was made again says of a stored result.

    Attributes:
        measured, trained: SHA-256 of the weights then and now.
        quantities: a row each; the bounds are those of the same weights, or of another training.
    """

    key: Key
    measured: str
    trained: str
    quantities: list[Quantity]

    @property
    def agrees(self) -> bool:
        """Whether everything was found again within its bound."""
        return all(one.agrees for one in self.quantities)


def verify(
    name: str, profile: Profile, *, task: str | None = None, drawn_seed: int = 0
) -> Verification:
    """Train a result's model again and compare the two.

    The training lies in a folder of its own in the cache, where the next verification of the same
    model finds it; it resumes after a kill, and neither reads nor changes the weights that were
    measured. If it ends with those very weights, drawn cells must be found again to a rounding
    (:mod:`~headprune_lib.replication.verification.quantities`); if not, the statistical rule holds
    (:mod:`~headprune_lib.replication.verification.another_training`).

    Args:
        name: of a table or figure of the paper, or of a measurement.
        profile: with the task and the model of the stored result.
        task: of a translation measurement, the pair of languages; the main one if not given.
        drawn_seed: what masks and texts are drawn with.

    Raises:
        FileNotFoundError: there is no such stored result; the message names what measures it.
        ValueError: an unknown name, a stored result of other text, parameters or another recipe
            than those at hand, or one that holds nothing to compare.
    """
    request = find_artifact(name, profile, task)
    _, half, profile, task = request
    key, command = request.key, request.command()
    result = store.load(key, results_folder(profile), command)
    check_comparable(result)
    _check_signature(result, request, command)
    run = next(iter(result.parts.values())).runs[0]
    folder = cache_root() / "verify"
    journal = Journal(folder / "journals" / "-".join(key))
    generator = random.Random(drawn_seed)
    with trained_apart(folder):
        subject = (
            EncoderSubject.of(profile, run["seed"])
            if half == "encoder"
            else TranslationSubject.of(profile, task, run["seed"])
        )
        trained = subject.run["weights_sha256"]
        found = (
            find_again(result, subject, journal, generator, CELLS)
            if trained == run["weights_sha256"]
            else compare(result, subject, journal, generator)
        )
        quantities = list(found)
    journal.finish()
    return Verification(key, run["weights_sha256"], trained, quantities)


def _check_signature(result: Result, request: Request, command: str) -> None:
    """Raises ValueError where the result is of something else than what would be trained now."""
    for name, part in result.parts.items():
        wanted = request.signature(name)
        if part.signature != wanted:
            other = sorted(what for what in wanted if part.signature.get(what) != wanted[what])
            raise ValueError(
                f"part {name} of {'/'.join(result.key)} was measured with another "
                f"{' and '.join(set(other) - {'digest'})} than would be used now; measure it "
                f"again with: {command}"
            )
