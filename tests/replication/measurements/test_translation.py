"""The translation artifacts on the smoke profile against plain computations."""

import numpy as np
import pytest
import sacrebleu
import torch

from headprune_lib import cut_heads, find_heads, masked_heads
from headprune_lib.ablation import all_but_one_masks
from headprune_lib.batching import teacher_forced
from headprune_lib.orders import order_mask, prune_order
from headprune_lib.replication import measurements, stats
from headprune_lib.replication.data.verses import Pairs
from headprune_lib.replication.measurements.all_but_one import best_of_layers
from headprune_lib.replication.measurements.bleu import one_by_one_scores
from headprune_lib.replication.measurements.quality import shared_ngrams
from headprune_lib.replication.pages import plots, tables
from headprune_lib.replication.stats.bleu import corpus_bleu
from headprune_lib.replication.stats.losses import coarse
from headprune_lib.replication.store import Journal
from headprune_lib.replication.translation.models import PAD, encode
from headprune_lib.replication.translation.outcomes import all_counts, first_verses, mean_losses
from headprune_lib.replication.translation.subject import KINDS, TranslationSubject
from headprune_lib.replication.translation.weights import publish


@pytest.fixture(scope="module")
def subject(smoke):
    return TranslationSubject.of(smoke, smoke.translation_task)


def plain_bleu(subject, pairs, mask):
    """sacrebleu's corpus BLEU of translations made under a mask, in the pairs' order."""
    with masked_heads(subject.model, mask):
        made = subject.translator.translate(pairs.sources)
    return sacrebleu.corpus_bleu(made, [list(pairs.targets)]).score


def test_table1_is_what_masked_translation_gives(smoke, subject):
    result = measurements.get("table1", smoke)
    pairs, values = subject.headline, result.values
    assert result.n_examples == len(pairs) == 60
    assert values["baseline"]["bleu"] > 20
    assert len(values["heads"]) == sum(block.n_heads for block in find_heads(subject.model))
    for record in values["heads"][::5]:
        mask = cut_heads(subject.model, [(record["kind"], record["layer"], record["head"])])
        change = plain_bleu(subject, pairs, mask) - values["baseline"]["bleu"]
        assert record["delta"] == pytest.approx(change, abs=1e-3)
        assert record["interval"][0] <= record["delta"] <= record["interval"][1]
    families = [[r for r in values["heads"] if r["kind"] == kind] for kind in KINDS]
    for family in families:
        np.testing.assert_allclose(
            [r["p_holm"] for r in family], stats.holm([r["p"] for r in family]), rtol=1e-4
        )
    assert values["counts"]["all"]["heads"] == sum(
        values["counts"][kind]["heads"] for kind in KINDS
    )


def test_the_leak_free_choice_is_made_on_valid(smoke, subject):
    test, free = measurements.get("table2", smoke), measurements.get("table5", smoke)
    layers = [(r["kind"], r["layer"]) for r in free.values["layers"]]
    assert sorted(layers) == sorted(
        (block.kind, block.layer) for block in find_heads(subject.model)
    )
    swept = corpus_bleu(all_counts(test.raw)[1].sum(1)) - test.values["baseline"]["bleu"]
    for best in test.values["layers"]:  # chosen where it is reported
        same = (test.raw["heads"][:, :2] == [KINDS.index(best["kind"]), best["layer"]]).all(1)
        assert best["delta"] == pytest.approx(swept[same].max(), abs=1e-3)
    assert (test.n_examples, free.n_examples) == (40, 60)
    reported = free.values["layers"][3]
    mask = all_but_one_masks(subject.model)[reported["kind"], reported["layer"], reported["head"]]
    assert reported["delta"] == pytest.approx(
        plain_bleu(subject, subject.headline, mask) - free.values["baseline"]["bleu"], abs=1e-3
    )
    valid = {
        name.removeprefix("valid_"): values
        for name, values in free.raw.items()
        if name.startswith("valid_")
    }
    bleu = corpus_bleu(all_counts(valid)[1].sum(1))
    for row in best_of_layers(valid):
        same = (valid["heads"][:, :2] == valid["heads"][row, :2]).all(1)
        assert bleu[row] == bleu[same].max()


