"""Figure 5: which checkpoints are measured, each part by itself, and what they say together."""

import dataclasses
import math

import numpy as np
import pytest
import sacrebleu
import torch

from headprune_lib import cut_heads, masked_heads
from headprune_lib.batching import teacher_forced
from headprune_lib.orders import order_mask, prune_order
from headprune_lib.replication import measurements
from headprune_lib.replication.measurements import obtaining
from headprune_lib.replication.measurements.checkpoints import (
    Point,
    chosen,
    further_masks,
    points_of,
    step_at,
)
from headprune_lib.replication.measurements.dynamics import (
    Statistics,
    gini_within,
    seed_in,
    slopes,
    values_of,
)
from headprune_lib.replication.measurements.measurement import Context
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.pages import plots, tables
from headprune_lib.replication.profiles import Checkpoints
from headprune_lib.replication.store import Journal
from headprune_lib.replication.titles import spelled
from headprune_lib.replication.translation.models import PAD
from headprune_lib.replication.translation.subject import KINDS, TranslationSubject

PRE = "pre-norm"
_MEASUREMENT = measurements.MEASUREMENTS["along_training"]


@pytest.fixture(scope="module")
def pre(smoke):
    return dataclasses.replace(smoke, translation_model=PRE)


@pytest.fixture(scope="module")
def one(pre):
    """The first training by itself."""
    return measurements.get("figure5", pre, parts=["training 1"])


@pytest.fixture(scope="module")
def both(pre, one):
    return measurements.get("figure5", pre)


# --- which checkpoints ----------------------------------------------------------------------------

EPOCHS = [
    Point(10 * epoch, epoch, bleu, {"epoch": epoch})
    for epoch, bleu in enumerate((1, 3, 11, 16, 17, 20, 19), 1)
]
ALONE = Checkpoints([0.09, 0.18, 0.52, 0.77, 0.88, 0.99, 1.0], False, None, False, None, None)


def test_checkpoints_are_matched_by_share_of_the_best_bleu():
    assert [point.epoch for point in chosen(EPOCHS, ALONE)] == [1, 2, 3, 4, 5, 6]


def test_the_untrained_model_quarters_of_epochs_every_third_and_the_last():
    start = Point(0, 0.0, math.nan, {"update": 0})
    quarter = Point(18, 1.75, 1.9, {"update": 18})  # 9.5% of the best
    wanted = dataclasses.replace(ALONE, shares=[0.09, 0.5], within=True, every=3)
    found = chosen([start, EPOCHS[0], quarter, *EPOCHS[1:]], wanted)
    assert [point.updates for point in found] == [0, 18, 30, 60, 70]
    assert found[1].kept == {"update": 18}


def test_weights_from_within_the_first_epochs_are_validated(pre, tmp_path):
    points = points_of(Context("translation", pre, "toy", Journal(tmp_path), None), 6, True)
    # of the quarters, 4 updates each, those nearest to the ends of epochs (15, 30, 45) are left out
    within = [4, 8, 12, 20, 24, 28, 32, 36, 40, 48]
    assert [point.updates for point in points if point.kept.get("update")] == within
    assert [point.updates for point in points] == sorted([0, *within, *range(15, 136, 15)])
    assert math.isnan(points[0].bleu)
    valid = TranslationSubject.of(pre, "toy", 6, update=48).split("valid")
    for point in (points[-1], next(point for point in points if point.updates == 48)):
        translator = TranslationSubject.of(pre, "toy", 6, **point.kept).translator
        made = translator.translate(valid.sources)
        expected = sacrebleu.corpus_bleu(made, [list(valid.targets)]).score
        assert point.bleu == pytest.approx(expected, rel=0.02, abs=0.05)


# --- measuring ------------------------------------------------------------------------------------


