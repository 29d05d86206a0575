"""The score without each head, and with one head alone in a layer (sections 3.2, 3.3, appendix A).

``one_head`` is Table 1 and Figure 1; for a translator the paper shows the encoder's own heads, and
the other two kinds are measured too. ``all_but_one`` keeps each head alone in turn and chooses the
best of a layer on the same test set that it reports (as in the paper's Tables 2 and 3, which makes
every p-value invalid). ``best_heads`` chooses on training sentences, or on the validation chapters,
as the paper's Tables 5 and 6 do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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
from headprune_lib.replication.measurements.estimates import Scored
from headprune_lib.replication.metrics import MILLINAT, SCORES, corpus_bleu
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import OUTCOMES, Arrays, Measured, prefixed
from headprune_lib.replication.store.packing import (
    BESIDE,
    KINDS,
    all_counts,
    heads_in,
    mean_losses,
    rows_of,
)

# --- effects of cuts on a score: a record per cut, and an order of heads --------------------------

Columns = dict[str, np.ndarray]
"""Statistics of cuts: name -> one entry per cut."""
TESTS: dict[Half, Constants] = {
    "encoder": Constants(alpha=ALPHA, delta=DELTA, power=0.8),
    "translation": Constants(
        alpha=ALPHA,
        delta=DELTA_BLEU,
        power=0.8,
        resamples=200_000,  # enough that Holm's correction over 96 heads can reject at 0.01
        papers_resamples=1000,
        baseline_resamples=10_000,
        seed=0,
    ),
}
"""Half -> the constants of its tests.

``alpha`` is their level, ``delta`` the largest loss that counts as none (of accuracy as a fraction,
of BLEU in points), ``power`` that with which the smallest detectable change would be found.
"""


def scored_cuts(raw: Arrays) -> Scored:
    """The outcomes of the uncut model, and then of each cut: (1 + cuts, texts, k)."""
    if "correct" in raw:
        correct = np.concatenate([raw["correct_uncut"][None], raw["correct"]])
        return Scored(SCORES["accuracy"].counts(correct, correct), SCORES["accuracy"].of)
    uncut, cuts = all_counts(raw)
    return Scored(np.concatenate([uncut[None], cuts]), corpus_bleu)


def baseline(raw: Arrays, tests: Constants) -> dict[str, Any]:
    """Accuracy (with its 95% Wilson interval) and log-loss of the uncut model.

    For a translator BLEU with its 95% interval, its own output's loss per verse, and ``sacrebleu``,
    sacrebleu's own BLEU, where BLEU is of Moses' tokens.
    """
    if "correct_uncut" in raw:
        correct = raw["correct_uncut"]
        return {
            "accuracy": correct.mean(),
            "accuracy_interval": proportion.proportion_confint(
                int(correct.sum()), len(correct), method="wilson"
            ),
            "log_loss": raw["loss_uncut"].mean() / MILLINAT,
        }
    draws = Constants(resamples=tests.baseline_resamples, seed=tests.seed)
    bleu = Scored(all_counts(raw)[0], corpus_bleu).drawn(draws)
    sacrebleus = sacrebleus_own(raw)
    return {
        "bleu": float(bleu.value),
        "bleu_interval": bleu.interval,
        "draft_loss": raw["draft_loss_uncut"].mean() / MILLINAT,
        **({} if sacrebleus is None else {"sacrebleu": sacrebleus[0]}),
    }


def _changes_of_accuracy(raw: Arrays, rows: np.ndarray, tests: Constants) -> Columns:
    """Changes of accuracy (cut minus uncut, as fractions).

    ``p`` is McNemar's, ``p_paper`` that of the paper's unpaired test. McNemar's test would find
    ``smallest_detectable`` at the first step of Holm's correction over these cuts.
    """
    correct, uncut = raw["correct"][rows], raw["correct_uncut"]
    n = len(uncut)
    lost, gained = (uncut & ~correct).sum(-1), (~uncut & correct).sum(-1)
    return {
        "delta": (gained - lost) / n,
        "interval": np.stack(stats.paired_proportion_interval(lost, gained, n), -1),
        "p": stats.mcnemar_exact(lost, gained),
        "p_paper": stats.unpaired_t(uncut, correct),
        "discordant": np.stack([lost, gained], -1),
        "smallest_detectable": stats.smallest_detectable(
            (lost + gained) / n, n, tests.alpha / len(rows), tests.power
        ),
    }


def _changes_of_bleu(raw: Arrays, rows: np.ndarray, tests: Constants) -> Columns:
    """Changes of BLEU in points, by a paired bootstrap; ``p_paper`` is compare-mt's.

    A normal test with the bootstrap's standard error would find ``smallest_detectable`` at the
    first step of Holm's correction over these cuts. ``changed`` counts changed translations.
    """
    systems = scored_cuts(of_cuts(raw, rows)).counts
    change = stats.paired_bootstrap(corpus_bleu, systems, tests.resamples, tests.seed)
    level, error = tests.alpha / len(rows), stats.standard_error((change.low, change.high))
    columns: Columns = {
        "delta": change.value,
        "interval": np.stack([change.low, change.high], -1),
        "p": change.p,
        "p_paper": stats.share_of_wins(
            corpus_bleu, systems, tests.papers_resamples, tests.seed + 1
        ),
        "smallest_detectable": error
        * (scipy.stats.norm.isf(level / 2) + scipy.stats.norm.isf(1 - tests.power)),
        "changed": (raw["counts_change"][rows] != 0).any(-1).sum(-1),
    }
    if (sacrebleus := sacrebleus_own(raw)) is not None:
        columns["delta_sacrebleu"] = sacrebleus[1 + rows] - sacrebleus[0]
    return columns


def sacrebleus_own(raw: Arrays) -> np.ndarray | None:
    """sacrebleu's own BLEU, (1 + cuts,), uncut first; None where it is the main score anyway."""
    if f"{BESIDE}counts_uncut" not in raw:
        return None
    uncut, cuts = all_counts(raw, BESIDE)
    return corpus_bleu(np.concatenate([uncut[None], cuts]).sum(1))


