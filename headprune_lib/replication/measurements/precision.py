"""Does bfloat16 give the same answers and order of heads as float32? Not in the paper.

A GPU is several times as fast in bfloat16. Its effect can be measured on any processor: one without
bfloat16 arithmetic rounds the same way but is slower, so that only a part of the text is used.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from headprune_lib.replication.lazy import ablation, masking, scoring, selection, setups, torch
from headprune_lib.replication.measurements.base import Constants, Context, measurement
from headprune_lib.replication.measurements.estimates import correlation_record
from headprune_lib.replication.measurements.orders import masks_along
from headprune_lib.replication.metrics import MILLINAT, millinats
from headprune_lib.replication.models.encoders import Batches, answers
from headprune_lib.replication.store import Arrays, Journal, Measured

PRECISIONS = {"float32": False, "bfloat16": True}
"""Name -> whether products are computed in bfloat16 (torch's autocast; weights stay in float32)."""
EXAMPLES = 500
"""The largest number of test sentences, and of sentences that heads are scored on."""
SHARES = (0.0, 0.2, 0.5)
"""Shares of the heads that are masked, the least important in float32 first."""


@measurement(
    "precision",
    version=1,
    parameters=lambda profile: {
        "n_scoring": profile.n_scoring,
        "n_examples": profile.n_examples,
        "examples": EXAMPLES,
        "shares": SHARES,
    },
    statistics=Constants(resamples=10_000, seed=0),
)
def precision(context: Context) -> Measured:
    """Scores, and answers and losses at each share masked, in each precision."""
    subject = context.subject(kernel="eager")
    scores = {name: importance(subject, context.journal, name) for name in PRECISIONS}
    order = selection.rank_heads(scoring.normalize_l2(scores["float32"]))
    names = [f"{share:.0%} masked" for share in SHARES]
    masks = dict(zip(names, masks_along(subject, order, SHARES), strict=True))
    prepared = subject.batches(subject.tested(EXAMPLES))
    by_precision = {}
    for name, half in PRECISIONS.items():
        units = {
            f"{name} {share}": partial(_outcomes, subject, prepared, mask, half)
            for share, mask in masks.items()
        }
        done = subject.compute(units, context.journal, f"masks in {name}")
        by_precision[name] = {what: np.stack([unit[what] for unit in done]) for what in done[0]}
    alike = by_precision["float32"]["answer"] == by_precision["bfloat16"]["answer"]
    raw: Arrays = {"shares": np.array(SHARES), "scores": scores["float32"]["self"].numpy()}
    raw |= {"scores bfloat16": scores["bfloat16"]["self"].numpy(), "alike bfloat16": alike}
    for precision, outcomes in by_precision.items():
        raw[f"correct {precision}"] = outcomes["correct"]
        raw[f"loss {precision}"] = millinats(outcomes["loss"])
    return subject.measured(raw, n_examples=len(subject.tested(EXAMPLES)))


def importance(
    subject: setups.EncoderSubject, journal: Journal, precision: str
) -> masking.HeadTensors:
    """Importance, not normalised, on the first ``EXAMPLES`` sentences that heads are scored on."""

    def measure() -> Arrays:
        batches = subject.batches(subject.scoring.first(EXAMPLES)).batches
        with _autocast(subject, enabled=PRECISIONS[precision]):
            scores = scoring.head_importance(subject.model, batches, normalize=None)
        return {"self": scores["self"].numpy()}

    title = f"importance in {precision}"
    (unit,) = subject.compute({f"I_h in {precision}": measure}, journal, title)
    return {"self": torch.from_numpy(unit["self"])}


def _outcomes(
    subject: setups.EncoderSubject, prepared: Batches, mask: masking.HeadTensors, half: bool
) -> Arrays:
    with _autocast(subject, enabled=half):
        logits = torch.cat(
            list(ablation.masked_logits(subject.model, prepared.batches, mask))
        ).float()
    labels: torch.Tensor = torch.cat([batch["labels"] for batch in prepared.batches])
    correct, loss = answers(logits, labels)
    return {
        "correct": prepared.restore(correct),
        "answer": prepared.restore(logits.argmax(-1).numpy().astype(np.int8)),
        "loss": prepared.restore(loss),
    }


def _autocast(subject: setups.EncoderSubject, *, enabled: bool) -> torch.autocast:
    device = next(subject.model.parameters()).device
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled)


@precision.summary
def _(raw: Arrays, statistics: Constants) -> dict[str, Any]:
    """Compare bfloat16 with float32 at each share masked (``rows``), and their orders of heads.

    In a row, ``answers`` is the share of examples that both answer alike, ``loss_apart`` the mean
    absolute difference of an example's loss in nats. ``first_half`` is the share of one order's
    first half that is in the first half of the other.
    """
    losses = [raw[f"loss {precision}"] / MILLINAT for precision in PRECISIONS]
    apart = np.abs(losses[0] - losses[1])
    rows = [
        {
            "share": float(share),
            "float32": float(raw["correct float32"][i].mean()),
            "bfloat16": float(raw["correct bfloat16"][i].mean()),
            "answers": float(raw["alike bfloat16"][i].mean()),
            "loss_apart": float(apart[i].mean()),
        }
        for i, share in enumerate(raw["shares"])
    ]
    scores = [
        scoring.normalize_l2({"self": torch.from_numpy(raw[name])})
        for name in ("scores", "scores bfloat16")
    ]
    flat = [each["self"].numpy().ravel() for each in scores]
    rank = correlation_record(*flat, "spearman", statistics)
    half = flat[0].size // 2
    first, other = ({*selection.rank_heads(each)[:half]} for each in scores)
    return {
        "rows": rows,
        "spearman": rank["r"],
        "spearman_interval": rank["interval"],
        "first_half": len(first & other) / half,
    }
