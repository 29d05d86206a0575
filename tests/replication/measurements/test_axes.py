"""Every value lies along the axis of its outcomes: what was put in under a name comes out under it.

Outcomes are made up so that each kind, layer, head, run, training, share or text has an answer of
its own, and heads are stored in an arbitrary order. What is expected is looked up by name.
"""

import dataclasses
import itertools
import json
import zlib

import numpy as np
import pytest

from headprune_lib.heads import KINDS
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.compared import COMPARED, SHARES
from headprune_lib.replication.measurements.precision import SHARES as MASKED
from headprune_lib.replication.measurements.stability import PLAIN
from headprune_lib.replication.stats.bleu import corpus_bleu, pack, sentence_counts, unpack
from headprune_lib.replication.stats.losses import MILLINAT
from headprune_lib.replication.store import OUTCOMES
from headprune_lib.replication.store.heads import heads_array

N = 100  # texts
LENGTHS = np.full(N, 20, np.int16)  # words of a reference
LAYERS, HEADS = 2, 4
GRID = [("self", layer, head) for layer in range(LAYERS) for head in range(HEADS)]
KIND_GRID = [(kind, *head[1:]) for kind in KINDS for head in GRID]


def lost(*name) -> int:
    """Texts that go wrong under a name, 2 to 90: as good as drawn, and the same in every process."""
    return 2 + zlib.crc32("/".join(map(str, name)).encode()) % 89


def right(n_lost):
    """(N,) right or wrong: the first are lost."""
    return np.arange(N) >= n_lost


def packed(n_lost):
    """(N, 5) counts: of a lost translation half of the words match, otherwise all."""
    words = np.where(right(n_lost), 20, 10)[:, None]
    return np.concatenate([words - [0, 1, 2, 3], np.full((N, 1), 20)], 1).astype(np.int16)


def bleu(n_lost):
    return float(corpus_bleu(unpack(packed(n_lost), LENGTHS).sum(0)))


def shuffled(names, seed=0):
    return [names[i] for i in np.random.default_rng(seed).permutation(len(names))]


def sweep(of, heads):
    """A classifier's outcomes with each head cut; ``of`` says how many texts a head loses."""
    return {
        "heads": heads_array(heads),
        "correct_uncut": right(0),
        "correct": np.stack([right(of(*head)) for head in heads]),
        "loss_uncut": np.zeros(N, np.int16),
        "loss_change": np.stack([np.full(N, of(*head), np.int16) for head in heads]),
    }


def translated(of, heads, prefix=""):
    """The same of a translator."""
    change = np.stack([packed(of(*head)) - packed(0) for head in heads])
    return {
        "heads": heads_array(heads),
        f"{prefix}counts_uncut": packed(0),
        f"{prefix}counts_change": change,
        f"{prefix}reference_lengths": LENGTHS,
        f"{prefix}draft_loss_uncut": np.zeros(N, np.int32),
        f"{prefix}draft_loss_change": np.stack(
            [np.full(N, of(*head), np.int32) + np.arange(N) % 2 for head in heads]
        ),
    }


def scores(*name, kind="self"):
    """(layer, head) scores."""
    grid = np.empty((LAYERS, HEADS))
    for layer, head in np.ndindex(grid.shape):
        grid[layer, head] = lost(*name, kind, layer, head) + 0.001 * (HEADS * layer + head)
    return grid


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found, float), expected, rtol=1e-6, atol=1e-9)


CASES = {}


