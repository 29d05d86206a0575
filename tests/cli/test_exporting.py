"""From a model and rows of text to what another program opens, by the command alone."""

import json

import pytest
import torch
import transformers as t
from ownmodels import classifier, kept_in, language_model, translator
from typer.testing import CliRunner

from headprune_lib import cut_heads, find_heads, prune_heads, save_pruned
from headprune_lib.cli import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def pruned(folder, model, heads):
    save_pruned(prune_heads(model, cut_heads(model, heads)), folder)
    return folder


@pytest.mark.slow
def test_prune_uniform_then_export_then_plain_transformers(tmp_path):
    whole, rows, smaller, plain = (tmp_path / name for name in ("own", "rows.tsv", "out", "plain"))
    kept_in(whole, translator())
    rows.write_text("source\ttarget\ngood\tbad\nbad film\tgood\n")
    done = run("prune", whole, rows, smaller, "--amount", "0.5", "--uniform")
    assert done.exit_code == 0, done.output
    done = run("export", smaller, plain, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    assert said["route"] == "uniform" and said["largest difference on random inputs"] < 1e-5
    loaded = t.AutoModelForSeq2SeqLM.from_pretrained(plain)
    assert {len(block.kept) for block in find_heads(loaded)} == {2}
    assert t.AutoTokenizer.from_pretrained(plain)("good film").input_ids


@pytest.mark.slow
def test_onnx_takes_what_no_configuration_does(tmp_path):
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    model = classifier()
    own = pruned(tmp_path / "model", model, [("self", 0, 0), ("self", 0, 1)])
    refused = run("export", own, tmp_path / "plain")
    assert refused.exit_code == 2 and "--format onnx" in refused.output
    done = run("export", own, tmp_path / "out", "--format", "onnx")
    assert done.exit_code == 0, done.output
    assert "written to" in done.output
    session = runtime.InferenceSession(str(tmp_path / "out" / "model.onnx"))
    ids = torch.randint(4, 60, (4, 6))
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    made = session.run(None, {one.name: given[one.name].numpy() for one in session.get_inputs()})
    with torch.no_grad():
        torch.testing.assert_close(
            torch.from_numpy(made[0]), model(**given).logits, rtol=0, atol=1e-4
        )


def test_gguf_is_a_file(tmp_path):
    pytest.importorskip("gguf", reason="the extra gguf is not installed")
    own = pruned(tmp_path / "model", language_model(), [("self", 1, 0), ("self", 1, 1)])
    done = run("export", own, tmp_path / "out.gguf", "--format", "gguf")
    assert done.exit_code == 0, done.output
    assert "architecture: deci; tokenizer: none" in done.output
    assert (tmp_path / "out.gguf").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{model}", "{there}"], "exists and is not overwritten"),
        (["{model}", "{out}", "--tokenizer-from", "x.gguf"], "is for --format gguf"),
        (["{tmp}/none", "{out}"], "no folder"),
        (["{model}", "{out}"], "no configuration of BertForSequenceClassification says 3 heads"),
        (["{uneven}", "{out}"], "takes no other number"),
        (["{model}", "{out}", "--format", "gguf"], "no architecture in llama.cpp"),
        (["{model}", "{out}", "--format", "gguf", "--tokenizer-from", "{tmp}/x"], "no file"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(words, message, tmp_path):
    places = {"tmp": tmp_path, "out": tmp_path / "out", "there": tmp_path / "there"}
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "note").touch()
    wanted = {place.partition("}")[0][1:] for place in words}
    if "model" in wanted:
        heads = [("self", layer, 0) for layer in range(2)]
        places["model"] = pruned(tmp_path / "model", classifier(), heads)
    if "uneven" in wanted:
        places["uneven"] = pruned(tmp_path / "uneven", classifier(), [("self", 0, 0)])
    done = run("export", *[word.format(**places) for word in words])
    assert done.exit_code == 2, done.output
    lines = done.output.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("headprune: ") and message in lines[0]
    assert not (tmp_path / "out").exists()
