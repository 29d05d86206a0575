"""From a model and rows of text to what another program opens, by the command alone."""

import json

import pytest
import torch
import transformers as t
from ownmodels import classifier, kept_in, language_model, run, translator

from headprune_lib import find_heads, head_mask, prune_heads, save_pruned


def pruned(folder, model, heads):
    save_pruned(prune_heads(model, head_mask(model, heads)), folder)
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
    assert {len(block.kept_heads) for block in find_heads(loaded)} == {2}
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
