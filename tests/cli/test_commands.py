"""``inspect``, ``score`` and ``prune`` on folders as users have them."""

import json

import pytest
import torch
from ownmodels import classifier, kept_in, language_model, tokenizer, translator
from typer.testing import CliRunner

from headprune_lib import head_importance, load_pruned
from headprune_lib.cli import app
from headprune_lib.cli.loading import load_model
from headprune_lib.cli.measuring import measure, scores_table
from headprune_lib.cli.rows import make_own_batches, read_rows
from headprune_lib.replication.data import TASKS

LABELLED = "text\tlabel\nthe film is good\tpositive\nbad film\tnegative\na very dull plot\tnegative\n"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text(LABELLED)
    return path


def test_inspect_shows_every_layer(tmp_path):
    folder = kept_in(tmp_path / "model", language_model())
    rows = json.loads(run("inspect", folder, "--json").output)
    assert [(row["layer"], row["heads"], row["kept"], row["group"]) for row in rows] == [
        (1, 4, 4, 2), (2, 4, 4, 2)]
    assert "model.layers.1.self_attn" in run("inspect", folder).output


def test_score_is_exact_importance(tmp_path, labelled):
    folder, model = kept_in(tmp_path / "model", classifier()), classifier()
    rows = json.loads(run("score", folder, labelled, "--json").output)
    batches = make_own_batches(model, tokenizer(), read_rows(labelled), 2, 32)
    expected = scores_table(head_importance(model, batches))
    assert [(row["layer"], row["head"]) for row in rows] == list(
        zip(expected["layer"], expected["head"], strict=True))
    assert [row["importance"] for row in rows] == pytest.approx(list(expected["importance"]), rel=1e-4)


def test_prune_writes_a_folder_that_loads_and_prunes_further(tmp_path, labelled):
    folder, out = kept_in(tmp_path / "model", classifier()), tmp_path / "smaller"
    found = json.loads(run("prune", folder, labelled, out, "--amount", 0.5, "--json").output)
    assert (found["before"]["heads"], found["after"]["heads"]) == (8, 4)
    assert found["after"]["parameters"] < found["before"]["parameters"]
    model = load_pruned(out)
    batches = make_own_batches(model, tokenizer(), read_rows(labelled), 32, 128)
    assert found["after"]["loss"] == pytest.approx(measure(model, batches)["loss"], rel=1e-5)
    again = run("prune", out, labelled, tmp_path / "smallest", "--amount", 0.5, "--keep-at-least", 1)
    assert again.exit_code == 0 and "examples a second" in again.output
    left = [row["kept"] for row in json.loads(run("inspect", tmp_path / "smallest", "--json").output)]
    assert sum(left) == 2 or min(left) == 1


@pytest.mark.parametrize(("model", "text", "options"), [
    (language_model, "text\nthe film is good\nbad film\n", []),
    (translator, "source\ttarget\nbad film\tgood plot\n", ["--kind", "enc-enc"])])
def test_language_models_and_translators(tmp_path, model, text, options):
    folder, rows = kept_in(tmp_path / "model", model()), tmp_path / "rows.tsv"
    rows.write_text(text)
    result = run("prune", folder, rows, tmp_path / "out", "--amount", 0.5, *options)
    assert result.exit_code == 0, result.output
    kept = json.loads(run("inspect", tmp_path / "out", "--json").output)
    cut = {row["kind"] for row in kept if row["kept"] < row["heads"]}
    assert cut == ({"enc-enc"} if options else {"self"})
    with torch.no_grad():
        load_pruned(tmp_path / "out").generate(torch.tensor([[5, 6]]), max_new_tokens=3)


def test_quality_is_measured_on_another_file_if_given(tmp_path, labelled):
    folder, other = kept_in(tmp_path / "model", classifier()), tmp_path / "test.tsv"
    other.write_text("text\tlabel\ngood\tpositive\n")
    found = json.loads(run("prune", folder, labelled, tmp_path / "out", "--amount", 0,
                           "--test", other, "--json").output)
    assert found["measured_on"] == str(other) and found["before"]["accuracy"] in (0, 1)
    assert found["before"]["loss"] == found["after"]["loss"]


@pytest.mark.parametrize(("prepare", "options", "message"), [
    (lambda folder: (folder / "config.json").unlink(), (), "no config.json: give a folder"),
    (lambda folder: [path.unlink() for path in folder.glob("tokenizer*")], (), "no tokenizer beside"),
    (lambda folder: (folder / "model.safetensors").unlink(), (), "model.safetensors"),
    (lambda folder: None, ("--amount", 1.5), "--amount is 1.5; give the share"),
    (lambda folder: None, ("--kind", "enc-dec"), "no kind 'enc-dec' in Bert"),
    (lambda folder: (folder.parent / "rows.tsv").write_text("text\tlabel\na\tmaybe\n"), (),
     "label 'maybe' is none of the model's 2 classes"),
    (lambda folder: (folder.parent / "out").mkdir() or (folder.parent / "out/x").touch(), (),
     "is not overwritten"),
])
def test_bad_input_is_one_line_and_nothing_is_written(tmp_path, labelled, prepare, options, message):
    folder, out = kept_in(tmp_path / "model", classifier()), tmp_path / "out"
    prepare(folder)
    result = run("prune", folder, labelled, out, "--amount", 0.5, *options)
    assert result.exit_code == 2 and message in result.output
    assert result.stderr.startswith("headprune: ") and result.stderr.count("\n") == 1
    assert not out.exists() or list(out.iterdir()) == [out / "x"]


def test_a_folder_that_is_not_there_and_a_class_that_is_not_known(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        load_model(str(tmp_path / "nothing"))
    folder = kept_in(tmp_path / "model", classifier())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["OwnBert"]}))
    with pytest.raises(ValueError, match=r"names \['OwnBert'\], which transformers"):
        load_model(str(folder))


def test_the_committed_review_model_is_pruned(tmp_path):
    rows = TASKS["reviews"].load()["valid"].first(64)
    path, out = tmp_path / "rows.jsonl", tmp_path / "out"
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n"
                            for text, label in zip(rows.texts, rows.labels, strict=True)))
    found = json.loads(run("prune", "reviews", path, out, "--amount", 0.4, "--json").output)
    assert (found["before"]["heads"], found["after"]["heads"]) == (72, 44)
    assert found["after"]["parameters"] < found["before"]["parameters"]
    assert abs(found["after"]["accuracy"] - found["before"]["accuracy"]) < 0.15
    kept = json.loads(run("inspect", out, "--json").output)
    assert sum(row["kept"] for row in kept) == 44
