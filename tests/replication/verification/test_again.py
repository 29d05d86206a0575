"""Measuring again finds what is stored, and notices the least that is stored wrong."""

import dataclasses

import numpy as np
import pytest

from headprune_lib.replication import measurements
from headprune_lib.replication.verification.again import NotAtHand, compared, found_again

ENCODER = (
    *("figure1b", "table3", "table6", "figure2b", "figure3b", "agreement", "table4", "stability"),
    *("which_first", "precision", "scoring_examples", "head_roles", "recovery"),
)
TRANSLATION = (
    *("table1", "table2", "table5", "figure2a", "figure3a", "figure4", "figure5"),
    *("quality", "search", "which_first toy", "recovery toy"),
)
LANGUAGE = ("language_curve", "language_heads", "language_recovery")
# Asked in every run: single heads, a curve, translations; the others, minutes in all, nightly.
ALWAYS = {"figure1b", "figure3b", "table1"}
# Of many orders and trainings, one of each kind.
PARTS = {
    "figure3b": ("importance", "random"),
    "which_first": (
        *("importance unnormalised", "importance rescored", "random", "importance tuned"),
        *("importance-entropy chosen", "importance-entropy shuffled"),
    ),
    "scoring_examples": ("importance",),
    "recovery": ("importance 40% all weights", "uncut 0% LoRA"),
    "recovery toy": ("importance 40% all weights", "uncut 0% all weights"),
}
# What is not measured again: of a machine and a moment, or of weights that were not kept.
LEFT_OUT = ("seconds", "memory", "file", "bfloat16", "n_sentences", "_after", "loss_tuned")


def wrong(name, array, drawn):
    """The array with the fewest wrong numbers that are more than a rounding."""
    other = array.copy()
    several = 3 if "correct" in name else 2 if "beam" in name or "draft_loss" in name else 1
    if "counts" in name:
        few = [*range(array.shape[-2] // 100 + 2)]
        at = (*(drawn.integers(n) for n in array.shape[:-2]), few, 0)
    elif array.ndim:
        at = (*(drawn.integers(n) for n in array.shape[:-1]), [*range(several)])
    else:
        at = ()
    if array.dtype.kind == "U":
        longer = np.asarray(np.char.add(array, "x"))
        other = array.astype(longer.dtype)
        other[at] = longer[at]
    elif array.dtype == bool:
        other[at] = ~array[at]
    elif "loss" in name and array.dtype.kind == "i":
        other[at] += (20 + abs(array[at].astype(int)) // 4).astype(array.dtype)
    else:
        other[at] += 0.05 if "loss" in name or "gates" in name else 1
    return other


def noticed(result, part, name, array, smoke, folder):
    of = result.parts[part]
    other = dataclasses.replace(of, arrays={**of.raw, name: array})
    changed = dataclasses.replace(result, parts={part: other})
    try:
        quantities = found_again(changed, smoke, folder, n_texts=1000)  # which is all
    except (KeyError, IndexError, ValueError):  # no such head, lists of unequal length
        return True
    return not all(quantity.agrees for quantity in quantities)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ALWAYS else [pytest.mark.nightly])
        for name in (*ENCODER, *TRANSLATION, *LANGUAGE)
    ],
)
def test_whatever_is_wrong_is_noticed(name, smoke, tmp_path, drawn_seed):
    measurement, _, task = name.partition(" ")
    parts = PARTS.get(name) or PARTS.get(measurement)
    result = measurements.get(measurement, smoke, task=task or None, parts=parts)
    for n_texts in (None, 9):  # all, or some that are drawn
        quantities = found_again(result, smoke, tmp_path, n_texts=n_texts)
        assert [quantity for quantity in quantities if not quantity.agrees] == []
        assert len(quantities) >= len(result.parts)
    assert not tmp_path.exists()  # with the journals
    drawn, seen, unnoticed = np.random.default_rng(drawn_seed), set(), set()
    for part, outcomes in result.parts.items():
        for array in outcomes.raw:
            if array in seen or array.endswith(LEFT_OUT) or not outcomes.raw[array].size:
                continue
            seen |= {array} if "order" not in array else set()
            changed = wrong(array, outcomes.raw[array], drawn)
            if not noticed(result, part, array, changed, smoke, tmp_path):
                unnoticed.add((part, array))
    assert unnoticed == set()


def test_each_training_is_held_against_its_own_part(smoke, tmp_path):
    pre = dataclasses.replace(smoke, translation_model="pre-norm")
    result = measurements.get("table5", pre, parts=["outcomes", "training 6"])
    assert all(quantity.agrees for quantity in found_again(result, pre, tmp_path))
    raws = [part.raw for part in result.parts.values()][::-1]
    each = zip(result.parts.items(), raws, strict=True)
    exchanged = {name: dataclasses.replace(part, arrays=raw) for (name, part), raw in each}
    result = dataclasses.replace(result, parts=exchanged)
    assert not all(one.agrees for one in found_again(result, pre, tmp_path, n_texts=9))
    for part in result.parts.values():
        part.runs = [{**run, "weights_sha256": "0" * 64} for run in part.runs]
    with pytest.raises(
        NotAtHand, match=rf"was measured on {'0' * 64}\. Those weights are not committed"
    ):
        found_again(result, pre, tmp_path)


def test_the_bounds():
    def agrees(name, stored, found, **beside):
        both = ({name: values, **beside} for values in (stored, found))
        return all(one.agrees for one in compared(*both)[name])

    for n, agree in ((2, True), (3, False)):  # of 300 answers
        masks = np.ones((2, 300), bool)
        assert (
            agrees("correct", masks, np.array([[True], [False]]) | (np.arange(300) >= n)) == agree
        )
    for nats, agree in ((0.009, True), (0.011, False)):
        assert agrees("loss", np.full(9, 700), np.full(9, 700) + 1000 * nats) == agree
    counts, drafts = np.tile([9, 7, 5, 3, 10], (300, 1)), np.arange(300, 600)
    uncut = {"counts_uncut": counts, "draft_loss_uncut": np.zeros(300, int)}
    for n, agree in ((3, True), (4, False)):  # 1 in 100
        other, lost = counts.copy(), drafts + 20 * (np.arange(300) < n)
        other[:n, 3] -= 1
        assert agrees("counts_change", 0 * counts[None], (other - counts)[None], **uncut) == agree
        assert agrees("draft_loss_change", drafts[None], lost[None], **uncut) == agree
    other = counts.copy()
    other[:3] = 0  # three translations that are wrong altogether
    assert not agrees("counts_uncut", counts, other)
    rough = np.array([[640, 1280]])  # to five binary digits: the next ones are 660 and 1320
    assert agrees("loss_area", rough, rough + np.array([40, 80]))
    assert not agrees("loss_area", rough, rough + np.array([60, 0]))
    scores = np.array([[4.0, 1.0], [0.1, 0.2]])
    assert agrees("scores self", scores, scores + np.array([[0.003, 0], [0, 0.0001]]))
    assert not agrees("scores self", scores, scores + np.array([[0, 0], [0.003, 0]]))
    each = np.ones((300, 2, 2), np.float16)
    for off, agree in ((0.06, True), (0.1, False)):  # of one in 1,200
        other = each + off * (np.arange(1200) == 7).reshape(each.shape)
        assert agrees("each enc-enc", each, other) == agree
    order = np.array([[[0, 0], [0, 1], [1, 0], [1, 1]]])
    assert agrees("order", order, order[:, [0, 2, 1, 3]])
    for other in (order[:, [1, 2, 0, 3]], order[:, [0, 0, 2, 3]], order[:, :3]):
        assert not agrees("order", order, other)
