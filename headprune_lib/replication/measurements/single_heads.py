"""The score without each head, and with one head alone in a layer (sections 3.2, 3.3, appendix A).

``one_head`` is Table 1 and Figure 1; for a translator the paper shows the encoder's own heads, and
the other two kinds are measured too. ``all_but_one`` keeps each head alone in turn and chooses the
best of a layer on the same test set that it reports (as in the paper's Tables 2 and 3, which makes
every p-value invalid). ``best_heads`` chooses on training sentences, or on the validation chapters,
as the paper's Tables 5 and 6 do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import (
    ALPHA,
    C1_REMOVABLE,
    C1_REMOVABLE_LOW,
    DELTA,
    DELTA_BLEU,
    PAPER_CHANGING,
)
from headprune_lib.replication.data import TRANSLATION_TASKS
from headprune_lib.replication.lazy import masking, proportion, torch
from headprune_lib.replication.measurements.base import (
    HALVES,
    Constants,
    Context,
    Half,
    Own,
    measurement,
    of_training,
    seed_of,
)
from headprune_lib.replication.measurements.estimates import interval_record
from headprune_lib.replication.metrics import MILLINAT, corpus_bleu
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import OUTCOMES, Arrays, Measured, prefixed
from headprune_lib.replication.store.packing import (
    BESIDE,
    KINDS,
    all_counts,
    heads_array,
    heads_in,
    mean_losses,
    rows_of,
)

# --- effects of cuts on a score: a record per cut, and an order of heads --------------------------

Columns = dict[str, np.ndarray]
"""Statistics of cuts: name -> one entry per cut."""


@dataclass(frozen=True)
class Accuracy:
    """Statistics of right and wrong answers under cuts, with the constants of their tests.

    Attributes:
        alpha: level of the tests.
        delta: the largest loss that counts as none.
        power: the power with which the smallest detectable change would be found.
    """

    alpha: float = ALPHA
    delta: float = DELTA
    power: float = 0.8
    loss: ClassVar[str] = "loss_change"

    def baseline(self, raw: Arrays) -> dict[str, Any]:
        """Accuracy (with its 95% Wilson interval) and log-loss of the uncut model."""
        correct = raw["correct_uncut"]
        low, high = proportion.proportion_confint(int(correct.sum()), len(correct), method="wilson")
        return {
            "accuracy": correct.mean(),
            "accuracy_interval": [low, high],
            "log_loss": raw["loss_uncut"].mean() / MILLINAT,
        }

    def changes(self, raw: Arrays, rows: np.ndarray) -> Columns:
        """Changes of accuracy (cut minus uncut, as fractions).

        ``p`` is McNemar's, ``p_paper`` that of the paper's unpaired test. McNemar's test would find
        ``smallest_detectable`` at the first step of Holm's correction over these cuts.
        """
        correct, uncut = raw["correct"][rows], raw["correct_uncut"]
        n = len(uncut)
        lost, gained = (uncut & ~correct).sum(-1), (~uncut & correct).sum(-1)
        low, high = stats.paired_proportion_interval(lost, gained, n)
        return {
            "delta": (gained - lost) / n,
            "interval": np.stack([low, high], -1),
            "p": stats.mcnemar_exact(lost, gained),
            "p_paper": stats.unpaired_t(uncut, correct),
            "discordant": np.stack([lost, gained], -1),
            "smallest_detectable": stats.smallest_detectable(
                (lost + gained) / n, n, self.alpha / len(rows), self.power
            ),
        }

    def resampled(self, raw: Arrays, resamples: int, seed: int) -> np.ndarray:
        """Changes of accuracy (resamples, cuts) on resampled examples, the same for all cuts."""
        changed = raw["correct"].astype(np.int8) - raw["correct_uncut"].astype(np.int8)
        n = changed.shape[1]
        return stats.bootstrap_scores(
            lambda sums: sums[..., 0] / n, changed[..., None], resamples, seed
        )

    def costs(self, raw: Arrays) -> np.ndarray:
        """Answers lost, (cuts,), ties broken by log-loss, which never outweighs an answer."""
        lost = raw["correct_uncut"].sum() - raw["correct"].sum(-1).astype(float)
        return lost + 0.5 * np.tanh(raw["loss_change"].mean(-1) / MILLINAT)


@dataclass(frozen=True)
class Bleu:
    """Statistics of n-gram counts under cuts, with the constants of their tests.

    Attributes:
        delta: the largest loss that counts as none, in BLEU points.
        resamples: draws of the paired bootstrap, enough that Holm's correction over 96 heads can
            reject at 0.01.
        papers_resamples: draws of the paper's test.
    """

    alpha: float = ALPHA
    delta: float = DELTA_BLEU
    resamples: int = 200_000
    papers_resamples: int = 1000
    baseline_resamples: int = 10_000
    seed: int = 0
    power: float = 0.8
    loss: ClassVar[str] = "draft_loss_change"

    def baseline(self, raw: Arrays) -> dict[str, Any]:
        """BLEU of the unmasked model with its 95% interval, and its own output's loss per verse.

        ``sacrebleu`` is sacrebleu's own BLEU of them, where BLEU is of Moses' tokens.
        """
        counts, _ = all_counts(raw)
        drawn = stats.bootstrap_scores(
            corpus_bleu, counts[None], self.baseline_resamples, self.seed
        )
        sacrebleus = sacrebleus_own(raw)
        return {
            "bleu": float(corpus_bleu(counts.sum(0))),
            "bleu_interval": interval_record(drawn[:, 0]),
            "draft_loss": raw["draft_loss_uncut"].mean() / MILLINAT,
            **({} if sacrebleus is None else {"sacrebleu": sacrebleus[0]}),
        }

    def changes(self, raw: Arrays, rows: np.ndarray) -> Columns:
        """Changes of BLEU in points, by a paired bootstrap; ``p_paper`` is compare-mt's.

        A normal test with the bootstrap's standard error would find ``smallest_detectable`` at the
        first step of Holm's correction over these cuts. ``changed`` counts changed translations.
        """
        uncut, cuts = all_counts(raw)
        change = stats.paired_bootstrap(corpus_bleu, uncut, cuts[rows], self.resamples, self.seed)
        error = (change.high - change.low) / (2 * stats.Z95)
        columns_out: Columns = {
            "delta": change.value,
            "interval": np.stack([change.low, change.high], -1),
            "p": change.p,
            "p_paper": stats.share_of_wins(
                corpus_bleu, uncut, cuts[rows], self.papers_resamples, self.seed + 1
            ),
            "smallest_detectable": (
                scipy.stats.norm.isf(self.alpha / len(rows) / 2)
                + scipy.stats.norm.isf(1 - self.power)
            )
            * error,
            "changed": (raw["counts_change"][rows] != 0).any(-1).sum(-1),
        }
        if (sacrebleus := sacrebleus_own(raw)) is not None:
            columns_out["delta_sacrebleu"] = sacrebleus[1 + rows] - sacrebleus[0]
        return columns_out

    def resampled(self, raw: Arrays, resamples: int, seed: int) -> np.ndarray:
        """Changes of BLEU (resamples, cuts) on resampled verses, the same for all cuts."""
        uncut, cuts = all_counts(raw)
        both = np.concatenate([uncut[None], cuts])
        drawn = stats.bootstrap_scores(corpus_bleu, both, resamples, seed)
        return drawn[:, 1:] - drawn[:, :1]

    def costs(self, raw: Arrays) -> np.ndarray:
        """BLEU lost, (cuts,), ties broken by the loss, which never outweighs a changed n-gram."""
        uncut, cuts = all_counts(raw)
        lost = corpus_bleu(uncut.sum(0)) - corpus_bleu(cuts.sum(1))
        return lost + 1e-9 * np.tanh(raw["draft_loss_change"].mean(-1) / MILLINAT)


Metric = Accuracy | Bleu
METRICS: dict[Half, Metric] = {"encoder": Accuracy(), "translation": Bleu()}
"""Half of the paper -> the metric that judges its cuts."""


def sacrebleus_own(raw: Arrays) -> np.ndarray | None:
    """sacrebleu's own BLEU, (1 + cuts,), uncut first; None where it is the main score anyway."""
    if f"{BESIDE}counts_uncut" not in raw:
        return None
    uncut, cuts = all_counts(raw, BESIDE)
    return corpus_bleu(np.concatenate([uncut[None], cuts]).sum(1))


