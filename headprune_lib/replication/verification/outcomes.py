"""What results hold of masks on texts, read as rows, and the same rows computed again.

A measurement's module says how outcomes are made. The table here says where a result keeps them, so
that any row is computed again by plain masked passes, without the sweeps that measured it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch

from headprune_lib.ablation import all_but_one_masks, one_head_masks
from headprune_lib.discovery import KINDS
from headprune_lib.masking import HeadTensors, ones_mask
from headprune_lib.replication import store
from headprune_lib.replication.data import TASKS, TRANSLATION_TASKS, Texts
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.measurements.along_training import outcomes_of
from headprune_lib.replication.measurements.effects import one_by_one_scores
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.measurements.orders import ONE_BY_ONE, random_order
from headprune_lib.replication.measurements.removal import factors_along
from headprune_lib.replication.measurements.translators import BEAMS
from headprune_lib.replication.metrics import MILLINAT, sentence_counts, unpack
from headprune_lib.replication.order_names import IMPORTANCE, parse_part
from headprune_lib.replication.setups import EncoderSubject, LanguageSubject, TranslationSubject
from headprune_lib.replication.store import OUTCOMES, Arrays, Key, Part, Result
from headprune_lib.replication.store.heads import heads_array, heads_in
from headprune_lib.replication.store.verses import first_verses
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import Head, order_mask, order_masks, rank_heads

Subject = EncoderSubject | TranslationSubject | LanguageSubject
AnyTexts = Texts | list[list[int]]


class Layout(NamedTuple):
    """Where the parts of a result keep the outcomes of masks on one set of texts.

    Attributes:
        cut: by each mask: ``each`` head of ``<prefix>heads`` in turn, the ``others`` of its layer,
            or those of the ``best`` head of each layer; every head of a ``set`` (M, heads, 2 or 3),
            the first of an ``order`` up to each of ``shares``, or ``none``.
        texts: the first ones of a split of the task's own text (``headline``: of the test set, as
            many as the paper's claims rest on), of a task ``far`` from it, or of all ``domains``.
        kind: the kind of attention whose heads are cut, if not all are.
        part: the order that alone has these outcomes, if not all have.
        needs: the measurement that they are taken from.
        prefix, suffix: of the names of arrays.
        first: the step of an order that the first outcomes are of.
        coarse: changes of losses have five binary digits.
        beams: width of the search.
    """

    cut: Literal["each", "others", "best", "set", "order", "none"]
    texts: str = "test"
    kind: str = ""
    part: str = ""
    needs: str = ""
    prefix: str = ""
    suffix: str = ""
    first: int = 0
    coarse: bool = False
    beams: int = 1


_EACH, _ORDER = Layout("each"), Layout("order")
_COARSE = Layout("order", first=1, coarse=True)
_BEFORE = Layout("set", suffix="_before")  # the weights that training again ended with are not kept
LAYOUTS: dict[str, dict[str, tuple[Layout, ...]]] = {
    "encoder": {
        "one_head": (_EACH,),
        "all_but_one": (Layout("others"),),
        "best_heads": (Layout("best"), Layout("others", "selection", prefix="train_")),
        "across_domains": (Layout("each", "domains"),),
        "pruning_curve": (_ORDER, Layout("each", "selection", part=ONE_BY_ONE, prefix="train_")),
        "which_first": (_ORDER,),
        "scoring_examples": (_ORDER,),
        "recovery": (_BEFORE,),
        "precision": (Layout("order", suffix=" float32"),),  # bfloat16 depends on the processor
    },
    "translation": {
        "one_head": (Layout("each", "headline"),),
        "all_but_one": (Layout("others"),),
        "best_heads": (Layout("best", "reported"), Layout("others", "choice", prefix="valid_")),
        "across_domains": (
            Layout("each", "far", kind="enc-enc", prefix="far_"),
            Layout("each", kind="enc-enc", needs="one_head", prefix="home_"),
        ),
        "pruning_curve": (_COARSE,),
        "pruning_by_kind": (_COARSE,),
        "along_training": (_COARSE,),
        "which_first": (_ORDER,),
        "recovery": (_BEFORE,),
        "search": tuple(Layout("each", beams=beams) for beams in BEAMS),
        "quality": tuple(Layout("none", beams=beams) for beams in BEAMS),
    },
    "language": {
        "language_curve": (Layout("order", first=1),),
        "language_heads": (_EACH,),
        "language_recovery": (Layout("none", suffix="_pruned"),),
    },
}
"""Half -> measurement -> where its outcomes are; of what is not listed, nothing is kept of masks."""


@dataclass(frozen=True)
class Rows:
    """Stored outcomes of masks on texts.

    Attributes:
        masks: by name, the one that cuts nothing first.
        outcomes: by name, (mask, text, ...): ``correct``, ``loss`` of the answer or passage,
            ``counts`` of n-grams (mask, text, 10), ``draft_loss`` and ``reference_loss``; losses in
            nats. ``pieces`` (mask, text) is 1 where the latter is a mean over its pieces.
        slack: how far rounding in the file may have moved a loss.
        beams: width of the search.
    """

    texts: AnyTexts
    masks: list[tuple[str, HeadTensors]]
    outcomes: Arrays
    slack: Arrays
    beams: int = 1


# --- reading --------------------------------------------------------------------------------------


def rows_in(result: Result, subject: Subject) -> list[Rows]:
    """The rows of a result, by set of texts and part; none where it keeps nothing of masks.

    Args:
        subject: the model it was measured on, or another training of it.

    Raises:
        ValueError: it was not measured on a training of that seed.
    """
    found = []
    for layout in LAYOUTS[half_of(result.key)].get(result.measurement, ()):
        for part, raw in own_outcomes(result, subject).items():
            if layout.part and f"{layout.prefix}heads" not in raw:
                continue
            if raw.get("removed", 0):  # which heads of a language model went is not stored
                continue
            each = [layout]
            if layout.texts == "domains":  # the task's own comes first
                each = [
                    Layout(layout.cut, domain if place else "test", prefix=f"{domain}/")
                    for place, domain in enumerate(map(str, raw["domains"]))
                ]
            found += [_read(result, subject, part, raw, one) for one in each]
    return found


def _read(result: Result, subject: Subject, part: str, raw: Arrays, layout: Layout) -> Rows:
    """The rows of a part on a set of texts."""
    outcomes, slack = _outcomes(raw, layout, half_of(result.key))
    several = len(next(iter(outcomes.values())))
    named = list(_masks(result, subject, part, raw, layout, several))
    taken = [row for *_, row in named]
    # of some runs the losses were not kept
    outcomes = {what: cells[taken] for what, cells in outcomes.items() if len(cells) > max(taken)}
    slack = {what: cells[taken] for what, cells in slack.items() if what in outcomes}
    n = next(iter(outcomes.values())).shape[1]
    texts = _texts(subject, layout.texts, n)
    return Rows(texts, [(name, mask) for name, mask, _ in named], outcomes, slack, layout.beams)


def _outcomes(raw: Arrays, layout: Layout, half: str) -> tuple[Arrays, Arrays]:
    """All outcomes in their order in the file, (row, text, ...), the uncut model's first if apart.

    And how far rounding has moved them.
    """
    prefix, suffix = layout.prefix, layout.suffix
    lengths, found, slack = raw.get(f"{prefix}reference_lengths"), {}, {}
    if "references" in raw:  # and translations as text
        counts = sentence_counts(raw[f"beam {layout.beams}"].tolist(), raw["references"].tolist())
        return {"counts": counts[None]}, {}
    if "alone" in raw:  # (row, beam, ...)
        return {"counts": unpack(raw["counts"][:, BEAMS.index(layout.beams)], lengths)}, {}
    for what, scale in _KEPT.items():
        uncut, change = (raw.get(f"{prefix}{what}_{state}") for state in ("uncut", "change"))
        cells = raw.get(f"{prefix}{what}{suffix}") if change is None else change
        if cells is None:
            continue
        dimensions = 2 if what == "counts" else 1
        cells = cells.reshape(-1, *cells.shape[-dimensions:])
        moved = np.abs(cells) / (32 * MILLINAT) * (layout.coarse and change is not None)
        if change is not None:
            cells = uncut + cells.astype(int)
        if uncut is not None:
            cells = np.concatenate([uncut[None], cells])
            moved = np.concatenate([np.zeros_like(moved[:1]), moved])
        name = "reference_loss" if (what, half) == ("loss", "translation") else what
        found[name] = (
            unpack(cells, lengths) if what == "counts" else cells / scale if scale else cells
        )
        if scale:
            slack[name] = moved
    if "reference_loss" in found:  # of a piece, or of the sum of a reference's
        pieces = 1 if "reference_loss_uncut" not in raw else raw["reference_pieces"]
        found["pieces"] = np.broadcast_to(pieces, found["reference_loss"].shape)
    return found, slack


_KEPT = {
    "correct": None,
    "loss": MILLINAT,
    "counts": None,
    "draft_loss": MILLINAT,
    "reference_loss": MILLINAT,
}
"""Outcomes as results name them, and what a nat is in them."""


def _masks(
    result: Result, subject: Subject, part: str, raw: Arrays, layout: Layout, n: int
) -> Iterator[tuple[str, HeadTensors, int]]:
    """Name and mask of ``n`` outcomes, and their places, of those masks that are known."""
    model, prefix = subject.model, layout.prefix
    heads = raw.get(f"{prefix}heads", raw.get("heads"))
    uncut = layout.cut != "order" or any(f"{prefix}{what}_uncut" in raw for what in _KEPT)
    if uncut:
        yield "no head cut", ones_mask(model), 0
    if layout.cut == "order":
        steps = len(raw["shares"]) - layout.first
        runs = range((n - uncut) // steps)
        for run in own_runs(result.parts[part], subject, len(runs)):
            masks = _along(result, subject, part, raw, run)
            for step in range(layout.first, len(raw["shares"])):
                if step in masks:
                    name = f"{part} {_called(raw, run)}, {raw['shares'][step]:.0%} removed"
                    yield name, masks[step], uncut + run * steps + step - layout.first
    elif layout.cut == "set":
        for run, cut in enumerate(map(heads_in, heads), 1):
            yield f"{part}, run {run}", order_mask(model, cut, len(cut)), run
    elif layout.cut != "none":
        without, only = one_head_masks(model), all_but_one_masks(model)
        alone = raw.get("alone", np.full(len(heads), layout.cut != "each"))
        for row, (head, left) in enumerate(zip(heads_in(heads), alone, strict=True), 1):
            kind, layer, number = head
            name = f"head {number + 1} of layer {layer + 1}, {kind}"
            if left:
                yield f"only {name} in its layer", only[head], row
            else:
                yield f"without {name}", without[head], row


def _called(raw: Arrays, run: int) -> str:
    return str(raw["names"][run]) if "names" in raw else f"run {run + 1}"


def _along(
    result: Result, subject: Subject, part: str, raw: Arrays, run: int
) -> dict[int, HeadTensors]:
    """Step -> its mask, or what heads were multiplied by; the ends alone of an unknown order."""
    order, shares = order_of(result, subject, part, run), tuple(raw["shares"])
    if order is None:
        whole = ones_mask(subject.model)
        nothing = {kind: torch.zeros_like(mask) for kind, mask in whole.items()}
        return {0: whole, **({len(shares) - 1: nothing} if shares[-1] == 1 else {})}
    heads = heads_in(order)
    if "gone" in raw:  # groups of heads, that go together
        return dict(enumerate(order_masks(subject.model, heads, [0, *raw["gone"][run].tolist()])))
    return dict(enumerate(factors_along(subject, raw, run, heads, shares)))


def _texts(subject: Subject, name: str, n: int) -> AnyTexts:
    """The first texts of a split or of another domain."""
    if isinstance(subject, LanguageSubject):
        return subject.test[:n]
    if isinstance(subject, EncoderSubject):
        if name in ("test", "selection"):
            return getattr(subject, name).first(n)
        return TASKS[name].split("test", subject.profile.data).first(n)
    choice, reported = TRANSLATION_TASKS[subject.task].chosen
    split = {"headline": "test", "choice": choice, "reported": reported}.get(name, name)
    if name == "far":
        far = subject.profile.translation_far
        return subject.split(TRANSLATION_TASKS[far].far, far).first(n)
    return subject.split(split).first(n)


# --- parts, scores and orders ---------------------------------------------------------------------


def own_outcomes(result: Result, subject: Subject) -> dict[str, Arrays]:
    """The outcomes of the parts that were measured on a subject's training, alone or among others.

    Of a training's checkpoints those of the last one, whose weights are kept.

    Raises:
        ValueError: no part was measured on that training.
    """
    found = {
        name: outcomes_of(part.raw, -1) if "updates" in part.raw else part.raw
        for name, part in result.parts.items()
        if _seed(subject) in seeds_in(part)
    }
    if not found:
        raise ValueError(f"{'/'.join(result.key)} holds nothing of training {_seed(subject)}")
    return found


def _seed(subject: Subject) -> int | None:
    return None if isinstance(subject, LanguageSubject) else subject.seed


def seeds_in(part: Part) -> list[int | None]:
    """The trainings that a part was measured on; None of a model that nobody trains."""
    return [run.get("seed") for run in part.runs]


def own_runs(part: Part, subject: Subject, n: int) -> Sequence[int]:
    """Those of ``n`` runs that are of a subject's training: draws on one, or one run a training."""
    seeds = seeds_in(part)
    return range(n) if len(seeds) == 1 else [seeds.index(_seed(subject))]


