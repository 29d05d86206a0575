"""How attention that was seen and not taken is told."""

from __future__ import annotations

import warnings

from torch import nn

from headprune_lib.architectures import ARCHITECTURES


def did_not_run(problem: str) -> str:
    """Why nothing could be proved of a module that no inputs reached."""
    return (
        "it did not run on random inputs, so nothing about it could be proved"
        f"{f' ({problem})' if problem else ''}: give find_heads(model, inputs=…) a batch that "
        "reaches it"
    )


def warn_of(model: nn.Module, refused: dict[str, str]) -> None:
    """Warn of attention modules that were seen and not taken: path -> why."""
    warnings.warn(
        f"{len(refused)} attention modules of {type(model).__name__} were seen and not taken: "
        f"{said_of(model, refused)}. Their heads are neither masked nor scored",
        stacklevel=4,
    )


def said_of(model: nn.Module, refused: dict[str, str]) -> str:
    """What was not taken, a class and reason at a time, with the first module of each."""
    groups: dict[tuple[str, str], list[str]] = {}
    for path, reason in refused.items():
        name = type(model.get_submodule(path)).__name__
        groups.setdefault((name, reason), []).append(path)
    return "; ".join(
        f"{name} ({paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}): {reason}"
        for (name, reason), paths in groups.items()
    )


def nothing_found(model: nn.Module, refused: dict[str, str]) -> str:
    """The message where no attention module was taken at all."""
    classes = {type(module).__name__ for module in model.modules()}
    seen = {name for name in classes if "attention" in name.lower()}
    what = (
        f"seen and refused: {said_of(model, refused)}"
        if refused
        else f"it holds {sorted(seen) or 'no module named like attention'}"
    )
    return (
        f"no known attention module in {type(model).__name__}; {what}. Known: "
        f"{sorted(ARCHITECTURES)}. Teach it yours with "
        'headprune_lib.register_attention("ClassName", query=…, key=…, value=…, output=…).'
    )
