"""The laws, tested on one model: what holds, what does not, and what does not apply."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from tiny import head_weights, traces
from torch import Tensor, nn

from census.cases import Case, NotReached, distance, parts_of
from census.importance import importance_problem
from headprune_lib import load_pruned, masked_heads, ones_mask, prune_heads, save_pruned
from headprune_lib.discovery import discovered
from headprune_lib.masking import HeadTensors
from headprune_lib.messages import one_line
from headprune_lib.specs import UnknownArchitecture

YES, NO_SUCH = "yes", "-"
_PROVED = {"_headprune_discovery", "_headprune_trusted"}  # stays with the model, and its copies
_LIMIT = 3e-5  # largest difference over the largest value: the models are in float32


class Broken(Exception):
    """A law that does not hold; says what was seen."""


def ask(model: nn.Module, unasked: list[str] | None = None) -> dict[str, str]:
    """Law -> ``"yes"``, ``"-"`` where it does not apply, ``"refused: …"`` or ``"no: …"``.

    ``"-: …"`` says what the unpruned model itself cannot do.

    Every block is tested: those that the model's own inputs do not reach, in a part of the model
    whose inputs reach them.

    Args:
        unasked: receives a message about blocks that nothing reached.

    Raises:
        UnknownArchitecture: no attention was found.
        LookupError: no inputs were found that the model runs on or, without ``unasked``, that
            reach all of it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blocks, _ = discovered(model)
        answers: dict[str, str] = {}
        try:
            for root, inputs in parts_of(model, blocks):
                for law, answer in _ask_part(root, inputs, whole=root is model).items():
                    answers[law] = max(answers.get(law, NO_SUCH), answer, key=_gravity)
        except NotReached as error:
            if unasked is None:
                raise
            unasked.append(str(error))
    return {law: answers.get(law, NO_SUCH) for law in LAWS}


def _gravity(answer: str) -> int:
    """The rank of an answer: the gravest of all parts is the model's, the first among equals."""
    word, _, reason = answer.partition(": ")
    return 2 * (NO_SUCH, YES, "refused", "no").index(word) + bool(word == NO_SUCH and reason)


def _ask_part(model: nn.Module, inputs: dict[str, Any], *, whole: bool) -> dict[str, str]:
    before = traces(model, _PROVED)
    case = Case(model, inputs, whole)
    answers = {}
    for name, law in _LAWS.items():
        try:
            answers[name] = law(case)
        except Broken as seen:
            answers[name] = f"no: {seen}"
        except (ValueError, UnknownArchitecture) as error:
            answers[name] = f"refused: {error}"[:300]
    answers["hooks"] = YES if traces(model, _PROVED) == before else "no: something stays behind"
    return answers


def _identity(case: Case) -> str:
    if distance(case.run(case.model), case.plain):
        raise Broken("the model returns something else at each pass")
    with masked_heads(case.model, ones_mask(case.model)):
        if distance(case.run(case.model), case.plain):
            raise Broken("a mask of ones changes the output")
    return YES


def _columns(case: Case) -> str:
    zeroed = copy.deepcopy(case.model)
    for block in case.blocks:
        for head in range(block.n_heads):
            if case.mask[block.kind][block.layer, head] == 0:
                head_weights(zeroed, block, head).zero_()
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
    if not (all(block.batch_first for block in case.blocks) and _apart(case, n)):
        if any(len(v) != n for v in batch.values()):
            return NO_SUCH  # several images in one tensor: one alone cannot be taken out
        batch = {k: v[:1] for k, v in batch.items()}
    extra = {k: v for k, v in case.inputs.items() if not isinstance(v, Tensor)}
    problem = importance_problem(model, batch, extra, case.blocks)
    if problem:
        raise Broken(problem)
    return YES


def _apart(case: Case, n: int) -> bool:
    """Whether the model returns a row per example that does not depend on the other examples."""
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


