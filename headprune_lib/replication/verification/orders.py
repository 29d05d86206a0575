"""Orders of removal as other stored numbers have them: scores, and what single cuts cost."""

from __future__ import annotations

import numpy as np
import torch

from headprune_lib.discovery import KINDS
from headprune_lib.masking import HeadTensors
from headprune_lib.replication import store
from headprune_lib.replication.measurements.effects import one_by_one_scores
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.measurements.orders import ONE_BY_ONE, random_order
from headprune_lib.replication.order_names import IMPORTANCE, parse_part
from headprune_lib.replication.setups import EncoderSubject, TranslationSubject
from headprune_lib.replication.store import Arrays, Key, Part, Result
from headprune_lib.replication.store.heads import heads_array
from headprune_lib.replication.store.verses import first_verses
from headprune_lib.scoring import normalize_l2
from headprune_lib.selection import Head, rank_heads

Subject = EncoderSubject | TranslationSubject


def own_parts(result: Result, subject: Subject) -> dict[str, Part]:
    """The parts of a result that were measured on a subject's training, alone or among others."""
    return {
        name: part
        for name, part in result.parts.items()
        if subject.seed in [run["seed"] for run in part.runs]
    }


def own_outcomes(result: Result, subject: Subject) -> Arrays:
    """The outcomes of the part that was measured on a subject's training.

    Of a result with one part, or with one a training; a result of many orders has several.

    Raises:
        ValueError: no part was measured on that training.
    """
    parts = own_parts(result, subject)
    if not parts:
        raise ValueError(f"{'/'.join(result.key)} holds nothing of training {subject.seed}")
    return next(iter(parts.values())).raw


def stored_importance(result: Result, seed: int) -> HeadTensors:
    """I_h of a training as a result holds it, not normalised; empty where it holds none."""
    scores = {}
    for part in result.parts.values():
        seeds = [run["seed"] for run in part.runs]
        for name, values in part.raw.items():
            first, _, kind = name.partition(" ")
            if first == "scores" and seed in seeds:
                # one a training (training, layer, head), or the first one's
                each = values if values.ndim == 3 else values[None]
                if (place := seeds.index(seed)) < len(each):
                    scores[kind or "self"] = torch.from_numpy(each[place])
    return {kind: scores[kind] for kind in (*KINDS, "self") if kind in scores}


def order_of(result: Result, subject: Subject, part: str, run: int = 0) -> np.ndarray | None:
    """The heads (heads, 2 or 3) as they went in a run of an order: as stored, or as it follows."""
    stored = result.parts[part].raw.get("order", ())
    if run < len(stored):
        return stored[run]
    return order_that_follows(result, subject, part, run)


def order_that_follows(
    result: Result, subject: Subject, part: str, run: int = 0
) -> np.ndarray | None:
    """The heads (heads, 2 or 3) as they go in a run of an order, from what is stored besides.

    None where stored numbers do not say: an order scored on other text, or anew at each step.
    """
    says = ("kind",) if result.measurement == "pruning_by_kind" else ()
    named, raw = parse_part(part, *says), result.parts[part].raw
    kind, order = named.kind, named.order
    heads = _followed(result, subject, order, raw)
    if heads is None:
        return None
    heads = [head for head in heads if kind in (None, head[0])]
    if order == "random":
        heads = random_order(heads, int(raw["names"][run]))
    return heads_array(heads)


def _followed(result: Result, subject: Subject, order: str, raw: Arrays) -> list[Head] | None:
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
    if order in (IMPORTANCE, "random"):
        return rank_heads(normalize_l2(scores))
    if order == "importance unnormalised":
        return rank_heads(scores)
    if order == "importance reversed":
        return rank_heads(normalize_l2(scores))[::-1]
    return None


def beside(result: Result, subject: Subject, measurement: str) -> Arrays:
    """The outcomes of another measurement on the same training. Raises ValueError if it has none."""
    key = Key(measurement, result.task, result.model)
    return own_outcomes(store.load(key, results_folder(subject.profile)), subject)