def case(name, *halves):
    """Registers what is put in and looked up; it is given the half and ``summarise``."""

    def register(function):
        CASES.update({(name, half): function for half in halves or ("encoder",)})
        return function

    return register


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "half"),
    [(name, half) for name, one in MEASUREMENTS.items() for half in one.halves],
)
def test_values_lie_along_the_axes_of_the_outcomes(name, half):
    assert (name, half) in CASES, f"{name} of the {half} half has no case here: add one"
    measurement = MEASUREMENTS[name]
    statistics = measurement.statistics[half]
    few = dict.fromkeys(("resamples", "papers_resamples", "baseline_resamples"), 200)
    few |= {"worlds": 20, "splits": 5}

    def fewer(statistics):
        fields = {one.name: getattr(statistics, one.name) for one in dataclasses.fields(statistics)}
        inner = {key: fewer(value) for key, value in fields.items() if hasattr(value, "seed")}
        own = {key: value for key, value in few.items() if key in fields}
        return dataclasses.replace(statistics, **own, **inner)

    def summarise(outcomes, seeds=None):
        runs = {
            part: [{"seed": seed} for seed in (seeds or {}).get(part, [1])] for part in outcomes
        }
        return measurement.summarise(half, outcomes, runs, fewer(statistics))

    CASES[name, half](half, summarise)


# --- one head, or all but one -----------------------------------------------------------------------


@case("one_head", "encoder", "translation")
def _one_head(half, summarise):
    encoder = half == "encoder"
    heads = shuffled(GRID if encoder else KIND_GRID)
    made = sweep if encoder else translated
    spared = {"enc-dec": 50, "dec-dec": 1000}  # kinds of which more or fewer heads are removable

    def of(kind, *head):
        return lost(kind, *head) // spared.get(kind, 1)

    values = summarise({OUTCOMES: made(of, heads)})
    assert len(values["heads"]) == len(heads)
    for record in values["heads"]:
        n_lost = of(record["kind"], record["layer"], record["head"])
        close(record["delta"], -n_lost / N if encoder else bleu(n_lost) - bleu(0))
        close(record["delta_loss"], (n_lost + 0.5 * (not encoder)) / MILLINAT)
    if encoder:
        return
    intervals = [values["removable"][kind]["removable_interval"] for kind in KINDS]
    assert len({tuple(ends) for ends in intervals}) == len(KINDS)
    for kind in KINDS:  # what is said of a kind is what its heads say by themselves
        own = [head for head in heads if head[0] == kind]
        alone = summarise({OUTCOMES: made(of, own)})
        for name, found in alone["removable"][kind].items():
            close(values["removable"][kind][name], found)
        assert values["counts"][kind] == alone["counts"][kind]


def _check_layers(half, layers, of, heads):
    assert len(layers) == len({head[:2] for head in heads})
    for record in layers:
        best = min(of(*head) for head in heads if head[:2] == (record["kind"], record["layer"]))
        assert of(record["kind"], record["layer"], record["head"]) == best
        close(record["delta"], -best / N if half == "encoder" else bleu(best) - bleu(0))


@case("all_but_one", "encoder", "translation")
def _all_but_one(half, summarise):
    heads = shuffled(GRID if half == "encoder" else KIND_GRID)
    made = sweep if half == "encoder" else translated
    values = summarise({OUTCOMES: made(lost, heads)})
    _check_layers(half, values["layers"], lost, heads)
    for record in values.get("heads", ()):
        close(record["delta"], -lost("self", record["layer"], record["head"]) / N)


@case("best_heads", "encoder", "translation")
def _best_heads(half, summarise):
    grid, made, when = (
        (GRID, sweep, "train_") if half == "encoder" else (KIND_GRID, translated, "valid_")
    )

    def outcomes(part):
        def of(*head):
            return lost(part, *head)

        best = shuffled(
            [
                min((head for head in grid if head[:2] == layer), key=lambda head: of(*head))
                for layer in {head[:2]: None for head in grid}
            ]
        )
        chosen = made(of, shuffled(grid))
        return made(of, best) | {f"{when}{name}": chosen[name] for name in chosen}

    further = {} if half == "encoder" else {f"training {seed}": seed for seed in (3, 2)}
    values = summarise({part: outcomes(part) for part in (OUTCOMES, *further)})
    for part in (OUTCOMES, *further):
        layers = (values if part == OUTCOMES else values["further"][part])["layers"]
        _check_layers(half, layers, lambda *head, part=part: lost(part, *head), grid)


