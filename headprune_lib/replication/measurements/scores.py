"""The reliability of head scores. None of it is in the paper.

``agreement``: do fine-tunings that differ only in their seed agree on which heads matter?
``stability``: do a criterion's scores agree with those on other text and of other trainings, and do
they predict the effect of cutting a head? A part is a criterion on the first training; the name may
end in `` training `` and the seed of another one, which is scored on the task's own text only.
``scoring_examples``: how many sentences does a criterion need? A part is a criterion. Draws share no
sentence, and a larger sample of the same draw contains the smaller ones.
``precision``: does bfloat16 give the same answers and order of heads as float32? A GPU is several
times as fast in bfloat16. Its effect can be measured on any processor: one without bfloat16 arithmetic
rounds the same way but is slower, so that only a part of the text is used.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.bounds import ORDERS_UP_TO
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.lazy import ablation, masking, scoring, selection, setups, torch
from headprune_lib.replication.measurements.base import Constants, Context, Own, Runs, measurement
from headprune_lib.replication.measurements.estimates import (
    correlation_record,
    interval_record,
    partial_record,
)
from headprune_lib.replication.measurements.orders import (
    masks_along,
    measured_answers,
    outcomes_under,
)
from headprune_lib.replication.measurements.single_heads import by_place, one_head
from headprune_lib.replication.measurements.which_first import (
    COMPARED,
    N_EXAMPLES,
    compare,
    contrast,
    loss_area,
    tested,
)
from headprune_lib.replication.metrics import MILLINAT, millinats
from headprune_lib.replication.models.encoders import Batches, answers
from headprune_lib.replication.models.pretrained import load_tokenizer
from headprune_lib.replication.order_names import (
    NamedOrder,
    parse_part,
    read_name,
    tokens_of,
)
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.store import OUTCOMES, Arrays, Journal, Measured, Outcomes
from headprune_lib.replication.store.packing import heads_array


def scored_once(order: str) -> NamedOrder:
    """Read the name of an order whose heads are scored once.

    Raises:
        ValueError: no criterion has this name, or its scores are measured again at each step.
    """
    named = read_name(order)
    if named.rescored:
        raise ValueError(f"{order!r} is scored again at each step. Give a criterion scored once")
    return named


def scores_on(
    subject: setups.EncoderSubject, named: NamedOrder, texts: Texts, journal: Journal
) -> masking.HeadTensors:
    """Every head's score on some texts, kept in the journal under their checksum."""

    def measure() -> Arrays:
        eager = setups.EncoderSubject.of(subject.profile, subject.seed, "eager")
        return named.scores(
            eager.model,
            eager.batches(texts).batches,
            None,
            lambda: tokens_of(load_tokenizer(subject.profile.model)),
        )

    title = f"{shown(named.criterion.name).label}, {len(texts)} sentences"
    unit_name = f"{named.key()} on {texts.sha256[:8]}"
    (unit,) = subject.compute({unit_name: measure}, journal, title)
    return {"self": torch.from_numpy(unit["self"])}


# --- other trainings --------------------------------------------------------------------------------


# ``least``: how many of the least important heads are compared as sets
@measurement(
    "agreement",
    version=1,
    parameters=["n_scoring"],
    statistics=Constants(resamples=10_000, seed=0, least=10),
    own=lambda profile: Own(seeds=tuple(profile.seeds)),
)
def agreement(context: Context) -> Measured:
    """I_h, not normalised, of every training: (seed, layer, head)."""
    profile = context.profile
    subjects = [context.subject(seed) for seed in profile.seeds]
    plain = [subject.importance(context.journal, normalize=None)["self"] for subject in subjects]
    return subjects[0].measured(
        {"scores": np.stack([scores.numpy() for scores in plain])},
        dataset=f"{profile.task}/train",
        n_examples=len(subjects[0].scoring),
        metric="importance",
        unit="nats per unit of the gate",
        runs=[subject.run for subject in subjects],
    )


@agreement.summary
def _(outcomes: Outcomes, runs: Runs, statistics: Constants) -> dict[str, Any]:
    """``scores`` (seed, layer, head), normalised by layer as the paper does; ``pairs`` of seeds."""
    seeds = [run["seed"] for run in runs[OUTCOMES]]
    normalised = [
        scoring.normalize_l2({"self": torch.from_numpy(plain)})
        for plain in outcomes[OUTCOMES]["scores"]
    ]
    scores = np.stack([each["self"].numpy() for each in normalised])
    flat = scores.reshape(len(scores), -1)
    least = [{*selection.rank_heads(each)[: statistics.least]} for each in normalised]
    pairs = []
    for i, j in itertools.combinations(range(len(flat)), 2):
        spearman = correlation_record(flat[i], flat[j], "spearman", statistics)
        pairs.append(
            {
                "seeds": [seeds[i], seeds[j]],
                "pearson": correlation_record(flat[i], flat[j], "pearson", statistics)["r"],
                "spearman": spearman["r"],
                "spearman_interval": spearman["interval"],
                "shared_least": len(least[i] & least[j]),
            }
        )
    return {
        "scores": scores,
        "pairs": pairs,
        "mean_spearman": np.mean([pair["spearman"] for pair in pairs]) if pairs else None,
        "shared_least_by_chance": statistics.least**2 / flat.shape[1],
    }


