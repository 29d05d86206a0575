"""The page on the status of results says what their files say."""

from headprune_lib.replication.pages.site.status import checked
from headprune_lib.replication.store import Part


def part(*runs):
    parameters = {"task": "toy", "model": "tiny"}
    return Part({"digest": "0123456789", "measurement": 3, "parameters": parameters}, [*runs], {})


def test_what_is_checked_depends_on_the_committed_weights():
    kept, lost = ({"seed": seed, "weights_sha256": sha} for seed, sha in ((1, "a"), (2, "b")))
    assert checked(part(kept), frozenset("a")) == "yes"
    assert checked(part(lost), frozenset("a")) == "no: weights not committed"
    assert checked(part(kept, lost), frozenset("a")) == "1 of 2 trainings"
    assert checked(part({"seed": 1}), frozenset("a")) == "no: weights not kept"