@case("across_domains", "encoder", "translation")
def _across_domains(half, summarise):
    if half == "translation":
        grid = shuffled([head for head in KIND_GRID if head[0] == "enc-enc"])
        places = "home", "far"
        made = {}
        for place in places:
            made |= translated(lambda *head, p=place: lost(p, *head), grid, f"{place}_")
    else:
        grid, places = GRID, ("reviews", "nyt", "amazon")
        made = {"domains": np.array(places)}
        for i, place in enumerate(places):
            found = sweep(lambda *head, p=place: lost(p, *head), shuffled(grid, i))
            made |= {f"{place}/{name}": array for name, array in found.items()}
    values = summarise({OUTCOMES: made})
    effects = {place: [] for place in places}
    for record in values["heads"]:
        for place in places:
            n_lost = lost(place, grid[0][0], record["layer"], record["head"])
            effects[place].append(n_lost)
            if half == "encoder":
                close(record[f"accuracy {place}"], -n_lost / N)
                close(record[f"loss {place}"], n_lost / MILLINAT)
            else:
                close(record[f"bleu {place}"], bleu(n_lost) - bleu(0))
    home, *others = places
    for other in others:
        found = values["correlations"] if half == "translation" else values["correlations"][other]
        close(found["loss"]["pearson"]["r"], np.corrcoef(effects[home], effects[other])[0, 1])


# --- scores -----------------------------------------------------------------------------------------


@case("agreement")
def _agreement(_half, summarise):
    seeds = [4, 1, 3]
    values = summarise(
        {OUTCOMES: {"scores": np.stack([scores(seed) for seed in seeds])}}, {OUTCOMES: seeds}
    )
    normalised = {
        seed: scores(seed) / np.linalg.norm(scores(seed), axis=1, keepdims=True) for seed in seeds
    }
    assert [pair["seeds"] for pair in values["pairs"]] == [[4, 1], [4, 3], [1, 3]]
    for pair in values["pairs"]:
        flat = [normalised[seed].ravel() for seed in pair["seeds"]]
        close(pair["pearson"], np.corrcoef(*flat)[0, 1])
    for seed, found in zip(seeds, values["scores"], strict=True):
        close(found, normalised[seed])


@case("head_roles")
def _head_roles(_half, summarise):
    names = "entropy", "entropy words", "importance", "next", "previous", "same", "special"
    values = summarise({OUTCOMES: {name: scores(name) for name in names}})
    for record in values["heads"]:
        for name in names:
            close(record[name], scores(name)[record["layer"], record["head"]])
    plain = scores("importance")
    first = min(np.ndindex(plain.shape), key=lambda head: plain[head])
    steps = values["orders"]["importance unnormalised"]["steps"]
    for role, expected in (("special", scores("special")[first]), ("layer", first[0] + 1)):
        close(steps[role][0]["mean"], expected)
    place = max(scores(name)[first] for name in ("next", "previous", "same"))
    close(steps["place"][0]["mean"], place)


@case("stability")
def _stability(_half, summarise):
    texts, orders, seeds = ("reviews", "nyt", "amazon"), (PLAIN, "entropy"), (3, 2)
    outcomes, runs = {}, {}
    for order, seed in itertools.product(orders, (None, *seeds)):
        part = order if seed is None else f"{order} training {seed}"
        runs[part] = [seed or 1]
        found = texts if seed is None else texts[:1]
        outcomes[part] = {f"scores {text}": scores(order, seed or 1, text) for text in found}
        outcomes[part] |= {"texts": np.array(found), "effect": scores("effect")}

    def ranked(x, y):
        return np.corrcoef(*(side.ravel().argsort().argsort() for side in (x, y)))[0, 1]

    values = summarise(outcomes, runs)["criteria"]
    for order in orders:
        own = scores(order, 1, "reviews")
        assert {*values[order]["domains"]} == {*texts[1:]}
        for text, found in values[order]["domains"].items():
            close(found["r"], ranked(own, scores(order, 1, text)))
        for pair in values[order]["trainings"]:
            sides = (scores(order, seed, "reviews") for seed in pair["seeds"])
            close(pair["r"], ranked(*sides))
        close(values[order]["effect"]["r"], ranked(own, scores("effect")))