def test_figure3a_steps_are_masks_of_the_order(smoke, subject, tmp_path):
    result = measurements.get("figure3a", smoke)
    scores = subject.importance(Journal(tmp_path))
    order, values = prune_order(scores), result.values
    curve = values["curves"]["importance"]["mean"]
    for step, n_cut in ((2, 5), (5, 12)):  # ceil(24 i / 10)
        expected = plain_bleu(subject, subject.headline, order_mask(subject.model, order, n_cut))
        assert curve[step] == pytest.approx(expected, abs=1e-3)
    assert curve[-1] == pytest.approx(values["curves"]["random"]["mean"][-1])
    assert len(values["curves"]["random"]["runs"]) == smoke.translation_orders


def test_importance_is_the_mean_over_verses_of_the_derivative(subject, tmp_path):
    scores = subject.importance(Journal(tmp_path), normalize=None)
    assert {kind: tuple(values.shape) for kind, values in scores.items()} == dict.fromkeys(
        KINDS, (2, 4)
    )
    # one head by finite differences, on all verses kept for scoring
    pairs, step = subject.split("score"), 1e-4
    model = subject.model.double()
    block = next(b for b in find_heads(model) if (b.kind, b.layer) == ("enc-dec", 1))
    weight = block.part(model, "output").weight.data
    columns = slice(2 * block.width, 3 * block.width)
    batch = teacher_forced(
        encode(subject.translator.pieces.vocabulary, pairs.sources),
        encode(subject.translator.pieces.vocabulary, pairs.targets),
        PAD,
        start=PAD,
    )
    labels, losses = batch.pop("labels"), []
    for factor in (1 + step, (1 - step) / (1 + step)):
        weight[:, columns] *= factor
        with torch.no_grad():
            logits = model(**batch).logits
        losses.append(
            torch.nn.functional.cross_entropy(logits.movedim(-1, 1), labels, reduction="none").sum(
                -1
            )
        )
    weight[:, columns] /= 1 - step
    model.float()
    expected = ((losses[0] - losses[1]) / (2 * step)).abs().mean()
    assert scores["enc-dec"][1, 2] == pytest.approx(expected.item(), rel=2e-3)


def test_figure4_removes_one_kind_at_a_time(smoke):
    values = measurements.get("figure4", smoke).values
    assert set(values["curves"]) == {
        f"{kind} {how}" for kind in KINDS for how in ("importance", "random")
    }
    curves = {kind: np.array(values["curves"][f"{kind} importance"]["mean"]) for kind in KINDS}
    minus = curves["enc-dec"] - curves["dec-dec"]
    along = [one["difference"] for one in values["differences_along"]["enc-dec minus dec-dec"]]
    assert along == pytest.approx(minus, abs=1e-3)
    assert set(values["shown"]) < set(values["shares"])
    # the mean share of BLEU kept up to 90% removed, by trapezoids of a tenth
    kept = minus / curves["enc-enc"][0]
    area = (kept[:9] + kept[1:10]).mean() / 2
    found = values["areas"]["dec-dec"]
    assert found["difference"] == pytest.approx(area, abs=1e-4)
    low, high = found["interval"]
    assert low <= found["difference"] <= high


def test_figure2a_and_6d(smoke):
    values = measurements.get("figure2a", smoke).values
    table1 = measurements.get("table1", smoke).raw  # on more verses, of which the first count here
    uncut, cuts = all_counts(first_verses(table1, 40))
    own = [
        corpus_bleu(cut.sum(0)) - corpus_bleu(uncut.sum(0))
        for cut, (kind, _, _) in zip(cuts, table1["heads"], strict=True)
        if kind == 0
    ]
    assert [r["bleu home"] for r in values["heads"]] == pytest.approx(own, abs=1e-3)
    assert set(values["correlations"]) == {"bleu", "loss"}
    assert "importance" in measurements.get("figure6d", smoke).values["curves"]


def test_coarse_importance_keeps_its_mean():
    values = np.random.default_rng(0).lognormal(-5, 2, (1000, 6))
    assert np.abs(coarse(values) / values - 1).max() <= 1 / 32
    np.testing.assert_allclose(coarse(values).astype(float).mean(0), values.mean(0), rtol=3e-3)


def test_quality_with_and_without_shared_ngrams(smoke, subject):
    values = measurements.get("quality", smoke).values
    pairs = subject.headline
    assert values["beam 1"]["bleu"] == pytest.approx(
        plain_bleu(subject, pairs, cut_heads(subject.model, [])), abs=1e-3
    )
    assert values["beam 5"]["chrf"] > 20 and len(values["samples"]) == 10
    assert [record["epoch"] for record in values["curve"]] == list(range(1, 10))
    train = Pairs(((1, 1, 1),), ("a b c d e f",), ("one two",))
    test = Pairs(((2, 1, 1),) * 3, ("x B, c D e", "b c d", "c d x"), ("y", "y", "y"))
    assert shared_ngrams(train, test, 3).tolist() == [True, True, False]
    assert shared_ngrams(train, test, 4).tolist() == [True, False, False]


