"""Changes of BLEU with their paired bootstrap, one record a cut."""

from __future__ import annotations

import numpy as np
import scipy.stats

from headprune_lib import stats
from headprune_lib.experiments.outcomes import MILLINAT
from headprune_lib.experiments.translation.outcomes import KINDS, all_counts
from headprune_lib.journal import Arrays
from headprune_lib.translation.bleu import corpus_bleu
from headprune_lib.verdicts import ALPHA, DELTA_BLEU

# Enough that Holm's correction over 96 heads can reject at 0.01 ...
RESAMPLES = 200_000
# ... and what the paper used: its p-values are shown beside those.
PAPERS_RESAMPLES = 1000
_SEED, _POWER = 0, 0.8


def baseline(raw: Arrays) -> dict:
    """BLEU of the unmasked model with its 95% interval, and its loss a verse on its own output."""
    counts, _ = all_counts(raw)
    drawn = stats.bootstrap_scores(corpus_bleu, counts[None], 10_000, _SEED)
    return {"bleu": float(corpus_bleu(counts.sum(0))),
            "bleu_interval": np.quantile(drawn[:, 0], [0.025, 0.975]),
            "draft_loss": raw["draft_loss_uncut"].mean() / MILLINAT}


def effect_records(raw: Arrays) -> list[dict]:
    """One record a cut, with Holm's correction over all of the same kind as one family.

    ``delta`` and its interval are changes of BLEU points; ``p`` and ``p_holm`` come from
    ``RESAMPLES`` resamples, ``p_paper`` from a thousand. ``smallest_detectable`` is what a normal
    test with the bootstrap's standard error would find at Holm's first step with power 0.8;
    ``delta_loss`` is the change, in nats a verse, of the loss on the unmasked model's translation.
    """
    uncut, cuts = all_counts(raw)
    records = []
    for kind in np.unique(raw["heads"][:, 0]):
        rows = np.flatnonzero(raw["heads"][:, 0] == kind)
        many = stats.paired_bootstrap(corpus_bleu, uncut, cuts[rows], RESAMPLES, _SEED)
        few = stats.paired_bootstrap(corpus_bleu, uncut, cuts[rows], PAPERS_RESAMPLES, _SEED + 1)
        loss = stats.paired_t(raw["draft_loss_change"][rows] / MILLINAT)
        adjusted, loss_adjusted = stats.holm(many.p), stats.holm(loss.p)
        removable = stats.equivalence(many.low, DELTA_BLEU)
        detectable = _detectable(many, len(rows))
        records += [
            {
                "kind": KINDS[kind],
                "layer": int(raw["heads"][row, 1]),
                "head": int(raw["heads"][row, 2]),
                "delta": many.value[i],
                "interval": [many.low[i], many.high[i]],
                "p": many.p[i],
                "p_holm": adjusted[i],
                "p_paper": few.p[i],
                "smallest_detectable": detectable[i],
                "removable": bool(removable[i]),
                "changed": int((raw["counts_change"][row] != 0).any(-1).sum()),
                "delta_loss": loss.value[i],
                "delta_loss_interval": [loss.low[i], loss.high[i]],
                "delta_loss_p_holm": loss_adjusted[i],
            }
            for i, row in enumerate(rows)
        ]
    return records


def _detectable(change: stats.Estimate, tests: int) -> np.ndarray:
    error = (change.high - change.low) / (2 * scipy.stats.norm.isf(0.025))
    return (scipy.stats.norm.isf(ALPHA / tests / 2) + scipy.stats.norm.isf(1 - _POWER)) * error


def counts_by_kind(records: list[dict]) -> dict:
    """Kind -> how many cuts lose or gain significantly, and how many are removable; and ``all``."""
    def number(rows: list[dict], p: str, sign: int) -> int:
        return sum(r[p] < ALPHA and np.sign(r["delta"]) == sign for r in rows)

    families = {kind: [r for r in records if r["kind"] == kind] for kind in KINDS}
    families = {kind: rows for kind, rows in families.items() if rows} | {"all": records}
    return {
        kind: {
            "heads": len(rows),
            "removable": sum(r["removable"] for r in rows),
            "significant_losses": number(rows, "p_holm", -1),
            "significant_gains": number(rows, "p_holm", 1),
            "raw_losses": number(rows, "p_paper", -1),
            "raw_gains": number(rows, "p_paper", 1),
        }
        for kind, rows in families.items()
    }