@case("scoring_examples")
def _scoring_examples(_half, summarise):
    draws = [(n, draw) for n in (64, 16) for draw in range(3)] + [(256, 0)]
    outcomes = {
        order: {
            "n": np.array([n for n, _ in draws]),
            "draw": np.array([draw for _, draw in draws]),
            "scores": np.stack([scores(order, n, draw) for n, draw in draws]),
            **curves([(order, n, draw) for n, draw in draws], COMPARED),
        }
        for order in ("importance", "entropy")
    }
    values = summarise(outcomes)["criteria"]
    for order in outcomes:
        for size in values[order]:
            n = size["n"]
            own = [name for name in draws if name[0] == n]
            whole = scores(order, 256, 0).ravel().argsort().argsort()
            each = [
                np.corrcoef(scores(order, *name).ravel().argsort().argsort(), whole)[0, 1]
                for name in own
            ]
            close(size["each"], each)
            added = np.mean([lost(order, *name, "area") for name in own]) / MILLINAT
            close(size["added_loss"]["value"], added)


# --- orders of removal ------------------------------------------------------------------------------


def curves(runs, shares):
    """A classifier's outcomes of runs at each share, as orders beside each other store them."""
    return {
        "correct": np.stack(
            [[right(lost(*run, i) if i else 0) for i in range(len(shares))] for run in runs]
        ),
        "loss_area": np.stack([np.full(N, lost(*run, "area"), np.int32) for run in runs]),
        "log_loss": np.array([[lost(*run, i) / 10 for i in range(len(shares))] for run in runs]),
        "shares": np.array(shares),
        "labels": (np.arange(N) % 2).astype(np.int8),
        "metric": np.array("accuracy"),
    }


@case("which_first", "encoder", "translation")
def _which_first(half, summarise):
    trainings = {"importance": (1, 2, 3), "random": (1, 3), "entropy": (1, 3)}
    outcomes, seeds = {}, {}
    for order, seed in shuffled([(o, s) for o, some in trainings.items() for s in some]):
        part = order if seed == 1 else f"{order} training {seed}"
        runs = [(order, seed, draw) for draw in range(2 if order == "random" else 1)]
        outcomes[part], seeds[part] = curves(runs, SHARES), [seed]
        outcomes[part]["said"] = np.array([f"{order} {seed} {draw}" for *_, draw in runs])
        if half == "translation":
            counts = np.stack(
                [[packed(lost(*run, i) if i else 0) for i in range(len(SHARES))] for run in runs]
            )
            del outcomes[part]["correct"], outcomes[part]["metric"]
            outcomes[part] |= {
                "counts_uncut": packed(0),
                "counts_change": counts - packed(0),
                "reference_lengths": LENGTHS,
            }
    values = summarise(outcomes, seeds)

    def mean(of, order, trainings):
        """Over the runs of each training, then over trainings."""
        draws = range(2 if order == "random" else 1)
        return np.mean([np.mean([of(order, s, draw) for draw in draws]) for s in trainings])

    for order, found in values["orders"].items():
        assert found["trainings"] == [1, 3]  # that all have
        assert {*found["said"]} >= {f"{order} {seed} 0" for seed in trainings[order]}
        for i in range(1, len(SHARES)):
            close(found["log_loss"][i], mean(lambda *run, i=i: lost(*run, i) / 10, order, [1, 3]))
            score = (lambda n: 1 - n / N) if half == "encoder" else bleu
            expected = mean(lambda *run, i=i, score=score: score(lost(*run, i)), order, [1, 3])
            close(found["score"][i], expected)

    def area(order):
        return mean(lambda *run: lost(*run, "area"), order, [1, 3]) / MILLINAT

    found = values["contrasts"]["entropy against random"]
    assert found["trainings"] == [1, 3]
    close(found["loss"]["value"], area("random") - area("entropy"))


STEPS = np.arange(5) / 4


