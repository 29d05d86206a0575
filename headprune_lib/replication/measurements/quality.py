"""How well the translation models translate: what every BLEU lost elsewhere is lost from.

No table of the paper: its models were trained by others and measured there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import sacrebleu

from headprune_lib.replication import stats
from headprune_lib.replication.data import Texts, normalise
from headprune_lib.replication.engine import run_units
from headprune_lib.replication.measurements.measurement import Context, Half, Measurement, Runs
from headprune_lib.replication.metrics import corpus_bleu, sentence_counts, signature
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import TranslationSubject
from headprune_lib.replication.store import OUTCOMES, Arrays, Measured, Outcomes

BEAMS = (1, 5)
_OVERLAP = 10


def _measure(context: Context, _part: str) -> Measured:
    subject = TranslationSubject.of(context.profile, context.task)
    pairs, task = subject.headline, subject.task
    units = run_units(
        {
            f"{subject.key} beam {beams}": lambda b=beams: _translations(subject, b)
            for beams in BEAMS
        },
        context.journal,
        f"translate, {task}",
    )
    return subject.measured(
        {
            "sources": np.array(pairs.sources),
            "references": np.array(pairs.targets),
            "overlap": shared_ngrams(subject.split("train"), pairs),
            "curve": np.array(json.dumps(subject.translator.curve)),
            **{
                f"beam {beams}": unit["text"]
                for beams, unit in zip(BEAMS, units.values(), strict=True)
            },
        },
        len(pairs),
    )


def _translations(subject: TranslationSubject, beams: int) -> Arrays:
    made = subject.translator.translate(subject.headline.sources, beams=beams)
    return {"text": np.array(made)}


def shared_ngrams(train: Texts, test: Texts, n: int = _OVERLAP) -> np.ndarray:
    """Which test pairs share ``n`` successive words with training, on either side: (pairs,)."""

    def ngrams(text: str) -> set[tuple[str, ...]]:
        words = normalise(text).split()
        return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}

    found = np.zeros(len(test), bool)
    for known, texts in ((train.sources, test.sources), (train.targets, test.targets)):
        seen = set().union(*map(ngrams, known))
        found |= np.array([not seen.isdisjoint(ngrams(text)) for text in texts])
    return found


@dataclass(frozen=True)
class Statistics:
    """Resamples of BLEU's interval, and how many translations are shown."""

    resamples: int = 10_000
    seed: int = 0
    samples: int = 10


class Values(TypedDict, total=False):
    """BLEU and chrF by way of search (``beam 1``, ``beam 5``), the learning curve, and samples."""

    n: int
    n_overlap: int
    signature: str
    curve: list[dict[str, Any]]
    samples: list[dict[str, str]]


def _summarise(_half: Half, outcomes: Outcomes, _runs: Runs, statistics: Statistics) -> Values:
    raw = outcomes[OUTCOMES]
    sources, references, overlap = raw["sources"], raw["references"], raw["overlap"]
    found = {}
    for beams in BEAMS:
        made = raw[f"beam {beams}"]
        counts = sentence_counts(made.tolist(), references.tolist())
        drawn = stats.bootstrap_scores(
            corpus_bleu, counts[None], statistics.resamples, statistics.seed
        )[:, 0]
        found[f"beam {beams}"] = {
            "bleu": float(corpus_bleu(counts.sum(0))),
            "bleu_interval": np.quantile(drawn, [0.025, 0.975]),
            "bleu_without_overlap": float(corpus_bleu(counts[~overlap].sum(0))),
            "chrf": sacrebleu.corpus_chrf(made.tolist(), [references.tolist()]).score,
        }
    greedy = raw["beam 1"]
    return {
        **found,
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


def _parameters(profile: Profile, _half: Half) -> dict[str, Any]:
    return {"n_headline": profile.n_headline}


MEASUREMENTS = (
    Measurement(
        "quality",
        2,
        {"translation": Statistics()},
        _parameters,
        _measure,
        _summarise,
        ("translation",),
    ),
)