def test_a_training_is_measured_and_kept_by_itself(pre, one, both):
    assert list(one.parts) == ["training 1"] and list(both.parts) == ["training 1", "training 6"]
    assert (one.values["n_trainings"], both.values["n_trainings"]) == (1, 2)
    assert one.values["trainings"][0] == both.values["trainings"][0]
    assert [training["seed"] for training in both.values["trainings"]] == [1, 6]
    before, after = one.parts["training 1"], both.parts["training 1"]
    assert before.raw_sha256 == after.raw_sha256 and before.provenance == after.provenance
    seeds = [list(part.signature["recipe"]) for part in both.parts.values()]
    assert seeds == [["seed 1"], ["seed 6"]]
    assert both.parts["training 6"].provenance["command"] == (
        "headprune reproduce along_training --profile smoke --task toy --model pre-norm"
    )
    stored = results_folder(pre) / "along_training"
    assert {path.name for path in stored.glob("[!.]*")} == {
        "toy.pre-norm.json",
        "toy.pre-norm.training-1.npz",
        "toy.pre-norm.training-6.npz",
    }
    hashes = {part.runs[0]["weights_sha256"] for part in both.parts.values()}
    assert len(hashes) == 2


def test_as_many_verses_as_the_checkpoints_ask_for(pre, smoke, both):
    assert (both.n_examples, pre.checkpoints[PRE].n_verses, pre.n_verses) == (30, 30, 40)
    assert both.parts["training 1"].raw["counts_uncut"].shape[1] == 30
    signed = [_MEASUREMENT.own(one, "translation", "training 1").values for one in (pre, smoke)]
    # null is left out, so that results of before there was a choice still fit
    assert ["n_verses" in values["checkpoints"] for values in signed] == [True, False]


@pytest.mark.parametrize(("seed", "listed"), [(6, True), (7, False)])
def test_a_training_of_ones_own_does_not_join_the_profiles(pre, seed, listed):
    own, measurement = dataclasses.replace(pre, translation_seed=seed), _MEASUREMENT
    (part,) = measurement.parts(own, "translation", "toy")
    assert part == f"training {seed}"
    signed = {part: obtaining.signature(measurement, "translation", own, "toy", part)}
    root = obtaining._root(measurement, "translation", own, "toy", signed)
    assert (root == results_folder(pre)) == listed


def test_a_checkpoint_is_what_plain_computations_give(pre, both, tmp_path):
    raw, points = both.parts["training 6"].raw, both.values["trainings"][1]["checkpoints"]
    assert [point["updates"] for point in points] == sorted({p["updates"] for p in points})
    assert points[0]["updates"] == 0 and points[-1]["epoch"] == 9
    assert {4, 8} < {point["epoch"] for point in points}
    last = TranslationSubject.of(pre, "toy", 6, epoch=9)
    pairs, plain = last.pairs("test").first(30), last.importance(Journal(tmp_path), normalize=None)
    heads = [(kind, layer, head) for kind in KINDS for layer in range(2) for head in range(4)]
    orders = {
        "importance": prune_order(last.importance(Journal(tmp_path))),
        "unnormalised": prune_order(plain),
        "random 1": [heads[i] for i in np.random.default_rng(1).permutation(24)],
    }
    n_cut = math.ceil(0.4 * 24)
    rows = {"importance": 3, "unnormalised": 10, "random 1": 12}  # of the masks
    assert raw["further"].tolist() == ["unnormalised", "random 0", "random 1"]
    uncut = plain_scores(last, pairs, cut_heads(last.model, []))
    assert points[-1]["bleu"][0] == pytest.approx(uncut[0], abs=1e-3)
    assert points[-1]["loss"][0] == pytest.approx(uncut[1].sum() / pieces(last, pairs), rel=1e-4)
    for name, order in orders.items():
        bleu, losses = plain_scores(last, pairs, order_mask(last.model, order, n_cut))
        change = raw["reference_loss_change"][-1, rows[name]] / 1000
        np.testing.assert_allclose(change, losses - uncut[1], rtol=0.04, atol=2e-3)
        if name != "random 1":
            key = {"importance": "kept_at", "unnormalised": "kept_unnormalised"}[name]
            assert points[-1][key] == pytest.approx(bleu / uncut[0], rel=1e-4)
    assert points[-1]["kept"][4] == points[-1]["kept_at"]
    draft = raw["draft_loss_change"][-1]
    assert draft.shape == (13, len(pairs)) and (draft[9] > 0).all()


