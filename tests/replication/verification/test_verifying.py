"""A model trained again has the stored numbers; where it has not, the command says so."""

import dataclasses

import pytest
from typer.testing import CliRunner

from headprune_lib.replication import measurements, store
from headprune_lib.replication.cli import app
from headprune_lib.replication.encoder import weights
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.measurements.trained import weights_at_hand
from headprune_lib.replication.paths import cache_root
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store import Key
from headprune_lib.replication.verification.another_training import COMPARABLE
from headprune_lib.replication.verification.sheets import _READERS
from headprune_lib.replication.verification.verifying import verify


@pytest.fixture
def stored(smoke):
    """``stored(name, ...)``: the result of an artifact, changed on disk until the test is over."""
    kept = {}

    def change(name, *, raw=lambda raw: raw, other_weights=False):
        result = measurements.get(name, smoke)
        path = result.key.path(results_folder(smoke))
        kept.update({one: one.read_bytes() for one in path.parent.glob(f"{path.stem}.*")})
        for part in result.parts.values():
            part.raw = raw(dict(part.raw))
            if other_weights:
                part.runs = [{**run, "weights_sha256": "0" * 64} for run in part.runs]
        store.save(result, results_folder(smoke))
        return result

    yield change
    for path, content in kept.items():
        path.write_bytes(content)


def upside_down(raw):
    return {name: ~values if name.startswith("correct") else values for name, values in raw.items()}


def shorter(raw):
    """Translations of which no word is right."""
    return {name: values * (name != "counts_uncut") for name, values in raw.items()}


def by_name(done):
    return {one.name: one for one in done.quantities}


def test_the_same_training_ends_with_the_same_cells(smoke, stored, monkeypatch):
    result = stored("figure1b")
    path = weights_at_hand("encoder", smoke, smoke.task, {"seed": smoke.seed})
    before = path.stat().st_mtime_ns, path.read_bytes()
    done = verify("figure1b", smoke)
    assert done.agrees and done.key == result.key and len(done.quantities) == 4
    assert done.trained == done.measured == result.parts["outcomes"].runs[0]["weights_sha256"]
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    again = cache_root() / "verify" / "models" / path.name
    assert again.is_file() and again != path
    monkeypatch.setattr(weights, "finetune", None)  # it was trained, and is found
    assert verify("figure1b", smoke, drawn_seed=1).agrees
    assert not list((cache_root() / "verify" / "journals").glob("*"))


def test_on_the_same_weights_a_changed_cell_disagrees(smoke, stored):
    stored("figure1b", raw=upside_down)
    done = verify("figure1b", smoke)
    assert not any(one.agrees for one in done.quantities)
    assert "2 answers" in done.quantities[0].bound


@pytest.mark.parametrize(
    ("name", "quantities"),
    [
        ("figure1b", ["accuracy, no head cut", "change of accuracy, mean of 8 masks"]),
        (
            "figure3b",
            [
                "accuracy, no head cut",
                "mean accuracy along the curve, importance",
                "share that goes at 2%, importance",
                "rank of importance",
            ],
        ),
        ("agreement", ["rank of importance"]),
        ("table1", ["BLEU, no head cut", "change of BLEU, mean of 12 masks"]),
        (
            "figure4",
            [
                "BLEU, no head cut",
                *(
                    f"{what}, {kind} importance"
                    for kind in ("enc-enc", "enc-dec", "dec-dec")
                    for what in ("mean BLEU along the curve", "share that goes at 2%")
                ),
                "rank of importance",
            ],
        ),
        ("quality", ["BLEU, no head cut"]),
    ],
)
def test_another_training_is_held_against_the_statistical_rule(smoke, stored, name, quantities):
    """It is the same one, called another: whatever is stored of it is found to the digit."""
    stored(name, other_weights=True)
    done = verify(name, smoke)
    assert done.agrees and done.measured == "0" * 64
    found = by_name(done)
    assert list(found) == quantities
    for one in (found[quantity] for quantity in quantities):
        # tiny sweeps and plain passes may differ in a rounding
        assert float(one.stored) == pytest.approx(float(one.found), abs=0.02)


def test_another_score_another_curve_and_another_importance_disagree(smoke, stored):
    stored("figure3b", raw=upside_down, other_weights=True)
    found = by_name(verify("figure3b", smoke))
    assert not found["accuracy, no head cut"].agrees
    assert not found["mean accuracy along the curve, importance"].agrees
    assert found["rank of importance"].agrees


def test_other_importance_disagrees(smoke, stored):
    def reversed_scores(raw):
        return raw | ({"scores": -raw["scores"]} if "scores" in raw else {})

    stored("agreement", raw=reversed_scores, other_weights=True)
    (rank,) = verify("agreement", smoke).quantities
    assert not rank.agrees and float(rank.found) == pytest.approx(-1)


def test_the_command_prints_a_table_and_ends_with_1_where_it_disagrees(smoke, stored):
    words = ["verify", "table1", "--profile", "smoke"]
    stored("table1", other_weights=True)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    title, trained, header, first, second = done.stdout.splitlines()[-5:]
    assert title == f"one_head toy post-norm: measured on weights {'0' * 64}"
    assert trained.startswith("trained again: ")
    assert header.split()[-1] == "agrees" and "found again" in header
    assert first.endswith("yes") and second.endswith("yes")
    stored("table1", raw=shorter, other_weights=True)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1 and "NO" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["figure1", "--profile", "smoke"], "unknown artifact 'figure1': did you mean"),
        (["one_head", "--profile", "smoke", "--task", "synthetic-words"], "measure it with: "),
        (["table4", "--profile", "smoke"], "speed holds nothing that another training must"),
        (["figure5", "--profile", "smoke"], "along_training holds nothing"),
    ],
)
def test_refusals(smoke, words, message):
    for name in ("table4", "figure5"):
        measurements.get(name, smoke)
    done = CliRunner().invoke(app, ["verify", *words])
    assert done.exit_code == 2 and message in done.output


def test_a_result_of_another_recipe_is_refused(smoke, stored):
    stored("figure1b")
    other = dataclasses.replace(
        smoke, finetuning=dataclasses.replace(smoke.finetuning, learning_rate=1.0)
    )
    with pytest.raises(ValueError, match="measured with another recipe than would be used now"):
        verify("figure1b", other)


def test_what_can_be_compared_is_what_can_be_read():
    alone = {"along_training", "precision", "which_first", "scoring_examples"}
    alone |= {"recovery"}  # one model, before it was trained again
    readable = {name for name, _ in _READERS} - alone
    assert readable | {"agreement"} == COMPARABLE
    others = {"along_training", "precision", "recipes", "speed", "which_first"}
    others |= {"recovery"}
    others |= {"language_curve", "language_heads", "language_recovery"}  # nobody trains the model
    others |= {"head_roles", "scoring_examples", "stability"}  # of scores, on one training
    assert {key.measurement for key in store.find()} <= COMPARABLE | others == {*MEASUREMENTS}


def test_a_missing_result_names_what_measures_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="no stored result .*headprune reproduce one_head"):
        verify("figure1b", load_profile("smoke"))
    assert Key("one_head", "synthetic", "tiny").path(tmp_path).exists() is False
