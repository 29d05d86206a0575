"""The answers about a language model, on made-up values that come out each way."""

import pytest

from headprune_lib.replication.claims.rules.language import one_at_a_time, together


def curve(low, high):
    values = {"kept": [1.0, (low + high) / 2], "kept_interval": [[1, 1], [low, high]]}
    return {"shares": [0.0, 0.2], "curves": {"importance": values}}


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [(0.95, 0.99, "there"), (0.9, 0.94, "not there"), (0.9, 0.95, "open"), (0.94, 0.96, "open")],
)
def test_together(low, high, answer):
    assert together(curve(low, high)).answer == answer


def test_a_model_that_knows_no_more_than_frequencies_has_nothing_to_keep():
    values = curve(0.9, 0.95)
    values["curves"]["importance"] = {"kept": [0, 0], "kept_interval": [[0, 0], [0, 0]]}
    assert (together(values).answer, together(values).kept) == ("open", None)


def heads(removable, needed, unsure):
    spans = [[-0.01, 0.01]] * removable + [[0.011, 0.02]] * needed + [[0.0, 0.02]] * unsure
    return {"heads": [{"interval": span} for span in spans]}


@pytest.mark.parametrize(
    ("counts", "answer"),
    [((8, 0, 2), "there"), ((7, 3, 0), "not there"), ((7, 2, 1), "open"), ((8, 2, 0), "there")],
)
def test_one_at_a_time(counts, answer):
    found = one_at_a_time(heads(*counts))
    assert (found.removable, found.needed, found.heads) == (*counts[:2], 10)
    assert found.answer == answer
