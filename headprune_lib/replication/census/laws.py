"""The laws, asked of one model: what holds, what does not, and what does not apply."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.pytorch_utils import Conv1D

from headprune_lib import (
    find_heads,
    full_mask,
    head_importance,
    load_pruned,
    masked_heads,
    prune_heads,
    save_pruned,
)
from headprune_lib.architectures import UnknownArchitecture
from headprune_lib.batching import Batch
from headprune_lib.blocks import AttentionBlock
from headprune_lib.discovery import discovered
from headprune_lib.example_inputs import example_inputs
from headprune_lib.heads import HeadTensors

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
_STEP = 2.0**-9  # of a gate; exact in float32


class Broken(Exception):
    """A law that does not hold; says what was seen."""


def ask(model: nn.Module) -> dict[str, str]:
    """Law -> ``"yes"``, ``"-"`` where it does not apply, ``"refused: …"`` or ``"no: …"``.

    Every block is asked: those that the model's own inputs do not reach, in the part of the model
    that reaches them.

    Raises:
        UnknownArchitecture: no attention was found.
        LookupError: no inputs were found that the model runs on.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = discovered(model)
        answers: dict[str, str] = {}
        for root, inputs in _parts(model, found.blocks):
            for law, answer in _ask_part(root, inputs, whole=root is model).items():
                if answers.get(law, NO_SUCH) in (YES, NO_SUCH):
                    answers[law] = answer if answer != NO_SUCH else answers.get(law, NO_SUCH)
    return {law: answers.get(law, NO_SUCH) for law in LAWS}


def _parts(
    model: nn.Module, blocks: list[AttentionBlock]
) -> Iterator[tuple[nn.Module, dict[str, Any]]]:
    """The model with inputs it runs on, then parts of it for the blocks these do not reach."""
    missing = {block.path for block in blocks}
    roots = ["", *(p for p, m in model.named_modules() if p and hasattr(m, "main_input_name"))]
    problem = ""
    ran = False
    for root_path in roots:
        prefix = f"{root_path}." if root_path else ""
        if not any(path.startswith(prefix) for path in missing):
            continue
        root = model.get_submodule(root_path)
        best: tuple[int, dict[str, Any], set[str]] | None = None
        for inputs in example_inputs(root):
            reached, error = _reached(root, prefix, missing, inputs)
            if error:
                problem = problem or error
            elif best is None or len(reached) > best[0]:
                best = len(reached), inputs, reached
                if len(reached) == len(missing):
                    break
        if best is not None and best[0]:
            ran = True
            missing -= best[2]
            yield root, best[1]
        if not missing:
            return
    if not ran:
        raise LookupError(f"no inputs were found that it runs on ({problem})")
    if missing:
        raise LookupError(f"no inputs were found that reach {min(missing)} ({problem})")


def _reached(
    root: nn.Module, prefix: str, paths: set[str], inputs: dict[str, Any]
) -> tuple[set[str], str]:
    reached: set[str] = set()
    hooks = []
    for path in paths:
        if path.startswith(prefix):
            module = root.get_submodule(path.removeprefix(prefix))
            hooks.append(module.register_forward_pre_hook(lambda *_args, p=path: reached.add(p)))
    try:
        _outputs(root, inputs)
    except Exception as error:
        return set(), f"{type(error).__name__}: {error}".partition("\n")[0][:200]
    finally:
        for hook in hooks:
            hook.remove()
    return reached, ""


def _ask_part(model: nn.Module, inputs: dict[str, Any], *, whole: bool) -> dict[str, str]:
    laws: dict[str, Callable[[], str]] = {
        "identity": lambda: _identity(model, inputs),
        "columns": lambda: _columns(model, inputs),
        "importance": lambda: _importance(model, inputs),
        "removal": lambda: _removal(model, inputs, empty=False),
        "empty layer": lambda: _removal(model, inputs, empty=True),
        "save and load": lambda: _saving(model, inputs) if whole else NO_SUCH,
        "generation": lambda: _generation(model, inputs) if whole else NO_SUCH,
    }
    before = _traces(model)
    answers = {}
    for name, law in laws.items():
        try:
            answers[name] = law()
        except Broken as seen:
            answers[name] = f"no: {seen}"
        except (ValueError, UnknownArchitecture) as error:
            answers[name] = f"refused: {error}"[:300]
    answers["hooks"] = YES if _traces(model) == before else "no: something stays behind"
    return answers


