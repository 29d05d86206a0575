"""The paper's tables and figures: ``get`` returns one, stored or measured.

>>> sorted(name for name in ARTIFACTS if name.startswith("figure"))[:4]
['figure1b', 'figure2a', 'figure2b', 'figure3a']
"""

from __future__ import annotations

from pathlib import Path

from headprune_lib import results
from headprune_lib.bases import BASES
from headprune_lib.data import TASKS
from headprune_lib.experiments import (
    across_datasets,
    agreement,
    all_but_one,
    iterative,
    one_head,
    speed,
)
from headprune_lib.experiments.artifact import Artifact
from headprune_lib.experiments.translation import ARTIFACTS as TRANSLATION_ARTIFACTS
from headprune_lib.naming import unknown
from headprune_lib.paths import cache_root
from headprune_lib.profiles import Profile, load_profile
from headprune_lib.training import recipe
from headprune_lib.translation.recipe import final_recipe
from headprune_lib.translation.verses import TRANSLATION_TASKS

ARTIFACTS: dict[str, Artifact] = {
    artifact.name: artifact
    for artifacts in (
        *(module.ARTIFACTS
          for module in (one_head, all_but_one, across_datasets, iterative, speed, agreement)),
        TRANSLATION_ARTIFACTS,
    )
    for artifact in artifacts
}


def get(artifact: str, profile: Profile, *, fresh: bool = False) -> results.Result:
    """A table or figure of the paper: the stored result if its signature fits, else measured now.

    Args:
        artifact: its name in the paper, such as ``"figure1b"``.
        profile: what to measure; see :func:`headprune_lib.profiles.load_profile`.
        fresh: measure in any case, with the weights at hand.

    Raises:
        ValueError: an unknown artifact (the nearest names are suggested).
    """
    if artifact not in ARTIFACTS:
        raise ValueError(unknown("artifact", artifact, ARTIFACTS))
    entry = ARTIFACTS[artifact]
    profile = _on_its_task(artifact, profile)
    task = next(iter(entry.translates(profile)), profile.task)
    wanted = signature(entry, profile)
    return results.obtain(
        artifact, profile.name, task, wanted, entry.statistics,
        lambda journal: entry.measure(profile, journal, get), entry.summarise,
        fresh=fresh, root=_root(entry, profile, wanted["digest"]),
    )


def _on_its_task(artifact: str, profile: Profile) -> Profile:
    """The profile on the task that a figure of the paper is about; others are about any."""
    task = profile.figure_tasks.get(artifact)
    if task is None or task == profile.task:
        return profile
    if "task" in profile.given:
        raise ValueError(f"{artifact} is about {task}, not {profile.task}; "
                         f"for this task, give figure3b with task={profile.task}")
    return profile.on(task)


def signature(entry: Artifact, profile: Profile, *, registered: bool = False) -> dict:
    """What a stored result must agree with: parameters, data, base weights, training recipes.

    Args:
        registered: with the text that committed results were measured on, whatever is at hand.
    """
    if entry.translates(profile):
        return _translation_signature(entry, profile)
    texts = {name: TASKS[name].registered if registered else TASKS[name].checksums(profile.data)
             for name in entry.tasks(profile)}
    seeds = profile.seeds if entry.all_seeds else [profile.seed]
    return results.make_signature(
        entry.version,
        {"task": profile.task, "model": profile.model, **entry.parameters(profile), **_later(entry)},
        {path: sha for checksums in texts.values() for path, sha in checksums.items()},
        BASES[profile.model].checksums,
        {f"seed {seed}": recipe(profile, seed, registered=registered) for seed in seeds},
    )


def _later(entry: Artifact) -> dict[str, dict[str, int]]:
    """The versions of what an artifact is made of, where they are no longer the first ones."""
    versions = {name: ARTIFACTS[name].version for name in entry.needs}
    later = {name: version for name, version in versions.items() if version > 1}
    return {"needs": later} if later else {}


def _translation_signature(entry: Artifact, profile: Profile) -> dict:
    tasks = entry.translates(profile)
    texts = [TRANSLATION_TASKS[task].checksums for task in tasks]
    seed = profile.translation_seed
    trained = [task for task in tasks if task in profile.translation]  # others are only read
    return results.make_signature(
        entry.version, {"tasks": tasks, **entry.parameters(profile), **_later(entry)},
        {path: sha for checksums in texts for path, sha in checksums.items()}, {},
        {f"{task} seed {seed}": final_recipe(task, profile.translation[task], seed)
         for task in trained},
    )


def _root(entry: Artifact, profile: Profile, own: str) -> Path | None:
    """A result with parameters of one's own must not overwrite the committed one."""
    committed = load_profile(profile.name, task=profile.task)
    standard = signature(entry, committed, registered=True)["digest"]
    return None if own == standard else cache_root() / "results" / own[:12]
