"""What came from the network: its SHA-256, noted at the first download and checked at every later one.

The notes lie beside the results, so that they are committed with what was measured.
"""

from __future__ import annotations

import json
from pathlib import Path

from filelock import FileLock

from headprune_lib.replication.data.sources import WrongChecksum, file_sha256
from headprune_lib.replication.paths import cache_root, results_root
from headprune_lib.replication.store.files import replace_files, set_aside


def notes_path() -> Path:
    """The file of notes: name -> SHA-256."""
    return results_root() / "fetched.json"


def noted(name: str) -> str | None:
    """The SHA-256 that was noted of a file or text; None where it was never fetched."""
    path = notes_path()
    return json.loads(path.read_text()).get(name) if path.is_file() else None


def check_hub_cache(repository: str, kind: str) -> set[Path]:
    """What the Hub's cache holds of a repository, against the SHA-256 that the Hub says it has.

    There a large file is called by it.

    Args:
        kind: ``"model"`` or ``"dataset"``.

    Returns:
        the files that were checked: their names are their SHA-256.

    Raises:
        WrongChecksum: one was changed on the way here; it is set aside, to be fetched again.
    """
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    if Path(repository).is_absolute():  # a folder in a repository's place: nothing was fetched
        return set()
    folder = Path(HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type=kind)
    checked: set[Path] = set()
    for blob in sorted((folder / "blobs").glob("[0-9a-f]" * 64)):
        if (found := file_sha256(blob)) == blob.name:
            checked.add(blob.resolve())
            continue
        links = [path for path in folder.rglob("snapshots/*/**/*") if path.resolve() == blob]
        names = [str(path.relative_to(folder / "snapshots").as_posix()) for path in links]
        for link in links:
            link.unlink()
        (aside,) = set_aside(blob)
        name = names[0].partition("/")[2] if names else blob.name
        raise WrongChecksum(
            f"{repository}/{name} has SHA-256 {found}, the Hub says {blob.name}: it was changed on "
            f"the way here; fetch it again. The file was set aside as {aside}"
        )
    return checked


def check_fetched(found: dict[str, str]) -> None:
    """Note the SHA-256 of what is fetched for the first time, and compare the others.

    Args:
        found: name -> SHA-256.

    Raises:
        WrongChecksum: one is another than the noted one; nothing new is noted then.
    """
    (cache_root()).mkdir(parents=True, exist_ok=True)
    with FileLock(cache_root() / "fetched.lock"):
        path = notes_path()
        notes = json.loads(path.read_text()) if path.is_file() else {}
        wrong = [name for name, sha in found.items() if notes.get(name, sha) != sha]
        if wrong:
            name = wrong[0]
            raise WrongChecksum(
                f"{name} has SHA-256 {found[name]}, expected {notes[name]}: not what was fetched "
                f"first, see {path}. It was changed where it comes from, or on the way here; fetch it "
                "again, or, to measure the new one, take its line out of that file"
            )
        if found.keys() - notes.keys():
            content = json.dumps(notes | found, indent=1, sort_keys=True) + "\n"
            replace_files({path: content.encode()})
