"""What was checked of each committed result, once: a record that stands while its files do.

Checking takes minutes a result, and says nothing new while the result stays as it is: its file holds
the hashes of its outcomes and of the weights that it was measured on. So whoever adds or changes a
result checks it (``headprune verify KEY``) and commits the record; tests compare hashes alone.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headprune_lib.replication import store
from headprune_lib.replication.data import TASKS, TRANSLATION_TASKS, MissingData, file_sha256
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.halves import HALF_OF, half_of
from headprune_lib.replication.measurements.obtaining import OtherWeights, sha256_of
from headprune_lib.replication.models.pretrained import LANGUAGE_MODELS
from headprune_lib.replication.paths import cache_root, models_root, project_root
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.setups import EncoderSubject, LanguageSubject, TranslationSubject
from headprune_lib.replication.store import Journal, Key, Result
from headprune_lib.replication.store.files import replace_files
from headprune_lib.replication.store.text import plain
from headprune_lib.replication.titles import setting
from headprune_lib.replication.verification.again import find_again
from headprune_lib.replication.verification.outcomes import Subject
from headprune_lib.replication.verification.quantities import Quantity, equal

Record = dict[str, Any]
"""Hash of the result, version of its measurement, what was found again and what was not at hand."""

RELATIVE, ABSOLUTE = 2e-5, 1e-9
"""How far a value may be off: the last of its six stored digits, which rounding moves."""


def records_path() -> Path:
    """The table of all records."""
    return project_root() / "data" / "verified.json"


def read_records() -> dict[str, Record]:
    """``measurement/task.model`` -> its record."""
    return json.loads(records_path().read_text("utf-8"))


def name_of(key: Key) -> str:
    """What a record is filed under."""
    return f"{key.measurement}/{key.task}.{key.model}"


def check(key: Key, *, drawn_seed: int = 0) -> tuple[Record, list[Quantity]]:
    """Compute a committed result's values again, and find drawn outcomes again on its weights.

    Args:
        drawn_seed: what masks and texts are drawn with.

    Returns:
        the record, and everything that was compared.

    Raises:
        FileNotFoundError: there is no such result.
        OtherWeights: the committed weights are not those that it was measured on.
    """
    result = store.load(key)
    quantities, missing = [values_follow(result)], ""
    try:
        quantities += found_again(result, drawn_seed)
    except NotAtHand as reason:
        missing = str(reason)
    record = {
        "result": file_sha256(key.path()),  # which holds the hashes of its outcomes
        "weights": sorted(
            {run.get("weights_sha256", "") for part in result.parts.values() for run in part.runs}
        ),
        "version": MEASUREMENTS[key.measurement].version,
        "found again": [f"{one.name}: {one.found} (bound: {one.bound})" for one in quantities],
        "disagree": [one.name for one in quantities if not one.agrees],
        "not at hand": missing,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
    return record, quantities


def values_follow(result: Result) -> Quantity:
    """Whether the stored values are what the statistics make of the stored outcomes."""
    measurement, half = MEASUREMENTS[result.measurement], half_of(result.key)
    values = measurement.summarise(
        half,
        {name: part.raw for name, part in result.parts.items()},
        {name: part.runs for name, part in result.parts.items()},
        measurement.statistics[half],
    )
    differing = list(differences(result.values, plain(values, "values")))
    found = "; ".join(differing[:3]) or "the same"
    return Quantity("values", "", found, f"{RELATIVE} of each", not differing)


def differences(stored: Any, found: Any, path: str = "") -> Iterator[str]:
    """Each place where two values differ by more than rounding."""
    if isinstance(stored, Mapping) and isinstance(found, Mapping) and stored.keys() == found.keys():
        for name in stored:
            yield from differences(stored[name], found[name], f"{path}.{name}")
    elif isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        for i, pair in enumerate(zip(stored, found, strict=True)):
            yield from differences(*pair, f"{path}[{i}]")
    elif isinstance(stored, float) and isinstance(found, float | int):
        if not math.isclose(stored, found, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            yield f"{path} is {stored}, computed again {found}"
    elif stored != found:
        yield f"{path} is {stored!r}, computed again {found!r}"


def found_again(result: Result, drawn_seed: int) -> list[Quantity]:
    """Drawn outcomes, scores, orders and losses, measured again on the weights at hand.

    Raises:
        NotAtHand: no weights of it are, or its text is not.
    """
    journal = Journal(cache_root() / "journals" / "verified" / name_of(result.key))
    quantities = [
        quantity
        for subject in subjects_of(result)
        for quantity in find_again(result, subject, journal, drawn_seed)
    ]
    journal.finish()
    return quantities or [equal("nothing is found again", True, False)]


def write_records(records: Mapping[str, Record]) -> None:
    """Add records to the table, or replace them; results that are gone lose theirs."""
    committed = {name_of(key) for key in store.find()}
    known = read_records() if records_path().exists() else {}
    kept = {name: one for name, one in sorted({**known, **records}.items()) if name in committed}
    text = json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True)
    replace_files({records_path(): (text + "\n").encode()})


def broken(records: Mapping[str, Record], keys: Iterable[Key]) -> dict[str, str]:
    """Results whose record does not stand, and why."""
    reasons = {}
    for key in keys:
        record = records.get(name_of(key))
        if record is None:
            reasons[name_of(key)] = "was never checked"
        elif record["result"] != file_sha256(key.path()):
            reasons[name_of(key)] = "changed after it was checked"
        elif record["version"] != MEASUREMENTS[key.measurement].version:
            reasons[name_of(key)] = "was checked at another version of its measurement"
        elif record["disagree"]:
            reasons[name_of(key)] = f"was not found again: {', '.join(record['disagree'])}"
    return reasons


# --- the models that results were measured on -----------------------------------------------------


class NotAtHand(FileNotFoundError):
    """The weights of a result, or its text, are not here; the message says which."""


def subjects_of(result: Result) -> list[Subject]:
    """The trainings that a result's parts were measured on, those of them that are at hand.

    Raises:
        NotAtHand: none of them is; the message says why the first is not.
        OtherWeights: committed weights are not those that it was measured on.
    """
    runs = [run for part in result.parts.values() for run in part.runs]
    found, reasons = [], []
    for run in [run for i, run in enumerate(runs) if run not in runs[:i]]:
        try:
            found.append(_subject_of(result, run))
        except NotAtHand as reason:
            reasons.append(reason)
    if not found:
        raise reasons[0]
    return found


def _subject_of(result: Result, run: dict[str, Any]) -> Subject:
    """The model that a result was measured on in one of its runs; nothing is trained.

    Args:
        run: seed and hash of a training, with the epoch or update if within it.

    Raises:
        NotAtHand: its weights are not committed and were not trained here, or the text is missing.
        OtherWeights: the committed weights are not those that it was measured on.
    """
    half, task = half_of(result.key), result.task
    if half == "language":
        model = LANGUAGE_MODELS[result.model]
        if not model.at_hand:
            raise NotAtHand(f"{model.title} was not fetched here")
        names = {"language_task": task, "language_model": result.model}
        return LanguageSubject.of(load_profile(result.profile, **names), task)
    if half == "encoder":
        profile = load_profile(result.profile, task=task, model=result.model)
    else:
        profile = load_profile(result.profile, translation_model=result.model)
    if "weights_sha256" not in run:
        raise NotAtHand(f"the weights behind {result.measurement} were scored and not committed")
    try:
        path = HALF_OF[half].weights_at_hand(profile, task, run)
        if half == "encoder":
            TASKS[task].split("test", profile.data)
        else:
            TRANSLATION_TASKS[task].split("test")
    except MissingData as error:
        raise NotAtHand(
            f"the text of {task} is not here: name its folder in HEADPRUNE_DATA"
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
            f"on {run['weights_sha256']}"
        )
        if path.parent == models_root():
            raise OtherWeights(told)
        raise NotAtHand(f"{told}, which is not committed")
    if half == "encoder":
        return EncoderSubject.of(profile, run["seed"])
    return TranslationSubject.of(profile, task, run["seed"], **within)
