"""Verification, on the model itself and without changing it, that a module is what it seems to be.

Two things are tried on the module's inputs in one pass of random data. Changing one head's values
must change its slice of the output projection's input, and no other: heads do not mix before that.
And a copy with a head really removed must return what the module returns with that head masked.
"""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from headprune_lib.example_inputs import Inputs, example_inputs
from headprune_lib.hooks import graph_nodes, removed_after, state_of
from headprune_lib.messages import one_line
from headprune_lib.slicing import OUTSIDE, head_rows, keep_heads
from headprune_lib.specs import (
    CONVOLUTIONS,
    LINEAR,
    AttentionLayer,
    AttentionSpec,
    NotAttention,
    columns_of,
    layer_at,
    rows_of,
)


@dataclass(frozen=True)
class Verified:
    """What was verified of a module: its parts' names, and fields of its ``AttentionLayer``."""

    spec: AttentionSpec
    limits: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class CapturedCall:
    """The arguments of a module's call in one pass of the model."""

    args: tuple
    kwargs: dict[str, Any]
    n_examples: int

    @property
    def keys_from_outside(self) -> bool:
        """Whether the module got other states than its own to make keys from."""
        states = next(filter(torch.is_tensor, (*self.args, *self.kwargs.values())), None)
        outside = next((v for n in OUTSIDE if torch.is_tensor(v := self.kwargs.get(n))), None)
        if outside is None or states is None:
            return False
        return outside.shape != states.shape or not torch.equal(outside, states)

    @property
    def by_head(self) -> tuple[Any, ...]:
        """Arguments that may hold a bias per head, (example, head, query, key), but not a mask."""
        arguments: dict[Any, Any] = dict(enumerate(self.args)) | self.kwargs
        return tuple(
            name
            for name, v in arguments.items()
            if torch.is_tensor(v) and v.ndim == 4 and v.shape[1] > 1
        )


def verify(
    module: nn.Module, candidates: Sequence[AttentionSpec], call: CapturedCall, *, entry: bool
) -> Verified:
    """Return the first candidate that holds for the module, with its limits.

    Args:
        entry: whether the only candidate is an entry of the table, in which nothing is guessed.

    Raises:
        NotAttention: no candidate holds; says what was found of the first.
    """
    reasons: list[str] = []
    for names in candidates:
        try:
            for part in names.of_module(module).projections:
                projection = attrgetter(path := getattr(names, part))(module)
                if not isinstance(projection, nn.Module):
                    raise NotAttention(
                        f"{part}={path!r} is a {type(projection).__name__}, not a module: heads "
                        "are masked and removed at linear layers, so write it as an nn.Linear"
                    )
            trial = _Trial(module, layer_at(module, "", names), call)
            context = trial.check_masking()
        except Exception as error:  # the module's own code may raise anything
            reasons.append(describe_error(error))
            continue
        verified = _verify_removal(trial, entry)
        batch_first = context.ndim == 3 and len(context) == call.n_examples
        return replace(verified, limits={**verified.limits, "batch_first": batch_first})
    raise NotAttention(reasons[0])


@dataclass
class _Run:
    """A module's outputs in one run, its output projection's inputs, and its core's output."""

    outputs: list[Tensor] = field(default_factory=list)
    contexts: list[Tensor] = field(default_factory=list)
    from_core: Any = None


