"""Whether a module is what its structure says: tried on the model itself, with nothing changed.

Three things are tried on what one pass of random inputs gives the module. Its output projection
takes the heads side by side, and a scaled slice moves what it returns as its columns say. Changing
one head's values changes that head's slice and no other: heads do not mix before the projection.
And a copy whose head is really removed returns what the module does with that head masked.
"""

from __future__ import annotations

import copy
import inspect
import itertools
from collections import UserDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, EncoderDecoderCache
from transformers.pytorch_utils import Conv1D

from headprune_lib.batching import Batch
from headprune_lib.example_inputs import example_inputs
from headprune_lib.messages import one_line
from headprune_lib.pruned_forward import OUTSIDE
from headprune_lib.running import evaluating, on_device
from headprune_lib.slicing import head_rows, keep_heads, value_rows
from headprune_lib.specs import (
    Architecture,
    AttentionBlock,
    NotAttention,
    block_of,
    columns_of,
    rows_of,
)

Linear = (nn.Linear, Conv1D)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class Proof:
    """What of a module is proved.

    Attributes:
        architecture: names of its parts.
        masks_only: why heads cannot be removed; empty where they can.
        keeps_one: why a layer cannot lose all its heads; empty where it can.
        whole_groups: why heads that share a key and value head can only go together; empty where
            each group may lose equally many.
        keeps_groups: why key and value heads cannot go; see :class:`headprune_lib.AttentionBlock`.
        by_example: whether its output projection takes (example, position, …).
    """

    architecture: Architecture
    masks_only: str = ""
    keeps_one: str = ""
    whole_groups: str = ""
    keeps_groups: str = ""
    by_example: bool = True


def prove(module: nn.Module, candidates: Sequence[Architecture], ran: Ran) -> Proof:
    """The first candidate that holds on the module.

    Raises:
        NotAttention: none does; says what was seen of the first.
    """
    reasons: list[str] = []
    for one in candidates:
        try:
            block = block_of(module, "", one, kind="self", layer=0, layer_path="", how="found")
            context = check_masks(module, block, ran)
        except (NotAttention, RuntimeError, ValueError, IndexError, TypeError) as error:
            reasons.append(said(error))
            continue
        by_example = context.ndim == 3 and len(context) == ran.examples
        return replace(_with_removal(module, block, ran), by_example=by_example)
    raise NotAttention(reasons[0] if reasons else "no candidate was seen")