def test_greedy_and_beam_search_are_compared_on_the_same_cuts(smoke, subject):
    values = measurements.get("search", smoke).values
    pairs = subject.split("test").first(300)
    cut, alone = values["cuts"][1], values["cuts"][-1]
    assert (cut["alone"], alone["alone"]) == (False, True)
    one = (cut["kind"], cut["layer"], cut["head"])
    others = [(alone["kind"], alone["layer"], head) for head in range(4) if head != alone["head"]]
    for row, heads in ((cut, [one]), (alone, others)):
        with masked_heads(subject.model, cut_heads(subject.model, heads)):
            made = subject.translator.translate(pairs.sources, beams=5)
        expected = sacrebleu.corpus_bleu(made, [list(pairs.targets)]).score
        assert values["bleu"]["beam 5"] + row["beam 5"] == pytest.approx(expected, abs=1e-3)
    changes = [[row[f"beam {beams}"] for row in values["cuts"]] for beams in (1, 5)]
    assert values["pearson"]["all"]["r"] == pytest.approx(np.corrcoef(*changes)[0, 1], abs=1e-4)


def test_publishing_keeps_the_final_weights(smoke, subject, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_MODELS", str(tmp_path))
    names = sorted(path.name for path in publish(smoke, "toy", smoke.seed))
    assert names == ["toy-seed1.curve.json", "toy-seed1.safetensors", "toy-seed1.spm"]
    monkeypatch.setattr("headprune_lib.replication.translation.weights.train", None)
    assert TranslationSubject.of(smoke, "toy").key == subject.key


def test_every_figure_is_drawn_with_labels(smoke):
    for draw, names in (
        (plots.table2, ("table2", "table5")),
        (plots.figure2a, ("figure2a",)),
        (plots.figure3a, ("figure3a",)),
        (plots.figure4, ("figure4", "figure3a")),
    ):
        alone = [{"one": measurements.get(name, smoke)} for name in names]
        both = [shown | {"another": shown["one"]} for shown in alone]
        panels = [len(labelled(draw(*shown))) for shown in (alone, both)]
        assert panels[1] == 2 * panels[0] > 0, draw
    values = {name: measurements.get(name, smoke).values for name in ("quality", "search")}
    labelled(plots.quality({"toy": values["quality"]}))
    labelled(plots.search(values["search"]))


def labelled(figure):
    """The panels of a figure that hold something; each says what it shows along x."""
    panels = [axes for axes in figure.axes if axes.has_data()]
    assert all(axes.get_xlabel() for axes in panels if axes.lines)
    assert plots.as_png(figure).startswith(b"\x89PNG")
    return panels


def test_tables_have_a_row_for_each_thing(smoke):
    def result(name):
        return measurements.get(name, smoke)

    assert tables.heads_table(result("table1"))["heads"].tolist() == [8, 8, 8]
    assert set(tables.curves_table(result("figure3a"))["order"]) == {
        "importance, Eq. 2",
        "importance, not normalised",
        "one-by-one on the test set (the paper's)",
        "one-by-one on other text",
        "random",
    }
    assert len(tables.kinds_table(result("figure4"))) == 11


def test_oracle_breaks_ties_by_loss():
    zeros = np.zeros((3, 1, 5), np.int16)
    raw = {
        "heads": np.array([[kind, 0, 0] for kind in range(3)]),
        "counts_uncut": np.ones((1, 5)),
        "counts_change": zeros,
        "reference_lengths": np.array([2]),
        "draft_loss_change": np.array([[30], [10], [20]]),
    }
    scores = one_by_one_scores(raw)
    assert scores["enc-dec"] < scores["dec-dec"] < scores["enc-enc"]


def test_mean_losses_are_the_means_of_what_they_replace():
    rng = np.random.default_rng(0)
    uncut, change = rng.integers(0, 9_000, 5), rng.integers(-500, 500, (3, 5))
    found = mean_losses(
        {"heads": np.zeros(3), "draft_loss_uncut": uncut, "draft_loss_change": change}
    )
    assert set(found) == {"heads", "draft_log_loss"}
    expected = [uncut.mean() / 1000, *((uncut + row).mean() / 1000 for row in change)]
    np.testing.assert_allclose(found["draft_log_loss"], expected, rtol=1e-12)
