"""The laws, asked of one model: what holds, what does not, and what does not apply."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headprune_lib import (
    full_mask,
    load_pruned,
    masked_heads,
    prune_heads,
    save_pruned,
)
from headprune_lib.architectures import UnknownArchitecture
from headprune_lib.discovery import discovered
from headprune_lib.replication.census.cases import Case, NotReached, distance, parts_of
from headprune_lib.replication.census.importance import importance_problem

LAWS = (
    "identity",
    "columns",
    "importance",
    "removal",
    "empty layer",
    "save and load",
    "generation",
    "hooks",
)
"""A mask of ones changes nothing; a mask is zeroed columns of the output projection; importance is
a finite difference; removal is masking, of some heads and of all heads of a layer; what is saved
loads; a pruned model generates what a masked one does; nothing stays behind."""

YES, NO_SUCH = "yes", "-"
_LIMIT = 3e-5  # of a difference, over the largest number: the models are in float32


class Broken(Exception):
    """A law that does not hold; says what was seen."""


def ask(model: nn.Module, unasked: list[str] | None = None) -> dict[str, str]:
    """Law -> ``"yes"``, ``"-"`` where it does not apply, ``"refused: …"`` or ``"no: …"``.

    Every block is asked: those that the model's own inputs do not reach, in the part of the model
    that reaches them.

    Args:
        unasked: is told of blocks that nothing reached.

    Raises:
        UnknownArchitecture: no attention was found.
        LookupError: no inputs were found that the model runs on, or, where nobody is to be told,
            that reach all of it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = discovered(model)
        answers: dict[str, str] = {}
        try:
            for root, inputs in parts_of(model, found.blocks):
                for law, answer in _ask_part(root, inputs, whole=root is model).items():
                    answers[law] = max(answers.get(law, NO_SUCH), answer, key=_gravity)
        except NotReached as error:
            if unasked is None:
                raise
            unasked.append(str(error))
    return {law: answers.get(law, NO_SUCH) for law in LAWS}


def _gravity(answer: str) -> int:
    """Of two parts' answers the graver one is the model's; of two alike the first."""
    return (NO_SUCH, YES, "refused", "no").index(answer.partition(": ")[0])


def _ask_part(model: nn.Module, inputs: dict[str, Any], *, whole: bool) -> dict[str, str]:
    before = _traces(model)
    case = Case(model, inputs, whole)
    answers = {}
    for name, law in _LAWS.items():
        try:
            answers[name] = law(case)
        except Broken as seen:
            answers[name] = f"no: {seen}"
        except (ValueError, UnknownArchitecture) as error:
            answers[name] = f"refused: {error}"[:300]
    answers["hooks"] = YES if _traces(model) == before else "no: something stays behind"
    return answers


def _identity(case: Case) -> str:
    if distance(case.run(case.model), case.plain):
        raise Broken("the model returns something else at each pass")
    with masked_heads(case.model, full_mask(case.model)):
        if distance(case.run(case.model), case.plain):
            raise Broken("a mask of ones changes the output")
    return YES


def _columns(case: Case) -> str:
    zeroed = copy.deepcopy(case.model)
    for block in case.blocks:
        output: Any = block.part(zeroed, "output")
        weight = output.weight.data if isinstance(output, Conv1D) else output.weight.data.T
        for head in range(block.n_heads):
            if case.mask[block.kind][block.layer, head] == 0:
                weight[head * block.width : (head + 1) * block.width] = 0  # (in, out)
    _same(case.masked, case.run(zeroed), "masked and zeroed")
    if distance(case.masked, case.plain) == 0:
        raise Broken("cut heads change nothing")
    return YES


def _same(found: list[Tensor], expected: list[Tensor], what: str) -> None:
    apart = distance(found, expected)
    if apart > _LIMIT:
        raise Broken(f"{what} differ by {apart:.1e}")


def _importance(case: Case) -> str:
    model, n = case.model, next(len(x) for x in case.inputs.values() if isinstance(x, Tensor))
    batch = {k: v for k, v in case.inputs.items() if isinstance(v, Tensor)}
    if not (all(block.by_example for block in case.blocks) and _apart(case, n)):
        if any(len(v) != n for v in batch.values()):
            return NO_SUCH  # several images in one tensor: one alone cannot be taken out
        batch = {k: v[:1] for k, v in batch.items()}
    extra = {k: v for k, v in case.inputs.items() if not isinstance(v, Tensor)}
    problem = importance_problem(model, batch, extra, case.blocks)
    if problem:
        raise Broken(problem)
    return YES


def _apart(case: Case, n: int) -> bool:
    """Whether the model returns a row an example that does not depend on the other examples."""
    if not all(tensor.ndim and len(tensor) == n for tensor in case.plain):
        return False
    first = {
        k: v[:1] if isinstance(v, Tensor) and len(v) == n else v for k, v in case.inputs.items()
    }
    alone = case.run(case.model, first)
    return distance(alone, [tensor[:1] for tensor in case.plain]) < 1e-3


def _removal(case: Case) -> str:
    _same(case.of_pruned, case.masked, "pruned and masked")
    return YES


def _emptying(case: Case) -> str:
    with masked_heads(case.model, case.emptying):
        masked = case.run(case.model)
    pruned = prune_heads(copy.deepcopy(case.model), case.emptying)
    _same(case.run(pruned), masked, "pruned and masked")
    return YES


def _saving(case: Case) -> str:
    if not case.whole or not hasattr(transformers, type(case.model).__name__):
        return NO_SUCH  # a part of a model, or a class that transformers does not offer
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_pruned(save_pruned(case.pruned, Path(folder) / "pruned"))
    _same(case.run(loaded), case.of_pruned, "saved and loaded")
    return YES


def _generation(case: Case) -> str:
    model: Any = case.model
    able = case.whole and getattr(model, "can_generate", bool)() and "input_ids" in case.inputs
    if not able:
        return NO_SUCH
    asked = {k: v for k, v in case.inputs.items() if k in ("input_ids", "attention_mask")}
    told = {
        "max_new_tokens": 3,
        "do_sample": False,
        "return_dict_in_generate": True,
        "output_logits": True,
    }
    masks = [case.mask]
    if not any(block.keeps_one and block.layer % 2 == 0 for block in case.blocks):
        masks.append(case.emptying)  # a layer without heads keeps no keys
    for mask in masks:
        with torch.no_grad(), masked_heads(model, mask):
            try:
                masked = model.generate(**asked, **told)
            except Exception:  # nor does the model generate from tokens alone without a mask
                return NO_SUCH
        pruned = case.pruned if mask is case.mask else prune_heads(copy.deepcopy(model), mask)
        with torch.no_grad():
            found = pruned.generate(**asked, **told)
        _same(list(found.logits), list(masked.logits), "what pruned and masked models generate")
    return YES


_LAWS: dict[str, Callable[[Case], str]] = {
    "identity": _identity,
    "columns": _columns,
    "importance": _importance,
    "removal": _removal,
    "empty layer": _emptying,
    "save and load": _saving,
    "generation": _generation,
}


def _traces(model: nn.Module) -> list[tuple]:
    """What a function could forget to put back."""
    return [
        (
            module.training,
            sorted(module.__dict__),
            len(module._forward_hooks),
            len(module._forward_pre_hooks),
        )
        for module in model.modules()
    ]
