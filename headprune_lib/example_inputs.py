"""Random inputs that a model may run on, made from what its ``forward`` asks for by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

_N, _LENGTH = 2, 7
_MOST = 24  # batches that are worth trying

Inputs = dict[str, Any]


def example_inputs(model: nn.Module, seed: int = 0) -> Iterator[Inputs]:
    """Batches of two examples, the likeliest first; whether the model runs on one is to be tried.

    Token ids avoid those that the configuration gives a meaning. The model's own
    ``dummy_inputs`` come last.
    """
    asked = inspect.signature(model.forward).parameters
    named = [one for one in asked.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    needed = {p.name for p in named if p.default is inspect.Parameter.empty}
    draw = _Draw(model, seed, set(asked))
    main = getattr(model, "main_input_name", "input_ids")
    mains = main if isinstance(main, list | tuple) else [main]
    starts = [one for one in dict.fromkeys([*mains, *_MAKERS]) if one in asked and one in _MAKERS]
    quiet = {k: v for k, v in (("use_cache", False), ("return_dict", True)) if k in asked}
    count = 0
    for inputs in _with_starts(draw, starts, needed):
        for more in _with_sides(draw, asked):
            yield {**inputs, **more, **quiet}
            count += 1
            if count == _MOST:
                break
        if count == _MOST:
            break
    if isinstance(own := getattr(model, "dummy_inputs", None), dict) and own.keys() <= asked.keys():
        yield {**own, **quiet}


def _with_starts(draw: _Draw, starts: list[str], needed: set[str]) -> Iterator[Inputs]:
    """One main input, or text and another, with what else is asked for without a default."""
    for number, start in enumerate(starts):
        if number and start not in needed and start != "input_ids" and needed & {*starts[:number]}:
            continue
        for made in _MAKERS[start](draw):
            rest: Inputs = {}
            for other in sorted(needed - made.keys()):
                maker = _MAKERS.get(other) or _SIDES.get(other)
                first = next(iter(maker(draw)), None) if maker else None
                rest |= first or {}
            yield {**rest, **made}
            if start.startswith(("pixel", "input_values", "input_features")) and (
                "input_ids" in starts and "input_ids" not in rest
            ):
                yield {**next(iter(_tokens(draw)), {}), **rest, **made}


def _with_sides(draw: _Draw, asked: Any) -> list[Inputs]:
    """What goes beside: a decoder's tokens, and states that a decoder attends to."""
    sides: list[Inputs] = []
    if "decoder_input_ids" in asked:
        sides += list(_decoder_tokens(draw))
    elif "encoder_hidden_states" in asked:
        sides += list(_states(draw, "encoder_hidden_states"))
    return [*sides, {}]


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


def _decoder_tokens(draw: _Draw) -> Iterator[Inputs]:
    ids = _ids(draw)
    if ids is not None:
        yield {"decoder_input_ids": ids[:, : _LENGTH - 2]}


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
    meant = {one for config in draw.configs for one in _meant(config)}
    free = [one for one in range(min(size, 5000)) if one not in meant] or list(range(size))
    return torch.tensor(free)[torch.randint(0, len(free), (_N, _LENGTH), generator=draw.generator)]


def _meant(config: Any) -> set[int]:
    """Ids that a configuration gives a meaning."""
    meant: set[int] = set()
    for name, value in vars(config).items():
        if name.endswith(("token_id", "token_index", "token_ids")):
            each = value if isinstance(value, list | tuple) else [value]
            meant |= {one for one in each if isinstance(one, int)}
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


def _boxes(draw: _Draw) -> Iterator[Inputs]:
    corner = torch.randint(0, 20, (_N, _LENGTH, 2), generator=draw.generator)
    boxes = torch.cat([corner, corner + 5], -1)
    yield {"bbox": boxes}
    yield {"bbox": boxes / 64}


def _of_states(name: str) -> Callable[[_Draw], Iterator[Inputs]]:
    return lambda draw: _states(draw, name)


def _of_images(name: str) -> Callable[[_Draw], Iterator[Inputs]]:
    return lambda draw: _images(draw, name)


def _ones(name: str) -> Callable[[_Draw], Iterator[Inputs]]:
    return lambda _draw: iter([{name: torch.ones(_N, _LENGTH, dtype=torch.long)}])


# Inputs that a pass can start from, the likeliest first.
_MAKERS: dict[str, Callable[[_Draw], Iterator[Inputs]]] = {
    "input_ids": _tokens,
    **{
        name: _of_images(name)
        for name in ("pixel_values", "pixel_values_videos", "pixel_values_images", "images")
    },
    "input_features": _spectrum,
    "input_values": _samples,
    **{
        name: _of_states(name)
        for name in ("hidden_states", "query_embeds", "inputs_embeds", "x", "inputs")
    },
}
# Inputs that are asked for beside those.
_SIDES: dict[str, Callable[[_Draw], Iterator[Inputs]]] = {
    "decoder_input_ids": _decoder_tokens,
    **{
        name: _of_states(name)
        for name in ("encoder_hidden_states", "context", "image_embeds", "encoder_outputs")
    },
    "attention_mask": _ones("attention_mask"),
    "bbox": _boxes,
}
