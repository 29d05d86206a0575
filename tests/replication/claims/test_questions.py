"""The questions beyond the claims, on made-up values that come out each way."""

import pytest
import scipy.stats

from headprune_lib.replication.claims.questions import (
    CONDITION,
    FAMILY,
    decide_contrasts,
    redundancy,
    single_heads,
)

COMBINED = FAMILY[0]


def values(**areas):
    """Values of a task: contrast -> (value, error), by the first word of its name."""
    names = {name.partition(" ")[0]: name for name in FAMILY}
    names["control"] = CONDITION[COMBINED]
    return {
        "least_above_chance": 0.2,
        "contrasts": {
            names[short]: {
                what: {"value": value, "interval": [0, 0], "error": error}
                for what in ("area", "loss")
            }
            for short, (value, error) in areas.items()
        },
    }


def by_name(**found):
    return {contrast.name: contrast for contrast in decide_contrasts(found)}


@pytest.mark.parametrize(
    ("name", "areas", "word"),
    [
        (FAMILY[1], {"entropy": (0.1, 0.02)}, "better"),
        (FAMILY[1], {"entropy": (-0.1, 0.02)}, "worse"),
        (FAMILY[1], {"entropy": (0.03, 0.02)}, "no difference shown"),
        (FAMILY[2], {"entropy": (0.1, 0.02)}, "not run"),
        # the combined order must beat its control too
        (COMBINED, {"combined": (0.1, 0.02), "control": (0.05, 0.01)}, "better"),
        (COMBINED, {"combined": (0.1, 0.02), "control": (0.01, 0.01)}, "no difference shown"),
        (COMBINED, {"combined": (0.1, 0.02)}, "no difference shown"),
        (COMBINED, {"combined": (-0.1, 0.02), "control": (0.01, 0.01)}, "worse"),
        (COMBINED, {"combined": (-0.1, 0.02)}, "worse"),
    ],
)
def test_words_of_contrasts(name, areas, word):
    assert by_name(sst2=values(**areas))[name].word == word
    assert {contrast.word for contrast in by_name().values()} == {"not run"}


def test_tasks_are_pooled_as_independent_and_p_is_corrected():
    found = by_name(
        sst2=values(entropy=(0.1, 0.03), scored=(0.02, 0.009), combined=(0.0, 0.1)),
        cola=values(entropy=(0.3, 0.04), scored=(0.02, 0.009)),
    )
    entropy, scored, combined = (found[name] for name in (FAMILY[1], FAMILY[2], COMBINED))
    assert entropy.value == pytest.approx(0.2) and entropy.tasks == ("sst2", "cola")
    error = (0.03**2 + 0.04**2) ** 0.5 / 2
    assert entropy.interval == pytest.approx((0.2 - 1.96 * error, 0.2 + 1.96 * error), abs=1e-4)
    assert entropy.p == pytest.approx(2 * scipy.stats.norm.sf(0.2 / error))
    assert combined.tasks == ("sst2",) and combined.p == 1
    # Holm: the smallest of three by 3, the next by 2
    assert (entropy.p_holm, scored.p_holm) == pytest.approx((3 * entropy.p, 2 * scored.p))
    assert scored.loss[0] == pytest.approx(0.02)


def test_a_task_with_nothing_above_chance_is_left_out():
    weak = values(entropy=(-3.0, 1.0)) | {"least_above_chance": 0.0}
    entropy = by_name(sst2=values(entropy=(0.1, 0.02)), mrpc=weak)[FAMILY[1]]
    assert (entropy.tasks, entropy.word, entropy.value) == (("sst2",), "better", 0.1)
    assert by_name(mrpc=weak)[FAMILY[1]].word == "not run"


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (0.95, 0.99, "redundant"),
        (0.9, 0.94, "not redundant"),
        (0.9, 0.95, "open"),
        (0.94, 0.96, "open"),
    ],
)
def test_redundancy_of_a_language_model(low, high, answer):
    curve = {"kept": [1.0, (low + high) / 2], "kept_interval": [[1, 1], [low, high]]}
    values = {"shares": [0.0, 0.2], "curves": {"importance": curve}}
    assert redundancy(values).answer == answer
    curve["kept"] = [None, None]  # it knows no more than frequencies, and has nothing to keep
    assert (redundancy(values).answer, redundancy(values).kept) == ("open", None)


@pytest.mark.parametrize(
    ("counts", "answer"),
    [
        ((8, 0, 2), "redundant"),
        ((7, 3, 0), "not redundant"),
        ((7, 2, 1), "open"),
        ((8, 2, 0), "redundant"),
    ],
)
def test_single_heads_of_a_language_model(counts, answer):
    spans = [-0.01, 0.01], [0.011, 0.02], [0.0, 0.02]  # removable, needed, unsure
    heads = [{"interval": span} for span, n in zip(spans, counts, strict=True) for _ in range(n)]
    found = single_heads({"heads": heads})
    assert (found.answer, found.removable, found.needed, found.heads) == (answer, *counts[:2], 10)