def beside(result: Result, subject: Subject, measurement: str) -> Arrays:
    """The outcomes of another measurement on the same training. Raises ValueError if it has none."""
    key = Key(measurement, result.task, result.model)
    other = store.load(key, results_folder(subject.profile))
    return next(iter(own_outcomes(other, subject).values()))


def stored_importance(result: Result, seed: int) -> HeadTensors:
    """I_h of a training as a result holds it, not normalised; empty where it holds none."""
    scores = {}
    for part in result.parts.values():
        for name, values in part.raw.items():
            first, _, kind = name.partition(" ")
            if first == "scores" and seed in seeds_in(part):
                # one a training (training, layer, head), or the first one's
                each = values if values.ndim == 3 else values[None]
                if (place := seeds_in(part).index(seed)) < len(each):
                    scores[kind or "self"] = torch.from_numpy(each[place])
    return {kind: scores[kind] for kind in (*KINDS, "self") if kind in scores}


def order_of(result: Result, subject: Subject, part: str, run: int = 0) -> np.ndarray | None:
    """The heads (heads, 2 or 3) as they went in a run of an order: as stored, or as it follows."""
    stored = own_outcomes(result, subject)[part].get("order", ())
    if np.ndim(stored) == 2:  # of one checkpoint
        stored = [stored]
    return stored[run] if run < len(stored) else order_that_follows(result, subject, part, run)


