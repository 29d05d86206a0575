"""What cuts do to BLEU: one record a cut with its paired bootstrap, and what an order is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired, TypedDict

import numpy as np
import scipy.stats
import torch

from headprune_lib.discovery import KINDS
from headprune_lib.masking import HeadTensors
from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ALPHA, DELTA_BLEU
from headprune_lib.replication.metrics import MILLINAT, corpus_bleu
from headprune_lib.replication.store import Arrays
from headprune_lib.replication.store.verses import BESIDE, all_counts


@dataclass(frozen=True)
class Tests:
    """Level, largest loss that counts as none, and resamples of the paired bootstrap.

    ``resamples`` are enough that Holm's correction over 96 heads can reject at 0.01;
    ``papers_resamples`` are the draws of the paper's test.
    """

    alpha: float = ALPHA
    delta: float = DELTA_BLEU
    resamples: int = 200_000
    papers_resamples: int = 1000
    baseline_resamples: int = 10_000
    seed: int = 0
    power: float = 0.8


class Effect(TypedDict):
    """A cut: changes of BLEU (points) and of the loss on the uncut model's translation (nats)."""

    kind: str
    layer: int
    head: int
    delta: float
    interval: list[float]
    p: float
    p_holm: float
    p_paper: float
    smallest_detectable: float
    removable: bool
    changed: int
    delta_loss: float
    delta_loss_interval: list[float]
    delta_loss_p_holm: float
    delta_sacrebleu: NotRequired[float]


class Counts(TypedDict):
    """How many of a set of cuts lose, gain, or can be made."""

    heads: int
    removable: int
    significant_losses: int
    significant_gains: int
    raw_losses: int
    raw_gains: int
    paper_losses: int
    paper_gains: int


def baseline(raw: Arrays, tests: Tests) -> dict:
    """BLEU of the unmasked model with its 95% interval, and its loss a verse on its own output.

    ``sacrebleu`` is what sacrebleu makes of the same translations, where BLEU is of Moses' tokens.
    """
    counts, _ = all_counts(raw)
    drawn = stats.bootstrap_scores(corpus_bleu, counts[None], tests.baseline_resamples, tests.seed)
    return {
        "bleu": float(corpus_bleu(counts.sum(0))),
        "bleu_interval": np.quantile(drawn[:, 0], [0.025, 0.975]),
        "draft_loss": raw["draft_loss_uncut"].mean() / MILLINAT,
        **({"sacrebleu": sacrebleus_own(raw)[0]} if has_sacrebleus_own(raw) else {}),
    }


def has_sacrebleus_own(raw: Arrays) -> bool:
    """Whether BLEU was taken in sacrebleu's own way beside another."""
    return f"{BESIDE}counts_uncut" in raw


def sacrebleus_own(raw: Arrays) -> np.ndarray:
    """(1 + M,) BLEU in sacrebleu's own way, of the unmasked model first."""
    uncut, cuts = all_counts(raw, BESIDE)
    return corpus_bleu(np.concatenate([uncut[None], cuts]).sum(1))


