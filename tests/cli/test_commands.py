"""``inspect``, ``score``, ``prune`` and ``export`` on folders as users have them."""

import sys
from pathlib import Path

import pytest
import sacrebleu
import torch
from ownmodels import bloom, classifier, kept_in, language_model, run, tokenizer, told, translator
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerBase

import headprune_lib as hp
from headprune_lib import saving
from headprune_lib.ablation import masked_logits
from headprune_lib.attention import eager_attention
from headprune_lib.cli.data import make_batches, read_rows
from headprune_lib.cli.models import load_model
from headprune_lib.cli.quality import bleu, check_bleu, measure
from headprune_lib.criteria import CRITERIA


def test_confidence_leaves_the_tokenizers_end_mark_out(folder, labelled):
    words = tokenizer()
    words.eos_token = words.convert_ids_to_tokens(3)  # which it puts at the end of each text
    words.save_pretrained(folder)
    rows = told("score", folder, labelled, "--by", "confidence")
    model = load_model(str(folder))
    batches = make_batches(model, words, read_rows(labelled, "classification"), 32, 128)
    with eager_attention(model):
        left_out, counted = (
            hp.score_heads(model, batches, "confidence", leave_out=ids)["self"].flatten()
            for ids in ([words.eos_token_id], [])
        )
    found = torch.tensor([row["confidence"] for row in rows]).double()
    torch.testing.assert_close(found, left_out.sort().values, rtol=1e-4, atol=1e-6)
    assert (left_out < counted - 1e-3).any(), "the end mark is nobody's greatest"


def test_prune_folds_gates_that_are_fitted_on_the_text_that_scores(
    tmp_path, folder, labelled, batches_of
):
    model, batches = classifier(), batches_of(labelled)
    result = run("prune", folder, labelled, tmp_path / "tuned", "--amount", 0.5, "--tune-mask")
    assert f"gates of the remaining heads were fitted on {labelled}" in result.output
    plain = told("prune", folder, labelled, tmp_path / "plain", "--amount", 0.5)
    assert plain["mask_tuned"] is False
    mask = hp.prune_mask(model, hp.score_heads(model, batches), 0.5)
    gates = hp.tune_mask(model, mask, batches)
    for name, factors in (("tuned", gates), ("plain", mask)):
        (expected,) = masked_logits(model, batches, factors)
        (found,) = masked_logits(hp.load_pruned(tmp_path / name), batches)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(gates["self"], mask["self"].double(), atol=1e-2)


def test_bleu_is_sacrebleus_of_each_models_own_translations(tmp_path):
    folder, rows, test = (tmp_path / name for name in ("model", "rows.tsv", "test.tsv"))
    model, pieces = translator(), tokenizer()
    torch.manual_seed(3)
    torch.nn.init.normal_(model.shared.weight[: len(pieces)])  # it says something now
    kept_in(folder, model)
    rows.write_text("source\ttarget\nbad film\tgood plot\n")
    sources = ["a very dull plot", "good", "bad film"]
    ids = [pieces(text, return_tensors="pt").input_ids for text in sources]
    made = [model.generate(each, max_new_tokens=12)[0] for each in ids]
    translated = pieces.batch_decode(made, skip_special_tokens=True)
    references = [translated[0], "the film", translated[2]]
    lines = [f"{one}\t{other}" for one, other in zip(sources, references, strict=True)]
    test.write_text("\n".join(["source\ttarget", *lines]) + "\n")
    words = ["prune", folder, rows, tmp_path / "out", "--amount", 0.5, "--kind", "enc-enc"]
    words += ["--test", test, "--bleu", "--batch-size", 2, "--max-length", 12]
    found = told(*words)
    assert kept_heads(tmp_path / "out") == [2, 2, 4, 4, 4, 4]
    expected = sacrebleu.corpus_bleu(translated, [references]).score
    assert 0 < expected < 100
    assert found["before"]["bleu"] == pytest.approx(expected)
    pruned = hp.load_pruned(tmp_path / "out")
    one_by_one = bleu(pruned, pieces, read_rows(test, "translation"), 1, 12)
    assert found["after"]["bleu"] == pytest.approx(one_by_one)


@pytest.mark.parametrize(
    ("place", "name"),
    [(PreTrainedTokenizerBase, "save_pretrained"), (saving, "save_file"), (Path, "replace")],
)
def test_a_disk_that_is_full_leaves_no_folder_and_the_rerun_works(
    place, name, tmp_path, folder, labelled, monkeypatch
):
    def full(*_given, **_named):
        raise OSError(28, "No space left on device")

    words = ("prune", folder, labelled, tmp_path / "out", "--amount", 0.5)
    with monkeypatch.context() as patch:
        patch.setattr(place, name, full)
        result = run(*words)
    assert result.exit_code == 2 and "No space left" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "rows.tsv"]
    assert run(*words).exit_code == 0