# --- other text -------------------------------------------------------------------------------------

CRITERIA = (
    "importance",
    "importance unnormalised",
    "fisher",
    "entropy",
    "logits-norm",
    "magnitude",
    "confidence",
)
"""The criteria whose stability is measured by default."""
PLAIN = "importance unnormalised"
"""The scores held fixed in ``given_both``: Eq. 2, not normalised."""


def _own_of_criterion(profile: Profile, part: str) -> Own:
    order, _, seed = parse_part(part)[:3]
    values = {"order": order, "criterion": scored_once(order).criterion.version}
    if seed is not None:
        return Own(values, (seed,))
    return Own({**values, "n_examples": profile.n_examples}, needs=(one_head,))


@measurement(
    "stability",
    version=1,
    parameters=["n_scoring", "n_domain", "domains"],
    statistics=Constants(resamples=10_000, seed=0),
    parts=lambda: CRITERIA,
    own=_own_of_criterion,
    texts=lambda profile, task: (task, *profile.domains),
)
def stability(context: Context, part: str) -> Measured:
    """Scores (layer, head) on each text; on the first training also the effect of each cut."""
    order, _, seed = parse_part(part)[:3]
    named, profile = scored_once(order), context.profile
    subject = context.subject(seed)
    texts = {profile.task: subject.scoring}
    raw: Arrays = {}
    if seed is None:
        for domain in profile.domains:
            texts[domain] = TASKS[domain].split("test", profile.data).first(profile.n_domain)
        cuts = context.get("one_head").raw
        # the increase of the mean loss without each head, (layer, head) in nats
        raw["effect"] = by_place(cuts["heads"], cuts["loss_change"].mean(-1) / MILLINAT)
    for name, examples in texts.items():
        scores = scores_on(subject, named, examples, context.journal)
        raw[f"scores {name}"] = scores["self"].numpy()
    raw["texts"] = np.array([*texts])
    return subject.measured(
        raw,
        dataset=f"{profile.task}/train",
        n_examples=len(subject.scoring),
        metric="scores of heads",
        unit="of the criterion",
    )


@stability.summary
def _(outcomes: Outcomes, runs: Runs, statistics: Constants) -> dict[str, Any]:
    """The values of :func:`_stability`, by criterion."""
    orders: dict[str, dict[int, str]] = {}
    for part in outcomes:
        orders.setdefault(parse_part(part).curve, {})[runs[part][0]["seed"]] = part
    return {
        "criteria": {
            order: _stability(order, dict(sorted(parts.items())), outcomes, statistics)
            for order, parts in orders.items()
        }
    }