def _removed(half, order, seed, names):
    """A part of a pruning curve; nothing is lost before the first step."""

    def of(name, step):
        return lost(order, seed, name, step) if step else lost("uncut", seed)

    if half == "encoder":
        correct = [[right(of(name, i)) for i in range(len(STEPS))] for name in names]
        return {
            "names": np.array(names),
            "correct": np.array(correct),
            "log_loss": np.array([[of(name, i) / 10 for i in range(len(STEPS))] for name in names]),
            "labels": (np.arange(N) % 2).astype(np.int8),
            "shares": STEPS,
        }
    cuts = [packed(of(name, step)) for name in names for step in range(1, len(STEPS))]
    uncut = packed(of(names[0], 0))
    return {
        "names": np.array(names),
        "counts_uncut": uncut,
        "counts_change": np.stack(cuts) - uncut,
        "reference_lengths": LENGTHS,
        "shares": STEPS,
    }


def _area(curve):
    return np.trapezoid(curve, STEPS)


@case("pruning_curve", "encoder", "translation")
def _pruning_curve(half, summarise):
    trainings = {"importance": (1, 2, 3), "random": (1, 2, 3), "oracle leak-free": (1,)}
    names = {"importance": ["0"], "random": ["0", "1"], "oracle leak-free": ["0"]}
    outcomes = {}
    for order, seed in shuffled([(o, s) for o, some in trainings.items() for s in some], 1):
        part = order if seed == 1 else f"{order} training {seed}"
        outcomes[part] = _removed(half, order, seed, names[order])
    outcomes["importance"] |= {f"scores {kind}": scores(kind=kind) for kind in KINDS}
    values = summarise(outcomes)

    def expected(order, some):
        """(runs, steps) scores on some trainings."""
        score = (lambda n: 1 - n / N) if half == "encoder" else bleu
        return np.array(
            [
                [score(lost(*((order, s, name, i) if i else ("uncut", s)))) for i in range(5)]
                for s in some
                for name in names[order]
            ]
        )

    for order, some in trainings.items():
        close(values["curves"][order]["runs"], expected(order, some))
    close(values["curves"]["importance main"]["runs"], expected("importance", [1]))
    for order, found in values["area_differences"].items():  # on the trainings that an order has
        importance, other = (
            _area(expected(name, trainings[order]).mean(0)) for name in ("importance", order)
        )
        close(found["difference"], importance - other)
    if half == "translation":
        for kind in KINDS:
            close(values["scores"][kind], scores(kind=kind))


@case("pruning_by_kind", "translation")
def _pruning_by_kind(half, summarise):
    outcomes = {}
    for kind, seed in shuffled([(kind, seed) for kind in KINDS for seed in (1, 3, 2)]):
        part = f"{kind} importance" + ("" if seed == 1 else f" training {seed}")
        outcomes[part] = _removed(half, kind, seed, ["0"])
        outcomes[part][f"scores {kind}"] = scores(seed, kind=kind)

    def run(kind, seed):
        return [bleu(lost(*((kind, seed, "0", i) if i else ("uncut", seed)))) for i in range(5)]

    def check(values, seeds):
        for kind in KINDS:
            close(
                values["curves"][f"{kind} importance"]["runs"], [run(kind, seed) for seed in seeds]
            )
            close(values["scores"][kind], scores(1, kind=kind))
        for other in ("enc-enc", "dec-dec"):
            both = [
                np.mean([run(kind, seed) for seed in seeds], axis=0) for kind in ("enc-dec", other)
            ]
            found = values["differences_along"][f"enc-dec minus {other}"]
            close([one["difference"] for one in found], both[0] - both[1])

    check(summarise(outcomes), [1, 2, 3])
    del outcomes["dec-dec importance training 3"]  # kinds stand beside each other on the same ones
    check(summarise(outcomes), [1, 2])


