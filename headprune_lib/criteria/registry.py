"""Criteria, the registry of their names, and the mean over batches that they share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from headprune_lib.masking import HeadTensors, check_scored, shapes_of
from headprune_lib.messages import unknown
from headprune_lib.specs import AttentionLayer
from headprune_lib.utils import Batch, Device, in_double, on_device

Normalize = Literal["l2"] | None
"""``"l2"``: divided by the l2 norm of the layer's scores (paper, section 4.1); None: unchanged."""

ScoreFunction = Callable[..., HeadTensors]
"""``(model, batches, *, loss=None, device=None) -> scores``, not normalised.

The lowest score is removed first. Scores are kind -> float64 tensor of shape ``(layer, head)``, NaN
for heads that were removed. Further settings are keywords with defaults. The first line of the
docstring says what the scores are, and ``headprune criteria`` lists it.
"""


@dataclass(frozen=True)
class Criterion:
    """A named way of scoring heads.

    Attributes:
        name: its name in commands, files and curves.
        score: the function.
        normalize: how its scores are normalised by default.
        variant: its short name in ``head_importance(variant=)``, if it is a variant of
            importance.
        version: bumped by hand when its meaning changes; its curves are then measured anew.
        weights: whether it reads attention weights, which only the eager kernel returns.
    """

    name: str
    score: ScoreFunction
    normalize: Normalize = None
    variant: str | None = None
    version: int = 1
    weights: bool = False

    @property
    def leaves_ends_out(self) -> bool:
        """Whether it leaves out end marks by default; a tokenizer knows them best."""
        leave_out = inspect.signature(self.score).parameters.get("leave_out")
        return leave_out is not None and leave_out.default is None

    @property
    def summary(self) -> str:
        """One-line description of its scores: the first line of the function's docstring."""
        return (inspect.getdoc(self.score) or "").partition("\n")[0]

    @property
    def place(self) -> str:
        """Qualified name of its function, the same if a notebook cell is run again."""
        return f"{self.score.__module__}.{getattr(self.score, '__qualname__', repr(self.score))}"


CRITERIA: dict[str, Criterion] = {}
"""All criteria by name: built-in ones and those that a user registers."""

Function = TypeVar("Function", bound=ScoreFunction)


def register_criterion(
    name: str,
    *,
    normalize: Normalize = None,
    variant: str | None = None,
    version: int = 1,
    weights: bool = False,
) -> Callable[[Function], Function]:
    """Give a function a name under which commands, curves and ``score_heads`` find it.

    The arguments are those of :class:`headprune_lib.criteria.Criterion`.

    Raises:
        ValueError: a name with characters other than small letters, digits and hyphens, or one
            that another function has.

    Example:
        >>> @register_criterion("first")
        ... def first(model, batches, *, loss=None, device=None):
        ...     "Number of the head."
        ...     return {kind: torch.arange(heads).double().expand(layers, heads)
        ...             for kind, (layers, heads) in mask_shapes(model).items()}
        >>> get_criterion("first").summary
        'Number of the head.'
        >>> del CRITERIA["first"]
    """
    # no spaces: in an order's name they separate the criterion from the words that follow
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(
            f"{name!r} is not a criterion's name. Use small letters, digits and hyphens"
        )

    def register(function: Function) -> Function:
        criterion = Criterion(name, function, normalize, variant, version, weights)
        if name in CRITERIA and (defined_in := CRITERIA[name].place) != criterion.place:
            raise ValueError(f"criterion {name!r} is taken ({defined_in}). Give another name")
        CRITERIA[name] = criterion
        return function

    return register


def get_criterion(name: str) -> Criterion:
    """The criterion with a given name.

    Raises:
        ValueError: there is none; the nearest names are suggested.
    """
    if name not in CRITERIA:
        raise ValueError(unknown("criterion", name, CRITERIA))
    return CRITERIA[name]


def normalize_l2(scores: HeadTensors) -> HeadTensors:
    """Divide each layer's scores by their l2 norm (paper, section 4.1); zeros stay zero."""
    norms = {kind: x.nan_to_num().norm(dim=1, keepdim=True) for kind, x in scores.items()}
    return {kind: x / norms[kind].where(norms[kind] != 0, 1) for kind, x in scores.items()}


Sum = tuple[Tensor, Tensor | int]
"""A sum (…, kept head), and the number of terms in it."""


def mean_over_batches(
    model: nn.Module,
    blocks: Sequence[AttentionLayer],
    batches: Iterable[Batch],
    device: Device,
    sums_of: Callable[[Batch], Iterable[Sum]],
    check: Callable[[Batch], None] | None = None,
) -> HeadTensors:
    """Return a criterion's mean: sums over all batches, divided by their counts.

    ``sums_of`` returns each block's sum and count on a batch; sums stay on the device until the
    last batch is done. ``check`` is called on the first batch.

    Returns:
        kind -> float64 tensor of shape ``(…, layer, head)``; 0 where nothing was counted, NaN for
        heads that were removed.
    """
    sums: list[Sum] = []
    for batch in on_device(model, batches, device):
        of_batch = [(in_double(total), n) for total, n in sums_of(batch)]
        if not sums and check:
            check(batch)
        pairs = zip(sums, of_batch, strict=True)
        sums = [(a + b, m + n) for (a, m), (b, n) in pairs] if sums else of_batch
    means = [total / (n.clamp(min=1) if isinstance(n, Tensor) else n) for total, n in sums]
    return to_head_tensors(blocks, means)


def to_head_tensors(blocks: Sequence[AttentionLayer], values: Sequence[Tensor]) -> HeadTensors:
    """Collect each block's (…, kept head) as kind -> (…, layer, head), NaN for removed heads.

    Raises:
        ValueError: NaN for a head that was not removed.
    """
    scores: HeadTensors = {}
    shapes = shapes_of(blocks)
    for block, value in zip(blocks, values, strict=True):
        if block.kind not in scores:
            shape = (*value.shape[:-1], *shapes[block.kind])
            scores[block.kind] = value.new_full(shape, torch.nan)
        of_kind = scores[block.kind]
        of_kind[..., block.layer, list(block.kept_heads)] = value.to(of_kind)
    scores = {kind: of_kind.cpu().double() for kind, of_kind in scores.items()}
    check_scored(blocks, scores)
    return scores