def effects(raw: Arrays, tests: Constants) -> dict[str, Columns]:
    """Kind of attention -> the effects of its cuts, one family for Holm's correction.

    ``delta`` with its interval is the change of the score, ``delta_loss`` that of the loss in nats:
    of the right answer, or of the unmasked model's translation.
    """
    answers = "correct" in raw
    losses = raw["loss_change" if answers else "draft_loss_change"]
    by_kind = {}
    for kind, rows in rows_by_kind(raw["heads"]).items():
        columns = (_changes_of_accuracy if answers else _changes_of_bleu)(raw, rows, tests)
        loss = stats.paired_t(losses[rows] / MILLINAT)
        by_kind[kind] = {
            "layer": raw["heads"][rows, -2],
            "head": raw["heads"][rows, -1],
            **columns,
            "p_holm": stats.holm(columns["p"]),
            "removable": stats.equivalence(columns["interval"][:, 0], tests.delta),
            "delta_loss": loss.value,
            "delta_loss_interval": np.stack([loss.low, loss.high], -1),
            "delta_loss_p_holm": stats.holm(loss.p),
            **({"delta_loss_p": loss.p} if answers else {}),
        }
    return by_kind


def rows_by_kind(heads: np.ndarray) -> dict[str, np.ndarray]:
    """Kind of attention -> the rows of its heads."""
    kinds = np.array([kind for kind, *_ in heads_in(heads)])
    return {kind: np.flatnonzero(kinds == kind) for kind in ("self", *KINDS) if kind in kinds}


def records(by_kind: Mapping[str, Columns]) -> list[dict[str, Any]]:
    """One record per cut, of :func:`effects`."""
    return [
        {"kind": kind, **dict(zip(columns, cut, strict=True))}
        for kind, columns in by_kind.items()
        for cut in zip(*columns.values(), strict=True)
    ]


def counts(by_kind: Mapping[str, Columns], alpha: float) -> dict[str, Any]:
    """The numbers of cuts that lose or gain significantly, and of removable ones.

    For a translator, kind -> these numbers, and ``all``.
    """
    if "self" in by_kind:
        columns = by_kind["self"]
        return {
            **_counts(columns, alpha),
            # a growing loss counts as lost
            "loss_losses": _significant(columns, "delta_loss_p_holm", "delta_loss", 1, alpha),
            "loss_gains": _significant(columns, "delta_loss_p_holm", "delta_loss", -1, alpha),
        }
    every = {
        name: np.concatenate([columns[name] for columns in by_kind.values()])
        for name in ("removable", "delta", "p_holm", "p", "p_paper")
    }
    return {kind: _counts(columns, alpha) for kind, columns in {**by_kind, "all": every}.items()}


def _counts(columns: Columns, alpha: float) -> dict[str, int]:
    return {
        "heads": len(columns["delta"]),
        "removable": int(columns["removable"].sum()),
        **{
            f"{test}_{what}": _significant(columns, p, "delta", sign, alpha)
            for test, p in (("significant", "p_holm"), ("raw", "p"), ("paper", "p_paper"))
            for what, sign in (("losses", -1), ("gains", 1))
        },
    }


def _significant(columns: Columns, p: str, effect: str, sign: int, alpha: float) -> int:
    return int(((columns[p] < alpha) & (np.sign(columns[effect]) == sign)).sum())