@case("along_training", "translation")
def _along_training(_half, summarise):
    seeds, updates = (3, 2), (0, 100, 900)
    shares = np.arange(6) / 5
    further = ["random 0", "unnormalised", "random 1"]  # in no order
    outcomes = {}
    for seed in seeds:
        cuts = [*range(1, 6), *further]
        change = [
            [packed(lost(seed, u, cut)) - packed(lost(seed, u, 0)) for cut in cuts] for u in updates
        ]
        loss = [[np.full(N, lost(seed, u, cut), np.int32) for cut in cuts] for u in updates]
        outcomes[f"training {seed}"] = {
            "updates": np.array(updates),
            "epochs": np.array(updates) / 100,
            "shares": shares,
            "further": np.array(further),
            "counts_uncut": np.stack([packed(lost(seed, u, 0)) for u in updates]),
            "counts_change": np.array(change),
            "reference_lengths": LENGTHS,
            "reference_loss_uncut": np.full((len(updates), N), 100, np.int32),
            "reference_loss_change": np.array(loss),
            "reference_pieces": np.full(N, 20, np.int16),
            **{
                f"each {kind}": np.stack([[scores(seed, u, kind=kind)] * 8 for u in updates])
                for kind in KINDS
            },
        }
    values = summarise(outcomes)
    assert [training["seed"] for training in values["trainings"]] == [2, 3]
    for training in values["trainings"]:
        seed = training["seed"]
        assert [point["updates"] for point in training["checkpoints"]] == [*updates]
        for point in training["checkpoints"]:
            u = point["updates"]
            close(point["bleu"], [bleu(lost(seed, u, cut)) for cut in range(6)])
            whole = bleu(lost(seed, u, 0))
            close(point["kept_at"], bleu(lost(seed, u, 2)) / whole)
            close(point["kept_unnormalised"], bleu(lost(seed, u, "unnormalised")) / whole)
            drawn = [lost(seed, u, f"random {draw}") for draw in (0, 1)]
            close(point["kept_random"], np.mean([bleu(n) for n in drawn]) / whole)
            close(point["added_loss_random"], np.mean(drawn) / MILLINAT / 20)
            layers = [row for kind in KINDS for row in scores(seed, u, kind=kind)]
            each = [np.abs(np.subtract.outer(row, row)).mean() / 2 / row.mean() for row in layers]
            close(point["gini_within"], np.mean(each))


# --- training again, speed, precision, and translations ---------------------------------------------


@case("recovery", "encoder", "translation")
def _recovery(half, summarise):
    def state(when, *run):
        made = right(lost(*run, when)) if half == "encoder" else packed(lost(*run, when))
        what = "correct" if half == "encoder" else "counts"
        return {f"{what}_{when}": made, f"loss_{when}": np.full(N, lost(*run, when), np.int16)}

    parts = shuffled(
        [
            (order, share, way)
            for order in ("importance", "random")
            for share in (20, 40)
            for way in ("all weights", "LoRA")
        ]
    )
    names = {part: f"{part[0]} {part[1]}% {part[2]}" for part in parts}
    outcomes = {}
    for part in parts:
        runs = [(*part, draw) for draw in range(3 if part[0] == "random" else 1)]
        stored = [state("before", *run) | state("after", *run) for run in runs]
        raw = {name: np.stack([one[name] for one in stored]) for name in stored[0]}
        raw |= state("uncut") | {
            "heads": np.zeros((len(runs), part[1], 2), np.int16),
            "parameters": np.array([[1000, 1000 - part[1]]] * len(runs)),
            "seconds": np.array([lost(*run, "seconds") for run in runs]),
            "labels": (np.arange(N) % 2).astype(np.int8),
            "metric": np.array("accuracy"),
        }
        if half == "translation":
            raw["reference_lengths"] = LENGTHS
        outcomes[names[part]] = raw
    values = summarise(outcomes)
    assert len(values["recovered"]) == len(parts)
    for row in values["recovered"]:
        part = row["order"], round(100 * row["share"]), row["way"]
        runs = [(*part, draw) for draw in range(3 if part[0] == "random" else 1)]
        assert (row["removed"], row["left"]) == (part[1], 1000 - part[1])
        close(row["seconds"], np.mean([lost(*run, "seconds") for run in runs]))
        for when in ("before", "after"):
            each = [lost(*run, when) for run in runs]
            score = [1 - n / N if half == "encoder" else bleu(n) / 100 for n in each]
            close(row[when]["runs"], score)
            close(row[when]["loss"], np.mean(each) / MILLINAT)
    for lead in values["leads"]:
        part = round(100 * lead["share"]), lead["way"]
        for when in ("before", "after"):
            drawn = np.mean([lost("random", *part, draw, when) for draw in range(3)])
            expected = (lost("importance", *part, 0, when) - drawn) / MILLINAT
            close(lead[f"loss_{when}"]["difference"], expected)