def order_that_follows(
    result: Result, subject: Subject, part: str, run: int = 0
) -> np.ndarray | None:
    """The heads (heads, 2 or 3) as they go in a run of an order, from what is stored besides.

    None where stored numbers do not say: an order scored on other text, or anew at each step.
    """
    says = ("kind",) if result.measurement == "pruning_by_kind" else ()
    named, raw = parse_part(part, *says), result.parts[part].raw
    kind, order = named.kind, named.order
    heads = _ranked(result, subject, order, raw)
    if heads is None:
        return None
    heads = [head for head in heads if kind in (None, head[0])]
    if order == "random":
        heads = random_order(heads, int(raw["names"][run]))
    return heads_array(heads)


def _ranked(result: Result, subject: Subject, order: str, raw: Arrays) -> list[Head] | None:
    scores, encoder = stored_importance(result, subject.seed), isinstance(subject, EncoderSubject)
    if order == "oracle" and encoder:
        return rank_heads(one_by_one_scores(beside(result, subject, "one_head")))
    if order == "oracle":
        one = first_verses(beside(result, subject, "one_head"), subject.profile.n_verses)
        return rank_heads(one_by_one_scores(one))
    if order == ONE_BY_ONE and "train_heads" in raw:
        tried = {name.removeprefix("train_"): values for name, values in raw.items()}
        return rank_heads(one_by_one_scores(tried))
    if not scores:
        return None
    if order in (IMPORTANCE, "random", OUTCOMES):
        return rank_heads(normalize_l2(scores))
    if order == "importance unnormalised":
        return rank_heads(scores)
    if order == "importance reversed":
        return rank_heads(normalize_l2(scores))[::-1]
    return None