def _outputs(model: nn.Module, inputs: dict[str, Any]) -> list[Tensor]:
    """Every tensor of numbers that the model returns, caches left out."""
    torch.manual_seed(0)
    with torch.no_grad():
        return _tensors(model(**inputs))


def _tensors(outputs: Any) -> list[Tensor]:
    if isinstance(outputs, Tensor):
        return [outputs] if outputs.is_floating_point() else []
    if isinstance(outputs, Cache | EncoderDecoderCache):
        return []
    if isinstance(outputs, dict):
        outputs = outputs.values()
    if isinstance(outputs, tuple | list) or hasattr(outputs, "__iter__"):
        return [tensor for one in outputs for tensor in _tensors(one)]
    return []


def _distance(found: list[Tensor], expected: list[Tensor]) -> float:
    """The largest difference, over the largest number; infinite where shapes or NaN differ."""
    if len(found) != len(expected) or not expected:
        return float("inf")
    most = 0.0
    for left, right in zip(found, expected, strict=True):
        if left.shape != right.shape or not torch.equal(left.isfinite(), right.isfinite()):
            return float("inf")
        there = right.isfinite()
        if there.any():
            scale = max(1e-6, float(right[there].abs().max()))
            most = max(most, float((left - right)[there].abs().max()) / scale)
    return most


def _limit(model: nn.Module) -> float:
    # much of transformers computes in float32 inside a float64 model
    return 3e-5


def _some_mask(model: nn.Module, empty: bool = False) -> HeadTensors:
    """One head, or group, of each layer is cut that has several; or all heads of every second."""
    mask = full_mask(model)
    for block in find_heads(model):
        units = block.n_heads // block.group
        if empty:
            if block.layer % 2 == 0:
                mask[block.kind][block.layer, : block.n_heads] = 0
        elif units > 1:
            first = (block.layer % units) * block.group
            mask[block.kind][block.layer, first : first + block.group] = 0
    return mask


def _cuts(mask: HeadTensors) -> bool:
    return any(bool((values == 0).any()) for values in mask.values())


def _identity(model: nn.Module, inputs: dict[str, Any]) -> str:
    plain = _outputs(model, inputs)
    if _distance(_outputs(model, inputs), plain):
        raise Broken("the model returns something else at each pass")
    with masked_heads(model, full_mask(model)):
        if _distance(_outputs(model, inputs), plain):
            raise Broken("a mask of ones changes the output")
    return YES


def _columns(model: nn.Module, inputs: dict[str, Any]) -> str:
    mask = _some_mask(model)
    if not _cuts(mask):
        mask = _some_mask(model, empty=True)
    with masked_heads(model, mask):
        masked = _outputs(model, inputs)
    zeroed = copy.deepcopy(model)
    for block in find_heads(model):
        output: Any = block.part(zeroed, "output")
        turned = isinstance(output, Conv1D)
        for head in range(block.n_heads):
            if mask[block.kind][block.layer, head] == 0:
                place = slice(head * block.width, (head + 1) * block.width)
                (output.weight.data.T if not turned else output.weight.data)[place] = 0
    distance = _distance(masked, _outputs(zeroed, inputs))
    if distance > _limit(model):
        raise Broken(f"masked and zeroed differ by {distance:.1e}")
    if _distance(masked, _outputs(model, inputs)) == 0:
        raise Broken("cut heads change nothing")
    return YES


def _loss(outputs: Any, batch: Batch) -> Tensor:
    """(example,): a fixed random sum of what the model returns for each."""
    n = next(len(one) for one in batch.values() if isinstance(one, Tensor))
    total = torch.zeros(n, dtype=torch.float64)
    for number, tensor in enumerate(_tensors(outputs)):
        rows = tensor if len(tensor) == n else tensor[None] if n == 1 else None
        if rows is None:
            continue
        flat = rows.reshape(n, -1).double().nan_to_num(neginf=0, posinf=0)
        generator = torch.Generator().manual_seed(number)
        weights = torch.randn(flat.shape[1], generator=generator, dtype=torch.float64)
        total = total + flat @ weights / len(weights) ** 0.5
    return total


