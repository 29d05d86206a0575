"""A table of bad input: the command ends in one line and code 2, the library in a clear error."""

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import transformers
from ownmodels import bert, classifier, kept_in, language_model, translator
from tiny import build
from torch import nn

import headprune_lib as lib
from headprune_lib import cli, cut_heads, full_mask, prune_heads, save_pruned
from headprune_lib.budgets import cut_until
from headprune_lib.costs import cache_cost, parameters_cost
from headprune_lib.orders import prune_steps
from headprune_lib.replication.census import tiny as census_tiny

ROOT = Path(__file__).parents[2]
HEAD = "text\tlabel\n"
GOOD = HEAD + "the film is good\tpositive\nbad film\tnegative\na very dull plot\tnegative\n"
TEXTS = "text\nthe film is good\nbad film\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of models as they should be, to be copied and damaged."""
    root = tmp_path_factory.mktemp("models")
    kept_in(root / "classifier", classifier())
    kept_in(root / "language", language_model())
    kept_in(root / "translator", translator())
    kept_in(root / "stars", classifier(id2label={0: "stars"}, label2id={"stars": 0}))
    kept_in(root / "several", classifier(problem_type="multi_label_classification"))
    kept_in(root / "masked", bert(transformers.BertForMaskedLM))
    kept_in(root / "choices", bert(transformers.BertForMultipleChoice))
    kept_in(root / "towers", census_tiny.build("clip"))
    kept_in(root / "speech", census_tiny.build("whisper"))
    model = classifier()
    save_pruned(prune_heads(model, cut_heads(model, [("self", 0, 1)])), root / "pruned")
    return root