def plain_scores(subject, pairs, mask):
    """sacrebleu's BLEU of translations, and the nats of every reference, one by one."""
    losses = []
    with masked_heads(subject.model, mask), torch.no_grad():
        made = subject.translator.translate(pairs.sources)
        for source, target in zip(
            *(subject.translator.encode(side) for side in (pairs.sources, pairs.targets)),
            strict=True,
        ):
            start = subject.model.config.decoder_start_token_id
            batch = teacher_forced([source], [target], PAD, start)
            labels = batch.pop("labels")
            logits = subject.model(**batch).logits[0]
            losses.append(-logits.log_softmax(-1)[torch.arange(len(target)), labels[0]].sum())
    return sacrebleu.corpus_bleu(made, [list(pairs.targets)]).score, np.array(losses)


def pieces(subject, pairs):
    return sum(map(len, subject.translator.encode(pairs.targets)))


def test_random_orders_are_the_same_for_every_checkpoint_and_training(pre, both, tmp_path):
    """The untrained models of two seeds share nothing but what is cut."""
    found = []
    for kept in ({"update": 0}, {"epoch": 9}):
        for seed in (1, 6):
            subject = TranslationSubject.of(pre, "toy", seed, **kept)
            plain = {k: torch.rand(2, 4) for k in KINDS}
            masks = further_masks(subject, plain, pre.checkpoints[PRE], 10)
            found.append(torch.stack([masks["random 0"][kind] for kind in plain]))
    assert (found[0] == 0).sum() == 10
    assert all(torch.equal(mask, found[0]) for mask in found)


def test_a_model_whose_weights_were_kept_after_epochs_alone(smoke):
    result = measurements.get("figure5", smoke)
    (training,) = result.values["trainings"]
    points = training["checkpoints"]
    assert all(point["epoch"] == round(point["epoch"]) >= 1 for point in points)
    assert all(point["kept_random"] is point["added_loss_random"] is None for point in points)
    assert "slopes" not in result.values and result.values["log_range"] > 0
    part = result.parts["training 1"]
    assert part.signature["own"]["checkpoints"]["random_orders"] is None
    assert "removed" not in part.signature["own"]


def test_a_name_that_is_no_training(pre):
    with pytest.raises(ValueError, match="no training is called 'importance'"):
        seed_in("importance")
    with pytest.raises(ValueError, match="training 7 is none of the profile's .*give --seed 7"):
        measurements.get("figure5", pre, parts=["training 7"])
    with pytest.raises(ValueError, match="has none at 40%"):
        step_at(7)


# --- summing up -----------------------------------------------------------------------------------


def made_up(seeds, updates=(0, 5, 20, 80, 320), rng_seed=0):
    """Trainings as ``slopes`` reads them, of numbers drawn at random; the second has too little BLEU."""
    rng = np.random.default_rng(rng_seed)
    names = ("kept_at", "kept_random", "added_loss", "added_loss_random", "gini_within")

    def drawn():
        return dict(zip(names, rng.random(5), strict=True))

    return [
        {
            "seed": seed,
            "checkpoints": [
                {
                    "updates": n,
                    "bleu": [4.9 if n < 20 else 5.0],
                    **dict(zip(names, rng.random(5), strict=True)),
                }
                for n in updates
            ],
        }
        for seed in seeds
    ]


def plain_slope(x, y):
    """The slope of the normal equations."""
    (slope, _), *_ = np.linalg.lstsq(np.stack([x, np.ones_like(x)], 1), np.array(y), rcond=None)
    return slope


