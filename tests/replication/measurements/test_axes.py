"""Every value lies along the axis of its outcomes: what was put in under a name comes out under it.

Outcomes are made up so that each kind, layer, head, run, training, share or text has an answer of
its own, and heads are stored in an arbitrary order. What is expected is looked up by name. Of a
measurement without such a case the values of a committed result are computed again.
"""

import dataclasses
import itertools
import zlib

import numpy as np
import pytest

from headprune_lib.discovery import KINDS
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.scores import PLAIN
from headprune_lib.replication.measurements.which_first import COMPARED, SHARES
from headprune_lib.replication.metrics import MILLINAT, corpus_bleu, sentence_counts, unpack
from headprune_lib.replication.store import OUTCOMES, Key, load
from headprune_lib.replication.store.heads import heads_array
from headprune_lib.replication.verification import records

N = 100  # texts
LENGTHS = np.full(N, 20, np.int16)  # words of a reference, or tokens of a passage
SCORED = {"labels": (np.arange(N) % 2).astype(np.int8), "metric": np.array("accuracy")}
LAYERS, HEADS = 2, 4
GRID = [("self", layer, head) for layer in range(LAYERS) for head in range(HEADS)]
KIND_GRID = [(kind, *head[1:]) for kind in KINDS for head in GRID]
BOTH = ("encoder", "translation")


def lost(*name) -> int:
    """Texts that go wrong under a name, 2 to 90: as good as drawn, and the same in every process."""
    return 2 + zlib.crc32("/".join(map(str, name)).encode()) % 89


def answered(half, n_lost):
    """The first texts are lost: answers (…, N) right or wrong, or counts (…, N, 5)."""
    right = np.arange(N) >= np.asarray(n_lost)[..., None]
    if half == "encoder":
        return right
    words = np.where(right, 20, 10)[..., None]  # of a lost translation half of the words match
    return np.concatenate([words - [0, 1, 2, 3], 0 * words + 20], -1).astype(np.int16)


def score(half, n_lost):
    """Accuracy or BLEU (…)."""
    if half == "encoder":
        return 1 - np.asarray(n_lost) / N
    return corpus_bleu(unpack(answered(half, n_lost), LENGTHS).sum(-2))


def losses(n_lost):
    """Thousandths of a nat (…, N)."""
    return np.asarray(n_lost, np.int32)[..., None] + np.zeros(N, np.int32)


def scores(*name, kind="self"):
    """(layer, head) scores."""
    grid = np.empty((LAYERS, HEADS))
    for layer, head in np.ndindex(grid.shape):
        grid[layer, head] = lost(*name, kind, layer, head) + 0.001 * (HEADS * layer + head)
    return grid


def shuffled(names, seed=0):
    return [names[i] for i in np.random.default_rng(seed).permutation(len(names))]


def sweep(half, of, heads, prefix=""):
    """Outcomes with each head cut; ``of`` says how many texts a head loses."""
    n_lost, uncut = [of(*head) for head in heads], answered(half, 0)
    cut, change = answered(half, n_lost), losses(n_lost) + np.arange(N) % 2
    if half == "encoder":
        raw = {"correct_uncut": uncut, "correct": cut, "loss_change": change}
        raw["loss_uncut"] = losses(0)
    else:
        raw = {"counts_uncut": uncut, "counts_change": cut - uncut, "draft_loss_change": change}
        raw |= {"reference_lengths": LENGTHS, "draft_loss_uncut": losses(0)}
    return {f"{prefix}{name}": one for name, one in {**raw, "heads": heads_array(heads)}.items()}


def along(half, runs, shares, n_lost):
    """Outcomes of runs at each share of heads removed; ``n_lost`` is (runs, shares)."""
    raw = {"names": np.array([str(run[-1]) for run in runs]), "shares": np.array(shares)}
    states = answered(half, n_lost)
    if half == "encoder":
        return raw | SCORED | {"correct": states, "log_loss": np.array(n_lost) / 10}
    raw |= {"counts_uncut": states[0, 0], "reference_lengths": LENGTHS}
    return raw | {"counts_change": states - states[0, 0], "log_loss": np.array(n_lost) / 10}


