"""The benchmark runs and its floors are the work that remains; how fast it is, is not tested."""

import pytest

from headprune_lib.criteria import CRITERIA
from headprune_lib.replication.bench import bench, loss_sweep_work
from headprune_lib.replication.setups import TranslationSubject

pytestmark = pytest.mark.nightly


@pytest.fixture
def subject(smoke):
    """2 and 2 layers, width 32, feed-forward 48, 44 words; 4 heads of each kind in each layer."""
    return TranslationSubject.of(smoke, smoke.translation_task)


@pytest.mark.parametrize("half", ["encoder", "criteria", "sweeps", "onnx"])
def test_every_comparison_has_a_ratio_within_its_quartiles(half, smoke):
    if half == "onnx":
        pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    rows = bench(half, smoke, n_sentences=6, rounds=1)
    for row in rows:
        low, high = row["quartiles"]
        assert 0 < low <= row["ratio"] <= high
        assert row["floor"] is None or row["floor"] > 0
    if half == "encoder":
        # two layers of 12 units; the lowest layer's q, k and v need no gradient
        scoring = (24 + 24 - 3) / 24
        # a cut leaves its own layer's feed-forward part, 8, and the layers above
        sweep = (4 * (8 + 12) + 4 * 8 + 24) / (8 * 24)
        assert [row["floor"] for row in rows[:3]] == pytest.approx([scoring, scoring / 3, sweep])
    if half == "criteria":
        named = [row["what"].removeprefix("scores by ") for row in rows]
        assert named == [name for name in CRITERIA if name != "random"]


def test_work_is_that_of_what_comes_after_each_cut(subject):
    model = subject.model
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
    assert loss_sweep_work(model, s, t) == pytest.approx((4 * sum(cuts) + whole) / (24 * whole))
