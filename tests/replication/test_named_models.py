"""Tasks of the project as names of models; nothing is trained for them."""

import json

import pytest
from typer.testing import CliRunner

from headprune_lib.replication.cli import app, named_models
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
def test_the_committed_translator_is_inspected_and_not_scored(tmp_path):
    kinds = {row["kind"] for row in json.loads(run("inspect", "enfr", "--json").output)}
    assert kinds == {"enc-enc", "enc-dec", "dec-dec"}
    result = run("score", "enfr", tmp_path / "rows.tsv")
    assert result.exit_code == 2 and "pieces of its own vocabulary" in result.stderr