def lost_along(run, n_steps):
    """(n_steps,): nothing is removed before the first, which depends on the training alone."""
    return [lost(*run, i) if i else lost("uncut", run[1]) for i in range(n_steps)]


def training(name, seed):
    return name if seed == 1 else f"{name} training {seed}"


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found, float), expected, rtol=1e-6, atol=1e-9)


def ranked(one, other):
    """Spearman's correlation of scores."""
    return np.corrcoef(*(side.ravel().argsort().argsort() for side in (one, other)))[0, 1]


CASES = {}
FAST = (
    Key("recipes", "cola", "minilm"),
    *(Key(n, "reviews", "minilm") for n in ("precision", "speed")),
    Key("search", "enfr", "post-norm"),
    *(Key(f"language_{n}", "web", "smollm2") for n in ("curve", "heads", "recovery")),
)  # fmt: skip
SLOW = (
    *(Key(n, "reviews", "minilm") for n in ("one_head", "all_but_one", "across_domains")),
    Key("stability", "reviews", "minilm"), Key("along_training", "deen", "pre-norm"),
    Key("pruning_curve", "cola", "minilm"),
)  # fmt: skip


@pytest.mark.parametrize(
    "key", [*FAST, *(pytest.param(key, marks=pytest.mark.slow) for key in SLOW)], ids="-".join
)
def test_values_of_a_committed_result_follow_from_its_outcomes(key):
    assert records.values_follow(load(key)).agrees


def case(name, *halves):
    """Registers what is put in and looked up; it is given the half and ``summarise``."""

    def register(function):
        CASES.update({(name, half): function for half in halves or ("encoder",)})
        return function

    return register


@pytest.mark.parametrize(
    ("name", "half"),
    [
        (name, half)
        for name, one in MEASUREMENTS.items()
        for half in one.halves
        if name not in {key.measurement for key in FAST}
    ],
)
def test_values_lie_along_the_axes_of_the_outcomes(name, half):
    assert (name, half) in CASES, f"{name} of the {half} half has no case here: add one"
    measurement = MEASUREMENTS[name]
    few = {
        "resamples": 50,
        "papers_resamples": 50,
        "baseline_resamples": 50,
        "worlds": 5,
        "splits": 3,
    }

    def fewer(statistics):
        fields = {one.name: getattr(statistics, one.name) for one in dataclasses.fields(statistics)}
        inner = {key: fewer(value) for key, value in fields.items() if hasattr(value, "seed")}
        own = {key: value for key, value in few.items() if key in fields}
        return dataclasses.replace(statistics, **own, **inner)

    def summarise(outcomes, seeds=None):
        runs = {one: [{"seed": seed} for seed in (seeds or {}).get(one, [1])] for one in outcomes}
        return measurement.summarise(half, outcomes, runs, fewer(measurement.statistics[half]))

    CASES[name, half](half, summarise)


# --- one head, or all but one -----------------------------------------------------------------------


@case("one_head", *BOTH)
def _one_head(half, summarise):
    heads = shuffled(GRID if half == "encoder" else KIND_GRID)
    spared = {"enc-dec": 50, "dec-dec": 1000}  # kinds of which more or fewer heads are removable

    def of(kind, *head):
        return lost(kind, *head) // spared.get(kind, 1)

    values = summarise({OUTCOMES: sweep(half, of, heads)})
    assert len(values["heads"]) == len(heads)
    for record in values["heads"]:
        n_lost = of(record["kind"], record["layer"], record["head"])
        close(record["delta"], score(half, n_lost) - score(half, 0))
        close(record["delta_loss"], (n_lost + 0.5) / MILLINAT)
    for kind in KINDS if half == "translation" else ():  # what its heads say by themselves
        alone = summarise({OUTCOMES: sweep(half, of, [head for head in heads if head[0] == kind])})
        for name, found in alone["removable"][kind].items():
            close(values["removable"][kind][name], found)
        assert values["counts"][kind] == alone["counts"][kind]