def effect_records(raw: Arrays, tests: Tests) -> list[Effect]:
    """One record a cut, with Holm's correction over all of the same kind as one family.

    ``delta`` and its interval are changes of BLEU points; ``p`` and ``p_holm`` come from
    ``tests.resamples`` resamples, ``p_paper`` is compare-mt's. ``smallest_detectable`` is what a normal
    test with the bootstrap's standard error would find at Holm's first step with power 0.8;
    ``delta_loss`` is the change, in nats a verse, of the loss on the unmasked model's translation.
    ``delta_sacrebleu`` is there where BLEU was taken in sacrebleu's own way beside another.
    """
    uncut, cuts = all_counts(raw)
    own = sacrebleus_own(raw) if has_sacrebleus_own(raw) else None
    records = []
    for kind in np.unique(raw["heads"][:, 0]):
        rows = np.flatnonzero(raw["heads"][:, 0] == kind)
        many = stats.paired_bootstrap(corpus_bleu, uncut, cuts[rows], tests.resamples, tests.seed)
        papers = stats.share_of_wins(
            corpus_bleu, uncut, cuts[rows], tests.papers_resamples, tests.seed + 1
        )
        loss = stats.paired_t(raw["draft_loss_change"][rows] / MILLINAT)
        adjusted, loss_adjusted = stats.holm(many.p), stats.holm(loss.p)
        removable = stats.equivalence(many.low, tests.delta)
        detectable = _detectable(many, len(rows), tests)
        records += [
            {
                "kind": KINDS[kind],
                "layer": int(raw["heads"][row, 1]),
                "head": int(raw["heads"][row, 2]),
                "delta": many.value[i],
                "interval": [many.low[i], many.high[i]],
                "p": many.p[i],
                "p_holm": adjusted[i],
                "p_paper": papers[i],
                "smallest_detectable": detectable[i],
                "removable": bool(removable[i]),
                "changed": int((raw["counts_change"][row] != 0).any(-1).sum()),
                "delta_loss": loss.value[i],
                "delta_loss_interval": [loss.low[i], loss.high[i]],
                "delta_loss_p_holm": loss_adjusted[i],
                **({} if own is None else {"delta_sacrebleu": own[1 + row] - own[0]}),
            }
            for i, row in enumerate(rows)
        ]
    return records


def _detectable(change: stats.Estimate, n_tests: int, tests: Tests) -> np.ndarray:
    error = (change.high - change.low) / (2 * scipy.stats.norm.isf(0.025))
    return (
        scipy.stats.norm.isf(tests.alpha / n_tests / 2) + scipy.stats.norm.isf(1 - tests.power)
    ) * error


def counts(records: list[Effect], tests: Tests) -> dict[str, Counts]:
    """Kind -> how many cuts lose or gain significantly, and how many are removable; and ``all``."""

    def number(rows: list[Effect], p: str, sign: int) -> int:
        return sum(r[p] < tests.alpha and np.sign(r["delta"]) == sign for r in rows)

    families = {kind: [r for r in records if r["kind"] == kind] for kind in KINDS}
    families = {kind: rows for kind, rows in families.items() if rows} | {"all": records}
    return {
        kind: {
            "heads": len(rows),
            "removable": sum(r["removable"] for r in rows),
            "significant_losses": number(rows, "p_holm", -1),
            "significant_gains": number(rows, "p_holm", 1),
            "raw_losses": number(rows, "p", -1),
            "raw_gains": number(rows, "p", 1),
            "paper_losses": number(rows, "p_paper", -1),
            "paper_gains": number(rows, "p_paper", 1),
        }
        for kind, rows in families.items()
    }


def resampled(raw: Arrays, resamples: int, seed: int) -> np.ndarray:
    """Changes of BLEU (resamples, cuts) on resampled verses, the same for all cuts."""
    uncut, cuts = all_counts(raw)
    drawn = stats.bootstrap_scores(
        corpus_bleu, np.concatenate([uncut[None], cuts]), resamples, seed
    )
    return drawn[:, 1:] - drawn[:, :1]


def one_by_one_scores(raw: Arrays) -> HeadTensors:
    """What cutting a head alone costs: BLEU lost, ties broken by loss (section 4.2)."""
    uncut, cuts = all_counts(raw)
    lost = corpus_bleu(uncut.sum(0)) - corpus_bleu(cuts.sum(1))
    # far below what a changed n-gram does to BLEU
    tie = 1e-9 * np.tanh(raw["draft_loss_change"].mean(-1) / MILLINAT)
    scores = {}
    for number, kind in enumerate(KINDS):
        rows = raw["heads"][:, 0] == number
        layers, heads = raw["heads"][rows, 1], raw["heads"][rows, 2]
        grid = torch.full(
            (int(layers.max()) + 1, int(heads.max()) + 1), torch.nan, dtype=torch.float64
        )
        grid[layers.astype(int), heads.astype(int)] = torch.from_numpy((lost + tie)[rows])
        scores[kind] = grid
    return scores
