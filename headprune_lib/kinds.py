"""The kind of an attention module: what its keys come from, and which tower it stands in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

KINDS = ("enc-enc", "enc-dec", "dec-dec")
"""Those of an encoder-decoder, as the paper names them: the encoder's own attention, the decoder's
attention to the encoder, and the decoder's own."""

# What models call attention to something from outside.
_CROSS = re.compile(
    r"^(encoder_attn|encoder_attention|EncDecAttention|crossattention\w*|cross_attn\w*|"
    r"cross_attention\w*|multihead_cross_attn|\w*_cross_attn|\w*_cross_attention|enc_dec_attn)$"
)
# What models call their towers, as words of a name.
_TOWERS = {
    "vision": {"vision", "visual", "image", "video", "vit", "pixel"},
    "audio": {"audio", "speech", "acoustic", "sound"},
    "text": {"text", "language", "lm", "llm"},
}


def kinds_of(
    model: nn.Module, paths: Sequence[str], elsewhere: Mapping[str, bool]
) -> dict[str, str]:
    """The kind of each attention module.

    Args:
        paths: of all attention modules of the model.
        elsewhere: of those that were seen running, whether their keys come from outside.
    """
    two_sided = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
    cross = {path: _is_cross(model, path) or elsewhere.get(path, False) for path in paths}
    if two_sided:
        return _of_two_sides(paths, cross)
    towers = {path: _tower(path) for path in paths if not cross[path]}
    several = len(set(towers.values())) > 1
    return {
        path: "cross" if cross[path] else (towers[path] or "text") if several else "self"
        for path in paths
    }


def _of_two_sides(paths: Sequence[str], cross: Mapping[str, bool]) -> dict[str, str]:
    kinds = {}
    for path in paths:
        *outer, _ = path.split(".")
        decoding = any("decoder" in part.split("_") for part in outer)
        if cross[path]:
            kinds[path] = "enc-dec"
        elif decoding:
            kinds[path] = "dec-dec"
        else:
            kinds[path] = "enc-enc"
    # the towers beside an encoder; a tower that is the encoder is that
    encoding = [path for path in paths if kinds[path] == "enc-enc"]
    towers = {path: _tower(path) for path in encoding}
    if len(set(towers.values())) > 1:
        main = None if None in towers.values() else "text"
        for path in encoding:
            if towers[path] != main and towers[path] is not None:
                kinds[path] = str(towers[path])
    return kinds


def _is_cross(model: nn.Module, path: str) -> bool:
    module: Any = model.get_submodule(path)
    if isinstance(said := getattr(module, "is_cross_attention", None), bool):
        return said
    return any(_CROSS.match(part) for part in path.split(".")[-2:])


def _tower(path: str) -> str | None:
    """The first tower that a part of the path is named after."""
    for part in path.split("."):
        words = set(part.lower().split("_"))
        for tower, names in _TOWERS.items():
            if words & names:
                return tower
    return None
