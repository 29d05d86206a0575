"""Names of parts and of orders: what they say; how others are refused, ``test_cli.py`` has."""

import pytest

from headprune_lib.criteria import CRITERIA
from headprune_lib.replication.order_names import WAYS, parse_part, read_name


def test_words_become_settings():
    named = read_name("importance-entropy alpha=0.25 low model words reversed")
    assert named.settings == {"alpha": 0.25, "low": True, "among": "model"}
    assert named.words and named.reverse and not named.rescored
    normalize = {"importance": "l2", "importance unnormalised": None, "fisher normalised": "l2"}
    assert {name: read_name(name).normalize for name in normalize} == normalize
    for name in CRITERIA:
        for way in ("unnormalised", "normalised", "reversed", "rescored"):
            assert way in WAYS and read_name(f"{name} {way}").criterion.name == name


@pytest.mark.parametrize(
    ("name", "says", "expected"),
    [
        ("importance", (), {}),
        ("importance training 3", (), {"curve": "importance", "training": 3}),
        ("training 2", (), {"curve": "", "order": "", "training": 2}),
        ("entropy training x", (), {}),
        ("enc-dec random training 6", ("kind",), {"curve": "enc-dec random", "kind": "enc-dec"}),
        ("enc-dec random", (), {"order": "enc-dec random"}),  # which is refused as an order
        ("fisher alpha=0.5 tuned", ("tuned",), {"order": "fisher alpha=0.5", "tuned": True}),
        ("fisher tuned rescored", ("tuned",), {}),
        ("tuned", ("tuned",), {}),
        ("fisher whole groups", ("groups",), {"order": "fisher", "groups": "whole groups"}),
        ("random 40% all weights", ("share",), {"share": 0.4, "way": "all weights"}),
        ("removed 0%", ("share",), {"order": "removed", "share": 0.0}),
        ("removed %", ("share",), {}),
    ],
)
def test_a_name_says_what_its_measurement_lets_it_say(name, says, expected):
    found = parse_part(name, *says)._asdict()
    plain = {"curve": name, "order": name, "training": None, "tuned": False}
    assert {what: found[what] for what in expected} == expected
    if not expected:
        assert {what: found[what] for what in plain} == plain
