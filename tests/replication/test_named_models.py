"""Tasks of the project as names of models; nothing is trained for them."""

import json

import pytest
from typer.testing import CliRunner

from headprune_lib.replication.cli import app, named_models
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.models import encoders as weights


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_name_is_a_folder_or_what_is_stored_and_nothing_is_trained(monkeypatch, tmp_path):
    assert "bert-base-uncased" not in named_models.named_models()
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    monkeypatch.setattr(weights, "models_root", lambda: tmp_path)
    monkeypatch.setattr(weights, "finetune", lambda *_: pytest.fail("trained"))
    result = run("inspect", "synthetic")
    assert result.exit_code == 2
    assert "no weights of synthetic are stored here; `headprune train synthetic`" in result.stderr
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews").mkdir()
    assert "reviews/config.json is missing" in run("inspect", "reviews").stderr


@pytest.mark.slow
def test_the_committed_models_are_pruned_or_inspected(tmp_path):
    kinds = {row["kind"] for row in json.loads(run("inspect", "enfr", "--json").output)}
    assert kinds == {"enc-enc", "enc-dec", "dec-dec"}
    result = run("score", "enfr", tmp_path / "rows.tsv")
    assert result.exit_code == 2 and "pieces of its own vocabulary" in result.stderr
    rows = TASKS["reviews"].load()["valid"].first(64)
    path, out = tmp_path / "rows.jsonl", tmp_path / "out"
    pairs = zip(rows.texts, rows.labels, strict=True)
    path.write_text("\n".join(json.dumps({"text": text, "label": label}) for text, label in pairs))
    told = json.loads(run("prune", "reviews", path, out, "--amount", 0.4, "--json").output)
    before, after = told["before"], told["after"]
    assert (before["heads"], after["heads"]) == (72, 44)
    assert after["parameters"] < before["parameters"]
    assert abs(after["accuracy"] - before["accuracy"]) < 0.15
    kept = json.loads(run("inspect", out, "--json").output)
    assert sum(row["kept"] for row in kept) == 44