def _check_layers(half, layers, of, heads):
    assert len(layers) == len({head[:2] for head in heads})
    for record in layers:
        best = min(of(*head) for head in heads if head[:2] == (record["kind"], record["layer"]))
        assert of(record["kind"], record["layer"], record["head"]) == best
        close(record["delta"], score(half, best) - score(half, 0))


@case("all_but_one", *BOTH)
def _all_but_one(half, summarise):
    heads = shuffled(GRID if half == "encoder" else KIND_GRID)
    values = summarise({OUTCOMES: sweep(half, lost, heads)})
    _check_layers(half, values["layers"], lost, heads)
    for record in values.get("heads", ()):
        close(record["delta"], -lost("self", record["layer"], record["head"]) / N)


@case("best_heads", *BOTH)
def _best_heads(half, summarise):
    grid, chosen_on = (GRID, "train_") if half == "encoder" else (KIND_GRID, "valid_")
    parts = (OUTCOMES,) if half == "encoder" else (OUTCOMES, "training 3", "training 2")
    of = {part: (lambda *head, part=part: lost(part, *head)) for part in parts}
    outcomes = {}
    for part in parts:
        best = {}
        for head in sorted(grid, key=lambda head: of[part](*head)):
            best.setdefault(head[:2], head)
        outcomes[part] = sweep(half, of[part], shuffled([*best.values()]))
        outcomes[part] |= sweep(half, of[part], shuffled(grid), chosen_on)
    values = summarise(outcomes)
    for part in parts:
        layers = (values if part == OUTCOMES else values["further"][part])["layers"]
        _check_layers(half, layers, of[part], grid)


@case("across_domains", *BOTH)
def _across_domains(half, summarise):
    encoder = half == "encoder"
    places = ("reviews", "nyt", "amazon") if encoder else ("home", "far")
    grid = GRID if encoder else shuffled([head for head in KIND_GRID if head[0] == "enc-enc"])
    raw = {"domains": np.array(places), "heads": heads_array(grid)}
    for i, place in enumerate(places):
        heads, prefix = (shuffled(grid, i), f"{place}/") if encoder else (grid, f"{place}_")
        raw |= sweep(half, lambda *head, place=place: lost(place, *head), heads, prefix)
    values = summarise({OUTCOMES: raw})
    effects = {place: [] for place in places}
    for record, place in itertools.product(values["heads"], places):
        n_lost = lost(place, grid[0][0], record["layer"], record["head"])
        effects[place].append(n_lost)
        found = record[f"accuracy {place}" if encoder else f"bleu {place}"]
        close(found, score(half, n_lost) - score(half, 0))
    for other in places[1:]:
        found = values["correlations"][other] if encoder else values["correlations"]
        close(found["loss"]["pearson"]["r"], np.corrcoef(effects[places[0]], effects[other])[0, 1])


# --- scores -----------------------------------------------------------------------------------------


@case("stability")
def _stability(_half, summarise):
    texts, orders, outcomes, seeds = ("reviews", "nyt", "amazon"), (PLAIN, "entropy"), {}, {}
    for order, seed in itertools.product(orders, (1, 3, 2)):
        part, own = training(order, seed), texts if seed == 1 else texts[:1]
        outcomes[part] = {f"scores {text}": scores(order, seed, text) for text in own}
        outcomes[part] |= {"texts": np.array(own), "effect": scores("effect")}
        seeds[part] = [seed]
    for order, found in summarise(outcomes, seeds)["criteria"].items():
        assert {*found["domains"]} == {*texts[1:]}
        for text, domain in found["domains"].items():
            close(domain["r"], ranked(scores(order, 1, texts[0]), scores(order, 1, text)))
        for pair in found["trainings"]:
            close(pair["r"], ranked(*(scores(order, seed, texts[0]) for seed in pair["seeds"])))
        close(found["effect"]["r"], ranked(scores(order, 1, texts[0]), scores("effect")))