def test_slopes_are_least_squares_and_their_interval_is_students(drawn_seed):
    trainings = made_up((2, 3, 4), rng_seed=drawn_seed)
    found = slopes(trainings, Statistics())
    expected = {"kept": [], "importance": [], "loss": [], "gini": []}
    for training in trainings:
        points = training["checkpoints"]
        late, able = np.log([5, 20, 80, 320]), np.log([20, 80, 320])
        kept = [p["kept_at"] - p["kept_random"] for p in points[2:]]  # below 5 BLEU: noise
        loss = [p["added_loss_random"] - p["added_loss"] for p in points[1:]]
        expected["kept"].append(plain_slope(able, kept))
        expected["importance"].append(plain_slope(able, [p["kept_at"] for p in points[2:]]))
        expected["loss"].append(plain_slope(late, loss))
        expected["gini"].append(plain_slope(late, [p["gini_within"] for p in points[1:]]))
    for name, runs in expected.items():
        mean, error = np.mean(runs), np.std(runs, ddof=1) / math.sqrt(3)
        np.testing.assert_allclose(found[name]["runs"], runs, rtol=1e-9)
        assert found[name]["difference"] == pytest.approx(mean)
        quantile = 4.302652729696142  # Student's t, 2 degrees of freedom, 97.5%
        np.testing.assert_allclose(
            found[name]["interval"], [mean - quantile * error, mean + quantile * error], rtol=1e-6
        )


def test_verses_are_in_the_interval_of_what_is_kept(drawn_seed):
    trainings = made_up((2, 3, 4), rng_seed=drawn_seed)
    noise = np.random.default_rng(drawn_seed).normal(0, 0.1, (3, 5, 7))
    texts = [[{"importance": verses} for verses in each] for each in noise]
    found = slopes(trainings, Statistics(), texts)["importance"]
    x = np.log([20, 80, 320])
    weights = np.array([plain_slope(x, row) for row in np.eye(3)])
    of_verses = np.square((weights @ noise[:, 2:]).mean(0)).sum()
    assert found["error"] ** 2 == pytest.approx(np.var(found["runs"], ddof=1) / 3 + of_verses)


def test_slopes_of_too_few_trainings_or_checkpoints():
    two = slopes(made_up((2, 3)), Statistics())
    assert [slope["interval"] for slope in two.values()] == [None] * 5
    assert {len(slope["runs"]) for slope in two.values()} == {2}
    assert set(slopes(made_up((2, 3, 4), (0, 5, 20)), Statistics())) == {"loss", "gini"}
    (alone,) = made_up((1,))
    for point in alone["checkpoints"]:
        point["kept_random"] = point["added_loss_random"] = None
    assert slopes([alone], Statistics()) == {}


def test_the_coefficient_within_layers_is_the_mean_of_each_ones_own(drawn_seed):
    scores = np.random.default_rng(drawn_seed).lognormal(size=(18, 8))
    own = [
        sum(abs(x - y) for x in layer for y in layer) / (2 * len(layer) * sum(layer))
        for layer in scores
    ]
    assert gini_within(scores) == pytest.approx(np.mean(own))
    scaled = scores * np.arange(1, 19)[:, None]  # what one layer has more than another is not in it
    assert gini_within(scaled) == pytest.approx(np.mean(own))


