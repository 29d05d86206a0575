"""A model trained again has the stored numbers; where it has not, the command says so."""

import pytest
from ownmodels import run

from headprune_lib.replication import measurements, store
from headprune_lib.replication.measurements.obtaining import HALF_OF, results_folder
from headprune_lib.replication.models import encoders as weights
from headprune_lib.replication.paths import cache_root
from headprune_lib.replication.verification.retrained import verify


@pytest.fixture
def stored(smoke):
    """``stored(name, ...)``: the result of an artifact, changed on disk until the test is over."""
    kept = {}

    def change(name, *, raw=lambda raw: raw, other_weights=False):
        result = measurements.get(name, smoke)
        path = result.key.path(results_folder(smoke))
        kept.update({file: file.read_bytes() for file in path.parent.glob(f"{path.stem}.*")})
        for part in result.parts.values():
            part.arrays = raw(dict(part.raw))
            if other_weights:
                part.runs = [{**run, "weights_sha256": "0" * 64} for run in part.runs]
        store.save(result, results_folder(smoke))
        return result

    yield change
    for path, content in kept.items():
        path.write_bytes(content)


def upside_down(raw):
    return {name: ~values if name.startswith("correct") else values for name, values in raw.items()}


def by_name(done):
    return {quantity.name: quantity for quantity in done.quantities}


def test_the_same_training_ends_with_the_same_cells(smoke, stored, monkeypatch):
    result = stored("figure1b")
    path = HALF_OF["encoder"].weights_at_hand(smoke, smoke.task, {"seed": smoke.seed})
    before = path.stat().st_mtime_ns, path.read_bytes()
    done = verify("figure1b", smoke)
    assert done.agrees and done.key == result.key and len(done.quantities) == 1
    assert done.trained == done.measured == result.parts["outcomes"].runs[0]["weights_sha256"]
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    again = cache_root() / "verify" / "models" / path.name
    assert again.is_file() and again != path
    monkeypatch.setattr(weights, "finetune", None)  # it was trained, and is found
    assert verify("figure1b", smoke, drawn_seed=1).agrees
    assert not list((cache_root() / "verify" / "journals").glob("*"))
    stored("figure1b", raw=upside_down)
    assert not verify("figure1b", smoke).agrees


@pytest.mark.parametrize(
    ("name", "n", "change"),
    [
        ("figure1b", 2, "change of accuracy, mean of 8 masks"),
        ("figure3b", 4, "mean accuracy along the curve"),
        ("table1", 2, "change of BLEU, mean of 24 masks"),
        ("figure4", 12, "share that goes at 2%, enc-dec importance"),
    ],
)
def test_another_training_is_held_against_the_statistical_rule(smoke, stored, name, n, change):
    """It is the same one, called another: whatever is stored of it is found to the digit."""
    stored(name, other_weights=True)
    done = verify(name, smoke)
    assert done.agrees and done.measured == "0" * 64
    assert len(done.quantities) == n and change in by_name(done)
    for quantity in done.quantities:  # tiny sweeps and plain passes may differ in a rounding
        assert float(quantity.stored) == pytest.approx(float(quantity.found), abs=0.02)


def test_another_score_another_curve_and_another_importance_disagree(smoke, stored):
    stored("figure3b", raw=upside_down, other_weights=True)
    quantities = by_name(verify("figure3b", smoke))
    assert not quantities["accuracy, no head cut"].agrees
    assert not quantities["mean accuracy along the curve"].agrees
    assert quantities["rank of importance"].agrees
    stored("agreement", raw=lambda raw: raw | {"scores": -raw["scores"]}, other_weights=True)
    (rank,) = verify("agreement", smoke).quantities
    assert not rank.agrees and float(rank.found) == pytest.approx(-1)


def test_the_command_prints_a_table_and_ends_with_1_where_it_disagrees(smoke, stored):
    words = ("verify", "table1", "--profile", "smoke")
    stored("table1", other_weights=True)
    done = run(*words)
    assert done.exit_code == 0, done.output
    title, trained, header, first, second = done.stdout.splitlines()[-5:]
    assert title == f"one_head toy post-norm: measured on weights {'0' * 64}"
    assert trained.startswith("trained again: ")
    assert header.split()[-1] == "agrees" and "found again" in header
    assert first.endswith("yes") and second.endswith("yes")
    no_word_is_right = {"raw": lambda raw: raw | {"counts_uncut": 0 * raw["counts_uncut"]}}
    stored("table1", **no_word_is_right, other_weights=True)
    done = run(*words)
    assert done.exit_code == 1 and "NO" in done.output