@case("agreement")
def _agreement(_half, summarise):
    seeds = [4, 1, 3]
    outcomes = {OUTCOMES: {"scores": np.stack([scores(seed) for seed in seeds])}}
    values = summarise(outcomes, {OUTCOMES: seeds})
    normed = {s: scores(s) / np.linalg.norm(scores(s), axis=1, keepdims=True) for s in seeds}
    close(values["scores"], [normed[seed] for seed in seeds])
    assert [pair["seeds"] for pair in values["pairs"]] == [[4, 1], [4, 3], [1, 3]]
    for pair in values["pairs"]:
        close(pair["pearson"], np.corrcoef(*(normed[s].ravel() for s in pair["seeds"]))[0, 1])


@case("head_roles")
def _head_roles(_half, summarise):
    names = "entropy", "entropy words", "importance", "next", "previous", "same", "special"
    values = summarise({OUTCOMES: {name: scores(name) for name in names}})
    for record, name in itertools.product(values["heads"], names):
        close(record[name], scores(name)[record["layer"], record["head"]])
    first = np.unravel_index(scores("importance").argmin(), (LAYERS, HEADS))
    place = max(scores(name)[first] for name in ("next", "previous", "same"))
    expected = {"special": scores("special")[first], "layer": first[0] + 1, "place": place}
    for role, value in expected.items():
        close(values["orders"]["importance unnormalised"]["steps"][role][0]["mean"], value)


@case("scoring_examples")
def _scoring_examples(half, summarise):
    draws, outcomes = [(n, draw) for n in (64, 16) for draw in range(3)] + [(256, 0)], {}
    for order in ("importance", "entropy"):
        runs = [(order, *names) for names in draws]
        n_lost = [lost_along(run, len(COMPARED)) for run in runs]
        raw = along(half, runs, COMPARED, n_lost) | {"scores": np.stack([scores(*r) for r in runs])}
        raw |= {name: np.array([run[i] for run in runs]) for i, name in ((1, "n"), (2, "draw"))}
        raw["loss_area"] = losses([lost(*run, "area") for run in runs])
        outcomes[order] = raw
    for order, sizes in summarise(outcomes)["criteria"].items():
        for size in sizes:
            own, whole = [(order, *one) for one in draws if one[0] == size["n"]], (order, 256, 0)
            close(size["each"], [ranked(scores(*run), scores(*whole)) for run in own])
            added = np.mean([lost(*run, "area") for run in own]) / MILLINAT
            close(size["added_loss"]["value"], added)


# --- orders of removal ------------------------------------------------------------------------------


@case("which_first", *BOTH)
def _which_first(half, summarise):
    trainings = {"importance": (1, 2, 3), "random": (1, 3), "entropy": (1, 3)}
    draws = {"importance": 1, "random": 2, "entropy": 1}
    outcomes, seeds = {}, {}
    for order, seed in shuffled([(o, s) for o, some in trainings.items() for s in some]):
        part, runs = training(order, seed), [(order, seed, i) for i in range(draws[order])]
        n_lost = [lost_along(run, len(SHARES)) for run in runs]
        outcomes[part], seeds[part] = along(half, runs, SHARES, n_lost), [seed]
        outcomes[part]["loss_area"] = losses([lost(*run, "area") for run in runs])
        outcomes[part]["said"] = np.array([f"{order} {seed} {i}" for *_, i in runs])
    values = summarise(outcomes, seeds)

    def mean(of, order):
        """Over the runs of each training, then over the trainings that all orders have."""
        return np.mean([[of((order, s, i)) for i in range(draws[order])] for s in (1, 3)], (0, 1))

    for order, found in values["orders"].items():
        assert found["trainings"] == [1, 3]
        assert {*found["said"]} >= {f"{order} {seed} 0" for seed in trainings[order]}
        close(found["log_loss"], mean(lambda run: lost_along(run, len(SHARES)), order) / 10)
        close(found["score"], mean(lambda run: score(half, lost_along(run, len(SHARES))), order))
    area = {o: mean(lambda run: lost(*run, "area"), o) / MILLINAT for o in ("random", "entropy")}
    found = values["contrasts"]["entropy against random"]
    assert found["trainings"] == [1, 3]
    close(found["loss"]["value"], area["random"] - area["entropy"])


STEPS = np.arange(5) / 4