def effect_records(raw: Arrays, metric: Metric) -> list[dict[str, Any]]:
    """One record per cut, with Holm's correction over all cuts of a kind as one family.

    ``delta`` with its interval is the change of the score, ``delta_loss`` that of the loss in nats:
    of the right answer, or of the unmasked model's translation. The metric's ``changes`` describes
    the other statistics of the score.
    """
    heads = heads_in(raw["heads"])
    kinds = [kind for kind, *_ in heads]
    records = []
    for kind in sorted({*kinds}, key=("self", *KINDS).index):
        rows = np.flatnonzero(np.array(kinds) == kind)
        columns = metric.changes(raw, rows)
        loss = stats.paired_t(raw[metric.loss][rows] / MILLINAT)
        columns |= {
            "p_holm": stats.holm(columns["p"]),
            "removable": stats.equivalence(columns["interval"][:, 0], metric.delta),
            "delta_loss": loss.value,
            "delta_loss_interval": np.stack([loss.low, loss.high], -1),
            "delta_loss_p_holm": stats.holm(loss.p),
            **({"delta_loss_p": loss.p} if isinstance(metric, Accuracy) else {}),
        }
        for i, row in enumerate(rows):
            head = dict(zip(("kind", "layer", "head"), heads[row], strict=True))
            records.append({**head, **{name: column[i] for name, column in columns.items()}})
    return records


