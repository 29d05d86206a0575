"""How well the translation models translate: what every BLEU lost elsewhere is lost from.

No table of the paper: its models were trained by others and measured there.
"""

from __future__ import annotations

import json

import numpy as np
import sacrebleu

from headprune_lib import stats
from headprune_lib.data import normalise
from headprune_lib.experiments.artifact import Artifact, Get
from headprune_lib.experiments.outcomes import resumed
from headprune_lib.experiments.translation.outcomes import TranslationSetting
from headprune_lib.journal import Arrays, Journal
from headprune_lib.kernels import fast_linears
from headprune_lib.profiles import Profile
from headprune_lib.results import Measurement
from headprune_lib.translation.bleu import corpus_bleu, sentence_counts, signature
from headprune_lib.translation.verses import Pairs

BEAMS = (1, 5)
_OVERLAP, _SAMPLES = 10, 10
_RESAMPLES, _SEED = 10_000, 0


def _tasks(profile: Profile) -> tuple[str, ...]:
    return tuple(dict.fromkeys((profile.translation_task, profile.training_task)))


def _measure(profile: Profile, journal: Journal, _get: Get) -> Measurement:
    raw: Arrays = {"tasks": np.array(_tasks(profile))}
    settings = [TranslationSetting.of(profile, task) for task in _tasks(profile)]
    for setting in settings:
        pairs = setting.headline
        units = resumed(journal, [f"{setting.key} beam {beams}" for beams in BEAMS],
                        [lambda s=setting, b=beams: _translations(s, b) for beams in BEAMS],
                        f"translate, {setting.task}")
        train = setting.split("train")
        raw |= {
            f"{setting.task}/sources": np.array(pairs.sources),
            f"{setting.task}/references": np.array(pairs.targets),
            f"{setting.task}/overlap": shared_ngrams(train, pairs),
            f"{setting.task}/curve": np.array(json.dumps(setting.translator.curve)),
            **{f"{setting.task}/beam {beams}": unit["text"]
               for beams, unit in zip(BEAMS, units, strict=True)},
        }
    weights = {f"{s.task} seed {s.seed}": s.translator.weights_sha256 for s in settings}
    runs = [{"seed": s.seed, "task": s.task, "weights_sha256": s.translator.weights_sha256}
            for s in settings]
    return Measurement(raw, runs, ", ".join(_tasks(profile)), "test", len(pairs), "BLEU",
                       "BLEU points", weights)


def _translations(setting: TranslationSetting, beams: int) -> Arrays:
    with fast_linears(setting.model):
        made = setting.translator.translate(setting.headline.sources, beams=beams)
    return {"text": np.array(made)}


def shared_ngrams(train: Pairs, test: Pairs, n: int = _OVERLAP) -> np.ndarray:
    """Which test pairs share ``n`` successive words with training, on either side: (pairs,)."""
    def ngrams(text: str) -> set[tuple[str, ...]]:
        words = normalise(text).split()
        return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}

    found = np.zeros(len(test), bool)
    for known, texts in ((train.sources, test.sources), (train.targets, test.targets)):
        seen = set().union(*map(ngrams, known))
        found |= np.array([not seen.isdisjoint(ngrams(text)) for text in texts])
    return found


def _summarise(raw: Arrays, _runs: list[dict]) -> dict:
    return {str(task): _summary(raw, str(task)) for task in raw["tasks"]}


def _summary(raw: Arrays, task: str) -> dict:
    sources, references, overlap = (raw[f"{task}/{name}"]
                                    for name in ("sources", "references", "overlap"))
    found = {}
    for beams in BEAMS:
        made = raw[f"{task}/beam {beams}"]
        counts = sentence_counts(made.tolist(), references.tolist())
        drawn = stats.bootstrap_scores(corpus_bleu, counts[None], _RESAMPLES, _SEED)[:, 0]
        found[f"beam {beams}"] = {
            "bleu": float(corpus_bleu(counts.sum(0))),
            "bleu_interval": np.quantile(drawn, [0.025, 0.975]),
            "bleu_without_overlap": float(corpus_bleu(counts[~overlap].sum(0))),
            "chrf": sacrebleu.corpus_chrf(made.tolist(), [references.tolist()]).score,
        }
    greedy = raw[f"{task}/beam 1"]
    return {
        **found, "n": len(references), "n_overlap": int(overlap.sum()), "signature": signature(),
        "curve": json.loads(str(raw[f"{task}/curve"])),
        "samples": [{"source": str(s), "reference": str(r), "translation": str(t)}
                    for s, r, t in zip(sources[:_SAMPLES], references[:_SAMPLES],
                                       greedy[:_SAMPLES], strict=True)],
    }


ARTIFACTS = (
    Artifact("quality", 1, 1, lambda profile: {"n_headline": profile.n_headline}, _measure, _summarise,
             translates=_tasks),
)
