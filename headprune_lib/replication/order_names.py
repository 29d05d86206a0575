"""Names of parts and of orders: which heads of which training are removed, and in what order.

A part of a result is a curve, or a point on one. Its name states, in this order and where it
applies: the only kind of heads removed, the order, how groups are removed, whether gates are
fitted, the share of heads removed and the way of retraining, and a training other than the first.
The order is ``random``, a choice of its own such as ``oracle``, or a criterion with words that say
how its scores are used (:data:`WAYS`).
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from headprune_lib.cli.criteria import known_criteria
from headprune_lib.messages import unknown
from headprune_lib.replication.lazy import (
    attention,
    criteria,
    masking,
    scoring,
    selection,
    torch,
    utils,
)
from headprune_lib.replication.store import Arrays
from headprune_lib.replication.store.packing import KINDS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

IMPORTANCE, RANDOM = "importance", "random"

WAYS = {
    "unnormalised": "scores as they are",
    "normalised": "scores over the l2 norm of their layer",
    "reversed": "the highest score goes first",
    "rescored": "scored again after each step, without what is gone",
    "low": "by low entropy in place of high",
    "model": "ranks over all heads of the model",
    "words": "without the keys of special tokens",
    "tuned": "gates of what is left, fitted at each step; the last word, of orders beside each other",
}
"""Words that may follow a criterion's name, besides ``alpha=`` with a number -> their meaning."""

_SETTINGS = {"low": ("low", True), "model": ("among", "model")}


class Tokens(NamedTuple):
    """Ids that a criterion may leave out: all special tokens, or end marks and separators alone.

    If ``ends`` is None, they are those that the model's configuration names.
    """

    special: Collection[int]
    ends: Collection[int] | None = None


def tokens_of(tokenizer: PreTrainedTokenizerBase) -> Tokens:
    """The ids that a tokenizer names; a model's configuration may not name them."""
    return Tokens(tokenizer.all_special_ids, attention.end_ids(tokenizer))


@dataclass(frozen=True)
class NamedOrder:
    """An order of removal by a criterion.

    Attributes:
        normalize: how the scores are normalised.
        settings: further arguments of the criterion.
        words: whether the special tokens of the task's tokenizer are left out.
    """

    criterion: criteria.Criterion
    normalize: criteria.Normalize
    reverse: bool = False
    rescored: bool = False
    words: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    def ranked(self, scores: masking.HeadTensors) -> list[selection.Head]:
        """The heads, the lowest score first, or the highest if the name says ``reversed``."""
        return selection.rank_heads(scores)[:: -1 if self.reverse else 1]

    def key(self, mask: masking.HeadTensors | None = None) -> str:
        """The journal's name of the scores under a mask."""
        words = [self.criterion.name, str(self.criterion.version), str(self.normalize)]
        words += [f"{name}={value}" for name, value in sorted(self.settings.items())]
        words += ["words"] if self.words else []
        words += [f"under {mask_key(mask)}"] if mask is not None else []
        return " ".join(words)

    def scores(
        self,
        model: torch.nn.Module,
        batches: Iterable[utils.Batch],
        mask: masking.HeadTensors | None,
        tokens: Callable[[], Tokens],
    ) -> Arrays:
        """Score every head, by kind, under a mask if given; ``tokens`` returns ids to leave out."""
        left_out = {}
        if self.words:
            left_out = {"leave_out": tokens().special}
        elif self.criterion.leaves_ends_out:
            left_out = {"leave_out": tokens().ends}
        with masking.masked_heads(model, mask or masking.ones_mask(model)):
            scores = scoring.score_heads(
                model,
                batches,
                self.criterion.name,
                normalize=self.normalize,
                **self.settings,
                **left_out,
            )
        return {kind: values.numpy() for kind, values in scores.items()}


def mask_key(mask: masking.HeadTensors) -> str:
    """A mask's short name, which depends on the heads cut, not on the order that cut them."""
    content = b"".join(
        kind.encode() + values.numpy().astype("f4").tobytes()
        for kind, values in sorted(mask.items())
    )
    return hashlib.sha256(content).hexdigest()[:16]


