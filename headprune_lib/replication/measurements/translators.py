"""How well translation models translate, and whether greedy search ranks cuts as beam 5 does.

Not a table of the paper: its models were trained and evaluated by others, and it uses a beam of 5
throughout, while every other artifact here translates greedily.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.data import Texts, normalise
from headprune_lib.replication.lazy import ablation, masking, sacrebleu, selection, setups
from headprune_lib.replication.measurements.base import Constants, Context, Own, measurement
from headprune_lib.replication.measurements.estimates import (
    Scored,
    correlation_record,
    of_translations,
)
from headprune_lib.replication.measurements.single_heads import best_heads, one_head
from headprune_lib.replication.metrics import corpus_bleu, pack, sentence_counts, signature
from headprune_lib.replication.store import Arrays, Measured
from headprune_lib.replication.store.packing import KINDS, first_verses, heads_array, heads_in

BEAMS = (1, 5)

# --- quality --------------------------------------------------------------------------------------


def shared_ngrams(train: Texts, test: Texts, n: int = 10) -> np.ndarray:
    """Which test pairs share ``n`` successive words with training, on either side, (pairs,)."""

    def ngrams(text: str) -> set[tuple[str, ...]]:
        words = normalise(text).split()
        return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}

    is_shared = np.zeros(len(test), bool)
    for known, texts in ((train.sources, test.sources), (train.targets, test.targets)):
        known_ngrams = set().union(*map(ngrams, known))
        is_shared |= np.array([not known_ngrams.isdisjoint(ngrams(text)) for text in texts])
    return is_shared


@measurement(
    "quality",
    version=2,
    parameters=["n_headline"],
    statistics=Constants(resamples=10_000, seed=0, samples=10),
    halves=("translation",),
)
def quality(context: Context) -> Measured:
    """Translations of the test verses by greedy and by beam search."""
    subject = context.subject()
    pairs = subject.headline

    def translated(beams: int) -> Arrays:
        return {"text": np.array(subject.translator.translate(pairs.sources, beams=beams))}

    units = {f"beam {beams}": partial(translated, beams) for beams in BEAMS}
    done = subject.compute(units, context.journal, f"translate, {subject.task}")
    return subject.measured(
        {
            "sources": np.array(pairs.sources),
            "references": np.array(pairs.targets),
            "overlap": shared_ngrams(subject.split("train"), pairs),
            "curve": np.array(json.dumps(subject.translator.curve)),
            **{name: unit["text"] for name, unit in zip(units, done, strict=True)},
        },
        len(pairs),
    )


@quality.summary
def _(raw: Arrays, statistics: Constants) -> dict[str, Any]:
    """BLEU and chrF by way of search (``beam 1``, ``beam 5``), the learning curve, and samples."""
    sources, references, overlap = raw["sources"], raw["references"], raw["overlap"]
    by_beams = {}
    for beams in BEAMS:
        translations = raw[f"beam {beams}"]
        bleu = Scored(sentence_counts(translations.tolist(), references.tolist()), corpus_bleu)
        by_beams[f"beam {beams}"] = {
            "bleu": float(bleu.scores),
            "bleu_interval": bleu.drawn(statistics).interval,
            "bleu_without_overlap": float(corpus_bleu(bleu.counts[~overlap].sum(0))),
            "chrf": sacrebleu.corpus_chrf(translations.tolist(), [references.tolist()]).score,
        }
    greedy = raw["beam 1"]
    return {
        **by_beams,
        "n": len(references),
        "n_overlap": int(overlap.sum()),
        "signature": signature(),
        "curve": json.loads(str(raw["curve"])),
        "samples": [
            {"source": str(s), "reference": str(r), "translation": str(t)}
            for s, r, t in zip(
                *(texts[: statistics.samples] for texts in (sources, references, greedy)),
                strict=True,
            )
        ],
    }


# --- search ---------------------------------------------------------------------------------------

_HEADS, _VERSES = 6, 300  # heads of each kind, and test verses


def costly_heads(raw: Arrays) -> list[selection.Head]:
    """For each kind, the heads without which the uncut model's translation is least likely."""
    order = np.argsort(-raw["draft_loss_change"].sum(-1), kind="stable")
    heads = [heads_in(raw["heads"])[row] for row in order]
    return [head for kind in KINDS for head in [h for h in heads if h[0] == kind][:_HEADS]]


