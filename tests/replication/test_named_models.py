"""Tasks of the project as names of models; nothing is trained for them."""

import json

import pytest
from typer.testing import CliRunner

from headprune_lib.replication.cli import app, named_models
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.encoder import weights


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_other_names_are_left_to_others():
    assert named_models.resolve("bert-base-uncased") is None


def test_a_task_without_weights_is_not_trained(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    monkeypatch.setattr(weights, "models_root", lambda: tmp_path)
    monkeypatch.setattr(weights, "finetune", lambda *_: pytest.fail("trained"))
    result = run("inspect", "synthetic")
    assert result.exit_code == 2
    assert "no weights of synthetic are stored here; `headprune train synthetic`" in result.stderr


def test_a_translation_model_is_inspected_and_not_scored(tmp_path):
    rows = json.loads(run("inspect", "enfr", "--json").output)
    assert {row["kind"] for row in rows} == {"enc-enc", "enc-dec", "dec-dec"}
    result = run("score", "enfr", tmp_path / "rows.tsv")
    assert result.exit_code == 2 and "pieces of its own vocabulary" in result.stderr


def test_a_folder_of_the_name_goes_first(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews").mkdir()
    assert "reviews/config.json is missing" in run("inspect", "reviews").stderr


@pytest.mark.slow
def test_the_committed_review_model_is_pruned(tmp_path):
    rows = TASKS["reviews"].load()["valid"].first(64)
    path, out = tmp_path / "rows.jsonl", tmp_path / "out"
    path.write_text(
        "".join(
            json.dumps({"text": text, "label": label}) + "\n"
            for text, label in zip(rows.texts, rows.labels, strict=True)
        )
    )
    found = json.loads(run("prune", "reviews", path, out, "--amount", 0.4, "--json").output)
    assert (found["before"]["heads"], found["after"]["heads"]) == (72, 44)
    assert found["after"]["parameters"] < found["before"]["parameters"]
    assert abs(found["after"]["accuracy"] - found["before"]["accuracy"]) < 0.15
    kept = json.loads(run("inspect", out, "--json").output)
    assert sum(row["kept"] for row in kept) == 44
