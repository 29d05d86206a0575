"""The model that a result was measured on, where its weights and its text are at hand."""

from __future__ import annotations

from typing import Any

from headprune_lib.replication.data import TASKS, TRANSLATION_TASKS, MissingData
from headprune_lib.replication.measurements.halves import HALF_OF, half_of
from headprune_lib.replication.measurements.obtaining import OtherWeights, sha256_of
from headprune_lib.replication.paths import models_root
from headprune_lib.replication.profiles import Profile, load_profile
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import Result
from headprune_lib.replication.titles import setting
from headprune_lib.replication.verification.orders import Subject

Run = dict[str, Any]
"""An entry of a result: seed and hash of a training, with the epoch or update if within it."""


class NotAtHand(FileNotFoundError):
    """The weights of a result, or its text, are not here; the message says which."""


def profile_of(result: Result) -> Profile:
    """The profile that a result was measured with, on its task and with its model."""
    if half_of(result.key) == "encoder":
        return load_profile(result.profile, task=result.task, model=result.model)
    return load_profile(result.profile, translation_model=result.model)


def subjects_of(result: Result) -> list[Subject]:
    """The trainings that a result was measured on, those of them that are at hand.

    Raises:
        NotAtHand: none of them is; the message says why the first is not.
        OtherWeights: committed weights are not those that it was measured on.
    """
    found, reasons = [], []
    for run in runs_of(result):
        try:
            found.append(subject_of(result, run))
        except NotAtHand as reason:
            reasons.append(reason)
    if not found:
        raise reasons[0]
    return found


def runs_of(result: Result) -> list[Run]:
    """The trainings that a result's parts were measured on, each once."""
    runs = [run for part in result.parts.values() for run in part.runs]
    return [run for i, run in enumerate(runs) if run not in runs[:i]]


def subject_of(result: Result, run: Run) -> Subject:
    """The model that a result was measured on in one of its runs; nothing is trained.

    Raises:
        NotAtHand: its weights are not committed and were not trained here, or the text is missing.
        OtherWeights: the committed weights are not those that it was measured on.
    """
    half = half_of(result.key)
    if half == "language":
        raise NotAtHand(f"no reader of {result.measurement}: measure it again to compare")
    profile = profile_of(result)
    if "weights_sha256" not in run:
        raise NotAtHand(f"the weights behind {result.measurement} were scored and not committed")
    try:
        path = HALF_OF[half].weights_at_hand(profile, result.task, run)
        if half == "encoder":
            TASKS[result.task].split("test", profile.data)
        else:
            TRANSLATION_TASKS[result.task].split("test")
    except MissingData as error:
        raise NotAtHand(
            f"the text of {result.task} is not here: name its folder in HEADPRUNE_DATA"
        ) from error
    within = {name: run[name] for name in ("epoch", "update") if name in run}
    which = "".join(f", after {name} {number}" for name, number in within.items())
    if path is None:
        raise NotAtHand(
            f"the weights of {setting(result)}, seed {run['seed']}{which}, are not committed"
        )
    if (found := sha256_of(path)) != run["weights_sha256"]:
        told = (
            f"{path} has SHA-256 {found}, {result.measurement} of {setting(result)} was measured "
        )
        told += f"on {run['weights_sha256']}"
        if path.parent == models_root():
            raise OtherWeights(told)
        raise NotAtHand(f"{told}, which is not committed")
    if half == "encoder":
        return EncoderSubject.of(profile, run["seed"])
    return TranslationSubject.of(profile, result.task, run["seed"], **within)
