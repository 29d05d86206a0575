"""Names of orders: what they say, and what is refused."""

import pytest

from headprune_lib.criteria import CRITERIA
from headprune_lib.replication.order_names import WAYS, read_name, tuned_in


def test_words_become_settings():
    named = read_name("importance-entropy alpha=0.25 low model words reversed")
    assert named.settings == {"alpha": 0.25, "low": True, "among": "model"}
    assert named.words and named.reverse and not named.rescored
    for name, normalize in [
        *(("importance", "l2"), ("importance unnormalised", None), ("fisher normalised", "l2")),
    ]:
        assert read_name(name).normalize == normalize
    for name in CRITERIA:
        for way in ("unnormalised", "normalised", "reversed", "rescored"):
            assert way in WAYS and read_name(f"{name} {way}").criterion.name == name
    assert tuned_in("importance-entropy alpha=0.5 tuned") == ("importance-entropy alpha=0.5", True)
    for name in ("importance", "importance tuned rescored", "tuned", " tuned"):
        assert tuned_in(name) == (name, False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fisher low", "'fisher low' says low, of which fisher knows nothing"),
        ("importance-entropy alpha=2", "give alpha=0 to alpha=1"),
        ("importance twice", "unknown order 'importance twice'"),
        ("importance tuned", "says tuned: gates are fitted, by tuned as the last word"),
    ],
)
def test_what_a_criterion_does_not_know_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        read_name(name)