@case("recipes")
def _recipes(_half, summarise):
    recipes = [(10, "0.0001", 32), (3, "0.0001", 32), (10, "5e-05", 16)]
    outcomes = {
        f"{epochs} epochs {rate} batch {size}": {
            "correct": right(lost(epochs, rate, size)),
            "loss": np.full(N, lost(epochs, rate, size), np.int16),
            "labels": (np.arange(N) % 2).astype(np.int8),
            "metric": np.array("accuracy"),
        }
        for epochs, rate, size in recipes
    }
    found = summarise(outcomes)["recipes"]
    assert [row["epochs"] for row in found] == [3, 10, 10]
    for row in found:
        n_lost = lost(row["epochs"], f"{row['learning_rate']:g}", row["batch_size"])
        close(row["score"], 1 - n_lost / N)
        close(row["log_loss"], n_lost / MILLINAT)
        close(row["gain"]["difference"], (lost(*recipes[1]) - n_lost) / N)


@case("precision")
def _precision(_half, summarise):
    raw = {"shares": np.array(MASKED), "scores": scores(), "scores bfloat16": scores("half")}
    raw["alike bfloat16"] = np.stack([right(lost("alike", share)) for share in MASKED])
    for name in ("float32", "bfloat16"):
        raw[f"correct {name}"] = np.stack([right(lost(name, share)) for share in MASKED])
        raw[f"loss {name}"] = np.stack([np.full(N, lost(name, share)) for share in MASKED])
    for row in summarise({OUTCOMES: raw})["rows"]:
        share, one, other = row["share"], *(lost(k, row["share"]) for k in ("float32", "bfloat16"))
        close(
            [row["float32"], row["bfloat16"], row["answers"]],
            [1 - n / N for n in (one, other, lost("alike", share))],
        )
        close(row["loss_apart"], abs(one - other) / MILLINAT)


@case("speed")
def _speed(_half, summarise):
    sizes, variants = (1, 16, 4), ("unpruned", "pruned")
    raw = {"batch_sizes": np.array(sizes)}
    for name in ("finetuned", "shape"):
        seconds = [[[lost(name, s, v)] * 2 for v in variants] for s in sizes]
        raw[f"{name}/seconds"] = np.array(seconds, float).transpose(0, 2, 1)
        raw[f"{name}/seconds"][:, 1] *= 1.01
        raw[f"{name}/n_sentences"] = np.array(100)
        for what in ("parameters", "attention", "file", "memory"):
            raw[f"{name}/{what}"] = np.array([lost(name, what, variant) for variant in variants])
    for name, found in summarise({OUTCOMES: raw}).items():
        assert found["columns"] == [*variants]
        for row in found["speed"]:
            seconds = [lost(name, row["batch_size"], variant) for variant in variants]
            close(row["mean"], [100 / s * (1 + 1 / 1.01) / 2 for s in seconds])
            close(row["ratio"], seconds[0] / seconds[1])
        for what in ("parameters", "attention", "file", "memory"):
            close(found[what], [lost(name, what, variant) for variant in variants])


@case("search", "translation")
def _search(_half, summarise):
    cuts = [(head, alone) for alone in (False, True) for head in shuffled(KIND_GRID)]
    rows = [(("none",), False), *cuts]
    raw = {
        "heads": heads_array([head for head, _ in cuts]),
        "alone": np.array([alone for _, alone in cuts]),
        "reference_lengths": LENGTHS,
        "counts": np.stack(
            [[packed(lost(b, *head, alone)) for b in (1, 5)] for head, alone in rows]
        ),
    }
    values = summarise({OUTCOMES: raw})
    assert len(values["cuts"]) == len(cuts)
    for record in values["cuts"]:
        head = record["kind"], record["layer"], record["head"], record["alone"]
        for beams in (1, 5):
            uncut = bleu(lost(beams, "none", False))
            close(values["bleu"][f"beam {beams}"], uncut)
            close(record[f"beam {beams}"], bleu(lost(beams, *head)) - uncut)