def check(module: nn.Module, entry: Architecture, ran: Ran) -> Proof:
    """What of an entry that was taught holds on the module; nothing else is tried.

    Raises:
        NotAttention: masking a head would not mean what it says; says what was seen.
    """
    _check_names(module, entry)
    block = block_of(module, "", entry, kind="self", layer=0, layer_path="", how="registered")
    context = check_masks(module, block, ran)
    kept = [h for h in range(block.n_heads) if h // block.group != 1]
    several = block.n_heads > block.group and entry.makes_keys
    problem = removal_problem(module, block, ran, kept) if several else ""
    with core_outputs(block.part(module, "core")) as made:
        output_of(module, ran)
    returned = len(made[0]) if isinstance(made[0], tuple | list) else 1
    keeps_one = (
        f"it returns {returned} things, and its entry says returns={entry.returns}"
        if returned == 1 != entry.returns or returned > 1 == entry.returns
        else removal_problem(module, block, ran, [])
    )
    return Proof(
        entry,
        masks_only=problem,
        keeps_one="" if problem else keeps_one,
        whole_groups="" if problem else group_problem(module, block, ran),
        by_example=context.ndim == 3 and len(context) == ran.examples,
    )


def _check_names(module: nn.Module, entry: Architecture) -> None:
    """Raises NotAttention where an entry names what the module does not have."""
    for field in (*entry.projections, "n_heads", "width"):
        name = getattr(entry, field)
        if name is None:
            continue
        inside = f"{entry.core}." if entry.core and field in ("n_heads", "width") else ""
        try:
            there = attrgetter(inside + name)(module)
        except AttributeError:
            raise NotAttention(f"its entry says {field}={name!r}, which it does not have") from None
        if field in entry.projections and not isinstance(there, nn.Module):
            raise NotAttention(
                f"its entry says {field}={name!r}, a {type(there).__name__} and no module: heads are "
                "masked and removed at linear layers, so write the projection as an nn.Linear"
            )


def _with_removal(module: nn.Module, block: AttentionBlock, ran: Ran) -> Proof:
    """The proof for masks, with what is proved of removal."""
    names = block.architecture
    core = block.part(module, "core")
    with core_outputs(core) as made:
        output_of(module, ran)
    outputs = made[0] if made else None
    many = isinstance(outputs, tuple)
    returns = len(outputs) if isinstance(outputs, tuple) else 1
    names = replace(names, returns=returns, in_tuple=many and returns == 1)
    names = replace(names, weights=_places_of_weights(module, core, ran, returns))
    units = block.n_heads // block.group
    # a key and value head can go alone, unless it is the only one, or another layer's
    alone = units > 1 and names.makes_keys
    kept = [h for h in range(block.n_heads) if h // block.group != 1]
    reason, second = "", None  # a proof of less than all
    for one in _variants(module, core, names, ran, outputs):
        block = replace(block, architecture=one)
        problem = removal_problem(module, block, ran, kept) if alone else ""
        if problem:
            reason = reason or problem
            continue
        torn = group_problem(module, block, ran)
        # the code around it may want the list that a module returns
        why = "it returns a list" if isinstance(outputs, list) else ""
        for candidate in _emptied(module, one) if not why else ():
            found = removal_problem(module, replace(block, architecture=candidate), ran, [])
            if not found and not torn:
                return Proof(candidate)
            if not found:
                second = second or Proof(candidate, whole_groups=torn)
            why = why or found
        if alone or (block.group > 1 and not torn):
            second = second or Proof(one, keeps_one=why, whole_groups=torn)
            if not torn:
                return Proof(one, keeps_one=why)
        reason = reason or why
    return second or Proof(names, masks_only=reason)


def _places_of_weights(module: nn.Module, core: Any, ran: Ran, returns: int) -> tuple[int, ...]:
    """Where the core returns attention weights, asked for them, under the kernel that makes them.

    What it returns only if it is asked for them is taken for such.
    """
    if "output_attentions" in inspect.signature(module.forward).parameters:
        ran = replace(ran, kwargs={**ran.kwargs, "output_attentions": True})
    try:
        with _eager(getattr(core, "config", None)), core_outputs(core) as made:
            output_of(module, ran)
    except Exception:  # the mask was made for another kernel
        return Architecture.weights
    outputs = made[0] if made and isinstance(made[0], tuple) else ()
    return tuple(
        place
        for place, one in enumerate(outputs)
        if place and torch.is_tensor(one) and (place >= returns or looks_like_weights(one))
    )


@contextmanager
def _eager(config: Any) -> Iterator[None]:
    """Inside, this configuration, and none inside it, names the kernel that makes weights."""
    name = "_attn_implementation_internal"
    before = getattr(config, name, None)
    if before is not None:
        setattr(config, name, "eager")
    try:
        yield
    finally:
        if before is not None:
            setattr(config, name, before)


def _variants(
    module: nn.Module, core: Any, names: Architecture, ran: Ran, outputs: Any
) -> Iterator[Architecture]:
    count = attrgetter(names.n_heads)(core)
    biases = [
        name
        for name, value in ran.kwargs.items()
        if isinstance(value, Tensor) and value.ndim == 4 and value.shape[1] == count > 1
    ]
    made = [
        place
        for place, value in enumerate(outputs if isinstance(outputs, tuple) else ())
        if place and isinstance(value, Tensor) and value.ndim == 4 and value.shape[1] == count
    ]
    if hasattr(core, "compute_bias") and made:
        names = replace(names, bias_argument="position_bias", bias_output=made[0])
        yield from further_parts(module, replace(names), core)
        return
    yield from further_parts(module, names, core)
    for name in biases:
        yield from further_parts(module, replace(names, bias_argument=name), core)


def _emptied(module: nn.Module, names: Architecture) -> Iterator[Architecture]:
    """Candidates for a module that loses all its heads: with a norm of its own, or without."""
    yield names
    if not names.core:
        for name, child in module.named_children():
            if "norm" in type(child).__name__.lower():
                yield replace(names, norm=name)


def check_masks(module: nn.Module, block: AttentionBlock, ran: Ran) -> Tensor:
    """What the projection takes, if masking a head before it means what it says.

    Raises:
        NotAttention: if not; says what was seen.
    """
    count, width, group = block.n_heads, block.width, block.group
    with contexts_of(module, block) as contexts:
        first = output_of(module, ran)
        again = output_of(module, ran)
    if len(contexts) != 2:
        never = (
            ", for its code never calls it, and a mask acts where it is called "
            "(torch.nn.MultiheadAttention never calls out_proj: it takes the weights alone)"
        )
        raise NotAttention(
            f"its output projection ran {len(contexts) // 2} times in one pass of the module"
            f"{'' if contexts else never}"
        )
    context = contexts[0]
    if context.shape[-1] != count * width:
        raise NotAttention(
            f"its output projection takes {context.shape[-1]} numbers, not {count} heads of {width}"
        )
    if not torch.equal(first, again):
        raise NotAttention("it returns something else at each pass")
    places = {0, count // group - 1}
    moved = "values" if block.architecture.makes_keys else "queries"
    _check_columns(block.part(module, "output"), context, [p * group for p in places], width)
    for place in places:
        changed = _changed_heads(module, block, ran, place, context)
        own = list(range(place * group, (place + 1) * group))
        if not changed:
            raise NotAttention(
                f"changing the {moved} of head {own[0]} changes nothing that its output projection "
                "takes"
            )
        if changed != own:
            raise NotAttention(
                f"changing the {moved} of heads {own} changes heads {changed}: heads mix before "
                "the output projection, or lie otherwise than it seems"
            )
    with zeroed(module, block, [0]):
        masked = output_of(module, ran)
    if torch.equal(masked, first):
        raise NotAttention("masking a head changes nothing that the module returns")
    return context


def _check_columns(output: nn.Module, context: Tensor, heads: list[int], width: int) -> None:
    weight = getattr(output, "weight", None)
    if not isinstance(weight, Tensor) or not weight.is_floating_point() or weight.ndim != 2:
        return  # quantised: what its columns are cannot be read
    turned = weight if hasattr(output, "nf") else weight.T  # (in, out)
    with torch.no_grad():
        plain = output(context)
        for head in heads:
            scaled, place = context.clone(), slice(head * width, (head + 1) * width)
            scaled[..., place] *= 3
            moved = output(scaled) - plain
            said = 2 * context[..., place] @ turned[place]
            if not close(moved.reshape(said.shape), said, plain):
                raise NotAttention(
                    f"scaling the slice of head {head} does not move the output as the "
                    "projection's columns say"
                )


def _changed_heads(
    module: nn.Module, block: AttentionBlock, ran: Ran, place: int, context: Tensor
) -> list[int]:
    """The heads whose numbers change where the values of one head, or group, are changed.

    Or its queries, where another layer makes the values.
    """
    names, heads = block.architecture, range(place * block.group, (place + 1) * block.group)
    if names.query is not None and not names.makes_keys:
        name, rows = "query", head_rows(module, block, heads)[names.query]
    else:
        name, rows = "fused" if names.fused else "value", value_rows(module, block, heads)

    # neither a factor, which a norm of the head would undo, nor a sign, which one of all heads would
    factors = torch.linspace(-1, 2.5, len(rows))

    def change(_module: nn.Module, _inputs: tuple, output: Tensor) -> Tensor:
        output = output.clone()
        output[..., rows.to(output.device)] *= factors.to(output)
        return output

    handle = block.part(module, name).register_forward_hook(change)
    try:
        with contexts_of(module, block) as contexts:
            output_of(module, ran)
    finally:
        handle.remove()
    moved = (contexts[0] - context).abs().unflatten(-1, (block.n_heads, block.width))
    most = moved.transpose(-1, -2).flatten(0, -2).amax(0)
    return (most > tolerance(context)).nonzero().flatten().tolist()


def removal_problem(module: nn.Module, block: AttentionBlock, ran: Ran, kept: list[int]) -> str:
    """What is wrong with really removing heads; empty where it equals masking them."""
    gone = [head for head in range(block.n_heads) if head not in kept]
    with zeroed(module, block, gone):
        expected = outputs_of(module, ran)
    try:
        pruned = copy.deepcopy(module)
        keep_heads(pruned, block, kept)
        found = outputs_of(pruned, ran)
    except Exception as error:  # whatever the module's own code makes of it
        return f"its code does not run with fewer heads ({said(error)})"
    if not kept:  # there are no weights of attention to return
        expected = [expected[0], *(one for one in expected[1:] if not looks_like_weights(one))]
        found = [found[0], *(one for one in found[1:] if one.numel())]
        if len(found) < len(expected):
            return "with no head left it does not return what it hands on to other layers"
    if len(found) < len(expected) or found[0].shape != expected[0].shape:
        return "with a head removed it returns something of another shape"
    for left, right in zip(found, expected, strict=False):
        # weights of attention have fewer heads; a bias that is handed on must be that of all
        if left.shape != right.shape and not looks_like_weights(right):
            return "with a head removed it hands on something of another shape to other layers"
        if left.shape == right.shape and not close(left, right, right):
            return "with a head removed it returns something else than with that head masked"
    return ""


def group_problem(module: nn.Module, block: AttentionBlock, ran: Ran) -> str:
    """What is wrong where each group loses one of its heads and keeps its key and value head."""
    kept = [head for head in range(block.n_heads) if head % block.group != 1]
    return removal_problem(module, block, ran, kept) if block.group > 1 else ""


def looks_like_weights(returned: Tensor) -> bool:
    """Whether this is how much each query attends to each key: shares that sum to 1 at most.

    Less than 1 goes to the keys where a part goes to none of them (an attention sink), and nothing
    where a query sees no key.
    """
    if not returned.is_floating_point() or returned.ndim < 3:
        return False
    shares = returned.double().nan_to_num()
    return bool((shares >= 0).all() and (shares.sum(-1) <= 1 + 1e-3).all())


def further_parts(module: nn.Module, one: Architecture, core: nn.Module) -> Iterator[Architecture]:
    """The candidate with what else has a part a head, and with the sizes its code may read.

    Removal needs these; the proof says which of them are so.
    """
    count = attrgetter(one.n_heads)(core)
    total = columns_of(module.get_submodule(one.output))
    named = {one.query, one.key, one.value, one.fused, one.output}
    prefix = f"{one.core}." if one.core else ""
    rows = tuple(
        f"{prefix}{name}"
        for name, child in core.named_children()
        if isinstance(child, Linear)
        and f"{prefix}{name}" not in named
        and rows_of(child) in (count, total)
    )
    tables = tuple(
        f"{prefix}{name}"
        for name, tensor in _own_tensors(core)
        if tensor.ndim and list(tensor.shape).count(count) == 1
    )
    sizes = tuple(
        name
        for name, value in vars(core).items()
        if type(value) is int and value == total and name not in (one.n_heads, one.width)
    )
    in_config = one.n_heads.startswith("config.") or hasattr(core, "config")
    for more, table in itertools.product(_with_and_without(rows), _with_and_without(tables)):
        base = replace(one, more_rows=more, per_head=table)
        yield base
        yield from (replace(base, size=name) for name in sizes)
        if len(sizes) > 1:
            yield replace(base, size=sizes)
        if in_config:
            yield replace(base, own_config=True, size=sizes or None)


def _with_and_without(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [names, ()] if names else [()]


def _own_tensors(core: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers of the module itself, of its embeddings and its small modules."""
    yield from core.named_parameters(recurse=False)
    yield from core.named_buffers(recurse=False)
    for name, child in core.named_children():
        if not isinstance(child, (*Linear, *CONVOLUTIONS)):
            yield from ((f"{name}.{own}", t) for own, t in child.named_parameters())


@dataclass
class Ran:
    """What a module was given in one pass of the model."""

    args: tuple
    kwargs: dict[str, Any]
    examples: int

    def keys_from_outside(self) -> bool:
        """Whether it was given something else than its own states to make keys of."""
        own = next(
            (one for one in (*self.args, *self.kwargs.values()) if torch.is_tensor(one)), None
        )
        for name in OUTSIDE:
            given = self.kwargs.get(name)
            if torch.is_tensor(given) and own is not None:
                return given.shape != own.shape or not torch.equal(given, own)
        return False

    def by_head(self) -> tuple[str, ...]:
        """Names of arguments that may hold something a head: (example, head, query, key).

        Of two modules that are alike one may be given a mask for all heads, and the other a bias a
        head, which removal has to slice.
        """
        each = {**{str(place): one for place, one in enumerate(self.args)}, **self.kwargs}
        return tuple(
            name
            for name, one in sorted(each.items())
            if torch.is_tensor(one) and one.ndim == 4 and one.shape[1] > 1
        )


def output_of(module: nn.Module, ran: Ran) -> Tensor:
    """The tensor that the module returns, or the first that it does."""
    return outputs_of(module, ran)[0]


def outputs_of(module: nn.Module, ran: Ran) -> list[Tensor]:
    """The tensors that the module returns."""
    # a module may write to a cache, or to what it is given
    args, kwargs = copied((ran.args, ran.kwargs))
    with torch.no_grad():
        output = module(*args, **kwargs)
    while isinstance(output, tuple | list) and output and isinstance(output[0], tuple | list):
        output = output[0]
    each = output if isinstance(output, tuple | list) else [output]
    if not each or not isinstance(each[0], Tensor):
        raise NotAttention(f"it returns a {type(output).__name__}, not a tensor")
    return [one for one in each if isinstance(one, Tensor)]


def copied(given: Any) -> Any:
    """Arguments of a module, its tensors and caches copied, so that nothing shared is written to."""
    if isinstance(given, Tensor):
        return given.detach().clone()
    if isinstance(given, Cache | EncoderDecoderCache):
        return copy.deepcopy(given)
    if isinstance(given, tuple) and type(given) is tuple:
        return tuple(copied(one) for one in given)
    if type(given) is list:
        return [copied(one) for one in given]
    if type(given) is dict:
        return {name: copied(one) for name, one in given.items()}
    if isinstance(given, UserDict):  # keys and values that layers hand on to each other
        return type(given)(copied(given.data))
    return given


@contextmanager
def contexts_of(module: nn.Module, block: AttentionBlock) -> Iterator[list[Tensor]]:
    """Inside, a list to which every run adds what the output projection is given."""
    contexts: list[Tensor] = []

    def keep(_module: nn.Module, inputs: tuple) -> None:
        contexts.append(inputs[0].detach().clone())

    handle = block.part(module, "output").register_forward_pre_hook(keep)
    try:
        yield contexts
    finally:
        handle.remove()


@contextmanager
def core_outputs(core: nn.Module) -> Iterator[list[Any]]:
    """Inside, a list to which every run adds what the core returns."""
    made: list[Any] = []
    handle = core.register_forward_hook(lambda _module, _inputs, output: made.append(output))
    try:
        yield made
    finally:
        handle.remove()


@contextmanager
def zeroed(module: nn.Module, block: AttentionBlock, heads: Sequence[int]) -> Iterator[None]:
    """Inside, the output projection is given nothing of these heads."""

    def zero(_module: nn.Module, inputs: tuple) -> tuple:
        context = inputs[0].clone()
        context.unflatten(-1, (block.n_heads, block.width))[..., list(heads), :] = 0
        return (context, *inputs[1:])

    handle = block.part(module, "output").register_forward_pre_hook(zero)
    try:
        yield
    finally:
        handle.remove()


def record(
    model: nn.Module, paths: Sequence[str], inputs: dict[str, Any]
) -> tuple[dict[str, Ran], str]:
    """What the modules of these paths are given in a pass of the model; and what went wrong."""
    found: dict[str, Ran] = {}
    examples = next((len(one) for one in inputs.values() if isinstance(one, Tensor)), 0)

    def keep(path: str) -> Callable[[nn.Module, tuple, dict], None]:
        def hook(_module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
            if path not in found:
                found[path] = Ran(copied(args), copied(kwargs), examples)

        return hook

    with ExitStack() as stack:
        for path in paths:
            hook = model.get_submodule(path).register_forward_pre_hook(keep(path), with_kwargs=True)
            stack.callback(hook.remove)
        try:
            with torch.no_grad():
                model(**inputs)
        except Exception as error:  # these inputs are not the model's
            return found, said(error)
    return found, ""


def reached(
    model: nn.Module, paths: list[str], inputs: Batch | None
) -> tuple[dict[str, Ran], str, list[tuple[str, Batch]]]:
    """What each module is given where the model, or the part of it that holds it, is run.

    Returns:
        what modules were given, by path; what went wrong; and the path of each part that was run
        with its inputs, where these reached a module.
    """
    ran: dict[str, Ran] = {}
    passes: list[tuple[str, Batch]] = []
    problem = ""
    for root_path in _roots(model, paths):
        root = model.get_submodule(root_path)
        prefix = f"{root_path}." if root_path else ""
        wanted = [path for path in paths if path not in ran and path.startswith(prefix)]
        if not wanted:
            continue
        tried = [inputs] if inputs is not None and not root_path else example_inputs(root)
        with as_it_was(root):
            for made in tried:
                first = next(root.parameters(), None)
                placed = on_device(made, "cpu" if first is None else first.device)
                below = [path.removeprefix(prefix) for path in wanted if path not in ran]
                if not below:
                    break
                found, error = record(root, below, placed)
                # of a pass that ended in an error too: the modules that ran were given real inputs
                ran |= {prefix + path: one for path, one in found.items()}
                passes += [(root_path, placed)] if found else []
                problem = problem or error
    return ran, problem, passes


def keys_read(
    model: nn.Module, blocks: Sequence[AttentionBlock], others: Sequence[str], inputs: Batch
) -> dict[str, set[str]]:
    """Which modules use the keys and values that attention makes for itself: maker -> readers.

    Autograd tells, in one pass: what makes keys and values begins a graph, and every output
    projection ends it, so that another module is on a graph only if it was handed keys or values,
    whatever by (an argument, a dict of the model's, a cache). Hidden states that depend on them
    otherwise are cut off before the next attention. Nothing is computed backward.

    Args:
        blocks: attention that is known; paths are below ``model``.
        others: paths of modules that are not known and may read, too.

    Returns:
        paths; ``""`` is a reader that is none of these modules.
    """
    made: dict[Tensor, str] = {}
    readers: dict[str, set[str]] = {}

    def begin(path: str, _module: nn.Module, _inputs: tuple, output: Tensor) -> Tensor:
        start = output.detach().requires_grad_()
        made[start] = path
        return start.clone()  # code may write to it in place

    def end(path: str, _module: nn.Module, inputs: tuple) -> tuple:
        read(path, inputs[0])
        return (inputs[0].detach(), *inputs[1:])

    def cut_off(_module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        if args and isinstance(args[0], Tensor):
            return (args[0].detach(), *args[1:]), kwargs
        states = next((name for name, one in kwargs.items() if isinstance(one, Tensor)), None)
        return args, kwargs if states is None else kwargs | {states: kwargs[states].detach()}

    def read(path: str, tensor: Any) -> None:
        for maker in {made[start] for start in _starts(tensor) if start in made} - {path}:
            readers.setdefault(maker, set()).add(path)

    def first(output: Any) -> Any:
        output = list(output.values()) if isinstance(output, dict) else output
        return first(output[0]) if isinstance(output, tuple | list) and output else output

    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with ExitStack() as stack, torch.inference_mode(False), torch.enable_grad():
        for parameter in learned:  # graphs are of keys and values alone
            parameter.requires_grad_(False)
            stack.callback(parameter.requires_grad_)
        for block in blocks:
            for part in {"fused", "key", "value"}.intersection(block.architecture.projections):
                making = block.part(model, part)
                stack.callback(making.register_forward_hook(partial(begin, block.path)).remove)
            output = block.part(model, "output")
            stack.callback(output.register_forward_pre_hook(partial(end, block.path)).remove)
            module = model.get_submodule(block.path)
            stack.callback(module.register_forward_pre_hook(cut_off, with_kwargs=True).remove)
        for path in ["", *others]:
            hook = model.get_submodule(path).register_forward_hook(
                lambda _module, _inputs, output, path=path: read(path, first(output))
            )
            stack.callback(hook.remove)
        with suppress(Exception):  # inputs that the model does not run on to its end, as in record
            model(**copied(inputs))
    return readers


def _starts(tensor: Any) -> Iterator[Tensor]:
    """The leaves of the graph that a tensor was made on."""
    todo = [getattr(tensor, "grad_fn", None)]
    seen = set()
    while todo:
        if (node := todo.pop()) is None or node in seen:
            continue
        seen.add(node)
        todo += [before for before, _ in node.next_functions]
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf


def _roots(model: nn.Module, paths: list[str]) -> list[str]:
    """The model, then the models inside it that hold attention and can be run by themselves."""
    inner = [
        path
        for path, module in model.named_modules()
        if path
        and hasattr(module, "config")
        and hasattr(module, "main_input_name")
        and any(one.startswith(f"{path}.") for one in paths)
    ]
    return ["", *sorted(inner, key=lambda path: path.count("."))]


@contextmanager
def as_it_was(model: nn.Module) -> Iterator[None]:
    """Inside, the model is evaluated; afterwards modes, buffers and random state are as before.

    Raises:
        ValueError: the model exchanged modules of its own, which are put back.
    """
    buffers = [
        (m, n, b, b.clone())
        for m in model.modules()
        for n, b in m._buffers.items()
        if b is not None and not b.is_meta
    ]
    parts = [(module, dict(module._modules), _plain(module)) for module in model.modules()]
    with evaluating(model), torch.random.fork_rng():
        try:
            yield
        finally:
            exchanged = _put_back(parts)
            for module, name, buffer, value in buffers:
                if module._buffers.get(name) is not buffer:
                    module._buffers[name] = buffer
                if buffer.shape == value.shape:
                    buffer.copy_(value)
    if exchanged:
        raise ValueError(
            f"{type(model).__name__} exchanges modules of its own while it runs ({exchanged}): heads "
            "that are found in the one are not those of the other. Load it so that it keeps one kind "
            '(BigBird: attention_type="original_full")'
        )


def _plain(module: nn.Module) -> dict[str, Any]:
    return {k: v for k, v in vars(module).items() if v is None or isinstance(v, int | float | str)}


def _put_back(parts: list[tuple[nn.Module, dict[str, Any], dict[str, Any]]]) -> str:
    """Give modules the parts and plain attributes that they had; what was exchanged, if anything."""
    exchanged = ""
    for module, children, plain in parts:
        for name, child in children.items():
            if (now := module._modules.get(name)) is not child:
                exchanged = exchanged or f"{type(child).__name__} for {type(now).__name__}"
                module._modules[name] = child
        for name, value in plain.items():
            if vars(module).get(name) is not value:
                vars(module)[name] = value
    return exchanged


def said(error: BaseException) -> str:
    """What an error says; its type too, where it is none of ours."""
    text = one_line(error)
    return text if isinstance(error, NotAttention) else f"{type(error).__name__}: {text}"[:160]


def tolerance(like: Tensor) -> float:
    """What rounding may move numbers like these by."""
    return 4 * torch.finfo(like.dtype).eps * float(like.abs().max())


def close(found: Tensor, expected: Tensor, scale: Tensor) -> bool:
    """Whether two runs agree up to the rounding of sums of numbers like ``scale``."""
    if not scale.is_floating_point():  # places of tokens that an indexer chose, or a mask
        return torch.equal(found, expected)
    limit = 64 * torch.finfo(scale.dtype).eps * float(scale.abs().nan_to_num().max())
    limit = max(limit, 64 * torch.finfo(torch.float32).eps * float(scale.abs().nan_to_num().max()))
    both = found.isnan() & expected.isnan()
    return bool(((found - expected).abs().masked_fill(both, 0) <= limit + 1e-12).all())