def _stability(
    order: str, parts: dict[int, str], outcomes: Outcomes, statistics: Constants
) -> dict[str, Any]:
    """Rank correlations of a criterion's scores.

    ``domains``: with the scores on other text. ``trainings``: between every two trainings, with
    the mean. ``effect``: with the increase of the loss without the head; ``given_layer`` and
    ``given_both``: the same with the layer, or the layer and importance, held fixed.

    Args:
        parts: the seed of each training -> the name of its part.
    """

    def ranked(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        return correlation_record(x.ravel(), y.ravel(), "spearman", statistics)

    def held_fixed(scores: np.ndarray, effect: np.ndarray, *given: np.ndarray) -> dict[str, Any]:
        layers = np.broadcast_to(np.arange(len(scores))[:, None], scores.shape)
        x, y, groups, *fixed = (values.ravel() for values in (scores, effect, layers, *given))
        return partial_record(x, y, groups, statistics, given=fixed)

    home = {seed: _scores(outcomes[part])[0] for seed, part in parts.items()}
    trainings = [
        {"seeds": [seed, other], **ranked(home[seed], home[other])}
        for seed, other in itertools.combinations(home, 2)
    ]
    known = [pair["r"] for pair in trainings if pair["r"] is not None]
    summary: dict[str, Any] = {
        "domains": {},
        "trainings": trainings,
        "mean_trainings": float(np.mean(known)) if known else None,
        "effect": None,
        "given_layer": None,
        "given_both": None,
    }
    if order not in outcomes:  # only a further training was measured
        return summary
    raw = outcomes[order]
    scores, *others = _scores(raw)
    summary["domains"] = {
        str(name): ranked(scores, other)
        for name, other in zip(raw["texts"][1:], others, strict=True)
    }
    summary["effect"] = ranked(scores, raw["effect"])
    summary["given_layer"] = held_fixed(scores, raw["effect"])
    if PLAIN in outcomes and scored_once(order).criterion.name != "importance":
        summary["given_both"] = held_fixed(scores, raw["effect"], _scores(outcomes[PLAIN])[0])
    return summary


def _scores(raw: Arrays) -> list[np.ndarray]:
    """The scores on each text, the task's own first."""
    return [raw[f"scores {name}"] for name in raw["texts"]]


# --- fewer sentences --------------------------------------------------------------------------------

SIZES = (16, 64, 256, 1_000)
"""Numbers of sentences; the whole pool, twice as many as I_h is measured on elsewhere, is last."""
DRAWS = 3


def n_pool(profile: Profile) -> int:
    """The number of training sentences to draw from: the last ones, apart from ``selection``."""
    return 2 * profile.n_scoring


def sizes_of(n: int) -> tuple[int, ...]:
    """Numbers of sentences of which several disjoint draws can be made, and then all ``n``.

    >>> sizes_of(4000), sizes_of(64)
    ((16, 64, 256, 1000, 4000), (16, 64))
    """
    return (*(size for size in SIZES if DRAWS * size <= n), n)


def drawn(texts: Texts) -> Iterator[tuple[int, int, Texts]]:
    """Yield the number of sentences, the draw's number and the sentences; all are one draw."""
    *sizes, whole = sizes_of(len(texts))
    places = np.random.default_rng(0).permutation(len(texts)).tolist()
    for size in sizes:
        for draw in range(DRAWS):
            first = draw * sizes[-1]
            yield size, draw, texts.rows(places[first : first + size])
    yield whole, 0, texts


@measurement(
    "scoring_examples",
    version=1,
    parameters=lambda profile: {
        "n_examples": min(N_EXAMPLES, profile.n_examples or N_EXAMPLES),
        "shares": list(COMPARED),
        "sizes": list(sizes_of(n_pool(profile))),
        "draws": DRAWS,
    },
    statistics=Constants(resamples=5_000, seed=0),
    parts=lambda: ("importance", "entropy"),
    own=lambda part: Own({"order": part, "criterion": scored_once(part).criterion.version}),
)
def scoring_examples(context: Context, part: str) -> Measured:
    """Scores on every draw of sentences, and outcomes of the test texts along the order of each."""
    named = scored_once(part)
    subject = context.subject()
    wide = dataclasses.replace(context.profile, n_scoring=n_pool(context.profile))
    pool = dataclasses.replace(subject, profile=wide)
    pool.check_apart()
    texts, per_draw = tested(subject), []
    for n, draw, sentences in drawn(pool.scoring):
        scores = scores_on(subject, named, sentences, context.journal)
        order = selection.rank_heads(scores)[:: -1 if named.reverse else 1]
        masks = masks_along(subject, order, COMPARED)
        outcomes = outcomes_under(subject, masks, texts, context.journal)
        per_draw.append(
            {
                "n": n,
                "draw": draw,
                "scores": scores["self"].numpy(),
                "order": heads_array(order),
                "correct": outcomes["correct"],
                "loss_area": loss_area(COMPARED, outcomes["loss"]),
                "log_loss": outcomes["loss"].mean(-1),
            }
        )
    raw = {name: np.stack([arrays[name] for arrays in per_draw]) for name in per_draw[0]}
    return measured_answers(subject, raw | {"shares": np.array(COMPARED)}, texts)


@scoring_examples.summary
def _(outcomes: Outcomes, statistics: Constants) -> dict[str, Any]:
    """Values by criterion and number of sentences, the smallest number first."""
    return {"criteria": {name: _of_sizes(raw, statistics) for name, raw in outcomes.items()}}


def _of_sizes(raw: Arrays, statistics: Constants) -> list[dict[str, Any]]:
    """Values for each number of sentences.

    ``with_all`` is the mean rank correlation with the scores on all sentences, ``each`` that of
    every draw, ``between`` the mean correlation of two draws. ``lost`` and ``loss_lost`` are how
    much more the order on all sentences keeps, and how much less loss it adds, in nats.
    """
    settings = Constants(**vars(statistics), up_to=ORDERS_UP_TO)
    # a number of sentences counts as an order, a draw as its training
    orders = {
        str(n): {draw: _run(raw, n, draw) for draw in range(DRAWS)}
        for n in np.unique(raw["n"]).tolist()
    }
    *_, whole = orders.values()
    rows = []
    for name, values in compare(orders, settings)["orders"].items():
        lost = contrast(whole, orders[name], settings)
        rows.append(
            {
                "n": int(name),
                **_ranks(raw, int(name), statistics),
                "area": values["area"],
                "added_loss": values["added_loss"],
                "lost": lost["area"],
                "loss_lost": lost["loss"],
            }
        )
    return rows


def _run(raw: Arrays, n: int, draw: int) -> Arrays:
    """A draw as an order on one training; the one draw of all sentences stands for every draw."""
    (rows,) = np.nonzero(raw["n"] == n)
    row = rows[draw % len(rows)]
    return {
        "said": np.array([""], np.str_),
        **{name: raw[name][row : row + 1] for name in ("correct", "loss_area", "log_loss")},
        **{name: raw[name] for name in ("shares", "labels", "metric")},
    }


def _ranks(raw: Arrays, n: int, statistics: Constants) -> dict[str, Any]:
    """Rank correlations of the draws with all sentences, resampled over draws and heads."""
    flat = raw["scores"].reshape(len(raw["n"]), -1)
    draws, whole = flat[raw["n"] == n], flat[raw["n"] == raw["n"].max()][0]
    each = [float(stats.row_spearman(scores, whole)) for scores in draws]
    generator = np.random.default_rng([statistics.seed, n])
    heads = generator.integers(0, flat.shape[1], (statistics.resamples, flat.shape[1]))
    again = np.stack([stats.row_spearman(each[heads], whole[heads]) for each in draws], axis=1)
    chosen = generator.integers(0, len(draws), (statistics.resamples, len(draws)))
    means = np.take_along_axis(again, chosen, axis=1).mean(1)
    pairs = [stats.row_spearman(draws[i], draws[j]) for i in range(len(draws)) for j in range(i)]
    return {
        "with_all": {"value": float(np.mean(each)), "interval": interval_record(means)},
        "each": each,
        "between": float(np.mean(pairs)) if pairs else None,
    }


# --- fewer bits -------------------------------------------------------------------------------------

PRECISIONS = {"float32": False, "bfloat16": True}
"""Name -> whether products are computed in bfloat16 (torch's autocast; weights stay in float32)."""
PRECISE_EXAMPLES = 500
"""The largest number of test sentences, and of sentences that heads are scored on."""
MASKED = (0.0, 0.2, 0.5)
"""Shares of the heads that are masked, the least important in float32 first."""


@measurement(
    "precision",
    version=1,
    parameters=lambda profile: {
        "n_scoring": profile.n_scoring,
        "n_examples": profile.n_examples,
        "examples": PRECISE_EXAMPLES,
        "shares": MASKED,
    },
    statistics=Constants(resamples=10_000, seed=0),
)
def precision(context: Context) -> Measured:
    """Scores, and answers and losses at each share masked, in each precision."""
    subject = context.subject(kernel="eager")
    scores = {name: _importance_in(subject, context.journal, name) for name in PRECISIONS}
    order = selection.rank_heads(scoring.normalize_l2(scores["float32"]))
    names = [f"{share:.0%} masked" for share in MASKED]
    masks = dict(zip(names, masks_along(subject, order, MASKED), strict=True))
    prepared = subject.batches(subject.tested(PRECISE_EXAMPLES))
    by_precision = {}
    for name, half in PRECISIONS.items():
        units = {
            f"{name} {share}": partial(_outcomes, subject, prepared, mask, half)
            for share, mask in masks.items()
        }
        done = subject.compute(units, context.journal, f"masks in {name}")
        by_precision[name] = {what: np.stack([unit[what] for unit in done]) for what in done[0]}
    alike = by_precision["float32"]["answer"] == by_precision["bfloat16"]["answer"]
    raw: Arrays = {"shares": np.array(MASKED), "scores": scores["float32"]["self"].numpy()}
    raw |= {"scores bfloat16": scores["bfloat16"]["self"].numpy(), "alike bfloat16": alike}
    for precision, outcomes in by_precision.items():
        raw[f"correct {precision}"] = outcomes["correct"]
        raw[f"loss {precision}"] = millinats(outcomes["loss"])
    return subject.measured(raw, n_examples=len(subject.tested(PRECISE_EXAMPLES)))


def _importance_in(
    subject: setups.EncoderSubject, journal: Journal, precision: str
) -> masking.HeadTensors:
    """Importance, not normalised, on the first ``PRECISE_EXAMPLES`` sentences that heads are scored on."""

    def measure() -> Arrays:
        batches = subject.batches(subject.scoring.first(PRECISE_EXAMPLES)).batches
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
    exact, rounded = (raw[f"loss {precision}"] / MILLINAT for precision in PRECISIONS)
    apart = np.abs(exact - rounded)
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
