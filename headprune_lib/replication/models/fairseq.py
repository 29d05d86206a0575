"""The paper's own translation models: IWSLT14's, trained by fairseq itself, and WMT14's, published.

See section 6 and appendix B of the paper; the published model is by Ott et al. 2018.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from numpy.typing import NDArray

from headprune_lib.messages import unknown
from headprune_lib.replication.data import Archive, Moses, file_sha256, iwslt
from headprune_lib.replication.lazy import fairseq_import, saving, utils
from headprune_lib.replication.metrics import sentence_counts
from headprune_lib.replication.profiles import FairseqRecipe, Published
from headprune_lib.replication.store.files import locked, replace_files
from headprune_lib.replication.store.packing import BESIDE

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
_PROGRAMS = {
    "preprocess": "from fairseq_cli.preprocess import cli_main; cli_main()",
    # fairseq reads its own checkpoint back to resume; torch refuses argparse's namespace otherwise
    "train": "import argparse, torch; "
    "torch.serialization.add_safe_globals([argparse.Namespace]); "
    "from fairseq_cli.train import cli_main; cli_main()",
}


@dataclass(frozen=True)
class MosesPieces:
    """Moses tokens, split by fairseq's BPE codes; BLEU is over the Moses tokens, as in the paper.

    Its methods are those of :class:`~headprune_lib.replication.models.translators.Pieces`.

    Attributes:
        fairseq: the model, its dictionaries and codes.
        source: tokenisation of source text.
        target: tokenisation of target text.
    """

    fairseq: fairseq_import.FairseqTranslator
    source: Moses
    target: Moses

    def sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of source texts, each with the end mark."""
        return self.fairseq.encode([self.source.tokens(text) for text in texts])

    def targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of target texts, each with the end mark."""
        words, splitter = self.fairseq.target, self.fairseq.splitter
        return [words.encode(splitter.split(self.target.tokens(text))) for text in texts]

    def tokens(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The Moses tokens of each translation, separated by spaces."""
        words, splitter = self.fairseq.target, self.fairseq.splitter
        return [splitter.join(words.decode(row)) for row in rows]

    def texts(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each translation, given without end mark."""
        return [self.target.text(tokens) for tokens in self.tokens(rows)]

    def counts(
        self, rows: Sequence[Sequence[int]], references: Sequence[str]
    ) -> dict[str, NDArray]:
        """Counts for BLEU over Moses tokens and, under ``BESIDE``, for sacrebleu's own."""
        wanted = [self.target.tokens(text) for text in references]
        plain = [self.target.plain(text) for text in references]
        return {
            "": sentence_counts(self.tokens(rows), wanted, "none"),
            BESIDE: sentence_counts(self.texts(rows), plain),
        }


# --- text as fairseq-train reads it ---------------------------------------------------------------


def _check_fairseq() -> None:
    """Raises FileNotFoundError if fairseq is not installed."""
    if find_spec("fairseq") is None:
        raise FileNotFoundError(
            "fairseq is not installed. Run pip install -c constraints.txt -e '.[fairseq]', then "
            "pip install -c constraints.txt --no-deps --no-build-isolation fairseq-fixed"
        )


def _run(program: str, *options: str | Path, capture: bool = False) -> None:
    """Run a program of fairseq. Raises ChildProcessError if it fails."""
    command = [sys.executable, "-c", _PROGRAMS[program], *map(str, options)]
    done = subprocess.run(command, check=False, capture_output=capture, text=True)
    if done.returncode:
        said = f":\n{done.stderr[-2000:]}" if capture else ": see its messages above"
        raise ChildProcessError(
            f"fairseq-{program} failed with exit status {done.returncode}{said}"
        )


def _binary_data(pieces: int) -> Path:
    """The folder of IWSLT14 German-English from ``fairseq-preprocess``, with ``codes``; made once.

    Args:
        pieces: merges of the joint byte pair encoding, which is learned on the training text.
    """
    text = iwslt.prepared()
    target = text / f"pieces-{pieces}"
    with locked(target):  # other trainings may need it, too
        if not target.is_dir():
            _check_fairseq()
            with utils.staged_path(target) as folder:
                folder.mkdir()
                _split(text, folder, pieces)
                source, other = iwslt.LANGUAGES
                options = ["--source-lang", source, "--target-lang", other, "--destdir", folder]
                for name in ("train", "valid", "test"):
                    options += [f"--{name}pref", folder.parent / name]
                _run("preprocess", *options, capture=True)
    return target


def _split(text: Path, folder: Path, pieces: int) -> None:
    """Learn ``folder/codes``, and write the text in pieces next to the folder."""
    from subword_nmt.apply_bpe import BPE
    from subword_nmt.learn_bpe import learn_bpe

    lines = {
        (name, side): (text / f"{name}.tokens.{side}").read_text("utf-8").splitlines()
        for name in ("train", "valid", "test")
        for side in iwslt.LANGUAGES
    }
    train = [line for side in iwslt.LANGUAGES for line in lines["train", side]]
    with (folder / _CODES).open("w", encoding="utf-8") as file:
        learn_bpe(train, file, pieces)
    with (folder / _CODES).open(encoding="utf-8") as file:
        codes = BPE(file)
    for (name, side), tokens in lines.items():
        split = "".join(f"{codes.process_line(line)}\n" for line in tokens)
        (folder.parent / f"{name}.{side}").write_text(split, "utf-8")


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
    train = sorted(data.glob("train.*-*.*.bin"))
    if len([*data.glob("dict.*.txt")]) != 2 or not train:
        raise FileNotFoundError(
            f"{data} has no data from fairseq-preprocess: expected two dict.*.txt and train.*.bin"
        )
    _check_fairseq()
    checkpoints = out / _CHECKPOINTS
    _run("train", data, *RECIPE, "--save-dir", checkpoints, *extra)
    languages = train[0].name.split(".")[1].split("-")
    dictionaries = [data / f"dict.{language}.txt" for language in languages]
    numbered = {
        int(match[1]): path
        for path in checkpoints.glob("checkpoint*.pt")
        if (match := re.fullmatch(r"checkpoint(\d+)\.pt", path.name))
    }
    folders = []
    for epoch, checkpoint in sorted(numbered.items()):
        weights = converted(out, epoch)
        if not weights.is_file():
            model = fairseq_import.import_fairseq(checkpoint, dictionaries).model
            saving.save_pruned(model, weights.parent)
        folders.append(weights.parent)
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
    if stored_by_fairseq(folder) not in (None, described):
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


def load_by_fairseq(recipe: FairseqRecipe, weights: Path) -> tuple[MosesPieces, list[dict]]:
    """A converted checkpoint with its pieces, and its learning curve."""
    data = _binary_data(recipe.pieces)
    translator = fairseq_import.FairseqTranslator(
        saving.load_pruned(weights.parent),
        *(fairseq_import.load.Dictionary(data / f"dict.{side}.txt") for side in iwslt.LANGUAGES),
        fairseq_import.load.Splitter(data / _CODES),
    )
    curve = json.loads((weights.parents[1] / _CURVE).read_text())
    return MosesPieces(translator, *(iwslt.TOKENS[side] for side in iwslt.LANGUAGES)), curve


# --- the published model --------------------------------------------------------------------------

_CHECKPOINT = "model.pt"
WMT14 = Archive(
    "wmt14-enfr",
    "https://dl.fbaipublicfiles.com/fairseq/models/wmt14.en-fr.joined-dict.transformer.tar.bz2",
    (_CHECKPOINT, "dict.en.txt", "dict.fr.txt", "bpecodes"),
)
"""Ott et al. 2018: architecture ``transformer_vaswani_wmt_en_fr_big``, with a joint dictionary."""

_ARCHIVES = {WMT14.name: WMT14}


def public_translator(archive: Archive = WMT14) -> MosesPieces:
    """The published model with its pieces, fetched the first time.

    Raises:
        MissingData: it cannot be fetched.
        WrongChecksum: the fetched file is not the expected one.
    """
    folder = archive.folder()
    translator = fairseq_import.import_fairseq(
        folder / _CHECKPOINT,
        [folder / "dict.en.txt", folder / "dict.fr.txt"],
        bpe=folder / "bpecodes",
    )
    # as in fairseq's recipe for this text: tokenizer.perl -a, and straight apostrophes
    tokens = (Moses(side, aggressive=True, straight=True) for side in ("en", "fr"))
    return MosesPieces(translator, *tokens)


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
    url = {}
    if not published.folder:
        archive = archive_of(published)
        archive.folder()
        url = {"url": archive.url}
    return {**url, "sha256": file_sha256(checkpoint_of(published))}