@case("quality", "translation")
def _quality(_half, summarise):
    references = [f"this is the sentence with number {i} in it" for i in range(30)]
    made = {
        beams: ["another" if i < lost(beams) % 20 else one for i, one in enumerate(references)]
        for beams in (1, 5)
    }
    overlap = np.arange(30) % 3 == 0
    raw = {f"beam {beams}": np.array(texts) for beams, texts in made.items()}
    raw |= {"sources": np.array(references), "references": np.array(references)}
    raw |= {"overlap": overlap, "curve": np.array(json.dumps([]))}
    values = summarise({OUTCOMES: raw})
    for beams, texts in made.items():
        found = values[f"beam {beams}"]
        close(found["bleu"], corpus_bleu(sentence_counts(texts, references).sum(0)))
        apart = [(t, r) for t, r, o in zip(texts, references, overlap, strict=True) if not o]
        counts = unpack(pack(sentence_counts(*zip(*apart, strict=True))), np.full(len(apart), 9))
        close(found["bleu_without_overlap"], corpus_bleu(counts.sum(0)))
    assert [sample["translation"] for sample in values["samples"]] == made[1][:10]


# --- language models --------------------------------------------------------------------------------

TOKENS = np.full(N, 10, np.int16)


@case("language_heads", "language")
def _language_heads(_half, summarise):
    heads = shuffled(GRID)
    raw = {
        "heads": heads_array(heads),
        "loss_uncut": np.full(N, 7, np.int32),
        "loss_change": np.stack([np.full(N, lost(*head), np.int32) for head in heads]),
        "tokens": TOKENS,
    }
    found = summarise({OUTCOMES: raw})["heads"]
    assert len(found) == len(heads)
    for record in found:
        added = lost("self", record["layer"], record["head"]) / MILLINAT / 10
        close(record["added"], added)
        np.testing.assert_allclose(record["interval"], added, rtol=1e-4)  # no text differs


@case("language_curve", "language")
def _language_curve(_half, summarise):
    shares = (0.1, 0.3, 0.5)

    def loss(order, run, share):
        return (500 + (lost(order, run, share) if share else 0)) / MILLINAT / 10

    outcomes = {
        order: {
            "names": np.array([*map(str, range(n))]),
            "shares": np.array([0.0, *shares]),
            "loss_uncut": np.full(N, 500, np.int32),
            "loss_change": np.stack(
                [[np.full(N, lost(order, run, s), np.int32) for s in shares] for run in range(n)]
            ),
            "tokens": TOKENS,
            "frequency_loss": np.full(N, 900, np.int32),
        }
        for order, n in (("random", 3), ("entropy", 1), ("importance", 1))
    }
    values = summarise(outcomes)
    means = {}
    for order, found in values["curves"].items():
        n = len(outcomes[order]["names"])
        expected = np.array([[loss(order, run, s) for s in (0, *shares)] for run in range(n)])
        close(found["runs"], expected)
        means[order] = np.trapezoid(expected.mean(0), (0, *shares)) / shares[-1]
    for order, found in values["differences"].items():
        close(found["difference"], means[order] - means["importance"])


@case("language_recovery", "language")
def _language_recovery(_half, summarise):
    outcomes = {
        f"removed {share}%": {
            "removed": np.array(share),
            "parameters": np.array([1000, 1000 - share]),
            **{
                f"loss_{when}": np.full(N, lost(share, when), np.int32)
                for when in ("pruned", "tuned")
            },
            "tokens": TOKENS,
        }
        for share in (30, 0, 50)
    }
    found = summarise(outcomes)["recovered"]
    assert [row["removed"] for row in found] == [0, 30, 50]
    for row in found:
        share = row["removed"]
        close([row["share"], row["left"]], [share / 100, 1000 - share])
        for when in ("pruned", "tuned"):
            close(row[when], np.exp(lost(share, when) / MILLINAT / 10))