def one_by_one_scores(raw: Arrays) -> masking.HeadTensors:
    """The cost of cutting each head alone; NaN for a head that was not cut (section 4.2).

    Answers or BLEU lost, ties broken by the loss, which outweighs neither an answer nor an n-gram.
    """
    if "correct" in raw:
        lost = raw["correct_uncut"].sum() - raw["correct"].sum(-1).astype(float)
        costs = lost + 0.5 * np.tanh(raw["loss_change"].mean(-1) / MILLINAT)
    else:
        whole, *bleu = scored_cuts(raw).scores
        costs = whole - bleu + 1e-9 * np.tanh(raw["draft_loss_change"].mean(-1) / MILLINAT)
    return {
        kind: torch.from_numpy(by_place(raw["heads"][rows, -2:], costs[rows]))
        for kind, rows in rows_by_kind(raw["heads"]).items()
    }


def by_place(heads: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The values of heads (heads, 2) at their places (layer, head); NaN for other places."""
    grid = np.full(heads.max(0) + 1, np.nan)
    grid[tuple(heads.T)] = values
    return grid


# --- the share that is removable (claim C1) -------------------------------------------------------

# resamples of the examples, and simulated repetitions (``worlds``) for the power, in which the share
# ``changing`` of the cuts truly has a cost; claim C1's bounds on the share and on its interval's low
_DRAWS = Constants(
    resamples=2_000,
    worlds=400,
    seed=0,
    changing=PAPER_CHANGING,
    least=C1_REMOVABLE,
    least_low=C1_REMOVABLE_LOW,
)


def removable_record(
    columns: Columns, drawn: np.ndarray, delta: float, draws: Constants
) -> dict[str, Any]:
    """The number of needed cuts in a sweep, and the interval and power of the removable share.

    ``detectable`` is the distance from delta that the median cut's interval shows with
    probability 0.8, in the units of the change.

    Args:
        drawn: (resamples, cuts) changes on resampled examples, the same draws for all cuts.
        delta: the largest loss that counts as none.
    """
    change, (low, high) = columns["delta"], columns["interval"].T
    _, ends = stats.share_above(change, low, drawn, -delta)
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
        "detectable": stats.detectable(float(np.median(stats.standard_error((low, high))))),
    }


# --- one head cut ---------------------------------------------------------------------------------


@measurement(
    "one_head",
    version=1,
    parameters={"encoder": ["n_examples"], "translation": ["n_headline"]},
    statistics={half: Constants(tests=tests, draws=_DRAWS) for half, tests in TESTS.items()},
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
    tests, draws, by_kind = statistics.tests, statistics.draws, effects(raw, statistics.tests)
    drawn = scored_cuts(raw).drawn(draws).drawn
    changes = drawn[:, 1:] - drawn[:, :1]
    removable = {
        kind: removable_record(by_kind[kind], changes[:, rows], tests.delta, draws)
        for kind, rows in rows_by_kind(raw["heads"]).items()
    }
    return {
        "baseline": baseline(raw, tests),
        "heads": records(by_kind),
        "counts": counts(by_kind, tests.alpha),
        "removable": removable["self"] if half == "encoder" else removable,
        "delta_tolerated": tests.delta,
        **({"truncated": int(raw["truncated"])} if "truncated" in raw else {}),
    }


# --- one head left in a layer ---------------------------------------------------------------------


@measurement(
    "all_but_one",
    version=1,
    parameters={"encoder": ["n_examples"], "translation": ["n_verses", "n_headline"]},
    statistics=TESTS,
    halves=HALVES,
)
def all_but_one(context: Context) -> Measured:
    """Outcomes of all test texts with each head kept as the only one of its layer."""
    subject = context.subject()
    texts = subject.tested()
    swept = subject.sweep("all but one", texts, context.journal, context.task)
    return subject.measured(swept, n_examples=len(texts))


@all_but_one.summary
def _(half: Half, raw: Arrays, statistics: Constants) -> dict[str, Any]:
    """``layers`` has the best head of each layer, ``heads`` every head of an encoder."""
    summary = {
        "baseline": baseline(raw, statistics),
        "layers": records(effects(of_cuts(raw, best_of_layers(raw)), statistics)),
        "chosen_on": "test",
    }
    if half == "encoder":
        shown = ("layer", "head", "delta", "interval")
        cuts = records(effects(raw, statistics))
        summary["heads"] = [{name: cut[name] for name in shown} for cut in cuts]
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
    statistics=TESTS,
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
def _(half: Half, raw: Arrays, statistics: Constants) -> dict[str, Any]:
    """As for ``all_but_one``, with the number of texts of the choice."""
    choice = raw["train_correct"].T if half == "encoder" else raw["valid_reference_lengths"]
    return {
        "baseline": baseline(raw, statistics),
        "layers": records(effects(raw, statistics)),
        "chosen_on": _CHOSEN_ON[half],
        "n_selection": len(choice),
    }