class PartName(NamedTuple):
    """The fields of a part's name.

    Attributes:
        curve: the name without the training: curves of the same name are runs of one order.
        order: of removal.
        training: the seed of a training other than the first; None for the first.
        kind: the only kind whose heads are removed; None for all.
        groups: ``"per group"`` or ``"whole groups"``, if groups are removed; else None.
        tuned: whether gates of the remaining heads are fitted along the order.
        share: of the heads that are removed; None for a whole curve.
        way: how the model is retrained; None if it is not.
    """

    curve: str
    order: str
    training: int | None
    kind: str | None = None
    groups: str | None = None
    tuned: bool = False
    share: float | None = None
    way: str | None = None


_SAID = {
    "kind": rf"(?:(?P<kind>{'|'.join(KINDS)}) )?",
    "order": r"(?P<order>.*?)",
    "groups": r"(?: (?P<groups>per group|whole groups))?",
    "tuned": r"(?P<tuned> tuned)?",
    "share": r"(?: (?P<share>\d+)%(?: (?P<way>.+?))?)?",
}
"""Patterns of the fields besides the training, in the order of a name."""


def parse_part(name: str, *says: str) -> PartName:
    """Parse the name of a part.

    >>> parse_part("importance training 3").training, parse_part("random").training
    (3, None)
    >>> parse_part("enc-dec importance training 3", "kind").curve
    'enc-dec importance'
    >>> parse_part("random 40% all weights", "share")[-2:]
    (0.4, 'all weights')

    Args:
        says: ``"kind"``, ``"groups"``, ``"tuned"`` or ``"share"``, if names of the measurement may
            state them; otherwise they are read as words of the order.
    """
    pattern = "".join(_SAID[word] for word in _SAID if word in ("order", *says))
    after = r"(?:(?:^| )training (?P<training>\d+))?"
    (match,) = re.finditer(rf"\A(?P<curve>{pattern}){after}\Z", name, re.DOTALL)
    fields: dict[str, Any] = match.groupdict()
    if training := fields["training"]:
        fields["training"] = int(training)
    if share := fields.get("share"):
        fields["share"] = int(share) / 100
    return PartName(**fields | {"tuned": bool(fields.get("tuned"))})


def further_training(seed: int, order: str = IMPORTANCE) -> str:
    """The name of an order on a training other than the first."""
    return f"{order} training {seed}"


def seed_in(part: str) -> int:
    """The seed in the name of a part that is a training alone, such as ``"training 2"``.

    Raises:
        ValueError: the name is not that of a training.
    """
    named = parse_part(part)
    if named.curve or named.training is None:
        raise ValueError(f"{part!r} is not a training. Give a name such as 'training 2'")
    return named.training


def read_name(name: str, known: Collection[str] = ()) -> NamedOrder:
    """Parse the name of an order by a criterion.

    >>> read_name("importance-entropy alpha=0.25 low").settings
    {'alpha': 0.25, 'low': True}

    Args:
        known: further names, for the error message.

    Raises:
        ValueError: an unknown criterion; a word after its name that is unknown, or that this
            criterion does not take; or "tuned", which belongs to the name of a part, not to how
            heads are scored.
    """
    criterion_name, *words = name.split(" ")
    alphas = [word for word in words if word.startswith("alpha=")]
    others = {*words} - {*alphas}
    if criterion_name not in known_criteria() or not others <= {*WAYS} or len(alphas) > 1:
        raise ValueError(unknown("order", name, {*known, *known_criteria()}))
    if "tuned" in others:
        raise ValueError(
            f"the order {name!r} cannot have the word tuned, which fits gates. Use tuned only in "
            "which_first, which compares orders, and as the last word"
        )
    criterion = criteria.CRITERIA[criterion_name]
    settings = {} if not alphas else {"alpha": _share(name, alphas[0])}
    settings |= dict(_SETTINGS[word] for word in _SETTINGS if word in others)
    wanted = {*settings, *(["leave_out"] if "words" in others else [])}
    if unused := wanted - {*inspect.signature(criterion.score).parameters}:
        word_of = {"alpha": "alpha=", "among": "model", "leave_out": "words"}
        words_unused = sorted(word_of.get(setting, setting) for setting in unused)
        raise ValueError(
            f"the order {name!r} has {', '.join(words_unused)}, which {criterion_name} does not take"
        )
    normalize: criteria.Normalize = "l2" if "normalised" in others else criterion.normalize
    normalize = None if "unnormalised" in others else normalize
    flags = (word in others for word in ("reversed", "rescored", "words"))
    return NamedOrder(criterion, normalize, *flags, settings)


def _share(name: str, word: str) -> float:
    try:
        value = float(word.removeprefix("alpha="))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"the order {name!r} has {word}. Give alpha=0 to alpha=1")
    return value
