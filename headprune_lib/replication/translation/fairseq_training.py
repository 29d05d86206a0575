"""The paper's IWSLT model, trained by fairseq itself (section 6, appendix B)."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from headprune_lib.fairseq_import.load import import_fairseq
from headprune_lib.saving import save_pruned

# The paper's: fairseq's for IWSLT German-English, with 8 heads and the norm before each block.
RECIPE = (
    "--arch",
    "transformer_iwslt_de_en",
    "--encoder-attention-heads",
    "8",
    "--decoder-attention-heads",
    "8",
    "--encoder-normalize-before",
    "--decoder-normalize-before",
    "--optimizer",
    "adam",
    "--adam-betas",
    "(0.9, 0.98)",
    "--clip-norm",
    "0.0",
    "--lr",
    "5e-4",
    "--lr-scheduler",
    "inverse_sqrt",
    "--warmup-updates",
    "4000",
    "--dropout",
    "0.3",
    "--weight-decay",
    "0.0001",
    "--criterion",
    "label_smoothed_cross_entropy",
    "--label-smoothing",
    "0.1",
    "--max-tokens",
    "4000",
    "--no-progress-bar",
)
CHECKPOINTS = "checkpoints"
"""The folder of fairseq's own checkpoints, within that of a training."""
# fairseq reads its own checkpoint back to resume; torch refuses argparse's namespace otherwise.
_ENTRY = (
    "import argparse, torch; torch.serialization.add_safe_globals([argparse.Namespace]); "
    "from fairseq_cli.train import cli_main; cli_main()"
)


def check_fairseq() -> None:
    """Raises FileNotFoundError where fairseq is not installed."""
    if find_spec("fairseq") is None:
        raise FileNotFoundError(
            "fairseq is not installed: pip install -c constraints.txt -e '.[fairseq]', then "
            "pip install -c constraints.txt --no-deps --no-build-isolation fairseq-fixed"
        )


def train_iwslt(data: Path, out: Path, extra: list[str]) -> list[Path]:
    """Run ``fairseq-train`` with the paper's recipe and convert the checkpoint of every epoch.

    A second call goes on from fairseq's last checkpoint.

    Args:
        data: a folder that ``fairseq-preprocess`` wrote.
        out: ``out/checkpoints`` is fairseq's; ``out/epoch-N`` holds what ``load_pruned`` reads.
        extra: more arguments of ``fairseq-train``, later ones win (``--max-epoch 40``, ``--cpu``).

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
            f"{data} holds no data that fairseq-preprocess wrote: expected two "
            "dict.*.txt and train.*.bin"
        )
    check_fairseq()
    checkpoints = out / CHECKPOINTS
    command = [
        sys.executable,
        "-c",
        _ENTRY,
        str(data),
        *RECIPE,
        "--save-dir",
        str(checkpoints),
        *extra,
    ]
    done = subprocess.run(command, check=False)
    if done.returncode:
        raise ChildProcessError(
            f"fairseq-train ended with {done.returncode}; its messages are above"
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
            save_pruned(import_fairseq(checkpoint, pair).model, folder)
        folders.append(folder)
    return folders
