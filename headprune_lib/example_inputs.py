"""Random inputs that a model may run on, made from the argument names of its ``forward``."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

_N, _LENGTH = 2, 7
_MOST = 24  # batches to try
_IMAGES = ("pixel_values", "pixel_values_videos", "pixel_values_images", "images")
_STATES = ("hidden_states", "query_embeds", "inputs_embeds", "x", "inputs")
_OTHER_STATES = ("encoder_hidden_states", "context", "image_embeds", "encoder_outputs")
# Inputs that a pass can start from, the likeliest first.
_STARTS = ("input_ids", *_IMAGES, "input_features", "input_values", *_STATES)

Inputs = dict[str, Any]


def example_inputs(model: nn.Module) -> Iterator[Inputs]:
    """Yield batches of two examples, the likeliest first, on which the model may or may not run.

    Token ids avoid those with a special meaning in the configuration. The model's own
    ``dummy_inputs`` come last.
    """
    draw = _Draw(model)
    asked = draw.asked
    quiet = {k: v for k, v in (("use_cache", False), ("return_dict", True)) if k in asked}
    sides = [name for name in ("decoder_input_ids", "encoder_hidden_states") if name in asked]
    batches = (
        {**main, **side}
        for main in _mains(draw)
        for side in [*(draw.ways(sides[0]) if sides else ()), {}]
    )
    yield from ({**batch, **quiet} for batch in itertools.islice(batches, _MOST))
    dummy = getattr(model, "dummy_inputs", None)
    if isinstance(dummy, dict) and dummy.keys() <= asked.keys():
        yield {**dummy, **quiet}


def _mains(draw: _Draw) -> Iterator[Inputs]:
    """Yield one main input, or text and another, with all arguments that have no default."""
    main = getattr(draw.model, "main_input_name", "input_ids")
    likely = dict.fromkeys([*(main if isinstance(main, list | tuple) else [main]), *_STARTS])
    starts = [name for name in likely if name in draw.asked and name in _STARTS]
    needed = {
        name
        for name, parameter in draw.asked.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }
    for number, start in enumerate(starts):
        if number and start not in needed and start != "input_ids" and needed & {*starts[:number]}:
            continue
        for drawn in draw.ways(start):
            others: Inputs = {}
            for name in sorted(needed - drawn.keys()):
                others |= next(draw.ways(name), {})
            yield {**others, **drawn}
            sounds_or_images = start.startswith(("pixel", "input_values", "input_features"))
            if sounds_or_images and "input_ids" in starts and "input_ids" not in others:
                yield {**next(draw.ways("input_ids"), {}), **others, **drawn}


class _Draw:
    """Random tensors of the sizes in a model's configuration."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.asked = model, inspect.signature(model.forward).parameters
        self.generator = torch.Generator().manual_seed(0)
        self.dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), None)
        config = getattr(model, "config", None)
        inner = [v for v in vars(config).values() if hasattr(v, "to_dict")] if config else []
        self.configs = [config, *inner] if config is not None else []

    def ways(self, name: str) -> Iterator[Inputs]:
        """Yield draws of the input of this name, the likeliest first; none for an unknown name."""
        if name in ("input_ids", "decoder_input_ids"):
            yield from self.tokens(name)
        elif name in _IMAGES:
            yield from self.images(name)
        elif name == "input_features":
            yield from self.spectrum()
        elif name == "input_values":
            for samples in (2000, 400, 16000):
                yield {name: self.numbers(_N, samples)}
                yield {name: self.numbers(_N, 1, samples)}
            bins = self.size("num_mel_bins", default=80)
            yield {name: self.numbers(_N, self.size("max_length", default=32), bins)}
        elif name in (*_STATES, *_OTHER_STATES):
            yield from self.states(name)
        elif name == "attention_mask":
            yield {name: torch.ones(_N, _LENGTH, dtype=torch.long)}
        elif name == "bbox":
            corner = torch.randint(0, 20, (_N, _LENGTH, 2), generator=self.generator)
            boxes = torch.cat([corner, corner + 5], -1)
            yield {name: boxes}
            yield {name: boxes / 64}

    def numbers(self, *shape: int) -> Tensor:
        drawn = torch.randn(shape, generator=self.generator)
        return drawn.to(self.dtype) if self.dtype is not None else drawn

    def size(self, *names: str, default: int = 0) -> int:
        """The first of these numbers that is in the configuration or a sub-configuration."""
        return next(iter(self.sizes(*names)), default)

    def sizes(self, *names: str) -> list[int]:
        sizes: list[int] = []
        for config, name in itertools.product(self.configs, names):
            try:
                value = getattr(config, name, None)
            except Exception:  # a value that differs between layers
                continue
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                sizes.append(value)
        return list(dict.fromkeys(sizes))

    def tokens(self, name: str) -> Iterator[Inputs]:
        try:
            embeddings: Any = self.model.get_input_embeddings()  # type: ignore[operator]
        except (AttributeError, NotImplementedError, TypeError):
            embeddings = None
        tables = [m.num_embeddings for m in self.model.modules() if isinstance(m, nn.Embedding)]
        size = getattr(embeddings, "num_embeddings", None) or self.size("vocab_size")
        size = size or max(tables, default=0)
        if not size:
            return
        meant: set[int] = set()  # ids with a special meaning
        for key, value in (item for config in self.configs for item in vars(config).items()):
            if key.endswith(("token_id", "token_index", "token_ids")):
                each = value if isinstance(value, list | tuple) else [value]
                meant.update(token for token in each if isinstance(token, int))
        free = [token for token in range(min(size, 5000)) if token not in meant]
        free = free or list(range(size))
        places = torch.randint(0, len(free), (_N, _LENGTH), generator=self.generator)
        ids = torch.tensor(free)[places]
        if name == "decoder_input_ids":
            yield {name: ids[:, : _LENGTH - 2]}
        else:
            masked = "attention_mask" in self.asked
            yield {name: ids, **({"attention_mask": torch.ones_like(ids)} if masked else {})}

    def images(self, name: str) -> Iterator[Inputs]:
        yield from self.patches(name)
        channels = ("num_channels", "in_channels", "in_chans", "num_image_channels")
        n_channels = self.size(*channels, default=3)
        frames = self.size("num_frames", "frames_per_clip", "tubelet_size")
        sides: list[tuple[int, int]] = []
        for config, key in itertools.product(
            self.configs, ("image_size", "img_size", "input_size", "crop_size", "spec_size")
        ):
            value = getattr(config, key, None)
            if isinstance(value, int) and value > 1:
                sides.append((value, value))
            elif isinstance(value, list | tuple) and len(value) == 2:
                sides.append((int(value[0]), int(value[1])))
        for side in dict.fromkeys([*sides, (64, 64)]):
            if frames:
                yield {name: self.numbers(_N, frames, n_channels, *side)}
            yield {name: self.numbers(_N, n_channels, *side)}
            yield {name: self.numbers(_N, 1, n_channels, *side)}

    def patches(self, name: str) -> Iterator[Inputs]:
        """Yield the patches of all images as rows, with the grid (t, h, w) of each image."""
        grid_name = next((n for n in ("grid_thw", "image_grid_thw") if n in self.asked), None)
        if grid_name is None:
            return
        channels = self.size("in_channels", "num_channels", "in_chans", default=3)
        size = self.size("patch_size", default=14)
        side = 2 * self.size("spatial_merge_size", "merge_size", default=2)
        grid, rows = torch.tensor([[1, side, side]] * _N), _N * side * side
        for depth in dict.fromkeys((self.size("temporal_patch_size", default=1), 1)):
            yield {name: self.numbers(rows, channels * depth * size * size), grid_name: grid}
            yield {name: self.numbers(rows, channels, size, size), grid_name: grid}

    def spectrum(self) -> Iterator[Inputs]:
        bins = self.size(
            "num_mel_bins", "input_feat_per_channel", "feature_size", "input_dim",
            "feature_projection_input_dim", "mel_bins", "num_features", default=80,
        )  # fmt: skip
        masks = ("attention_mask", "input_features_mask", "feature_attention_mask")
        lengths = [2 * n for n in self.sizes("max_source_positions")]
        for frames in (*lengths[:1], 64, 100):
            every = torch.ones(_N, frames, dtype=torch.long)
            for shape in ((_N, bins, frames), (_N, frames, bins), (_N, 1, frames, bins)):
                features = {"input_features": self.numbers(*shape)}
                yield {**features, **{mask: every for mask in masks if mask in self.asked}}
                yield features

    def states(self, name: str) -> Iterator[Inputs]:
        yield from self.patches(name)
        hidden = ("hidden_size", "d_model", "embed_dim", "n_embd", "dim", "width", "input_dim")
        other = ("encoder_hidden_size", "cross_attention_hidden_size", "cross_hidden_size")
        first = (*other, *hidden) if name.startswith(("encoder", "context")) else hidden
        length = _LENGTH - 2 if name.startswith(("encoder", "query")) else _LENGTH
        linear = (m.in_features for m in self.model.modules() if isinstance(m, nn.Linear))
        for width in self.sizes(*first)[:3] or [next(linear, 1)]:
            yield {name: self.numbers(_N, length, width)}
