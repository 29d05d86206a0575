"""From a model and rows of text to what another program opens, by the command alone."""

import pytest
import transformers as t
from ownmodels import kept_in, language_model, run, told, translator

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
    said = told("export", smaller, plain)
    assert said["route"] == "uniform" and said["largest difference on random inputs"] < 1e-5
    loaded = t.AutoModelForSeq2SeqLM.from_pretrained(plain)
    assert {len(block.kept_heads) for block in find_heads(loaded)} == {2}
    assert t.AutoTokenizer.from_pretrained(plain)("good film").input_ids


@pytest.mark.parametrize(
    ("form", "package", "file", "said"),
    [
        pytest.param("onnx", "onnxscript", "model.onnx", "written to", marks=pytest.mark.slow),
        ("gguf", "gguf", "", "architecture: deci; tokenizer: none"),
    ],
)
def test_other_forms_take_what_no_configuration_does(tmp_path, form, package, file, said):
    pytest.importorskip(package, reason=f"the extra {form} is not installed")
    own = pruned(tmp_path / "model", language_model(), [("self", 1, 0), ("self", 1, 1)])
    refused = run("export", own, tmp_path / "plain")
    assert refused.exit_code == 2 and "--format onnx" in refused.output
    done = run("export", own, tmp_path / "out", "--format", form)
    assert done.exit_code == 0 and said in done.output, done.output
    assert (tmp_path / "out" / file).is_file()
