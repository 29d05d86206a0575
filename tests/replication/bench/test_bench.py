"""The benchmark runs and its figures are what it says; how fast they are is not tested."""

import pytest
import torch

from headprune_lib import cut_heads, masked_heads
from headprune_lib.criteria import CRITERIA
from headprune_lib.generation.greedy import generate
from headprune_lib.replication.bench import before, bench
from headprune_lib.replication.bench.translation import operations, sweep_translations, sweep_work
from headprune_lib.replication.translation.subject import TranslationSubject

pytestmark = pytest.mark.nightly


def test_every_comparison_has_a_ratio_and_a_floor_that_is_not_beaten_by_definition(smoke):
    rows = bench("encoder", smoke, n_sentences=16, rounds=2)
    assert [row["target"] for row in rows] == [
        "at most 2.0",
        "at most 0.7",
        "at most 0.6",
        "at least 6",
        "at least 1.15",
        "at least 1.15",
    ]
    for row in rows:
        low, high = row["quartiles"]
        assert 0 < low <= row["ratio"] <= high
    floors = [row["floor"] for row in rows]
    # two layers of 12 units; the lowest layer's q, k and v need no gradient
    scoring = (24 + 24 - 3) / 24
    # a cut leaves its own layer's feed-forward part, 8, and the layers above
    sweep = (4 * (8 + 12) + 4 * 8 + 24) / (8 * 24)
    assert floors[:3] == pytest.approx([scoring, scoring / 3, sweep])


def test_every_criterion_is_compared_with_a_forward_pass(smoke):
    rows = bench("criteria", smoke, n_sentences=4, rounds=1)
    assert [row["what"] for row in rows] == [
        f"scores by {name}" for name in CRITERIA if name != "random"
    ]
    assert {row["reference"] for row in rows} == {"one forward pass"}
    ratios = {row["what"].removeprefix("scores by "): row["ratio"] for row in rows}
    assert min(ratios.values()) > 0
    # a search over heads takes passes by the dozen, a derivative a few
    assert min(ratios["greedy"], ratios["shapley"]) > ratios["importance"]


def test_the_translation_half_is_compared_with_masked_generate(smoke):
    fast, bound = bench("translation", smoke, n_sentences=6, rounds=2)
    assert fast["target"] == "at least 5" and fast["n"] == 2 * 6  # 24 heads, one in twelve
    assert 0 < bound["floor"] < 1 and bound["floor"] is not None


def test_the_translators_sweep_of_losses_is_compared_with_plain_passes(smoke):
    (row,) = bench("sweeps", smoke, n_sentences=4, rounds=1)
    assert row["ratio"] > 0 and 0 < row["floor"] < 1


def test_a_sweeps_work_is_that_of_what_comes_after_each_cut(smoke):
    """2 and 2 layers, width 32, feed-forward 48, 44 words; 4 heads of each kind in each layer."""
    model = TranslationSubject.of(smoke, smoke.translation_task).model
    ends, square, s, t = 2 * 32 * 48, 32**2, 3, 5
    encoder, decoder, words = 4 * square + ends, 6 * square + ends, 44 * 32
    behind = t * (2 * decoder + words) + s * 2 * 2 * square
    cuts = [
        s * (encoder + ends) + behind,
        s * ends + behind,
        *(t * (decoder + ends + words + rest) for rest in (0, 2 * square)),
        *(t * (ends + words + rest) for rest in (0, 2 * square)),
    ]
    whole = s * 2 * encoder + behind
    assert sweep_work(model, s, t) == pytest.approx((4 * sum(cuts) + whole) / (24 * whole))


def test_two_processes_are_compared_with_one_and_the_engine_with_a_loop(smoke):
    two, engine = bench("workers", smoke, n_sentences=16, rounds=1)
    assert (two["target"], two["floor"], two["n"]) == ("at most 0.67", 0.5, 8)  # the model's heads
    assert engine["target"] == "at most 1.03" and engine["ratio"] > 0


def test_graphs_with_and_without_half_of_the_heads_are_compared(smoke):
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    found = bench("onnx", smoke, n_sentences=4, rounds=1)
    assert [row["what"] for row in found] == [f"ONNX, unpruned, batch {n}" for n in (1, 16)]
    assert all(row["seconds"] > 0 and row["ratio"] > 0 for row in found)


def test_a_half_that_does_not_exist_is_refused(smoke):
    with pytest.raises(ValueError, match="did you mean encoder"):
        bench("encoders", smoke)


def test_operations_of_a_cut_are_those_of_the_layers_above_it(smoke):
    """2 layers, width 32, feed-forward 48, 44 words; sources of 3 pieces, drafts of 2."""
    model = TranslationSubject.of(smoke, smoke.translation_task).model
    decoder, encoder, words, views = (
        6 * 32**2 + 2 * 32 * 48,
        4 * 32**2 + 2 * 32 * 48,
        44 * 32,
        2 * 32**2,
    )
    plain = 3 * 2 * (encoder + views) + 3 * (2 * decoder + words)
    source, draft = [[5, 6, 2]], [[7, 8]]
    same = operations(model, source, draft, {("dec-dec", 1, 0): [[7, 8]]})
    assert same == pytest.approx(3 * (decoder + words) / plain)
    changed = operations(model, source, draft, {("enc-dec", 0, 0): [[9, 8]]})
    assert changed == pytest.approx((3 + 2) * (2 * decoder + words) / plain)
    whole = operations(model, source, draft, {("enc-enc", 0, 0): [[7, 8]]})
    assert whole == pytest.approx(1)


def test_the_sweep_that_is_timed_makes_the_same_translations(smoke):
    subject = TranslationSubject.of(smoke, smoke.translation_task)
    sources = subject.translator.encode(subject.split("test").first(5).sources)
    mask = cut_heads(subject.model, [("enc-dec", 1, 2)])
    with torch.inference_mode(), masked_heads(subject.model, mask):
        expected = generate(subject.model, sources)
    drafts = generate(subject.model, sources)
    assert sweep_translations(subject.model, sources, drafts, [mask]) == [expected]


def test_the_old_transformers_gives_the_same_numbers_and_is_timed_beside(smoke):
    try:
        before.old_packages()
    except RuntimeError as error:
        pytest.skip(str(error))
    found = bench("before", smoke, n_sentences=16, rounds=1)
    assert [row["target"] for row in found] == [
        "",
        "",
        "at least 2.3",
        "at least 8",
        "",
        "",
    ]
    assert all(row["seconds"] > 0 and row["ratio"] > 0 for row in found)


def test_other_numbers_of_the_old_transformers_end_the_comparison():
    before._same("a sweep", [1.0, -2.0], [1.001, -2.0])
    for there in ([1.1, -2.0], [1.0]):
        with pytest.raises(RuntimeError, match="a sweep: transformers 4.46.3 gives other numbers"):
            before._same("a sweep", [1.0, -2.0], there)