@measurement(
    "search",
    version=2,
    parameters=lambda profile: {
        "heads": _HEADS,
        "n_search": _VERSES,
        "n_verses": profile.n_verses,
    },
    statistics=Constants(resamples=10_000, seed=0, splits=200),
    halves=("translation",),
    own=lambda: Own(needs=(one_head, best_heads)),
)
def search(context: Context) -> Measured:
    """Outcomes of cuts that have an effect, with greedy search and with beam 5.

    Most single heads change BLEU by less than 300 verses can detect, in either search, so that a
    sample of all heads would rank noise. The cuts are, for each kind, the heads without which the
    loss rises most, and each layer reduced to its best head.
    """
    subject = context.subject()
    verses = first_verses(context.get("one_head").raw, context.profile.n_verses)
    cut, alone = costly_heads(verses), heads_in(context.get("best_heads").raw["heads"])
    without_one = ablation.one_head_masks(subject.model)
    but_one = ablation.all_but_one_masks(subject.model)
    masks = {
        "none": masking.ones_mask(subject.model),
        **{f"without {head}": without_one[head] for head in cut},
        **{f"only {head}": but_one[head] for head in alone},
    }
    pairs = setups.measured_on(subject.split("test").first(_VERSES))

    def counted(mask: masking.HeadTensors, beams: int) -> Arrays:
        with masking.masked_heads(subject.model, mask):
            translations = subject.translator.translate(pairs.sources, beams=beams)
        return {"counts": pack(sentence_counts(translations, pairs.targets))}

    units = {
        f"beam {beams} {name}": partial(counted, mask, beams)
        for name, mask in masks.items()
        for beams in BEAMS
    }
    done = subject.compute(units, context.journal, "greedy and beam search")
    counts = np.stack([unit["counts"] for unit in done])
    raw = {
        "heads": heads_array([*cut, *alone]),
        "reference_lengths": sentence_counts(pairs.targets, pairs.targets)[:, -1],
        "alone": np.arange(len(cut) + len(alone)) >= len(cut),
        "counts": counts.reshape(len(masks), len(BEAMS), *counts.shape[1:]),
    }
    return subject.measured(raw, len(pairs))


@search.summary
def _(raw: Arrays, statistics: Constants) -> dict[str, Any]:
    """Uncut BLEU by way of search, and how alike the two rank cuts by their change of BLEU."""
    scored = of_translations(raw["counts"], raw["reference_lengths"])  # (1 + M, beams, n, 10)
    bleu, names = scored.scores, [f"beam {beams}" for beams in BEAMS]
    change, splits = bleu[1:] - bleu[:1], (statistics.splits, statistics.seed)
    groups = {
        "all": np.full(len(change), True),
        "one head cut": ~raw["alone"],
        "one head left in a layer": raw["alone"],
    }
    return {
        "bleu": dict(zip(names, bleu[0], strict=True)),
        "cuts": [
            {
                "kind": kind,
                "layer": layer,
                "head": head,
                "alone": bool(alone),
                **dict(zip(names, row, strict=True)),
            }
            for (kind, layer, head), alone, row in zip(
                heads_in(raw["heads"]), raw["alone"], change, strict=True
            )
        ],
        **{
            method: {
                name: correlation_record(*change[rows].T, method, statistics)
                for name, rows in groups.items()
            }
            for method in ("spearman", "pearson")
        },
        "reliability": {
            name: stats.split_half_reliability_of(scored.of, scored.counts[:, i], *splits)
            for i, name in enumerate(names)
        },
    }
