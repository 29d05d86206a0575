"""The paper's own translation models: IWSLT14's, trained by fairseq itself, and WMT14's, published.

See section 6 and appendix B of the paper; the published model is by Ott et al. 2018.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from headprune_lib.messages import unknown
from headprune_lib.replication.data import Archive, Moses, file_sha256, iwslt
from headprune_lib.replication.lazy import fairseq_import, saving
from headprune_lib.replication.profiles import FairseqRecipe, Published
from headprune_lib.replication.store.files import locked, replace_files

RECIPE = (
    *("--arch", "transformer_iwslt_de_en"),
    *("--encoder-attention-heads", "8", "--decoder-attention-heads", "8"),
    *("--encoder-normalize-before", "--decoder-normalize-before"),
    *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--clip-norm", "0.0"),
    *("--lr", "5e-4", "--lr-scheduler", "inverse_sqrt", "--warmup-updates", "4000"),
    *("--dropout", "0.3", "--weight-decay", "0.0001"),
    *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
    *("--max-tokens", "4000", "--no-progress-bar"),
)
"""The paper's recipe: fairseq's for IWSLT German-English, with 8 heads and pre-norm blocks."""
_CHECKPOINTS, _CODES, _RECIPE, _CURVE = "checkpoints", "codes", "recipe.json", "curve.json"
# fairseq reads its own checkpoint back to resume; torch refuses argparse's namespace otherwise.
_TRAIN = (
    "import argparse, torch; torch.serialization.add_safe_globals([argparse.Namespace]); "
    "from fairseq_cli.train import cli_main; cli_main()"
)
_PREPROCESS = "from fairseq_cli.preprocess import cli_main; cli_main()"


# --- text as fairseq-train reads it ---------------------------------------------------------------


def _check_fairseq() -> None:
    """Raises FileNotFoundError if fairseq is not installed."""
    if find_spec("fairseq") is None:
        raise FileNotFoundError(
            "fairseq is not installed. Run pip install -c constraints.txt -e '.[fairseq]', then "
            "pip install -c constraints.txt --no-deps --no-build-isolation fairseq-fixed"
        )


def _binary_data(pieces: int) -> Path:
    """The folder of IWSLT14 German-English from ``fairseq-preprocess``, with ``codes``; made once.

    Args:
        pieces: merges of the joint byte pair encoding, which is learned on the training text.

    Raises:
        FileNotFoundError: fairseq is not installed.
        ChildProcessError: fairseq-preprocess failed.
    """
    text = iwslt.prepared()
    target = text / f"pieces-{pieces}"
    with locked(target):  # other trainings may need it, too
        if not target.is_dir():
            _check_fairseq()
            with tempfile.TemporaryDirectory(dir=text) as work:
                folder = Path(work) / "made"
                folder.mkdir()
                _learn(text, folder / _CODES, pieces)
                _apply(text, folder / _CODES, Path(work))
                _preprocess(Path(work), folder)
                os.replace(folder, target)
    return target


def _learn(text: Path, codes: Path, pieces: int) -> None:
    from subword_nmt.learn_bpe import learn_bpe

    lines = [
        line
        for side in iwslt.LANGUAGES
        for line in (text / f"train.tokens.{side}").read_text("utf-8").splitlines()
    ]
    with codes.open("w", encoding="utf-8") as file:
        learn_bpe(lines, file, pieces)


def _apply(text: Path, codes: Path, target: Path) -> None:
    from subword_nmt.apply_bpe import BPE

    with codes.open(encoding="utf-8") as file:
        split = BPE(file)
    for name in ("train", "valid", "test"):
        for side in iwslt.LANGUAGES:
            lines = (text / f"{name}.tokens.{side}").read_text("utf-8").splitlines()
            split_lines = "".join(f"{split.process_line(line)}\n" for line in lines)
            (target / f"{name}.{side}").write_text(split_lines, "utf-8")


def _preprocess(text: Path, target: Path) -> None:
    source, other = iwslt.LANGUAGES
    options = [
        word for name in ("train", "valid", "test") for word in (f"--{name}pref", text / name)
    ]
    command = [sys.executable, "-c", _PREPROCESS, "--source-lang", source, "--target-lang", other]
    done = subprocess.run(
        [*command, *map(str, options), "--destdir", str(target)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ChildProcessError(
            f"fairseq-preprocess failed with exit status {done.returncode}:\n{done.stderr[-2000:]}"
        )


# --- training -------------------------------------------------------------------------------------


def train_iwslt(data: Path, out: Path, extra: list[str]) -> list[Path]:
    """Run ``fairseq-train`` with the paper's recipe and convert the checkpoint of every epoch.

    A second call resumes from fairseq's last checkpoint.

    Args:
        data: a folder that ``fairseq-preprocess`` wrote.
        out: ``out/checkpoints`` is fairseq's; ``load_pruned`` reads ``out/epoch-N``.
        extra: more arguments of ``fairseq-train``; later ones win (``--max-epoch 40``, ``--cpu``).

    Returns:
        the folders of the converted checkpoints, in order of epochs.

    Raises:
        FileNotFoundError: no prepared data, or fairseq is not installed.
        ChildProcessError: fairseq-train failed.
    """
    dictionaries = sorted(data.glob("dict.*.txt"))
    train = sorted(data.glob("train.*-*.*.bin"))
    if len(dictionaries) != 2 or not train:
        raise FileNotFoundError(
            f"{data} has no data from fairseq-preprocess: expected two dict.*.txt and train.*.bin"
        )
    _check_fairseq()
    checkpoints = out / _CHECKPOINTS
    command = [sys.executable, "-c", _TRAIN, str(data), *RECIPE, "--save-dir", str(checkpoints)]
    done = subprocess.run([*command, *extra], check=False)
    if done.returncode:
        raise ChildProcessError(
            f"fairseq-train failed with exit status {done.returncode}: see its messages above"
        )
    source, target = train[0].name.split(".")[1].split("-")
    pair = [data / f"dict.{language}.txt" for language in (source, target)]
    numbered = {
        int(match[1]): path
        for path in checkpoints.glob("checkpoint*.pt")
        if (match := re.fullmatch(r"checkpoint(\d+)\.pt", path.name))
    }
    folders = []
    for epoch, checkpoint in sorted(numbered.items()):
        folder = out / f"epoch-{epoch}"
        if not (folder / "model.safetensors").is_file():
            saving.save_pruned(fairseq_import.import_fairseq(checkpoint, pair).model, folder)
        folders.append(folder)
    return folders


def converted(folder: Path, epoch: int) -> Path:
    """The weights file of an epoch, in a folder that ``load_pruned`` reads."""
    return folder / f"epoch-{epoch}" / "model.safetensors"


def train_by_fairseq(
    folder: Path, recipe: FairseqRecipe, described: dict, seed: int, device: str
) -> Path:
    """Train a model and convert every epoch's checkpoint; a second call resumes an interrupted run.

    After the last epoch, ``curve.json`` is written with one record per epoch, and fairseq's own
    checkpoints, four times the size of the weights, are removed.

    Raises:
        FileNotFoundError: fairseq is not installed.
        ChildProcessError: fairseq failed.
        ValueError: the folder holds a training by another recipe.
    """
    stored = stored_by_fairseq(folder)
    if stored not in (None, described):
        raise ValueError(
            f"{folder} has a training by another recipe. Move it away, or train again with "
            "--retrain"
        )
    if (folder / _CURVE).is_file():
        return folder
    data = _binary_data(recipe.pieces)
    folder.mkdir(parents=True, exist_ok=True)
    replace_files({folder / _RECIPE: (json.dumps(described, indent=1) + "\n").encode()})
    options = ["--max-epoch", str(recipe.epochs), "--seed", str(seed), *recipe.options]
    train_iwslt(data, folder, [*options, *(["--cpu"] if device == "cpu" else [])])
    checkpoints = folder / _CHECKPOINTS
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
    """The number of updates before a checkpoint was written. Raises ValueError if not recorded."""
    history = fairseq_import.load.read_checkpoint(checkpoint).get("optimizer_history")
    if not history:
        raise ValueError(f"{checkpoint} does not say after how many updates it was written")
    return int(history[-1]["num_updates"])


def stored_by_fairseq(folder: Path) -> dict | None:
    """The recipe of the training in a folder; None if there is no training."""
    path = folder / _RECIPE
    return json.loads(path.read_text()) if path.is_file() else None


def load_by_fairseq(
    device: str, recipe: FairseqRecipe, weights: Path, kernel: str
) -> tuple[fairseq_import.FairseqTranslator, Moses, Moses, list[dict]]:
    """A converted checkpoint, the tokenisation of both its languages, and its learning curve."""
    model = saving.load_pruned(weights.parent).to(device).eval()
    model.set_attn_implementation(kernel)
    data, (source, target) = _binary_data(recipe.pieces), iwslt.LANGUAGES
    words = [fairseq_import.load.Dictionary(data / f"dict.{side}.txt") for side in (source, target)]
    translator = fairseq_import.FairseqTranslator(
        model, *words, fairseq_import.load.Splitter(data / _CODES)
    )
    curve = json.loads((weights.parents[1] / _CURVE).read_text())
    return translator, iwslt.TOKENS[source], iwslt.TOKENS[target], curve


# --- the published model --------------------------------------------------------------------------

_CHECKPOINT = "model.pt"
WMT14 = Archive(
    "wmt14-enfr",
    "https://dl.fbaipublicfiles.com/fairseq/models/wmt14.en-fr.joined-dict.transformer.tar.bz2",
    (_CHECKPOINT, "dict.en.txt", "dict.fr.txt", "bpecodes"),
)
"""Ott et al. 2018: architecture ``transformer_vaswani_wmt_en_fr_big``, with a joint dictionary."""

_ARCHIVES = {archive.name: archive for archive in (WMT14,)}
# as in fairseq's recipe for this text: tokenizer.perl -a, and straight apostrophes
_TOKENS = {side: Moses(side, aggressive=True, straight=True) for side in ("en", "fr")}


def public_translator(archive: Archive = WMT14) -> fairseq_import.FairseqTranslator:
    """The published model, fetched the first time; its input is text tokenised by Moses.

    Raises:
        MissingData: it cannot be fetched.
        WrongChecksum: the fetched file is not the expected one.
    """
    folder = archive.folder()
    return fairseq_import.import_fairseq(
        folder / _CHECKPOINT,
        [folder / "dict.en.txt", folder / "dict.fr.txt"],
        bpe=folder / "bpecodes",
    )


def archive_of(published: Published) -> Archive:
    """The archive that a profile names. Raises ValueError if there is none of this name."""
    if published.archive not in _ARCHIVES:
        raise ValueError(unknown("archive", published.archive, _ARCHIVES))
    return _ARCHIVES[published.archive]


def checkpoint_of(published: Published) -> Path:
    """Path of the published weights, whether they are fetched yet or not."""
    if folder := published.folder:
        return folder / "model.safetensors"
    return archive_of(published).target / _CHECKPOINT


def described(published: Published) -> dict:
    """Hash and any URL of published weights, in place of a recipe; fetches an archive if needed."""
    if published.folder:
        return {"sha256": file_sha256(checkpoint_of(published))}
    archive = archive_of(published)
    return {"url": archive.url, "sha256": file_sha256(archive.folder() / _CHECKPOINT)}


def load_public(
    published: Published, kernel: str, device: str
) -> tuple[fairseq_import.FairseqTranslator, Moses, Moses, list[dict]]:
    """The published model, the tokenisation of both its languages, and an empty learning curve."""
    translator = public_translator(archive_of(published))
    translator.model.to(device).set_attn_implementation(kernel)
    return translator, _TOKENS["en"], _TOKENS["fr"], []