def _importance(model: nn.Module, inputs: dict[str, Any]) -> str:
    blocks = find_heads(model)
    n = next(len(one) for one in inputs.values() if isinstance(one, Tensor))
    together = all(block.by_example for block in blocks) and _apart(model, inputs, n)
    batch = {k: v for k, v in inputs.items() if isinstance(v, Tensor)}
    if not together:
        if any(len(v) != n for v in batch.values()):
            return NO_SUCH
        batch = {k: v[:1] for k, v in batch.items()}
    extra = {k: v for k, v in inputs.items() if not isinstance(v, Tensor)}
    with _given(model, extra):
        try:
            scores = head_importance(model, [batch], loss=_loss, normalize=None)
        except RuntimeError as error:
            raise ValueError(f"{error}".partition("\n")[0]) from None
        asked = {(b.kind, b.layer, head) for b in _spread(blocks) for head in (0, b.n_heads - 1)}
        for kind, layer, head in sorted(asked):
            losses = []
            for sign in (1, -1):
                mask = full_mask(model)
                mask[kind][layer, head] = 1 + sign * _STEP
                with masked_heads(model, mask), torch.no_grad():
                    torch.manual_seed(0)
                    losses.append(_loss(model(**batch), batch))
            expected = float(((losses[0] - losses[1]) / (2 * _STEP)).abs().mean())
            found = float(scores[kind][layer, head])
            noise = 2e-7 / _STEP * float(losses[0].abs().mean())
            if abs(found - expected) > 0.02 * abs(expected) + noise + 1e-6:
                raise Broken(
                    f"{kind} {layer} {head}: {found:.4g}, finite difference {expected:.4g}"
                )
    return YES


def _spread(blocks: list[AttentionBlock]) -> list[AttentionBlock]:
    """The first and last block of each kind."""
    ends = {block.kind: block for block in reversed(blocks)}
    return list({*ends.values(), *{block.kind: block for block in blocks}.values()})


def _apart(model: nn.Module, inputs: dict[str, Any], n: int) -> bool:
    """Whether the model returns a row an example that does not depend on the other examples."""
    together = _outputs(model, inputs)
    if not all(len(tensor) == n for tensor in together if tensor.ndim):
        return False
    first = {k: v[:1] if isinstance(v, Tensor) and len(v) == n else v for k, v in inputs.items()}
    return _distance(_outputs(model, first), [tensor[:1] for tensor in together]) < 1e-3


class _given:
    """Inside, arguments that are no tensors are given to each pass."""

    def __init__(self, model: nn.Module, extra: dict[str, Any]) -> None:
        self.handle = model.register_forward_pre_hook(
            lambda _module, args, kwargs: (args, {**extra, **kwargs}), with_kwargs=True
        )

    def __enter__(self) -> None: ...

    def __exit__(self, *_error: object) -> None:
        self.handle.remove()


def _removal(model: nn.Module, inputs: dict[str, Any], *, empty: bool) -> str:
    mask = _some_mask(model, empty)
    if not _cuts(mask):
        return NO_SUCH
    with masked_heads(model, mask):
        masked = _outputs(model, inputs)
    pruned = prune_heads(copy.deepcopy(model), mask)
    distance = _distance(_outputs(pruned, inputs), masked)
    if distance > _limit(model):
        raise Broken(f"pruned and masked differ by {distance:.1e}")
    return YES


def _saving(model: nn.Module, inputs: dict[str, Any]) -> str:
    mask = _some_mask(model)
    if not _cuts(mask):
        mask = _some_mask(model, empty=True)
    pruned = prune_heads(copy.deepcopy(model), mask)
    if not hasattr(pruned, "config"):
        return NO_SUCH
    with tempfile.TemporaryDirectory() as folder:
        loaded = load_pruned(save_pruned(pruned, Path(folder) / "pruned"))
    distance = _distance(_outputs(loaded, inputs), _outputs(pruned, inputs))
    if distance > _limit(model):
        raise Broken(f"saved and loaded differ by {distance:.1e}")
    return YES


def _generation(model: Any, inputs: dict[str, Any]) -> str:
    if not getattr(model, "can_generate", bool)() or "input_ids" not in inputs:
        return NO_SUCH
    asked = {k: v for k, v in inputs.items() if k in ("input_ids", "attention_mask")}
    told = {
        "max_new_tokens": 4,
        "do_sample": False,
        "return_dict_in_generate": True,
        "output_logits": True,
    }
    try:
        with torch.no_grad():
            model.generate(**asked, **told)
    except Exception as error:
        return f"- ({type(error).__name__}: {error})".partition("\n")[0][:100]
    mask = _some_mask(model)
    pruned: Any = prune_heads(copy.deepcopy(model), mask)
    with torch.no_grad(), masked_heads(model, mask):
        masked = model.generate(**asked, **told)
    with torch.no_grad():
        found = pruned.generate(**asked, **told)
    distance = _distance(list(found.logits), list(masked.logits))
    if distance > _limit(model):
        raise Broken(f"generation differs by {distance:.1e}")
    return YES


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
