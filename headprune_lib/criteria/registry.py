"""What a criterion is, the register that names them all, and the mean over batches under them."""

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
"""``"l2"``: over the l2 norm of the layer's scores (paper, section 4.1); None: as they are."""

ScoreFunction = Callable[..., HeadTensors]
"""``(model, batches, *, loss=None, device=None) -> scores`` that are not normalised.

The lowest score is removed first. Scores are kind -> float64 tensor of shape ``(layer, head)``, NaN
for heads that were removed. Further settings are keywords with defaults. The first line of the
docstring says what the scores are, and ``headprune criteria`` lists it.
"""


@dataclass(frozen=True)
class Criterion:
    """Something that scores heads.

    Attributes:
        name: what commands, files and curves call it.
        score: the function.
        normalize: how its scores are normalised by default.
        variant: its short name in ``head_importance(variant=)``, if it is one of the quantities
            that are called importance.
        version: bumped by hand when its meaning changes; its curves are then measured anew.
        weights: whether it reads attention weights, which the eager kernel alone makes.
    """

    name: str
    score: ScoreFunction
    normalize: Normalize = None
    variant: str | None = None
    version: int = 1
    weights: bool = False

    @property
    def leaves_ends_out(self) -> bool:
        """Whether it leaves out end marks where it is not told what: a tokenizer knows them best."""
        leave_out = inspect.signature(self.score).parameters.get("leave_out")
        return leave_out is not None and leave_out.default is None

    @property
    def summary(self) -> str:
        """What its scores are: the first line of the function's docstring."""
        return (inspect.getdoc(self.score) or "").partition("\n")[0]

    @property
    def place(self) -> str:
        """Where its function is written: a cell that is run again registers the same one anew."""
        return f"{self.score.__module__}.{getattr(self.score, '__qualname__', repr(self.score))}"


CRITERIA: dict[str, Criterion] = {}
"""Name -> criterion: those of this package and those that a user registers."""

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
        ValueError: a name of other signs than small letters, digits and hyphens, or one that
            another function has.

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
    # no spaces: an order of removal is a criterion's name and at most one word more
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(f"a criterion's name has small letters, digits and hyphens, not {name!r}")

    def register(function: Function) -> Function:
        criterion = Criterion(name, function, normalize, variant, version, weights)
        if name in CRITERIA and (defined_in := CRITERIA[name].place) != criterion.place:
            raise ValueError(f"criterion {name!r} is taken ({defined_in}); give another name")
        CRITERIA[name] = criterion
        return function

    return register


def get_criterion(name: str) -> Criterion:
    """The criterion of a name.

    Raises:
        ValueError: there is none; the nearest names are suggested.
    """
    if name not in CRITERIA:
        raise ValueError(unknown("criterion", name, CRITERIA))
    return CRITERIA[name]


def normalize_l2(scores: HeadTensors) -> HeadTensors:
    """Each layer's scores over their l2 norm (paper, section 4.1); a layer of zeros stays zero."""
    norms = {kind: x.nan_to_num().norm(dim=1, keepdim=True) for kind, x in scores.items()}
    return {kind: x / norms[kind].where(norms[kind] != 0, 1) for kind, x in scores.items()}


Sum = tuple[Tensor, Tensor | int]
"""A sum (…, kept head) over what is averaged, and how much that is."""


def mean_over_batches(
    model: nn.Module,
    blocks: Sequence[AttentionLayer],
    batches: Iterable[Batch],
    device: Device,
    sums_of: Callable[[Batch], Iterable[Sum]],
    check: Callable[[Batch], None] | None = None,
) -> HeadTensors:
    """The mean that a criterion is: sums over all batches, divided by their counts.

    ``sums_of`` says what a batch, on its device, adds to each block; sums stay there until the last
    batch is done. ``check`` is asked of the first batch.

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
    """Values (…, kept head) of all blocks of a model as kind -> (…, layer, head), NaN for removed heads.

    Raises:
        ValueError: NaN for a head that is there.
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