def _generation(case: Case, **settings: Any) -> str:
    """With these settings, a pruned model generates what a masked one does with a dynamic cache."""
    if not case.generates:
        return NO_SUCH
    masks = [case.removable(case.mask)]
    if (emptying := case.removable(case.emptying)) is not case.emptying:
        masks.append(emptying)  # a layer without heads keeps no keys
    for mask in masks:
        with masked_heads(case.model, mask):
            masked = case.generate(case.model)
            if settings and (problem := _unpruned_problem(case, masked, settings)):
                return f"{NO_SUCH}: {problem}"
        pruned = prune_heads(copy.deepcopy(case.model), mask)
        found = case.generate(pruned, **settings)
        _same(list(found.logits), list(masked.logits), "what pruned and masked models generate")
        if not torch.equal(found.sequences, masked.sequences):
            raise Broken("pruned and masked models generate other tokens")
    return YES


def _unpruned_problem(case: Case, expected: Any, settings: dict[str, Any]) -> str:
    """The problem if the unpruned model generates something else with these settings, or ""."""
    try:
        found = case.generate(case.model, **settings)
    except Exception as error:
        return f"unpruned, {type(error).__name__}: {one_line(error, 200)}"
    apart = distance(list(found.logits), list(expected.logits))
    return f"unpruned, the logits differ by {apart:.1e}" if apart > _LIMIT else ""


def _places(case: Case) -> str:
    """Check that outputs returned layer by layer keep their places if a layer has no heads."""
    answer, mask = NO_SUCH, case.removable(case.emptying)
    pruned = prune_heads(copy.deepcopy(case.model), mask)
    for kernel in ("eager", None):
        expected = _by_layer(case.model, case, kernel, mask)
        if not expected or (
            not _is_finite(expected)
            and not _is_finite(_by_layer(case.model, case, kernel, ones_mask(case.model)))
        ):
            continue  # the unpruned model itself does not run, or returns NaN, under this kernel
        found = _by_layer(pruned, case, kernel)
        answer = YES
        for name, layers in expected.items():
            if len(found.get(name, ())) != len(layers):
                raise Broken(f"{name} has {len(found.get(name, ()))} of {len(layers)} layers")
            for place, (left, right) in enumerate(zip(found[name], layers, strict=True)):
                empty = left is None or not left.numel()
                if not empty and (right is None or distance([left], [right]) > _LIMIT):
                    raise Broken(f"{name}[{place}] is that of another layer")
    return answer


def _is_finite(returned: dict[str, tuple]) -> bool:
    tensors = [x for layers in returned.values() for x in layers if x is not None]
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


def _by_layer(
    model: Any, case: Case, kernel: str | None, mask: HeadTensors | None = None
) -> dict[str, tuple]:
    """The tuples that the model returns if asked for all outputs; empty if it cannot be asked."""
    own = copy.deepcopy(model)
    try:
        if kernel:
            own.set_attn_implementation(kernel)
        with nullcontext() if mask is None else masked_heads(own, mask), torch.no_grad():
            torch.manual_seed(0)
            asked = {"output_attentions": True, "output_hidden_states": True, "return_dict": True}
            outputs = own(**{**case.inputs, **asked})
    except Exception:
        if mask is None:
            raise
        return {}
    return {
        name: value
        for name, value in (outputs.items() if isinstance(outputs, dict) else ())
        if isinstance(value, tuple) and all(x is None or isinstance(x, Tensor) for x in value)
    }


_LAWS: dict[str, Callable[[Case], str]] = {
    "identity": _identity,
    "columns": _columns,
    "importance": _importance,
    "removal": _removal,
    "empty layer": _emptying,
    "save and load": _saving,
    "generation": _generation,
    "static cache": partial(_generation, cache_implementation="static"),
    "chunked prefill": partial(_generation, prefill_chunk_size=4),
    "chunks, static": partial(_generation, cache_implementation="static", prefill_chunk_size=4),
    "places": _places,
}
LAWS = (*_LAWS, "hooks")
"""A mask of ones changes nothing, a mask zeroes columns of the output projection, importance is a
finite difference, removal equals masking (of some heads, and of all heads of a layer), a saved
model loads, a pruned model generates what a masked one does (with either cache, its prompt read in
chunks or at once), outputs of layers keep their places, and no hook stays behind."""
