"""Text as ``fairseq-train`` reads it: byte pairs learned on both sides, and fairseq's binary files."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from headprune_lib.replication.data import iwslt
from headprune_lib.replication.store.files import locked
from headprune_lib.replication.translation.fairseq_training import check_fairseq

CODES = "codes"
_ENTRY = "from fairseq_cli.preprocess import cli_main; cli_main()"


def binary_data(pieces: int) -> Path:
    """IWSLT14 German-English as ``fairseq-preprocess`` writes it, with ``codes`` beside; made once.

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
            check_fairseq()
            with tempfile.TemporaryDirectory(dir=text) as work:
                made = Path(work) / "made"
                made.mkdir()
                _learn(text, made / CODES, pieces)
                _apply(text, made / CODES, Path(work))
                _preprocess(Path(work), made)
                os.replace(made, target)
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
            made = "".join(f"{split.process_line(line)}\n" for line in lines)
            (target / f"{name}.{side}").write_text(made, "utf-8")


def _preprocess(text: Path, target: Path) -> None:
    source, other = iwslt.LANGUAGES
    given = [word for name in ("train", "valid", "test") for word in (f"--{name}pref", text / name)]
    command = [sys.executable, "-c", _ENTRY, "--source-lang", source, "--target-lang", other]
    done = subprocess.run(
        [*command, *map(str, given), "--destdir", str(target)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ChildProcessError(
            f"fairseq-preprocess ended with {done.returncode}:\n{done.stderr[-2000:]}"
        )
