"""The paper's IWSLT model, trained by fairseq itself: its training folder, and what is in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from headprune_lib.fairseq_import import FairseqTranslator
from headprune_lib.fairseq_import.load import Dictionary, Splitter, read_checkpoint
from headprune_lib.replication.data import iwslt
from headprune_lib.replication.profiles import FairseqRecipe, Profile
from headprune_lib.replication.store.files import replace_files
from headprune_lib.replication.translation.fairseq_training import CHECKPOINTS, train_iwslt
from headprune_lib.replication.translation.preparing import CODES, binary_data
from headprune_lib.replication.translation.translator import MosesPieces, Translator
from headprune_lib.replication.weights import sha256_of
from headprune_lib.saving import load_pruned

_RECIPE, _CURVE = "recipe.json", "curve.json"


def converted(folder: Path, epoch: int) -> Path:
    """The weights of an epoch, in a folder that ``load_pruned`` reads."""
    return folder / f"epoch-{epoch}" / "model.safetensors"


def train_by_fairseq(
    folder: Path, recipe: FairseqRecipe, described: dict, seed: int, device: str
) -> Path:
    """Train a model and convert the checkpoint of every epoch; a second call goes on after a kill.

    ``curve.json`` holds a record an epoch once all are there; fairseq's own checkpoints, four times
    the size of the weights, are removed then.

    Raises:
        FileNotFoundError: fairseq is not installed.
        ChildProcessError: fairseq failed.
        ValueError: the folder holds a training by another recipe.
    """
    stored = stored_by_fairseq(folder)
    if stored not in (None, described):
        raise ValueError(
            f"{folder} is of a training by another recipe: move it away, or train anew with "
            "--retrain"
        )
    if (folder / _CURVE).is_file():
        return folder
    data = binary_data(recipe.pieces)
    folder.mkdir(parents=True, exist_ok=True)
    replace_files({folder / _RECIPE: (json.dumps(described, indent=1) + "\n").encode()})
    given = ["--max-epoch", str(recipe.epochs), "--seed", str(seed), *recipe.options]
    train_iwslt(data, folder, [*given, *(["--cpu"] if device == "cpu" else [])])
    checkpoints = folder / CHECKPOINTS
    curve = [
        {
            "epoch": epoch,
            "updates": _updates(checkpoints / f"checkpoint{epoch}.pt"),
            "bleu": None,
            "training_loss": None,
        }
        for epoch in range(1, recipe.epochs + 1)
    ]
    replace_files({folder / _CURVE: (json.dumps(curve, indent=1) + "\n").encode()})
    shutil.rmtree(checkpoints)
    return folder


def _updates(checkpoint: Path) -> int:
    """After how many updates a checkpoint was written; ValueError where it does not say."""
    history = read_checkpoint(checkpoint).get("optimizer_history")
    if not history:
        raise ValueError(f"{checkpoint} does not say after how many updates it was written")
    return int(history[-1]["num_updates"])


def stored_by_fairseq(folder: Path) -> dict | None:
    """The recipe that a folder's training is by; None where there is no training."""
    path = folder / _RECIPE
    return json.loads(path.read_text()) if path.is_file() else None


def load_by_fairseq(
    profile: Profile, task: str, recipe: FairseqRecipe, weights: Path, kernel: str
) -> Translator:
    """A converted checkpoint as a translator of plain text."""
    model = load_pruned(weights.parent).to(profile.device_here).eval()
    model.set_attn_implementation(kernel)
    data, (source, target) = binary_data(recipe.pieces), iwslt.LANGUAGES
    words = [Dictionary(data / f"dict.{side}.txt") for side in (source, target)]
    found = FairseqTranslator(model, *words, Splitter(data / CODES))
    curve = json.loads((weights.parents[1] / _CURVE).read_text())
    pieces = MosesPieces(found, iwslt.TOKENS[source], iwslt.TOKENS[target])
    return Translator(task, model, pieces, sha256_of(weights), curve)