@pytest.mark.parametrize(
    ("options", "by", "settings"),
    [
        (["--normalize", "none"], "importance", {"normalize": None}),
        (["--by", "importance-token", "--normalize", "l2"], "importance-token", {}),
        (["--by", "entropy"], "entropy", {}),
        (["--by", "second-order"], "second-order", {}),  # sdpa has no fused second derivative
    ],
)
def test_score_is_a_criterion_in_a_column_of_its_name(
    folder, labelled, batches_of, options, by, settings
):
    """Rows are in order of rising score, under the eager kernel if attention weights are read."""
    model = classifier()
    assert model.config._attn_implementation == "sdpa"  # transformers' choice
    rows = told("score", folder, labelled, *options)
    scores = hp.score_heads(model, batches_of(labelled), by, **settings)["self"]
    assert list(rows[0]) == ["kind", "layer", "head", by] and len(rows) == 8
    found = [row[by] for row in rows]
    assert found == sorted(found) and len(set(found)) > 1
    expected = [float(scores[row["layer"] - 1, row["head"] - 1]) for row in rows]
    assert found == pytest.approx(expected, rel=1e-4)


def test_criteria_are_listed():
    names = [row["name"] for row in told("criteria")]
    assert names == sorted(CRITERIA)
    listed = run("criteria").output
    assert "Greatest attention weight of each query, end marks left out." in listed
    assert max(map(len, listed.splitlines())) <= 100


def test_prune_by_a_criterion_cuts_what_it_scores_lowest_in_a_folder_that_loads(
    tmp_path, folder, labelled, batches_of
):
    out, last = tmp_path / "out", tmp_path / "2"
    rows = told("score", folder, labelled, "--by", "fisher")
    other = tmp_path / "test.tsv"
    other.write_text("text\tlabel\ngood\tpositive\n")
    words = ("--by", "fisher", "--amount", 0.5, "--test", other)
    found = told("prune", folder, labelled, out, *words)
    assert (found["by"], found["measured_on"]) == ("fisher", str(other))
    assert (found["before"]["heads"], found["after"]["heads"]) == (8, 4)
    assert found["after"]["parameters"] < found["before"]["parameters"]
    kept = [sorted(r["head"] for r in rows[4:] if r["layer"] == layer) for layer in (1, 2)]
    assert [r["kept heads"] for r in told("inspect", out)] == kept
    assert max(map(len, run("inspect", out).output.splitlines())) <= 100
    model = hp.load_pruned(out)
    measured = measure({"it": model}, batches_of(other))["it"]
    assert found["after"]["loss"] == pytest.approx(measured["loss"], rel=1e-5)
    again = run("prune", out, labelled, last, "--amount", 0.5, "--keep-at-least", 1)
    assert again.exit_code == 0 and "examples a second" in again.output
    assert sum(kept_heads(last)) == 2 or min(kept_heads(last)) == 1


def kept_heads(folder):
    return [row["kept"] for row in told("inspect", folder)]


def test_what_cannot_be_removed_is_told(tmp_path, folder, labelled, monkeypatch):
    masked_only = kept_in(tmp_path / "bloom", bloom())
    assert "does not run with fewer heads" in run("inspect", masked_only).output
    done = run("prune", folder, labelled, tmp_path / "o", "--amount", 0.9, "--keep-at-least", 2)
    less = "asks for 7 of 8 heads, but 4 can be removed: each layer keeps 2 (keep_at_least)"
    assert done.exit_code == 0 and done.stderr == f"headprune: amount 0.9 {less}\n"
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ValueError, match=r"headprune\[translation\]"):
        check_bleu(translator())


@pytest.mark.slow
def test_prune_uniform_then_export_then_plain_transformers(tmp_path):
    whole, rows, smaller, plain = (tmp_path / name for name in ("own", "rows.tsv", "out", "plain"))
    kept_in(whole, translator())
    rows.write_text("source\ttarget\ngood\tbad\nbad film\tgood\n")
    done = run("prune", whole, rows, smaller, "--amount", "0.5", "--uniform")
    assert done.exit_code == 0, done.output
    said = told("export", smaller, plain)
    assert said["route"] == "uniform" and said["largest difference on random inputs"] < 1e-5
    loaded = AutoModelForSeq2SeqLM.from_pretrained(plain)
    assert {len(block.kept_heads) for block in hp.find_heads(loaded)} == {2}
    assert AutoTokenizer.from_pretrained(plain)("good film").input_ids


@pytest.mark.parametrize(
    ("form", "package", "file", "said"),
    [
        pytest.param("onnx", "onnxscript", "model.onnx", "written to", marks=pytest.mark.slow),
        ("gguf", "gguf", "", "architecture: deci; tokenizer: none"),
    ],
)
def test_other_forms_take_what_no_configuration_does(tmp_path, form, package, file, said):
    pytest.importorskip(package, reason=f"the extra {form} is not installed")
    own = hp.save_pruned(hp.prune_heads(language_model(), [(1, 0), (1, 1)]), tmp_path / "model")
    refused = run("export", own, tmp_path / "plain")
    assert refused.exit_code == 2 and "--format onnx" in refused.output
    done = run("export", own, tmp_path / "out", "--format", form)
    assert done.exit_code == 0 and said in done.output, done.output
    assert (tmp_path / "out" / file).is_file()
