"""Saving of pruned models as folders, and loading of them, without pickles."""

from __future__ import annotations

import copy
import importlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils.parametrize import type_before_parametrizations
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightRenaming, rename_source_key
from transformers.modeling_utils import remove_tied_weights_from_state_dict
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from transformers.utils.hub import cached_file, get_checkpoint_shard_files

from headprune_lib.discovery import find_heads
from headprune_lib.messages import check_folder, one_line
from headprune_lib.pruning import check_not_masked, renumbered
from headprune_lib.slicing import (
    RECORD,
    Record,
    keep_recorded,
    module_path,
    read_record,
    record_of,
    records_of,
    write_record,
)
from headprune_lib.specs import PRUNED, UnknownArchitecture
from headprune_lib.utils import staged_path, uncompiled

_OLD_RECORD = "headprune.json"  # next to the weights, before they included the record
_OWN_CLASSES = {"PreNormTranslator": "headprune_lib.fairseq_import.convert"}
_README = """\
# A model with attention heads removed

`from_pretrained` of transformers cannot load it: its layers have fewer heads than `config.json` says.
headprune_lib can:

```python
from headprune_lib import load_pruned

model = load_pruned(folder)  # this folder, or its name on the Hub
```
"""
_OF_THE_HUB = (
    "cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token",
)  # fmt: skip


def save_pruned(model: PreTrainedModel, folder: str | os.PathLike) -> Path:
    """Write ``config.json`` and ``model.safetensors``, with a record of the removed heads.

    The folder is written completely or not at all: an error (a full disk) leaves nothing behind.

    Raises:
        FileExistsError: the folder is not empty; nothing is overwritten.
        ValueError: a model that :func:`load_pruned` could not rebuild from its class and its
            configuration: not a transformers model, in an adapter, or changed beyond its heads.
    """
    folder = Path(folder)
    model = uncompiled(model)
    with torch.device("meta"):
        again = _made_again(model)
        keep_recorded(again, records_of(model))
    _check_shapes(model, again)
    with new_folder(folder) as staged:
        config = copy.deepcopy(model.config)
        config.architectures, config.dtype = [type(model).__name__], model.dtype
        config.save_pretrained(staged)
        if model.can_generate():
            model.generation_config.save_pretrained(staged)
        # includes what save_pretrained skips because the class rebuilds it (tables of positions)
        weights = remove_tied_weights_from_state_dict(model.state_dict(), model)
        plain = {key: values.contiguous() for key, values in weights.items()}
        save_file(plain, staged / SAFE_WEIGHTS_NAME, metadata={"format": "pt"})
        if records_of(model):
            (staged / "README.md").write_text(_README, encoding="utf-8")
    return folder


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to write into, renamed to ``folder`` at the end, or deleted after an error.

    Raises:
        FileExistsError: ``folder`` is a file, or a folder that is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not an empty folder. Choose a new one for the model")
    with staged_path(folder) as staged:
        staged.mkdir()
        yield staged
        if folder.exists():
            folder.rmdir()