def _removed(half, order, seed, n_runs=1):
    """A part of a pruning curve."""
    runs = [(order, seed, i) for i in range(n_runs)]
    raw = along(half, runs, STEPS, [lost_along(run, len(STEPS)) for run in runs])
    if half == "translation":  # without the uncut model, one run after the other
        raw["counts_change"] = np.concatenate(raw["counts_change"][:, 1:])
    return raw


def _scored(half, order, seeds, n_runs=1):
    """(runs, steps) of the parts of some trainings."""
    runs = [(order, seed, i) for seed in seeds for i in range(n_runs)]
    return score(half, [lost_along(run, len(STEPS)) for run in runs])


@case("pruning_curve", *BOTH)
def _pruning_curve(half, summarise):
    trainings = {"importance": (1, 2, 3), "random": (1, 2), "oracle leak-free": (1,)}
    n_runs = {"importance": 1, "random": 2, "oracle leak-free": 1}
    outcomes = {}
    for order, seed in shuffled([(o, s) for o, some in trainings.items() for s in some], 1):
        outcomes[training(order, seed)] = _removed(half, order, seed, n_runs[order])
    outcomes["importance"] |= {f"scores {kind}": scores(kind=kind) for kind in KINDS}
    values = summarise(outcomes)
    trainings["importance"] = (1, 2)  # those that all orders with further ones have
    for order, seeds in trainings.items():
        expected = _scored(half, order, seeds, n_runs[order])
        close(values["curves"][order]["runs"], expected)
        close(values["curves"][order]["mean"], expected.mean(0))
        if order != "importance":  # the difference is on the trainings that the order has
            apart = _scored(half, "importance", seeds).mean(0) - expected.mean(0)
            found = values["area_differences"][order]["difference"]
            close(found, np.trapezoid(apart, STEPS))
    close(values["curves"]["importance main"]["runs"], _scored(half, "importance", [1]))
    for kind in KINDS if half == "translation" else ():
        close(values["scores"][kind], scores(kind=kind))


@case("pruning_by_kind", "translation")
def _pruning_by_kind(half, summarise):
    outcomes = {}
    for kind, seed in shuffled([(kind, seed) for kind in KINDS for seed in (1, 3, 2)]):
        part = training(f"{kind} importance", seed)
        outcomes[part] = _removed(half, kind, seed) | {f"scores {kind}": scores(seed, kind=kind)}
    for seeds in ([1, 2, 3], [1, 2]):
        values = summarise(outcomes)
        runs = {kind: _scored(half, kind, seeds) for kind in KINDS}
        for kind in KINDS:
            close(values["curves"][f"{kind} importance"]["runs"], runs[kind])
            close(values["scores"][kind], scores(1, kind=kind))
        for other in ("enc-enc", "dec-dec"):
            found = values["differences_along"][f"enc-dec minus {other}"]
            expected = runs["enc-dec"].mean(0) - runs[other].mean(0)
            close([one["difference"] for one in found], expected)
        outcomes.pop("dec-dec importance training 3", None)  # kinds are compared on the same ones


@case("along_training", "translation")
def _along_training(half, summarise):
    seeds, updates, further = (3, 2), (0, 100, 900), ["random 0", "unnormalised", "random 1"]
    cuts, outcomes = [*range(6), *further], {}
    for seed in seeds:
        n_lost = np.array([[lost(seed, update, cut) for cut in cuts] for update in updates])
        counts = answered(half, n_lost)
        raw = {"updates": np.array(updates), "epochs": np.array(updates) / 100}
        raw |= {"shares": np.arange(6) / 5, "further": np.array(further)}
        raw |= {"counts_uncut": counts[:, 0], "counts_change": counts[:, 1:] - counts[:, :1]}
        raw |= {"reference_loss_uncut": losses([100] * 3), "reference_pieces": LENGTHS}
        raw |= {"reference_loss_change": losses(n_lost[:, 1:]), "reference_lengths": LENGTHS}
        for kind in KINDS:
            each = np.stack([[scores(seed, update, kind=kind)] * 8 for update in updates])
            raw[f"each {kind}"] = each
        outcomes[f"training {seed}"] = raw
    trainings = summarise(outcomes)["trainings"]
    assert [one["seed"] for one in trainings] == [2, 3]
    for seed, point in [(one["seed"], point) for one in trainings for point in one["checkpoints"]]:
        bleu = {cut: score(half, lost(seed, point["updates"], cut)) for cut in cuts}
        drawn = "random 0", "random 1"
        close(point["bleu"], [bleu[cut] for cut in range(6)])
        close(point["kept_at"], bleu[2] / bleu[0])
        close(point["kept_unnormalised"], bleu["unnormalised"] / bleu[0])
        close(point["kept_random"], np.mean([bleu[cut] for cut in drawn]) / bleu[0])
        added = np.mean([lost(seed, point["updates"], cut) for cut in drawn]) / MILLINAT / 20
        close(point["added_loss_random"], added)
        layers = [row for kind in KINDS for row in scores(seed, point["updates"], kind=kind)]
        each = [np.abs(np.subtract.outer(row, row)).mean() / 2 / row.mean() for row in layers]
        close(point["gini_within"], np.mean(each))