def counts(records: list[dict[str, Any]], metric: Metric) -> dict[str, Any]:
    """The numbers of cuts that lose or gain significantly, and of removable ones.

    For a translator, kind -> these numbers, and ``all``.
    """
    kinds = dict.fromkeys(record["kind"] for record in records)
    if isinstance(metric, Bleu):
        by_kind = {
            kind: [r for r in records if r["kind"] == kind] for kind in KINDS if kind in kinds
        }
        return {
            kind: _counts(some, metric.alpha) for kind, some in {**by_kind, "all": records}.items()
        }
    return {
        **_counts(records, metric.alpha),
        # a growing loss counts as lost
        "loss_losses": _significant(records, "delta_loss_p_holm", "delta_loss", 1, metric.alpha),
        "loss_gains": _significant(records, "delta_loss_p_holm", "delta_loss", -1, metric.alpha),
    }


def _counts(records: list[dict[str, Any]], alpha: float) -> dict[str, int]:
    return {
        "heads": len(records),
        "removable": sum(bool(record["removable"]) for record in records),
        **{
            f"{test}_{what}": _significant(records, p, "delta", sign, alpha)
            for test, p in (("significant", "p_holm"), ("raw", "p"), ("paper", "p_paper"))
            for what, sign in (("losses", -1), ("gains", 1))
        },
    }


def _significant(records: list[dict], p: str, effect: str, sign: int, alpha: float) -> int:
    return int(sum(r[p] < alpha and np.sign(r[effect]) == sign for r in records))


def one_by_one_scores(raw: Arrays) -> masking.HeadTensors:
    """The cost of cutting each head alone; NaN for a head that was not cut (section 4.2)."""
    costs = METRICS["encoder" if "correct" in raw else "translation"].costs(raw)
    heads, scores = heads_in(raw["heads"]), {}
    for kind in sorted({kind for kind, *_ in heads}, key=("self", *KINDS).index):
        places = {
            head[1:]: cost for head, cost in zip(heads, costs, strict=True) if head[0] == kind
        }
        layers, width = (max(ends) + 1 for ends in zip(*places, strict=True))
        grid = torch.full((layers, width), torch.nan, dtype=torch.float64)
        for cut, cost in places.items():
            grid[cut] = float(cost)
        scores[kind] = grid
    return scores