@pytest.fixture
def headprune(monkeypatch, capfd):
    """Runs the command as its entry point does; what no user is to see is raised."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["headprune", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, capfd.readouterr().err

    return run


def one_line(code, said, message):
    assert code == 2, said
    assert message in said, said
    assert said.startswith("headprune: ") and said.count("\n") == 1, said


ARGUMENTS = [
    (["nonsense"], "No such command 'nonsense'"),
    (["inspect"], "Missing argument 'MODEL'"),
    (["inspect", "a", "b"], "unexpected extra argument"),
    (["inspect", "a", "--wide"], "No such option: --wide"),
    (["score", "a"], "Missing argument 'DATA'"),
    (["score", "a", "b", "--batch-size", "0"], "Invalid value for '--batch-size'"),
    (["score", "a", "b", "--batch-size", "many"], "Invalid value for '--batch-size'"),
    (["score", "a", "b", "--max-length", "1"], "Invalid value for '--max-length'"),
    (["score", "a", "b", "--normalize", "max"], "Invalid value for '--normalize'"),
    (["prune", "a", "b"], "Missing argument 'OUT'"),
    (["prune", "a", "b", "c", "--amount", "half"], "Invalid value for '--amount'"),
    (["prune", "a", "b", "c", "--group-score", "max"], "Invalid value for '--group-score'"),
    (["prune", "a", "b", "c", "--keep-at-least", "x"], "Invalid value for '--keep-at-least'"),
]


@pytest.mark.parametrize(("words", "message"), ARGUMENTS)
def test_wrong_arguments(headprune, words, message):
    code, said = headprune(*words)
    assert code == 2 and "Traceback" not in said
    assert message in " ".join(said.replace("│", " ").split())


OPTIONS = [
    ([], "no bound given"),
    (["--amount", "2"], "--amount is 2.0; give the share"),
    (["--amount", "-0.1"], "--amount is -0.1; give the share"),
    (["--amount", "nan"], "--amount is nan; give the share"),
    (["--amount", "0.5", "--parameters", "9"], "--amount and --parameters given"),
    (["--parameters", "0"], "give a number above 0"),
    (["--parameters", "1e3"], "1,000 is out of reach"),
    (["--seconds", "1"], "--seconds needs --at"),
    (["--seconds", "1", "--at", "16 by 9"], "--at is '16 by 9'"),
    (["--cache-bytes", "9", "--at", "1x8"], "Bert"),
    (["--seconds", "1", "--at", "1x9999"], "does not run on this batch"),
    (["--lose-nats", "1"], "--lose-nats needs --held-out"),
    (["--lose-nats", "1", "--held-out", "nowhere.tsv"], "no file nowhere.tsv"),
    (["--amount", "0.5", "--test", "nowhere.tsv"], "no file nowhere.tsv"),
    (["--amount", "0.5", "--by", "importence"], "did you mean importance"),
    (["--amount", "0.5", "--kind", "enc-dec"], "no kind 'enc-dec' in Bert"),
    (["--amount", "0.5", "--keep-at-least", "-1"], "keep_at_least is -1"),
    (["--amount", "0.5", "--device", "gpu"], "no device 'gpu' here"),
    (["--amount", "0.5", "--device", "cuda:99"], "no device 'cuda:99' here"),
    (["--amount", "0.5", "--device", ""], "no device '' here"),
    (["--amount", "0.5", "--device", "meta"], "no device 'meta' here"),
    (["--amount", "0.5", "--report", "nowhere/r.html"], "is no folder to write r.html into"),
    (["--amount", "0.5", "--report", "rows.tsv"], "rows.tsv is there already"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_options_that_cannot_be(headprune, folders, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.tsv").write_text(GOOD)
    words = ("prune", folders / "classifier", "rows.tsv", "out", *options)
    one_line(*headprune(*words), message)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.tsv"]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_a_lack_of_memory_is_said(headprune, folders, tmp_path, monkeypatch, error):
    def run_out(*_given, **_named):
        raise error

    (tmp_path / "rows.tsv").write_text(GOOD)
    monkeypatch.setattr(lib, "score_heads", run_out)
    words = ("score", folders / "classifier", tmp_path / "rows.tsv")
    one_line(*headprune(*words), "out of memory: lower --batch-size")


def seconds(code, *words):
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False,
    )  # fmt: skip
    return time.perf_counter() - start


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["prune", "a", "b", "c", "--amount", "2"]])
def test_help_and_wrong_arguments_take_a_part_of_torchs_import(words):
    command = "from headprune_lib.cli import main; main()"
    ratios = [seconds(command, *words) / seconds("import torch") for _ in range(5)]
    # 0.5 s where torch takes 2; the command starts Python and typer, nothing else
    assert statistics.median(ratios) < 0.25, ratios


def row(**cells):
    return json.dumps(cells) + "\n"


# name of the file, what is in it (None: nothing there), which model it is for, what is said
FILES = [
    ("rows.tsv", None, "classifier", "no file"),
    ("rows.csv", GOOD, "classifier", "is neither .tsv nor .jsonl"),
    ("rows", GOOD, "classifier", "is neither .tsv nor .jsonl"),
    ("rows.tsv", "", "classifier", "rows.tsv is empty"),
    ("rows.tsv", "\n\n", "classifier", "rows.tsv is empty"),
    ("rows.tsv", HEAD, "classifier", "holds no row"),
    ("rows.tsv", "text\ttext\na\tb\n", "classifier", "names a column twice"),
    ("rows.tsv", "sentence\tlabel\na\tpositive\n", "classifier", "has the columns"),
    ("rows.tsv", "text\tlabel\tmore\na\tpositive\tx\n", "classifier", "has the columns"),
    ("rows.tsv", "source\tlabel\na\tpositive\n", "classifier", "has the columns"),
    ("rows.tsv", HEAD + "good\n", "classifier", "row 1: ['label'] is missing or empty"),
    ("rows.tsv", HEAD + "\tpositive\n", "classifier", "row 1: ['text'] is missing or empty"),
    ("rows.tsv", GOOD + "a\tb\tpositive\n", "classifier", "row 4: 3 cells, but 2 columns"),
    ("rows.tsv", HEAD + "good\tmaybe\n", "classifier", "label 'maybe' is none of the model's"),
    ("rows.tsv", HEAD + "good\t7\n", "classifier", "label '7' is none of the model's"),
    ("rows.tsv", HEAD + "good\t1.5\n", "classifier", "label '1.5' is none of the model's"),
    ("rows.tsv", HEAD + "good\t-1\n", "classifier", "label '-1' is none of the model's"),
    ("rows.tsv", b"text\tlabel\n\xff\xfe\tpositive\n", "classifier", "is not UTF-8"),
    ("rows.tsv", GOOD.encode("utf-16"), "classifier", "is not UTF-8"),
    ("rows.tsv", HEAD + "a" * 140_000 + "\tpositive\n", "classifier", "field larger than"),
    ("rows.tsv", HEAD + "film " * 600 + "\tpositive\n", "classifier", "lower --max-length"),
    (
        "rows.tsv",
        TEXTS,
        "classifier",
        "is for classification, and the file's columns are those for language model",
    ),
    ("rows.tsv", HEAD + "good\tfine\n", "stars", "label 'fine' is no number"),
    ("rows.tsv", HEAD + "good\tnan\n", "stars", "label 'nan' is no number"),
    ("rows.tsv", HEAD + "good\t1\n", "several", "several labels (problem_type)"),
    ("rows.tsv", GOOD, "masked", "BertForMaskedLM is for none of what"),
    ("rows.tsv", GOOD, "choices", "BertForMultipleChoice is for none of what"),
    ("rows.tsv", TEXTS, "towers", "CLIPModel is for none of what"),
    ("rows.tsv", "source\ttarget\na\tb\n", "speech", "reads input_features, not text"),
    (
        "rows.tsv",
        GOOD,
        "language",
        "is for language model, and the file's columns are those for classification",
    ),
    (
        "rows.tsv",
        TEXTS,
        "translator",
        "is for translation, and the file's columns are those for language model",
    ),
    (
        "rows.tsv",
        "source\ttarget\na\tb\n",
        "classifier",
        "file's columns are those for translation",
    ),
    ("rows.jsonl", "", "classifier", "is empty: each line is to be an object with text and label"),
    ("rows.jsonl", "{", "classifier", "row 1: not JSON"),
    ("rows.jsonl", "[1, 2]\n", "classifier", "row 1: expected an object"),
    ("rows.jsonl", "3\n", "classifier", "row 1: expected an object"),
    ("rows.jsonl", "[" * 100_000, "classifier", "row 1: not JSON"),
    ("rows.jsonl", row(text=None, label=1), "classifier", "['text'] is missing or empty"),
    ("rows.jsonl", row(text=["a"], label=1), "classifier", "text is ['a'], expected text"),
    ("rows.jsonl", row(text="a", label={"b": 1}), "classifier", "is none of the model's"),
    ("rows.jsonl", row(text="a", label=[1]), "classifier", "is none of the model's"),
    ("rows.jsonl", row(text="a", label=math.nan), "classifier", "is none of the model's"),
    ("rows.jsonl", row(text="a", label=1) + row(text="b"), "classifier", "row 2: ['label']"),
    ("rows.jsonl", row(text="a", label=1) + row(txt="b"), "classifier", "has the columns"),
]


@pytest.mark.parametrize(("name", "content", "model", "message"), FILES)
def test_files_that_are_not_data(headprune, folders, tmp_path, name, content, model, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    one_line(*headprune("score", folders / model, path, "--max-length", 700), message)


def test_a_folder_or_a_broken_link_in_place_of_a_file(headprune, folders, tmp_path):
    (tmp_path / "rows.tsv").mkdir()
    (tmp_path / "link.tsv").symlink_to(tmp_path / "nothing")
    for name in ("rows.tsv", "link.tsv"):
        one_line(*headprune("score", folders / "classifier", tmp_path / name), "no file")


def config(**changed):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return change


def text(name, content):
    return lambda folder: (folder / name).write_text(content)


def cut(name, n):
    def change(folder):
        path = folder / name
        path.write_bytes(path.read_bytes()[:n])

    return change


MODELS = [
    ("classifier", shutil.rmtree, "no folder"),
    ("classifier", lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
    ("classifier", lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors"),
    ("classifier", text("config.json", ""), "config.json"),
    ("classifier", text("config.json", "{"), "config.json"),
    ("classifier", text("config.json", "null"), "config.json"),
    ("classifier", text("config.json", "[1]"), "config.json"),
    ("classifier", text("config.json", "{}"), "config.json"),
    ("classifier", config(model_type="no-such"), "config.json"),
    ("classifier", config(model_type=5), "config.json"),
    ("classifier", config(hidden_size="many"), "config.json"),
    ("classifier", config(hidden_size=-16), "do not fit config.json"),
    ("classifier", config(hidden_size=32), "do not fit config.json, such as bert.embeddings."),
    ("classifier", config(hidden_size=40_000_000), "do not fit config.json"),
    ("classifier", config(num_attention_heads=3), "do not fit config.json"),
    ("classifier", config(num_attention_heads=0), "do not fit config.json"),
    ("classifier", config(num_hidden_layers=0), "no known attention module"),
    (
        "classifier",
        config(num_hidden_layers=3),
        "the weights lack 16 tensors that BertForSequenceClassification has, such as",
    ),
    (
        "classifier",
        config(architectures=["pipeline"]),
        "names ['pipeline'], which transformers",
    ),
    ("classifier", config(architectures=["BertConfig"]), "names ['BertConfig']"),
    ("classifier", config(architectures=None), "names no class"),
    ("classifier", config(architectures=["T5ForConditionalGeneration"]), "do not fit config"),
    ("classifier", cut("model.safetensors", 0), "model.safetensors is damaged"),
    ("classifier", cut("model.safetensors", 900), "model.safetensors is damaged"),
    ("classifier", text("model.safetensors", "no weights"), "model.safetensors is damaged"),
    ("pruned", cut("model.safetensors", 900), "damaged"),
    (
        "pruned",
        lambda folder: (folder / "model.safetensors").unlink(),
        "no file named model.safetensors",
    ),
    ("pruned", config(num_attention_heads=3), "do not fit"),
    ("pruned", text("config.json", "{"), "config.json"),
]


@pytest.mark.parametrize(("name", "damage", "message"), MODELS)
def test_folders_that_are_not_models(headprune, folders, tmp_path, name, damage, message):
    folder = tmp_path / name
    shutil.copytree(folders / name, folder)
    damage(folder)
    one_line(*headprune("inspect", folder), message)


TOKENIZERS = [
    (lambda folder: [one.unlink() for one in folder.glob("tokenizer*")], "no tokenizer beside"),
    (text("tokenizer.json", "{"), "the tokenizer's files in"),
    (text("tokenizer_config.json", "{"), "the tokenizer's files in"),
]


@pytest.mark.parametrize(("damage", "message"), TOKENIZERS)
def test_tokenizers_that_are_none(headprune, folders, tmp_path, damage, message):
    folder, rows = tmp_path / "model", tmp_path / "rows.tsv"
    shutil.copytree(folders / "classifier", folder)
    rows.write_text(GOOD)
    damage(folder)
    one_line(*headprune("score", folder, rows), message)


BERT, LLAMA = build("bert", dtype=torch.float32), build("llama", dtype=torch.float32)
ONES, BATCH = torch.ones(3, 4), {"input_ids": torch.randint(4, 30, (2, 5))}
LABELLED = {**BATCH, "labels": torch.tensor([0, 1])}


def masked(mask):
    return lambda: lib.masked_heads(BERT, mask).__enter__()


LIBRARY = [
    (masked([[1]]), TypeError, "a mask is a dict"),
    (masked({"self": [[1]]}), TypeError, "must be a bool or floating-point tensor"),
    (masked({"self": ONES.long()}), TypeError, "must be a bool or floating-point tensor"),
    (masked({"self": ONES + 0j}), TypeError, "must be a bool or floating-point tensor"),
    (masked({"self": ONES[:2]}), ValueError, r"has shape \(2, 4\), expected"),
    (masked({"self": ONES * math.nan}), ValueError, "every entry must be finite"),
    (masked({"self": ONES * math.inf}), ValueError, "every entry must be finite"),
    (masked({}), ValueError, r"the mask has kinds \[\]"),
    (masked({"self": ONES, "enc-dec": ONES}), ValueError, "the mask has kinds"),
    (lambda: cut_heads(BERT, [("self", 3, 0)]), IndexError, "no head"),
    (lambda: cut_heads(BERT, [("self", 0, -1)]), IndexError, "no head"),
    (lambda: cut_heads(BERT, [("cross", 0, 0)]), IndexError, "no head"),
    (lambda: prune_heads(BERT, {"self": ONES / 2}), ValueError, "0 and 1 only"),
    (lambda: prune_heads(LLAMA, cut_heads(LLAMA, [("self", 0, 1)])), ValueError, "share a key"),
    (lambda: lib.prune_mask(BERT, {"self": ONES}, 1.1), ValueError, "amount is 1.1"),
    (lambda: lib.prune_mask(BERT, {"self": ONES[:1]}, 0.5), ValueError, "another model's"),
    (lambda: lib.prune_mask(BERT, {"self": ONES * math.nan}, 0.5), ValueError, "is NaN"),
    (lambda: lib.order_mask(BERT, [], 1), ValueError, "n_cut is 1; give 0 to 0"),
    (lambda: lib.score_heads(BERT, [LABELLED], "none"), ValueError, "unknown criterion 'none'"),
    (lambda: lib.score_heads(BERT, [LABELLED], normalize="l1"), ValueError, "normalisation 'l1'"),
    (lambda: lib.head_importance(BERT, []), ValueError, "no batches given"),
    (lambda: lib.head_importance(BERT, [BATCH]), ValueError, "the batch has no 'labels'"),
    (lambda: lib.head_importance(BERT, [LABELLED], variant="x"), ValueError, "unknown variant"),
    (
        lambda: lib.head_importance(BERT, [LABELLED | {"labels": torch.tensor([0, 9])}]),
        ValueError,
        "label 9 is outside the model's 3 classes",
    ),
    (
        lambda: lib.head_importance(BERT, [LABELLED], loss=lambda o, _b: o.logits.mean()),
        ValueError,
        "neither their mean nor their sum",
    ),
    (lambda: lib.find_heads(nn.Linear(2, 2)), ValueError, "no known attention module in Linear"),
    (lambda: lib.find_heads(nn.DataParallel(BERT)), ValueError, "give the model itself"),
    (lambda: lib.load_pruned("./nowhere"), FileNotFoundError, "no folder ./nowhere"),
    (lambda: save_pruned(nn.Linear(2, 2), "x"), ValueError, "no model of transformers"),
    (lambda: prune_steps(BERT, {"self": ONES}, kinds=["x"]), ValueError, "no kind 'x'"),
    (lambda: cache_cost(build("bert"), 1, 4), ValueError, "no keys and values|with a cache"),
    (
        lambda: cut_until(BERT, [], parameters_cost(BERT), 5),
        ValueError,
        "5 is out of reach",
    ),
    (lambda: lib.register_attention("A", like="B"), ValueError, "unknown attention class 'B'"),
]


@pytest.mark.parametrize(("call", "error", "message"), LIBRARY)
def test_calls_that_cannot_be(call, error, message):
    before = {name: tensor.clone() for name, tensor in BERT.state_dict().items()}
    with pytest.raises(error, match=message):
        call()
    assert all(torch.equal(before[name], tensor) for name, tensor in BERT.state_dict().items())
    assert full_mask(BERT)["self"].shape == (3, 4)
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in BERT.modules())
