"""The rule for training after the cut, on made-up leads."""

import pytest

from headprune_lib.replication.claims.recovery import HARDLY, decide, word_of


def values(interval, **other):
    lead = {"order": "importance", "share": 0.4, "way": "all weights"} | other
    before = {"difference": 0.1, "interval": [0.08, 0.12]}
    after = {"difference": sum(interval) / 2, "interval": list(interval)}
    return {"leads": [lead | {"before": before, "after": after}]}


@pytest.mark.parametrize(
    ("interval", "word"),
    [
        ((0.001, 0.03), "still matters"),
        ((-0.03, -0.001), "random is better"),
        ((-HARDLY, HARDLY), "hardly matters"),
        ((-0.005, 0.011), "open"),
        ((-0.011, 0.005), "open"),
    ],
)
def test_each_word(interval, word):
    answer = decide(values(interval))
    assert answer.word == word == word_of(interval)
    assert answer.before == (0.1, 0.08, 0.12) and answer.after[1:] == interval


@pytest.mark.parametrize(
    "other", [{"share": 0.6}, {"way": "LoRA"}, {"order": "importance rescored"}]
)
def test_nothing_else_decides(other):
    assert decide(values((0.01, 0.02), **other)).word == "not run"
    assert decide(None).word == decide({"leads": []}).word == "not run"
