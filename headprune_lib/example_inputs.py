"""Random inputs that a model may run on, made from what its ``forward`` asks for by name."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

_N, _LENGTH = 2, 7
_MOST = 24  # batches that are worth trying
_IMAGES = ("pixel_values", "pixel_values_videos", "pixel_values_images", "images")
_STATES = ("hidden_states", "query_embeds", "inputs_embeds", "x", "inputs")
_OTHER_STATES = ("encoder_hidden_states", "context", "image_embeds", "encoder_outputs")
# Inputs that a pass can start from, the likeliest first.
_STARTS = ("input_ids", *_IMAGES, "input_features", "input_values", *_STATES)

Inputs = dict[str, Any]


def example_inputs(model: nn.Module, seed: int = 0) -> Iterator[Inputs]:
    """Batches of two examples, the likeliest first; whether the model runs on one is to be tried.

    Token ids avoid those that the configuration gives a meaning. The model's own
    ``dummy_inputs`` come last.
    """
    asked = inspect.signature(model.forward).parameters
    draw = _Draw(model, seed, set(asked))
    quiet = {k: v for k, v in (("use_cache", False), ("return_dict", True)) if k in asked}
    batches = ({**main, **side} for main in _mains(draw, asked) for side in _sides_of(draw))
    yield from ({**batch, **quiet} for batch in itertools.islice(batches, _MOST))
    dummy = getattr(model, "dummy_inputs", None)
    if isinstance(dummy, dict) and dummy.keys() <= asked.keys():
        yield {**dummy, **quiet}


def _mains(draw: _Draw, asked: Mapping[str, inspect.Parameter]) -> Iterator[Inputs]:
    """One main input, or text and another, with what else is asked for without a default."""
    main = getattr(draw.model, "main_input_name", "input_ids")
    likely = dict.fromkeys([*(main if isinstance(main, list | tuple) else [main]), *_STARTS])
    starts = [name for name in likely if name in asked and name in _STARTS]
    needed = {
        name
        for name, parameter in asked.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }
    for number, start in enumerate(starts):
        if number and start not in needed and start != "input_ids" and needed & {*starts[:number]}:
            continue
        for drawn in _drawn(draw, start):
            others: Inputs = {}
            for name in sorted(needed - drawn.keys()):
                others |= next(_drawn(draw, name), {})
            yield {**others, **drawn}
            sounds_or_images = start.startswith(("pixel", "input_values", "input_features"))
            if sounds_or_images and "input_ids" in starts and "input_ids" not in others:
                yield {**next(_tokens(draw), {}), **others, **drawn}


def _sides_of(draw: _Draw) -> list[Inputs]:
    """What goes beside: a decoder's tokens, and states that a decoder attends to."""
    sides = [name for name in ("decoder_input_ids", "encoder_hidden_states") if name in draw.asked]
    return [*(_drawn(draw, sides[0]) if sides else ()), {}]


def _drawn(draw: _Draw, name: str) -> Iterator[Inputs]:
    """Ways to draw the input of this name, the likeliest first; none where it is not known."""
    if name == "input_ids":
        yield from _tokens(draw)
    elif name == "decoder_input_ids":
        if (ids := _ids(draw)) is not None:
            yield {name: ids[:, : _LENGTH - 2]}
    elif name in _IMAGES:
        yield from _images(draw, name)
    elif name == "input_features":
        yield from _spectrum(draw)
    elif name == "input_values":
        yield from _samples(draw)
    elif name in (*_STATES, *_OTHER_STATES):
        yield from _states(draw, name)
    elif name == "attention_mask":
        yield {name: torch.ones(_N, _LENGTH, dtype=torch.long)}
    elif name == "bbox":
        corner = torch.randint(0, 20, (_N, _LENGTH, 2), generator=draw.generator)
        boxes = torch.cat([corner, corner + 5], -1)
        yield {name: boxes}
        yield {name: boxes / 64}


class _Draw:
    """Random tensors of the sizes that a model's configuration says."""

    def __init__(self, model: nn.Module, seed: int, asked: set[str]) -> None:
        self.model, self.asked = model, asked
        self.generator = torch.Generator().manual_seed(seed)
        self.dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), None)
        config = getattr(model, "config", None)
        inner = [v for v in vars(config).values() if hasattr(v, "to_dict")] if config else []
        self.configs = [config, *inner] if config is not None else []

    def numbers(self, *shape: int) -> Tensor:
        drawn = torch.randn(shape, generator=self.generator)
        return drawn.to(self.dtype) if self.dtype is not None else drawn

    def size(self, *names: str, default: int = 0) -> int:
        """The first of these numbers that the configuration, or one inside it, has."""
        return next(iter(self.sizes(*names)), default)

    def sizes(self, *names: str) -> list[int]:
        found: list[int] = []
        for config in self.configs:
            for name in names:
                try:
                    value = getattr(config, name, None)
                except Exception:  # what differs from layer to layer has no single value
                    continue
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    found.append(value)
        return list(dict.fromkeys(found))