def load_pruned(
    name: str | os.PathLike,
    *,
    model_class: type[PreTrainedModel] | None = None,
    device: str | torch.device | None = None,
    **options: Any,
) -> PreTrainedModel:
    """Load a model from a folder or the Hub, with the heads that it was saved with.

    Loads what :func:`save_pruned`, ``save_pretrained`` or ``Trainer`` wrote for a pruned model, a
    part of one, or a model that contains one. The model is in evaluation mode. Its weights are in
    memory only once, even in another ``dtype``: they are read into a model whose heads are already
    removed.

    Args:
        name: a folder, or the name of a model on the Hub.
        model_class: the model's class, where it is not one of transformers' own; its configuration
            alone must make the model.
        device: device for the model; or give ``device_map``.
        options: arguments of ``from_pretrained``: ``dtype`` (as saved, if not given),
            ``attn_implementation``, ``device_map``, ``revision``, ``variant``, ``subfolder``, …; or
            values of the configuration, such as ``output_attentions``.

    Raises:
        FileNotFoundError: no complete model in the folder, or no such model on the Hub.
        ValueError: the weights, the configuration or the record of the heads are damaged or do not
            belong together, or their class is neither given nor in this version of transformers.
    """
    name = os.fspath(name)
    if "config" in options:
        raise ValueError(f"the configuration is that of {name}. Give single values of it by name")
    hub = {key: options[key] for key in _OF_THE_HUB if key in options}
    config = _configuration(name, model_class, hub)
    for key in options.keys() - {"dtype", "torch_dtype"}:
        if hasattr(config, key):
            setattr(config, key, options.pop(key))
    records = _records(name, options.get("variant"), hub)
    old = {} if records else _old_record(name, hub)
    names = [old["model_class"]] if old else config.architectures
    loaded_class: Any = model_class or _class_named(name, names)
    try:
        if old:
            config.dtype = None  # the recorded one may differ from the weights'
            records = _completed(loaded_class, config, old["kept"])
        model, report = _sliced(loaded_class, records, options.get("key_mapping")).from_pretrained(
            name,
            config=config,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # rejected below, with names
            **options,
        )
    except OSError as error:  # transformers raises nothing narrower for a missing file
        raise FileNotFoundError(f"{name}: {one_line(error)}") from error
    except Exception as error:  # a class may raise anything for an impossible configuration
        if isinstance(error, MemoryError):
            raise
        raise ValueError(
            f"{name}: the weights are damaged or do not fit config.json ({one_line(error)})"
        ) from error
    _check_complete(name, loaded_class, report, bool(records))
    model.__class__ = loaded_class
    for module in model.modules():
        if left := vars(module).get(PRUNED):
            write_record(model, left)
    if old:  # its configuration numbers heads as in the unpruned model
        blocks = find_heads(model)
        _renumber(model, blocks, [range(b.n_heads) for b in blocks], [b.kept_heads for b in blocks])
    return model if device is None else model.to(device)


def _renumber(model: Any, blocks: Any, before: Any, after: Any) -> None:
    for owner, attribute, value in renumbered(model, blocks, before, after):
        setattr(owner, attribute, value)


def _configuration(name: str, model_class: Any, hub: dict[str, Any]) -> PreTrainedConfig:
    folder = Path(name)
    if model_class is not None and not _is_model(model_class):
        raise ValueError(
            f"model_class is {model_class!r}. Give a class that inherits from PreTrainedModel"
        )
    check_folder(name, hub.get("subfolder", ""))
    config_class = model_class.config_class if model_class else AutoConfig
    try:
        return config_class.from_pretrained(name, **hub)
    except Exception as error:  # a class may raise anything for an impossible configuration
        if folder.is_dir():
            raise ValueError(f"{folder / 'config.json'}: {one_line(error)}") from error
        raise FileNotFoundError(
            f"{name} is not a local folder, and the Hub does not have it ({one_line(error)})"
        ) from error


def _class_named(name: str, names: Any) -> type[PreTrainedModel]:
    """The class that a folder names, from transformers or from this library."""
    first = names[0] if isinstance(names, list) and names else None
    model_class = None
    if isinstance(first, str):
        home = _OWN_CLASSES.get(first)
        model_class = getattr(importlib.import_module(home) if home else transformers, first, None)
    if not _is_model(model_class):
        raise ValueError(
            f"{name} names {names or 'no class'} instead of a class of transformers "
            f"{transformers.__version__}. Give your own class: load_pruned(folder, model_class=…)"
        )
    return model_class


def _is_model(given: Any) -> TypeGuard[type[PreTrainedModel]]:
    return isinstance(given, type) and issubclass(given, PreTrainedModel)


def _records(name: str, variant: str | None, hub: dict[str, Any]) -> dict[str, Record]:
    """Records of projections, by the projection's path in the weights."""
    files: list[str] = []  # none: transformers looks for others, or reports them missing
    for plain in (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME):
        stem, _, end = plain.rpartition(".")
        wanted = f"{stem}.{variant}.{end}" if variant else plain
        file = cached_file(name, wanted, _raise_exceptions_for_missing_entries=False, **hub)
        if file is not None:
            sharded = plain == SAFE_WEIGHTS_INDEX_NAME
            files = get_checkpoint_shard_files(name, file, **hub)[0] if sharded else [file]
            break
    records = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as weights:
                for key in weights.keys():  # noqa: SIM118 (no dictionary)
                    path, _, attribute = key.rpartition(".")
                    if attribute == RECORD:
                        records[path] = read_record(weights.get_tensor(key))
        except (SafetensorError, ValueError) as error:
            raise ValueError(f"{file} is damaged ({error}). Save the model again") from error
    return records