@dataclass
class _Trial:
    """A module by itself, with candidates for its parts and the arguments of its call."""

    module: nn.Module
    block: AttentionLayer
    call: CapturedCall

    def run(self, zeroed: Sequence[int] = ()) -> _Run:
        """Run the module, with the heads ``zeroed`` set to 0 in its output projection's input."""
        block, run = self.block, _Run()

        def see_context(_module: nn.Module, inputs: tuple) -> tuple:
            run.contexts.append(inputs[0].detach().clone())
            masked = inputs[0].clone()
            if zeroed:
                masked.unflatten(-1, (block.n_heads, block.head_dim))[..., list(zeroed), :] = 0
            return (masked, *inputs[1:])

        def see_core(_module: nn.Module, _inputs: tuple, output: Any) -> None:
            run.from_core = output

        # the module may write to a cache, or to its arguments
        args, kwargs = copy.deepcopy((self.call.args, self.call.kwargs))
        seeing = removed_after(
            block.part(self.module, "output").register_forward_pre_hook(see_context),
            block.part(self.module, "core").register_forward_hook(see_core),
        )
        with torch.no_grad(), seeing:
            output = self.module(*args, **kwargs)
        while isinstance(output, tuple | list) and output and isinstance(output[0], tuple | list):
            output = output[0]
        outputs = output if isinstance(output, tuple | list) else [output]
        if not outputs or not isinstance(outputs[0], Tensor):
            raise NotAttention(f"it returns a {type(output).__name__}, not a tensor")
        run.outputs = [value for value in outputs if isinstance(value, Tensor)]
        return run

    def check_masking(self) -> Tensor:
        """The output projection's input; NotAttention where its slices are not the heads."""
        block = self.block
        n_heads, width, group = block.n_heads, block.head_dim, block.queries_per_kv
        plain, again = self.run(), self.run()
        if len(plain.contexts) != 1:
            raise NotAttention(
                f"its output projection, where a mask acts, is called {len(plain.contexts)} times "
                "in one pass of the module (torch.nn.MultiheadAttention never calls it)"
            )
        (context,) = plain.contexts
        if context.shape[-1] != n_heads * width:
            raise NotAttention(
                f"its output projection takes {context.shape[-1]} inputs, not {n_heads} heads of "
                f"width {width}"
            )
        if not torch.equal(plain.outputs[0], again.outputs[0]):
            raise NotAttention("it returns something else at each pass")
        moved = "values" if block.spec.makes_keys else "queries"
        for j in {0, n_heads // group - 1}:
            heads = list(range(j * group, (j + 1) * group))
            changed = self.changed_heads(heads, context)
            if not changed:
                raise NotAttention(
                    f"changing the {moved} of head {heads[0]} changes nothing that its output "
                    "projection takes"
                )
            if changed != heads:
                raise NotAttention(
                    f"changing the {moved} of heads {heads} changes heads {changed}: heads mix "
                    "before the output projection, or lie otherwise than it seems"
                )
        if torch.equal(self.run(zeroed=[0]).outputs[0], plain.outputs[0]):
            raise NotAttention("masking a head changes nothing that the module returns")
        return context

    def changed_heads(self, heads: Sequence[int], context: Tensor) -> list[int]:
        """The heads whose outputs change when the values, or queries, of some are changed."""
        block = self.block
        part_name = "value" if block.spec.makes_keys else "query"
        rows = head_rows(self.module, block, heads)[part_name]
        # not one factor, which a norm per head hides, nor a sign, which a norm of all heads hides
        factors = torch.linspace(-1, 2.5, len(rows))

        def change(_module: nn.Module, _inputs: tuple, output: Tensor) -> Tensor:
            output = output.clone()
            output[..., rows] *= factors.to(output)
            return output

        part = block.part(self.module, part_name if getattr(block.spec, part_name) else "fused")
        with removed_after(part.register_forward_hook(change)):
            changed = self.run().contexts[0]
        moved = (changed - context).abs().unflatten(-1, (block.n_heads, block.head_dim))
        most = moved.transpose(-1, -2).flatten(0, -2).amax(0)
        rounding = 4 * torch.finfo(context.dtype).eps * float(context.abs().max())
        return (most > rounding).nonzero().flatten().tolist()

    def removal_problem(self, spec: AttentionSpec, kept: Sequence[int]) -> str:
        """The problem with really removing heads; empty where it equals masking them."""
        gone = [head for head in range(self.block.n_heads) if head not in kept]
        expected, block = self.run(zeroed=gone).outputs, replace(self.block, spec=spec)
        try:
            pruned = copy.deepcopy(self.module)
            keep_heads(pruned, block, kept)
            actual = _Trial(pruned, block, self.call).run().outputs
        except Exception as error:  # the module's own code may raise anything
            return f"its code does not run with fewer heads ({describe_error(error)})"
        if not kept:  # there are no attention weights to return
            expected = [expected[0], *(t for t in expected[1:] if not _looks_like_weights(t))]
            actual = [actual[0], *(tensor for tensor in actual[1:] if tensor.numel())]
            if len(actual) < len(expected):
                return "with no head left it does not return what it hands on to other layers"
        if len(actual) < len(expected) or actual[0].shape != expected[0].shape:
            return "with a head removed it returns something of another shape"
        for left, right in zip(actual, expected, strict=False):
            # attention weights have fewer heads; a bias that is passed on must be that of all
            if left.shape != right.shape and not _looks_like_weights(right):
                return "with a head removed it hands on something of another shape to other layers"
            if left.shape == right.shape and not close(left, right, right):
                return "with a head removed it returns something else than with that head masked"
        return ""

    def places_of_weights(self, returns: int) -> tuple[int, ...]:
        """Indices of attention weights in the core's outputs, on request, in eager attention."""
        call = self.call
        if "output_attentions" in inspect.signature(self.module.forward).parameters:
            call = replace(call, kwargs={**call.kwargs, "output_attentions": True})
        config = getattr(self.block.part(self.module, "core"), "config", None)
        name = "_attn_implementation_internal"  # of this configuration, not those inside it
        if (kernel := getattr(config, name, None)) is not None:
            setattr(config, name, "eager")
        try:
            outputs = replace(self, call=call).run().from_core
        except Exception:  # the mask was made for another kernel
            return AttentionSpec.weights
        finally:
            if kernel is not None:
                setattr(config, name, kernel)
        return tuple(
            index
            for index, value in enumerate(outputs if isinstance(outputs, tuple) else ())
            if index and torch.is_tensor(value) and (index >= returns or _looks_like_weights(value))
        )


def close(found: Tensor, expected: Tensor, scale: Tensor) -> bool:
    """Whether two results agree up to the rounding of sums of numbers like ``scale``."""
    if not scale.is_floating_point():  # token positions from an indexer, or a mask
        return torch.equal(found, expected)
    rounding = max(torch.finfo(scale.dtype).eps, torch.finfo(torch.float32).eps)
    limit = 64 * rounding * float(scale.abs().nan_to_num().max())
    both = found.isnan() & expected.isnan()
    return bool(((found - expected).abs().masked_fill(both, 0) <= limit + 1e-12).all())


def _looks_like_weights(returned: Tensor) -> bool:
    """Whether a tensor holds shares that sum to 1, or to less where a part goes to no key."""
    if not returned.is_floating_point() or returned.ndim < 3:
        return False
    shares = returned.nan_to_num().cpu().double()  # not every device has float64
    return bool((shares >= 0).all() and (shares.sum(-1) <= 1 + 1e-3).all())


def _verify_removal(trial: _Trial, entry: bool) -> Verified:
    """The names with all that removal needs, and the limits of removal."""
    block, outputs = trial.block, trial.run().from_core
    names, returns = block.spec, len(outputs) if isinstance(outputs, tuple | list) else 1
    why_keep_one = ""
    if not entry:
        if isinstance(outputs, list):  # which its caller may expect
            why_keep_one, returns = "it returns a list", 1
        names = replace(
            names,
            returns=returns,
            in_tuple=isinstance(outputs, tuple) and returns == 1,
            weights=trial.places_of_weights(returns),
        )
    elif (returns == 1) != (names.returns == 1):
        why_keep_one = f"it returns {returns} values, but its entry says returns={names.returns}"
    group, all_heads = block.queries_per_kv, range(block.n_heads)
    # a key and value head can be removed alone, unless it is the only one, or another layer's
    alone = block.n_heads > group and names.makes_keys
    why_not_prunable, in_part = "", None  # the first partial success
    for variant in [names] if entry else _variants(trial, names, outputs):
        without_group = [head for head in all_heads if head // group != 1]
        if alone and (why := trial.removal_problem(variant, without_group)):
            why_not_prunable = why_not_prunable or why
            continue
        one_of_each = [head for head in all_heads if head % group != 1]
        torn = trial.removal_problem(variant, one_of_each) if group > 1 else ""
        why, emptied = why_keep_one, None
        # without heads, the module itself normalises, or the one around it
        norms = () if names.core or entry else trial.module.named_children()
        normed = [replace(variant, norm=n) for n, c in norms if "norm" in type(c).__name__.lower()]
        for spec in () if why_keep_one else [variant, *normed]:
            if not (broken := trial.removal_problem(spec, [])):
                why, emptied = "", spec
                break
            why = why or broken
        if emptied or alone or (group > 1 and not torn):
            limits = {"why_keep_one": why, "why_whole_groups": torn}
            in_part = in_part or Verified(emptied or variant, limits)
            if not torn:
                return Verified(emptied or variant, limits)
        why_not_prunable = why_not_prunable or why
    return in_part or Verified(names, {"why_not_prunable": why_not_prunable})


def _variants(trial: _Trial, names: AttentionSpec, outputs: Any) -> Iterator[AttentionSpec]:
    """Yield the names with what else may shrink with the heads, and sizes the code may read."""
    core, n_heads = trial.block.part(trial.module, "core"), trial.block.n_heads
    total = columns_of(trial.block.part(trial.module, "output"))
    prefix = f"{names.core}." if names.core else ""
    projections = {getattr(names, part) for part in names.projections}
    rows = tuple(
        prefix + name
        for name, child in core.named_children()
        if isinstance(child, LINEAR)
        and prefix + name not in projections
        and rows_of(child) in (n_heads, total)
    )
    # tensors of the module itself, of its embeddings and its small modules
    tensors = dict(core.named_parameters(recurse=False)) | dict(core.named_buffers(recurse=False))
    for name, child in core.named_children():
        if not isinstance(child, (*LINEAR, *CONVOLUTIONS)):
            tensors |= {f"{name}.{inner}": table for inner, table in child.named_parameters()}
    by_head = [name for name, x in tensors.items() if list(x.shape).count(n_heads) == 1]
    tables = tuple(prefix + name for name in by_head)
    sizes = tuple(
        name
        for name, value in vars(core).items()
        if type(value) is int and value == total and name not in (names.n_heads, names.head_dim)
    )
    ways: list[dict[str, Any]] = [{}, *({"size": name} for name in sizes)]
    if len(sizes) > 1:
        ways.append({"size": sizes})
    if names.n_heads.startswith("config.") or hasattr(core, "config"):
        ways.append({"copies_config": True, "size": sizes or None})
    extra, per_head = [rows, ()] if rows else [()], [tables, ()] if tables else [()]
    biases = _biases(core, n_heads, trial.call, outputs)
    for bias, more, table, way in itertools.product(biases, extra, per_head, ways):
        yield replace(names, extra_projections=more, per_head=table, **bias, **way)


def _biases(
    core: nn.Module, n_heads: int, call: CapturedCall, outputs: Any
) -> list[dict[str, Any]]:
    """Fields that may pass a bias per head, (example or 1, head, query, key), between layers."""

    def by_head(value: Any) -> bool:
        return torch.is_tensor(value) and value.ndim == 4 and value.shape[1] == n_heads

    returned = outputs if isinstance(outputs, tuple) and hasattr(core, "compute_bias") else ()
    for index, value in enumerate(returned):
        if index and by_head(value):
            return [{"bias_argument": "position_bias", "bias_output": index}]
    named = [name for name, value in call.kwargs.items() if n_heads > 1 and by_head(value)]
    return [{}, *({"bias_argument": name} for name in named)]


# Running the model: the inputs of its modules, and whose keys and values they read.


def capture_calls(
    model: nn.Module, paths: list[str], inputs: Mapping[str, Any] | None
) -> tuple[dict[str, CapturedCall], list[tuple[str, Inputs]], str]:
    """Capture the first call of each module at these paths, running the model or parts of it.

    Returns:
        path -> the module's call; the path of each part that was run, with the inputs that
        reached a module; and the first error.
    """
    calls: dict[str, CapturedCall] = {}
    passes: list[tuple[str, Inputs]] = []
    problem = ""
    inner = [  # models inside it that contain attention and can run by themselves
        path
        for path, module in model.named_modules()
        if path
        and hasattr(module, "config")
        and hasattr(module, "main_input_name")
        and any(other.startswith(f"{path}.") for other in paths)
    ]
    for root_path in ["", *sorted(inner, key=lambda path: path.count("."))]:
        root, prefix = model.get_submodule(root_path), f"{root_path}." if root_path else ""
        device = next((parameter.device for parameter in root.parameters()), torch.device("cpu"))
        for batch in [inputs] if inputs is not None and not root_path else example_inputs(root):
            missing = [path for path in paths if path.startswith(prefix) and path not in calls]
            if not missing:
                break
            placed = {k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}
            # also from a pass that ended in an error: modules that ran had real inputs
            captured, error = record(root, [path.removeprefix(prefix) for path in missing], placed)
            calls |= {prefix + path: call for path, call in captured.items()}
            passes += [(root_path, placed)] if captured else []
            problem = problem or error
    return calls, passes, problem


def record(
    model: nn.Module, paths: Sequence[str], inputs: Inputs
) -> tuple[dict[str, CapturedCall], str]:
    """The first call of each module at these paths in a pass of the model, and the error if any."""
    calls: dict[str, CapturedCall] = {}
    n_examples = next((len(value) for value in inputs.values() if torch.is_tensor(value)), 0)

    def keep(path: str, _module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        if path not in calls:
            calls[path] = CapturedCall(*copy.deepcopy((args, kwargs)), n_examples)

    modules = {path: model.get_submodule(path) for path in paths}
    handles = [
        module.register_forward_pre_hook(partial(keep, path), with_kwargs=True)
        for path, module in modules.items()
    ]
    with removed_after(*handles), torch.no_grad():
        try:
            model(**inputs)
        except Exception as error:  # the model cannot run on these inputs
            return calls, describe_error(error)
    return calls, ""


def keys_read(
    model: nn.Module, blocks: Sequence[AttentionLayer], others: Sequence[str], inputs: Inputs
) -> dict[str, set[str]]:
    """Which modules also use the keys and values of another attention module: maker -> readers.

    Autograd tells in one forward pass: projections of keys and values begin a graph, and every
    output projection ends it, so another module is on a graph only if keys or values were passed to
    it. Hidden states that depend on them in other ways are detached before the next attention.

    Args:
        others: paths of further modules that may read; in the result, ``""`` stands for the model.
    """
    makers: dict[Any, str] = {}
    readers: dict[str, set[str]] = {}

    def begin(path: str, _module: nn.Module, _inputs: tuple, output: Tensor) -> Tensor:
        start = output.detach().requires_grad_()
        makers[start] = path
        return start.clone()  # code may write to it in place

    def end(path: str, _module: nn.Module, inputs: tuple) -> tuple:
        read(path, inputs[0])
        return (inputs[0].detach(), *inputs[1:])

    def cut_off(_module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        if args and isinstance(args[0], Tensor):
            return (args[0].detach(), *args[1:]), kwargs
        states = next((name for name, value in kwargs.items() if torch.is_tensor(value)), None)
        return args, kwargs if states is None else kwargs | {states: kwargs[states].detach()}

    def returned(path: str, _module: nn.Module, _inputs: tuple, output: Any) -> None:
        while isinstance(output, dict | tuple | list) and output:
            output = next(iter(output.values())) if isinstance(output, dict) else output[0]
        read(path, output)

    def read(path: str, tensor: Any) -> None:
        for node in graph_nodes(tensor):
            maker = makers.get(getattr(node, "variable", None))  # only leaves have one
            if maker not in (None, path):
                readers.setdefault(maker, set()).add(path)

    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    handles: list[RemovableHandle] = []
    for block in blocks:
        path, module = block.path, model.get_submodule(block.path)
        for part in {"fused", "key", "value"}.intersection(block.spec.projections):
            projection = block.part(model, part)
            handles.append(projection.register_forward_hook(partial(begin, path)))
        output = block.part(model, "output")
        handles.append(output.register_forward_pre_hook(partial(end, path)))
        handles.append(module.register_forward_pre_hook(cut_off, with_kwargs=True))
    for path in ["", *others]:
        module = model.get_submodule(path)
        handles.append(module.register_forward_hook(partial(returned, path)))
    with removed_after(*handles), torch.inference_mode(False), torch.enable_grad():
        for parameter in learned:  # only keys and values begin graphs
            parameter.requires_grad_(False)
        try:
            # as in a capture, the model may fail on these inputs before its end
            with suppress(Exception):
                model(**copy.deepcopy(inputs))
        finally:
            for parameter in learned:
                parameter.requires_grad_()
    return readers


@contextmanager
def as_it_was(model: nn.Module) -> Iterator[None]:
    """Inside the block, evaluate the model; afterwards restore modes, buffers and random state.

    Raises:
        ValueError: the model exchanged modules of its own, which are put back.
    """
    children = [(module, dict(module._modules)) for module in model.modules()]
    buffers = [(b, b.clone()) for b in model.buffers() if not b.is_meta]
    put_back, exchanged = state_of(model.modules()), ""
    with torch.random.fork_rng():
        try:
            model.eval()
            yield
        finally:
            for module, before in children:
                for name, child in before.items():
                    if (now := module._modules.get(name)) is not child:
                        exchanged = exchanged or f"{type(child).__name__} by {type(now).__name__}"
            put_back()
            for buffer, values in buffers:
                if buffer.shape == values.shape:
                    buffer.copy_(values)
    if exchanged:
        raise ValueError(
            f"{type(model).__name__} replaces its own modules while it runs ({exchanged}), so "
            "heads found in one are not those of the other. Load it so that it keeps one kind "
            '(BigBird: attention_type="original_full")'
        )


def describe_error(error: BaseException) -> str:
    """An error's message on one line, with its type unless it is one of ours."""
    text = one_line(error)
    return text if isinstance(error, NotAttention) else f"{type(error).__name__}: {text}"[:160]