def _tokens(draw: _Draw) -> Iterator[Inputs]:
    ids = _ids(draw)
    if ids is not None:
        mask = {"attention_mask": torch.ones_like(ids)} if "attention_mask" in draw.asked else {}
        yield {"input_ids": ids, **mask}


def _ids(draw: _Draw) -> Tensor | None:
    model = draw.model
    try:
        embeddings = model.get_input_embeddings()  # type: ignore[operator]
    except (AttributeError, NotImplementedError, TypeError):
        embeddings = None
    tables = [m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)]
    size = getattr(embeddings, "num_embeddings", None) or draw.size("vocab_size")
    size = size or max(tables, default=0)
    if not size:
        return None
    meant = {token for config in draw.configs for token in _meant(config)}
    free = [token for token in range(min(size, 5000)) if token not in meant] or list(range(size))
    return torch.tensor(free)[torch.randint(0, len(free), (_N, _LENGTH), generator=draw.generator)]


def _meant(config: Any) -> set[int]:
    """Ids that a configuration gives a meaning."""
    meant: set[int] = set()
    for name, value in vars(config).items():
        if name.endswith(("token_id", "token_index", "token_ids")):
            each = value if isinstance(value, list | tuple) else [value]
            meant |= {token for token in each if isinstance(token, int)}
    return meant


def _images(draw: _Draw, name: str) -> Iterator[Inputs]:
    if "grid_thw" in draw.asked or "image_grid_thw" in draw.asked:
        yield from _patches(draw, name)
    channels = draw.size("num_channels", "in_channels", "in_chans", "num_image_channels", default=3)
    frames = draw.size("num_frames", "frames_per_clip", "tubelet_size")
    for side in _sides(draw):
        if frames:
            yield {name: draw.numbers(_N, frames, channels, *side)}
        yield {name: draw.numbers(_N, channels, *side)}
        yield {name: draw.numbers(_N, 1, channels, *side)}


def _sides(draw: _Draw) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for config in draw.configs:
        for name in ("image_size", "img_size", "input_size", "crop_size", "spec_size"):
            value = getattr(config, name, None)
            if isinstance(value, int) and value > 1:
                found.append((value, value))
            elif isinstance(value, list | tuple) and len(value) == 2:
                found.append((int(value[0]), int(value[1])))
    return list(dict.fromkeys([*found, (64, 64)]))


def _patches(draw: _Draw, name: str) -> Iterator[Inputs]:
    """Images as rows of patches, of all images together, and how many each has: (t, h, w)."""
    grid_name = "grid_thw" if "grid_thw" in draw.asked else "image_grid_thw"
    channels = draw.size("in_channels", "num_channels", "in_chans", default=3)
    size, times = draw.size("patch_size", default=14), draw.size("temporal_patch_size", default=1)
    side = 2 * draw.size("spatial_merge_size", "merge_size", default=2)
    grid = torch.tensor([[1, side, side]] * _N)
    for depth in dict.fromkeys((times, 1)):
        rows = _N * side * side
        yield {name: draw.numbers(rows, channels * depth * size * size), grid_name: grid}
        yield {name: draw.numbers(rows, channels, size, size), grid_name: grid}


def _spectrum(draw: _Draw) -> Iterator[Inputs]:
    bins = draw.size(
        "num_mel_bins", "input_feat_per_channel", "feature_size", "input_dim",
        "feature_projection_input_dim", "mel_bins", "num_features", default=80,
    )  # fmt: skip
    lengths = [2 * n for n in draw.sizes("max_source_positions")]
    for frames in (*lengths[:1], 64, 100):
        for shape in ((_N, bins, frames), (_N, frames, bins), (_N, 1, frames, bins)):
            numbers = draw.numbers(*shape)
            yield {
                "input_features": numbers,
                **{
                    name: torch.ones(_N, frames, dtype=torch.long)
                    for name in ("attention_mask", "input_features_mask", "feature_attention_mask")
                    if name in draw.asked
                },
            }
            yield {"input_features": numbers}


def _samples(draw: _Draw) -> Iterator[Inputs]:
    for samples in (2000, 400, 16000):
        yield {"input_values": draw.numbers(_N, samples)}
        yield {"input_values": draw.numbers(_N, 1, samples)}
    bins = draw.size("num_mel_bins", default=80)
    yield {"input_values": draw.numbers(_N, draw.size("max_length", default=32), bins)}


def _states(draw: _Draw, name: str) -> Iterator[Inputs]:
    if "grid_thw" in draw.asked or "image_grid_thw" in draw.asked:
        yield from _patches(draw, name)
    own = ("hidden_size", "d_model", "embed_dim", "n_embd", "dim", "width", "input_dim")
    other = ("encoder_hidden_size", "cross_attention_hidden_size", "cross_hidden_size")
    first = (*other, *own) if name.startswith(("encoder", "context")) else own
    length = _LENGTH - 2 if name.startswith(("encoder", "query")) else _LENGTH
    linear = (m.in_features for m in draw.model.modules() if isinstance(m, nn.Linear))
    for width in draw.sizes(*first)[:3] or [next(linear, 1)]:
        yield {name: draw.numbers(_N, length, width)}