# --- the share that is removable (claim C1) -------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """Resamples of the examples, and simulated repetitions (``worlds``) for the power.

    ``changing`` is the share of cuts that truly have a cost in these; ``least`` and ``least_low``
    are claim C1's bounds on the share and on the lower end of its interval.
    """

    resamples: int = 2_000
    worlds: int = 400
    seed: int = 0
    changing: float = PAPER_CHANGING
    least: float = C1_REMOVABLE
    least_low: float = C1_REMOVABLE_LOW


def removable_record(
    change: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    drawn: np.ndarray,
    delta: float,
    draws: Draws,
) -> dict[str, Any]:
    """The number of needed cuts in a sweep, and the interval and power of the removable share.

    ``detectable`` is the distance from delta that the median cut's interval shows with
    probability 0.8, in the units of the change.

    Args:
        change, low, high: (cuts,) changes of the metric with their 95% intervals.
        drawn: (resamples, cuts) changes on resampled examples, the same draws for all cuts.
        delta: the largest loss that counts as none.
    """
    _, ends = stats.share_above(change, low, drawn, -delta)
    errors = [stats.standard_error(pair) for pair in zip(low, high, strict=True)]
    return {
        "needed": int((high < -delta).sum()),
        "removable_interval": ends,
        "power": stats.power_of_share(
            change,
            low,
            drawn,
            bound=-delta,
            spared=len(change) - round(draws.changing * len(change)),
            least=draws.least,
            least_low=draws.least_low,
            worlds=draws.worlds,
            seed=draws.seed,
        ),
        "detectable": stats.detectable(float(np.median(errors))),
    }


# --- one head cut ---------------------------------------------------------------------------------


@measurement(
    "one_head",
    version=1,
    parameters={"encoder": ["n_examples"], "translation": ["n_headline"]},
    statistics={half: Constants(tests=metric, draws=Draws()) for half, metric in METRICS.items()},
    halves=HALVES,
    own=of_training,
)
def one_head(context: Context, part: str) -> Measured:
    """Outcomes of all test texts with each head cut in turn."""
    subject = context.subject(seed_of(part))
    texts = subject.headline
    swept = subject.sweep("one head", texts, context.journal, context.task)
    return subject.measured(swept, n_examples=len(texts))


@one_head.summary
def _(half: Half, raw: Arrays, statistics: Constants) -> dict[str, Any]:
    """Effects of all heads; ``counts`` and ``removable`` are by kind for a translator.

    ``truncated`` counts long sentences.
    """
    metric, draws = statistics.tests, statistics.draws
    records = effect_records(raw, metric)
    drawn = metric.resampled(raw, draws.resamples, draws.seed)
    removable = {}
    for kind in dict.fromkeys(record["kind"] for record in records):
        of_kind = [record for record in records if record["kind"] == kind]
        change = np.array([record["delta"] for record in of_kind])
        low, high = np.array([record["interval"] for record in of_kind]).T
        # records are grouped by kind, outcomes in the order of the model's layers
        heads = heads_array((kind, record["layer"], record["head"]) for record in of_kind)
        rows = rows_of(heads, raw["heads"])
        removable[kind] = removable_record(change, low, high, drawn[:, rows], metric.delta, draws)
    return {
        "baseline": metric.baseline(raw),
        "heads": records,
        "counts": counts(records, metric),
        "removable": removable["self"] if half == "encoder" else removable,
        "delta_tolerated": metric.delta,
        **({"truncated": int(raw["truncated"])} if "truncated" in raw else {}),
    }


# --- one head left in a layer ---------------------------------------------------------------------


@measurement(
    "all_but_one",
    version=1,
    parameters={"encoder": ["n_examples"], "translation": ["n_verses", "n_headline"]},
    statistics=METRICS,
    halves=HALVES,
)
def all_but_one(context: Context) -> Measured:
    """Outcomes of all test texts with each head kept as the only one of its layer."""
    subject = context.subject()
    texts = subject.tested()
    swept = subject.sweep("all but one", texts, context.journal, context.task)
    return subject.measured(swept, n_examples=len(texts))


@all_but_one.summary
def _(half: Half, raw: Arrays, statistics: Metric) -> dict[str, Any]:
    """``layers`` has the best head of each layer, ``heads`` every head of an encoder."""
    summary = {
        "baseline": statistics.baseline(raw),
        "layers": effect_records(of_cuts(raw, best_of_layers(raw)), statistics),
        "chosen_on": "test",
    }
    if half == "encoder":
        shown = ("layer", "head", "delta", "interval")
        records = effect_records(raw, statistics)
        summary["heads"] = [{name: record[name] for name in shown} for record in records]
    return summary


def best_of_layers(raw: Arrays) -> np.ndarray:
    """For each layer (of each kind) the row of its best head: highest score, then lowest loss."""
    layers = raw["heads"][:, :-1]
    if "correct" in raw:
        order = np.lexsort((raw["loss_change"].sum(-1), -raw["correct"].sum(-1)))
    else:
        _, cuts = all_counts(raw)
        loss = mean_losses(raw)["draft_log_loss"][1:]
        order = np.lexsort((loss, -corpus_bleu(cuts.sum(1))))
    return np.array(
        [
            next(i for i in order if (layers[i] == layer).all())
            for layer in np.unique(layers, axis=0)
        ]
    )


def of_cuts(raw: Arrays, rows: np.ndarray) -> Arrays:
    """The outcomes of some cuts only."""
    return {
        name: values[rows] if name in ("heads", "correct") or name.endswith("_change") else values
        for name, values in raw.items()
    }


_CHOSEN_ON: dict[Half, str] = {"encoder": "train", "translation": "valid"}
"""The split that prefixes the names of the outcomes by which the best heads were chosen."""


def _own_of_best(profile: Profile, half: Half, part: str) -> Own:
    # each head is kept alone on the test set too, so that the best ones' outcomes are there
    built_on = half == "encoder" and part == OUTCOMES and profile.orders == "every"
    return replace(of_training(part), needs=(all_but_one,) if built_on else ())


@measurement(
    "best_heads",
    version=1,
    parameters={
        "encoder": ["n_examples", "n_selection"],
        "translation": ["n_verses", "n_headline"],
    },
    statistics=METRICS,
    halves=HALVES,
    own=_own_of_best,
)
def best_heads(context: Context, part: str) -> Measured:
    """Outcomes with each layer's best head alone, and those of all heads that it was chosen from.

    Further trainings, which take an hour each, are measured only when requested by name:
    ``"training 2"``.
    """
    seed, task, journal = seed_of(part), context.task, context.journal
    subject, split = context.subject(seed), _CHOSEN_ON[context.half]
    choice, reported = subject.chosen
    tried = context.settled_under(
        f"{split}_",
        lambda: mean_losses(subject.sweep("all but one", choice, journal, f"{task} ({split})")),
    )
    best = tried["heads"][best_of_layers(tried)]
    if all_but_one in _own_of_best(context.profile, context.half, part).needs:
        raw = context.get("all_but_one").raw
        raw = of_cuts(raw, rows_of(best, raw["heads"]))
    else:
        name = "the best of each layer"
        raw = subject.sweep("all but one", reported, journal, name, only=heads_in(best))
    raw |= prefixed(f"{split}_", tried)
    shown = "test" if context.half == "encoder" else TRANSLATION_TASKS[task].chosen[1]
    return subject.measured(raw, n_examples=len(reported), dataset=f"{task}/{shown}")


@best_heads.summary
def _(half: Half, raw: Arrays, statistics: Metric) -> dict[str, Any]:
    """As for ``all_but_one``, with the number of texts of the choice."""
    choice = raw["train_correct"].T if half == "encoder" else raw["valid_reference_lengths"]
    return {
        "baseline": statistics.baseline(raw),
        "layers": effect_records(raw, statistics),
        "chosen_on": _CHOSEN_ON[half],
        "n_selection": len(choice),
    }
