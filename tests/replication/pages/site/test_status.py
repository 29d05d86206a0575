"""The page on the status of results says what their files say."""

from headprune_lib.replication.pages.site.status import checked, rows_of, signature_line
from headprune_lib.replication.store import Part, Result


def part(weights="a", seconds=60.0, digest="0123456789", seed=1):
    parameters = {"task": "toy", "model": "tiny", "steps": 10, "n_examples": None}
    own = {"order": "importance", "needs": {}}
    return Part(
        {"digest": digest, "measurement": 3, "parameters": parameters, "own": own},
        [{"seed": seed, "weights_sha256": weights}],
        {
            "date": "2026-11-21T07:18:27+00:00",
            "hardware": {"cpu": "a processor", "cores": 2, "gpu": None},
            "packages": {"torch": "2.0", "transformers": "5.0"},
            "python": "3.11.7",
            "seconds": seconds,
        },
    )


def test_parts_that_were_measured_together_share_a_row_and_a_signature_is_a_line():
    parts = {"importance": part(), "random": part(seed=2, digest="fedcba98"), "late": part()}
    parts["late"] = part(seconds=90.0)
    values = ("pruning_curve", "sst2", "minilm", "default", "", 10, "accuracy", "", {}, "", parts)
    rows = list(rows_of(Result(*values), frozenset("a")))
    assert [row["minutes"] for row in rows] == ["1.0", "1.5"]
    assert rows[0]["result"] == "Figure 6a: MiniLM, SST-2"
    assert rows[0]["measured"] == "2026-11-21"
    assert rows[0]["versions"] == "Python 3.11.7, torch 2.0, transformers 5.0"
    line = signature_line([(name, parts[name]) for name in ("importance", "random")])
    assert line == "parts:importance,random|steps:10|seeds:1,2|version:3|sha256:01234567,fedcba98"


def test_what_is_checked_depends_on_the_committed_weights():
    assert checked(part(), frozenset("a")) == "yes"
    assert checked(part(), frozenset("b")) == "no: weights not committed"
    both = part()
    both.runs.append({"seed": 2, "weights_sha256": "b"})
    assert checked(both, frozenset("b")) == "1 of 2 trainings"
    both.runs = [{"seed": 1}]
    assert checked(both, frozenset("b")) == "no: weights not kept"