# --- training again, and translations ---------------------------------------------------------------


@case("recovery", *BOTH)
def _recovery(half, summarise):
    ways, n_runs = ("all weights", "LoRA"), {"importance": 1, "random": 3}
    parts = shuffled([*itertools.product(n_runs, (20, 40), ways)])
    runs = {part: [(*part, draw) for draw in range(n_runs[part[0]])] for part in parts}
    what = "correct" if half == "encoder" else "counts"
    outcomes = {}
    for part in parts:
        raw = {f"{what}_uncut": answered(half, lost("uncut")), "loss_uncut": losses(lost("uncut"))}
        raw["heads"] = np.zeros((len(runs[part]), part[1], 2), np.int16)
        raw["parameters"] = np.array([[1000, 1000 - part[1]]] * len(runs[part]))
        raw["seconds"] = np.array([lost(*run, "seconds") for run in runs[part]])
        for when in ("before", "after"):
            n_lost = [lost(*run, when) for run in runs[part]]
            raw |= {f"{what}_{when}": answered(half, n_lost), f"loss_{when}": losses(n_lost)}
        raw |= SCORED if half == "encoder" else {"reference_lengths": LENGTHS}
        outcomes[f"{part[0]} {part[1]}% {part[2]}"] = raw
    values = summarise(outcomes)
    assert len(values["recovered"]) == len(parts)
    for row in values["recovered"]:
        part = row["order"], round(100 * row["share"]), row["way"]
        assert (row["removed"], row["left"]) == (part[1], 1000 - part[1])
        close(row["seconds"], np.mean([lost(*run, "seconds") for run in runs[part]]))
        for when in ("before", "after"):
            n_lost = [lost(*run, when) for run in runs[part]]
            close(row[when]["runs"], score(half, n_lost) / (1 if half == "encoder" else 100))
            close(row[when]["loss"], np.mean(n_lost) / MILLINAT)
    for lead, when in itertools.product(values["leads"], ("before", "after")):
        part = round(100 * lead["share"]), lead["way"]
        drawn = np.mean([lost("random", *part, draw, when) for draw in range(3)])
        expected = (lost("importance", *part, 0, when) - drawn) / MILLINAT
        close(lead[f"loss_{when}"]["difference"], expected)


@case("quality", "translation")
def _quality(_half, summarise):
    references = np.array([f"this is the sentence with number {i} in it" for i in range(30)])
    made = {n: np.where(np.arange(30) < lost(n) % 20, "another", references) for n in (1, 5)}
    overlap = np.arange(30) % 3 == 0
    raw = {f"beam {beams}": texts for beams, texts in made.items()} | {"curve": np.array("[]")}
    raw |= {"sources": references, "references": references, "overlap": overlap}
    values = summarise({OUTCOMES: raw})
    for beams, texts in made.items():
        for name, kept in (("bleu", overlap | True), ("bleu_without_overlap", ~overlap)):
            counts = sentence_counts(texts[kept].tolist(), references[kept].tolist())
            close(values[f"beam {beams}"][name], corpus_bleu(counts.sum(0)))
    assert [sample["translation"] for sample in values["samples"]] == made[1][:10].tolist()
