"""What a criterion is, and the register that names them all."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import torch
from torch import nn

from headprune_lib.batching import Batch
from headprune_lib.heads import HeadTensors
from headprune_lib.losses import Loss
from headprune_lib.messages import unknown

Normalize = Literal["l2"] | None
"""``"l2"``: over the l2 norm of the layer's scores (paper, section 4.1); None: as they are."""


class ScoreFunction(Protocol):
    """Scores every head of a model, without normalisation; what is scored lowest goes first.

    Returns kind -> float64 tensor of shape ``(layer, head)``, NaN for heads that were removed.
    Further settings are keywords with defaults.
    """

    def __call__(
        self,
        model: nn.Module,
        batches: Iterable[Batch],
        *,
        loss: Loss | None = None,
        device: str | torch.device | None = None,
    ) -> HeadTensors:
        """Score the heads of a model on batches of its inputs."""


@dataclass(frozen=True)
class Look:
    """How a criterion's curve is drawn, in plain words; the core draws nothing.

    Attributes:
        colour: ``blue``, ``orange``, ``green``, ``red``, ``purple``, ``brown``, ``pink`` or
            ``grey``.
        dash: ``-``, ``--``, ``-.`` or ``:``.
        marker: ``o``, ``s``, ``^``, …; empty for none.
    """

    colour: str = "pink"
    dash: str = "-."
    marker: str = ""


@dataclass(frozen=True)
class Criterion:
    """Something that scores heads.

    Attributes:
        name: what commands, files and curves call it.
        score: the function.
        label: what a legend calls it.
        formula: LaTeX, for the page.
        source: section of the paper, or whose code computes it.
        normalize: what is done to its scores where nothing else is asked for.
        variant: its short name in ``head_importance(variant=)``, if it is one of the quantities
            that go by the name of importance.
        version: bumped by hand when its meaning changes; its curves are then measured anew.
        look: of its curve.
        cost: what it takes, for lists.
        weights: whether it reads attention weights, which the eager kernel alone makes.
    """

    name: str
    score: ScoreFunction
    label: str
    formula: str
    source: str
    normalize: Normalize = None
    variant: str | None = None
    version: int = 1
    look: Look = Look()
    cost: str = "a forward and a backward pass"
    weights: bool = False

    @property
    def leaves_ends_out(self) -> bool:
        """Whether it leaves out end marks where it is not told what: a tokenizer knows them best."""
        asked = inspect.signature(self.score).parameters.get("leave_out")
        return asked is not None and asked.default is None


CRITERIA: dict[str, Criterion] = {}
"""Name -> criterion: those of this package and those that a user registers."""

Function = TypeVar("Function", bound=Callable[..., HeadTensors])


def register_criterion(
    name: str,
    *,
    label: str,
    formula: str,
    source: str,
    normalize: Normalize = None,
    variant: str | None = None,
    version: int = 1,
    look: Look | None = None,
    cost: str = "a forward and a backward pass",
    weights: bool = False,
) -> Callable[[Function], Function]:
    r"""Give a function a name under which commands, curves and ``score_heads`` find it.

    The arguments are those of :class:`headprune_lib.criteria.Criterion`.

    Raises:
        ValueError: a name of other signs than small letters, digits and hyphens, or one that
            another function has.

    Example:
        >>> @register_criterion("first", label="number of the head", source="this example",
        ...                     formula=r"\mathrm{score}_h = h")
        ... def first(model, batches, *, loss=None, device=None):
        ...     return {kind: torch.arange(heads).double().expand(layers, heads)
        ...             for kind, (layers, heads) in head_grid(model).items()}
        >>> get_criterion("first").label
        'number of the head'
        >>> del CRITERIA["first"]
    """
    # no spaces: an order of removal is a criterion's name and at most one word more
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise ValueError(f"a criterion's name has small letters, digits and hyphens, not {name!r}")

    def register(function: Function) -> Function:
        there = CRITERIA.get(name)
        if there is not None and _place(there.score) != _place(function):
            raise ValueError(
                f"criterion {name!r} is there already "
                f"({'.'.join(_place(there.score))}); give another name"
            )
        CRITERIA[name] = Criterion(
            name,
            function,
            label,
            formula,
            source,
            normalize,
            variant,
            version,
            look or Look(),
            cost,
            weights,
        )
        return function

    return register


def normalize_l2(scores: HeadTensors) -> HeadTensors:
    """Each layer's scores over their l2 norm (paper, section 4.1); a layer of zeros stays zero."""
    normal = {}
    for kind, values in scores.items():
        norm = values.nan_to_num().norm(dim=1, keepdim=True)
        normal[kind] = values / torch.where(norm == 0, torch.ones_like(norm), norm)
    return normal


def get_criterion(name: str) -> Criterion:
    """The criterion of a name.

    Raises:
        ValueError: there is none; the nearest names are suggested.
    """
    if name not in CRITERIA:
        raise ValueError(unknown("criterion", name, CRITERIA))
    return CRITERIA[name]


def _place(function: object) -> tuple[str, str]:
    """Where a function is written: a cell that is run again registers the same one anew."""
    return (getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function)))