def _old_record(name: str, hub: dict[str, Any]) -> dict[str, Any]:
    """The record next to the weights: ``model_class``, and ``kept``, module -> the heads left."""
    file = cached_file(name, _OLD_RECORD, _raise_exceptions_for_missing_entries=False, **hub)
    if not file:
        return {}
    try:
        record: Any = json.loads(Path(file).read_text(encoding="utf-8"))
        return {name: record[name] for name in ("model_class", "kept")}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{file} is damaged ({type(error).__name__}: {error}). Save the pruned model again"
        ) from error


def _completed(
    model_class: Any, config: PreTrainedConfig, kept: dict[str, list[int]]
) -> dict[str, Record]:
    """Complete the records of an old folder with what an unpruned model tells."""
    with torch.random.fork_rng(devices=[]):
        model = model_class(copy.deepcopy(config))  # unknown attention is verified by running it
    blocks = {block.path: block for block in find_heads(model)}
    if blocks.keys() != kept.keys():
        raise ValueError(f"heads of {sorted(kept)} are recorded, but the model has others")
    left = [replace(blocks[path], kept_heads=tuple(heads)) for path, heads in kept.items()]
    return {f"{block.path}.{block.spec.output}": record_of(block) for block in left}


def _sliced(
    model_class: Any, records: Mapping[str, Record], key_mapping: dict[str, str] | None
) -> Any:
    """A subclass whose models have their heads removed when built, before weights are loaded."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        model_class.__init__(self, *args, **kwargs)
        if records:
            keep_recorded(self, _placed(self, records, key_mapping))
        for module in self.modules():  # the file's records are read already
            module._buffers.pop(RECORD, None)

    def _load_pretrained_model(
        model: Any, state_dict: Any, checkpoint_files: list[str] | None, load: Any, *args: Any
    ) -> Any:
        if state_dict is None and checkpoint_files:
            state_dict = _stored(checkpoint_files, load.dtype)
        return model_class._load_pretrained_model(model, state_dict, checkpoint_files, load, *args)

    attributes = {
        "__init__": __init__,
        "__module__": model_class.__module__,
        "__qualname__": model_class.__qualname__,
        "_load_pretrained_model": staticmethod(_load_pretrained_model),
        "_keys_to_ignore_on_load_unexpected": [
            *(model_class._keys_to_ignore_on_load_unexpected or ()),
            RECORD,
        ],
    }
    return type(model_class)(model_class.__name__, (model_class,), attributes)


class _Stored:
    """A tensor of a file, mapped on demand and only while it is in use.

    transformers maps the whole file at once, which then stays in memory in addition to weights that
    are loaded in another ``dtype``.
    """

    def __init__(self, file: str, key: str) -> None:
        self.file, self.key = file, key

    def __getitem__(self, index: Any) -> torch.Tensor:
        with safe_open(self.file, framework="pt") as weights:
            return weights.get_tensor(self.key)[index]


def _stored(files: list[str], dtype: torch.dtype | None) -> dict[str, Any] | None:
    """The tensors of all files; None if none is converted, or if a file is not in safetensors."""
    tensors: dict[str, Any] = {}
    converted = False
    for file in files:
        if not file.endswith(".safetensors"):
            return None
        with safe_open(file, framework="pt") as weights:
            for key in weights.keys():  # noqa: SIM118 (no dictionary)
                tensors[key] = _Stored(file, key)
                mapped = weights.get_tensor(key)  # reads no values
                converted |= mapped.is_floating_point() and dtype not in (None, mapped.dtype)
    return tensors if converted else None


def _placed(
    model: Any, records: Mapping[str, Record], key_mapping: dict[str, str] | None
) -> dict[str, Record]:
    """Records by path in the model, as weights may be stored under the names of another layout."""
    modules, prefix = dict(model.named_modules()), f"{model.base_model_prefix}."
    conversions = get_model_conversion_mapping(model, key_mapping)
    renamings = [conversion for conversion in conversions if isinstance(conversion, WeightRenaming)]
    placed: dict[str, Record] = {}
    for stored, record in records.items():
        renamed, _ = rename_source_key(f"{stored}.{RECORD}", renamings, [])
        names = (renamed.removesuffix(f".{RECORD}"), stored)
        paths = [way for path in names for way in (path, prefix + path, path.removeprefix(prefix))]
        holder = next((path for path in paths if path in modules), stored)
        placed[module_path(holder, record)] = record
    return placed


def _check_complete(name: str, model_class: type, report: dict[str, Any], pruned: bool) -> None:
    """Raises ValueError where transformers would initialise weights at random, or skip some."""
    owner = model_class.__name__
    if unfit := sorted(report["mismatched_keys"]):
        tensor, stored, wanted = unfit[0]
        raise ValueError(
            f"{name}: {len(unfit)} tensors of the weights do not fit config.json, such as {tensor}: "
            f"its shape is {tuple(stored)}, and {owner} needs {tuple(wanted)}"
        )
    if lacking := sorted(report["missing_keys"]):
        raise ValueError(
            f"{name}: the weights lack {len(lacking)} tensors that {owner} has, such as "
            f"{lacking[0]}. Save the whole model with save_pretrained"
        )
    if pruned and (more := sorted(report["unexpected_keys"])):
        raise ValueError(
            f"{name}: the weights do not fit {owner}, which lacks {len(more)} of their tensors, such "
            f"as {more[0]}. Give the class of the model that was saved"
        )


def _check_shapes(model: nn.Module, again: nn.Module) -> None:
    """Raises ValueError unless the rebuilt and pruned model has weights of the same shapes."""
    for name, values in model.state_dict().items():
        if not isinstance(values, torch.Tensor):
            raise ValueError(
                f"{type(model).__name__} stores {name} in a form of its own (quantised?), which is "
                "not written. Save the pruned model first, then quantise it"
            )
    expected, actual = (
        {k: tuple(v.shape) for k, v in each.state_dict().items() if not k.endswith(RECORD)}
        for each in (model, again)
    )
    if expected != actual:
        either = expected.keys() | actual.keys()
        names = sorted(name for name in either if expected.get(name) != actual.get(name))
        raise _changed(model, f"{names[:3]}{' …' if len(names) > 3 else ''} differ")


def _made_again(model: nn.Module) -> Any:
    """An unpruned model with random weights; ValueError if class and configuration make none."""
    model_class: Any = type(model)
    name = f"{model_class.__module__}.{model_class.__qualname__}"
    if not isinstance(model, PreTrainedModel):
        adapter = ". Merge the adapter first: model = model.merge_and_unload()"
        raise ValueError(
            f"{name} is not a transformers model, so it cannot be "
            f"rebuilt{adapter if hasattr(model, 'peft_config') else ''}. Give the transformers "
            "model inside it, or keep its state_dict() with headprune_lib.find_heads(model), and "
            "rebuild it with your own code"
        )
    try:
        with torch.random.fork_rng(devices=[]):
            return model_class(copy.deepcopy(model.config))
    except TypeError as error:
        raise ValueError(
            f"{name} is not built from its configuration alone ({error}). Put the rest into it"
        ) from error


def _changed(model: nn.Module, what: str) -> ValueError:
    return ValueError(
        f"{type(model).__name__} was changed apart from its heads, so its configuration does not "
        f"describe it: {what}. Merge adapters (merge_and_unload), and put other changes into "
        "model.config"
    )


def unprune_heads(
    model: PreTrainedModel, original: PreTrainedModel | None = None
) -> PreTrainedModel:
    """Undo :func:`headprune_lib.prune_heads` in a new model of the original size.

    With zeros for the removed heads, it computes what the pruned model does in the time of the
    unpruned one, and is a plain transformers model: any program opens what ``save_pretrained``
    writes. With an original's weights, the heads are back, next to any that were trained since.
    The given model is left as it is, and its hooks are not carried over.

    Args:
        model: a model that its class builds from the configuration alone, which must be that of the
            unpruned model, as ``prune_heads`` and ``load_pruned`` leave it.
        original: the unpruned model that supplies the removed heads' weights; zeros if not given.

    Raises:
        ValueError: a model that its class and configuration do not rebuild, or with modules
            replaced; or an original of other sizes.
        RuntimeError: the model is masked right now.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> from headprune_lib import head_mask, prune_heads
        >>> model = BertModel(BertConfig(hidden_size=8, num_attention_heads=4, vocab_size=10,
        ...                              num_hidden_layers=1, intermediate_size=8))
        >>> pruned = prune_heads(model, head_mask(model, [("self", 0, 2)]))
        >>> unprune_heads(pruned).encoder.layer[0].attention.self.query.weight.shape
        torch.Size([8, 8])
    """
    model = uncompiled(model)
    whole = _made_again(model)
    blocks = find_heads(model)
    check_not_masked(model, blocks)
    # torch gives each parametrized module (weight_norm in wav2vec 2.0) its own class
    classes = {path: type_before_parametrizations(module) for path, module in whole.named_modules()}
    for path, module in model.named_modules():
        if classes.get(path) is not type_before_parametrizations(module):
            raise _changed(model, f"{path or 'the model'} is {type(module).__name__}")
    with suppress(UnknownArchitecture):
        find_heads(whole)  # verified now, with random weights: zeros tell nothing
    whole = whole.to(model.dtype)
    weights = {k: v for k, v in model.state_dict().items() if not k.endswith(RECORD)}
    originals = (whole if original is None else original).state_dict()
    for name, values in whole.state_dict().items():
        if name not in originals or originals[name].shape != values.shape:
            shape = tuple(originals[name].shape) if name in originals else "missing"
            raise ValueError(
                f"the original's {name} is {shape}, and the unpruned model has "
                f"{tuple(values.shape)}. Give the model that the heads were removed from"
            )
    for name, places in _places(model, copy.deepcopy(whole)).items():
        full = originals[name].to(weights[name]).clone()
        if original is None:
            full.zero_()
        full.view(-1)[places.to(full.device)] = weights[name]
        weights[name] = full
    _fill(whole, model, weights)
    if getattr(model, "generation_config", None) is not None:
        whole.generation_config = copy.deepcopy(model.generation_config)
    _renumber(whole, blocks, [b.kept_heads for b in blocks], [range(b.n_heads) for b in blocks])
    return whole.train(model.training)


def _fill(whole: PreTrainedModel, model: PreTrainedModel, weights: dict[str, Tensor]) -> None:
    """Give the unpruned model its weights, and the rest of the pruned model's state."""
    whole.load_state_dict({name: values.clone() for name, values in weights.items()}, assign=True)
    whole.tie_weights()
    for name, values in whole.state_dict().items():
        if not values.is_meta and not torch.equal(values, weights[name]):
            raise _changed(model, f"{name} is not tied as in its class")
    originals = dict(model.named_parameters(remove_duplicate=False))
    for name, parameter in whole.named_parameters(remove_duplicate=False):
        parameter.requires_grad_(originals[name].requires_grad)
    whole.to(model.device)
    for name, values in model.named_buffers():  # those that are not stored, such as positions
        path, _, buffer = name.rpartition(".")
        module = whole.get_submodule(path)
        fresh = module._buffers.get(buffer)
        if name not in weights and fresh is not None and fresh.shape == values.shape:
            setattr(module, buffer, values.clone())


def _places(model: nn.Module, whole: nn.Module) -> dict[str, Tensor]:
    """Original places of pruned weights: name -> indices into the flattened unpruned weight.

    The unpruned model's weights are replaced by their own indices and pruned in the same way, so
    that nothing here needs to know how an architecture lays out its heads.
    """
    sizes = {name: values.shape for name, values in model.state_dict().items()}
    changed = [n for n, v in whole.state_dict().items() if v.shape != sizes.get(n, v.shape)]
    for name in changed:
        path, _, attribute = name.rpartition(".")
        module = whole.get_submodule(path)
        tensor: Tensor = getattr(module, attribute)
        places = torch.arange(tensor.numel(), dtype=torch.float64).view(tensor.shape)  # exact
        if attribute in module._parameters:
            places = nn.Parameter(places, requires_grad=False)
        setattr(module, attribute, places)
    keep_recorded(whole, records_of(model))
    _check_shapes(model, whole)
    return {name: values.long() for name, values in whole.state_dict().items() if name in changed}