def test_values_of_a_training_are_plain_sums_of_its_outcomes(both):
    values = values_of({name: part.raw for name, part in both.parts.items()}, Statistics())
    raw = both.parts["training 1"].raw
    point, i = values["trainings"][0]["checkpoints"][-2], -2
    uncut = raw["reference_loss_uncut"][i].astype(float)
    loss = np.array([uncut, *(uncut + raw["reference_loss_change"][i])]).sum(1) / 1000
    loss /= raw["reference_pieces"].sum()
    np.testing.assert_allclose(point["loss"], loss[:11])
    assert point["added_loss"] == pytest.approx(loss[4] - loss[0])
    assert point["added_loss_random"] == pytest.approx((loss[12] + loss[13]) / 2 - loss[0])
    low, high = point["added_loss_random_interval"]
    assert low < point["added_loss_random"] < high
    scores = np.concatenate([raw[f"each {k}"][i] for k in KINDS], 1)
    mean = scores.astype(float).mean(0)
    assert point["gini_within"] == pytest.approx(gini_within(mean))
    assert (
        point["gini_within_interval"][0] < point["gini_within"] < point["gini_within_interval"][1]
    )
    spans = [
        math.log(t["checkpoints"][-1]["updates"] / t["checkpoints"][1]["updates"])
        for t in values["trainings"]
    ]
    assert values["log_range"] == pytest.approx(np.mean(spans))
    assert {"loss", "gini"} <= set(values["slopes"])
    assert values["trainings"][0]["checkpoints"][-1]["settled"] == pytest.approx(1)


# --- the page -------------------------------------------------------------------------------------


def test_figures_and_tables_of_any_number_of_trainings(smoke, both):
    own = measurements.get("figure5", smoke)
    for result in (own, both):
        n = sum(len(training["checkpoints"]) for training in result.values["trainings"])
        table = tables.checkpoints_table(result)
        assert len(table) == n
        assert ("random" in table) == ("training" in table) == (result is both)
        loss, gini = plots.checkpoints(result.values).axes
        assert len(loss.lines) == n
        assert all(axes.get_xlabel() for axes in (loss, gini))
    shown = {"post-norm": own, "pre-norm": both}
    values = {name: result.values for name, result in shown.items()}
    figure5 = plots.figure5(values)
    assert [axes.get_title() for axes in figure5.axes][1:] == list(shown)
    assert [line.get_label() for line in figure5.axes[0].lines] == [
        f"{removed}% removed" for removed in (20, 40, 60, 80)
    ]
    figure = plots.along_training(values)
    kept, loss, gini = figure.axes
    # one training of the one model; of the other two, their mean, and all three at random as well
    assert [len(axes.lines) for axes in (kept, loss, gini)] == [1 + 6, 1 + 6, 1 + 3]
    assert plots.as_png(figure).startswith(b"\x89PNG")
    rows = tables.slopes_table(shown)
    assert rows["growth by ln(updates)"].tolist()[:3] == ["not measured"] * 3
    slope = both.values["slopes"]["gini"]["difference"]
    assert rows["growth by ln(updates)"].tolist()[-1] == f"{slope:+.3f}".replace("-", "−")
    assert rows["first"].tolist()[:3] == rows["last"].tolist()[:3] == [""] * 3
    last = [training["checkpoints"][-1] for training in both.values["trainings"]]
    able = [point for point in last if point["bleu"][0] >= 1]  # a tiny model may translate nothing
    within = f"{np.mean([point['gini_within'] for point in able]):.2f}" if able else ""
    assert rows["last"].tolist()[-1] == within
    beside = tables.checkpoints_table(own, both)
    assert len(beside) == len(tables.checkpoints_table(own)) + len(tables.checkpoints_table(both))
    assert set(beside["model"]) == {spelled(own.model), spelled(both.model)}


def test_the_mean_of_trainings_lies_between_them_where_all_have_begun():
    def training(updates, kept):
        return {
            "checkpoints": [
                {"updates": n, "kept_at": k, "added_loss": k, "gini_within": k, "kept_random": None}
                | {"added_loss_random": None}
                for n, k in zip(updates, kept, strict=True)
            ]
        }

    values = {
        "removed": 0.4,
        "trainings": [training((0, 1, 100), (0.0, 0.2, 0.6)), training((0, 10, 100), (0, 0.8, 1))],
    }
    mean = plots.along_training({"m": values}).axes[2].lines[-1]
    assert mean.get_xdata().tolist() == [
        10,
        100,
    ]  # the first is half way there at 10, by logarithms
    assert mean.get_ydata() == pytest.approx([(0.4 + 0.8) / 2, 0.8])
