"""Tables of bad input, for which the command ends with one line and code 2."""

import json
import shutil

import pytest
import torch
import transformers
from ownmodels import (
    LABELLED,
    bert,
    bloom,
    classifier,
    kept_in,
    language_model,
    tokenizer,
    translator,
)

from headprune_lib import cli, head_mask, prune_heads, save_pruned
from headprune_lib.cli import data

HEAD = "text\tlabel\n"
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
    kept_in(root / "bloom", bloom())
    broken = classifier()
    broken.classifier.weight.data.fill_(torch.nan)
    kept_in(root / "broken", broken)
    every = [(layer, head) for layer in (0, 1) for head in range(4)]
    for name, heads in (("pruned", [(0, 1)]), ("even", [(0, 0), (1, 0)]), ("empty", every)):
        model = classifier()
        save_pruned(prune_heads(model, head_mask(model, heads)), root / name)
        tokenizer().save_pretrained(root / name)
    return root


@pytest.fixture
def refused(monkeypatch, capfd):
    """Run the command as its entry point does: it ends with code 2 and one line with a message."""

    def check(message, *words):
        monkeypatch.setattr("sys.argv", ["headprune", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capfd.readouterr().err
        assert ended.value.code == 2 and message in said, said
        assert said.startswith("headprune: ") and said.count("\n") == 1, said

    return check


# arguments, and the message
WORDS = [
    ("inspet", "No such command 'inspet'. Did you mean 'inspect'? (see headprune --help)"),
    ("inspect a --wide", "No such option: --wide (see headprune inspect --help)"),
    ("score a", "Missing argument 'DATA'."),
    ("score a b --batch-size 0", "Invalid value for '--batch-size'"),
    ("inspect reviws", "did you mean reviews?"),
    ("inspect ./classifer", "no folder ./classifer (did you mean classifier?)"),
    ("score classifier rows.tvs", "no file rows.tvs (did you mean rows.tsv?)"),
    ("score nowhere x.tsv --by importence", "unknown criterion 'importence': did you mean import"),
    ("score empty rows.tsv", "no head is left in the model"),
    ("score empty rows.tsv --by entropy", "no head is left in the model"),
    ("prune broken rows.tsv out --amount .5 --by entropy", "before anything is removed is nan"),
    ("prune bloom rows.tsv out --amount .5", "no head of BloomForSequenceClassification can be"),
    ("score classifier rows.tsv --text-column txt", "unknown column 'txt': did you mean text"),
    ("score classifier rows.tsv" + 3 * " --text-column text", "Give at most 2"),
    ("prune classifier rows.tsv rows.tsv/out --amount .5", "rows.tsv/out cannot be created in"),
    ("export pruned rows.tsv/out", "rows.tsv/out cannot be created in"),
    ("score classifier folder.tsv", "no file folder.tsv"),
    ("prune classifier rows.tsv full --amount 0.5", "full exists and is not overwritten"),
    ("export pruned full", "full exists and is not overwritten. Give a new path"),
    ("export pruned out --tokenizer-from x.gguf", "is for --format gguf"),
    ("export ./none out", "no folder ./none"),
    ("export even out", "no configuration of BertForSequenceClassification has 3 heads"),
    ("export pruned out", "takes no fewer of this width"),
    ("export even out --format gguf", "no architecture in llama.cpp"),
    ("export even out --format gguf --tokenizer-from x", "no file"),
]
# the same for options of `prune classifier rows.tsv out`
OPTIONS = [
    ("", "no bound given. Give exactly one of --amount, --parameters"),
    ("--amount 2", "Invalid value for '--amount'"),
    ("--parameters 1e3", "1,000 cannot be reached: the model has"),
    ("--parameters inf", "--parameters is inf. Give a finite number"),
    ("--seconds 1", "--seconds needs --at"),
    ("--cache-bytes 9 --at 1x8", "Bert"),
    ("--amount 0.5 --at 16x1", "--amount takes no --at. Give --at (examples x tokens"),
    ("--lose-nats 1", "--lose-nats needs --held-out"),
    ("--amount 0.5 --held-out x", "--amount takes no --held-out"),
    ("--amount 0.5 --device gpu", "no device 'gpu' here"),
    ("--amount 0.5 --bleu", "--bleu is for translation models"),
    ("--amount 0.1", "amount 0.1 of 8 heads is less than one, so none is removed"),
    ("--amount 0.2 --uniform", "amount 0.2 of 4 heads is less than one"),
    ("--amount 0.5 --report rows.tsv/r.html", "r.html cannot be created in"),
    ("--amount 0.5 --report rows.tsv", "rows.tsv exists and is not overwritten. Give a new path"),
    ("--amount 0.5 --report out", "out is a folder or the same path as OUT"),
    ("--amount 0.5 --kind cross", "BertForSequenceClassification has no kind 'cross'"),
]


@pytest.mark.parametrize(
    ("words", "message"),
    [*WORDS, *((f"prune classifier rows.tsv out {words}", said) for words, said in OPTIONS)],
)
def test_words_that_cannot_be(refused, folders, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.tsv").write_text(LABELLED)
    for name in ("classifier", "pruned", "even", "empty", "broken", "bloom"):
        (tmp_path / name).symlink_to(folders / name)
    for name in ("folder.tsv", "full/note"):
        (tmp_path / name).mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    refused(message, *words.split())
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_a_lack_of_memory_is_said(refused, folders, tmp_path, monkeypatch, error):
    def run_out(*_given, **_named):
        raise error

    (tmp_path / "rows.tsv").write_text(LABELLED)
    monkeypatch.setattr(data, "score_heads", run_out)
    message = f"out of memory ({error}). Use another --device, fewer or shorter"
    refused(message, "score", folders / "classifier", tmp_path / "rows.tsv")


# name of the file, its content, the model that it is for, and the message
FILES = [
    ("rows.tsv", "\n\n", "classifier", "reads the columns text and label (--text-column"),
    ("rows.tsv", HEAD, "classifier", "has a header but no rows"),
    ("rows.tsv", "text\ttext\na\tb\n", "classifier", "a column is named twice"),
    ("rows.tsv", HEAD + "good\n", "classifier", "row 1: label is missing or empty"),
    ("rows.tsv", LABELLED + "a\tb\tc\n", "classifier", "row 4 has 3 cells, and there are 2 columns"),
    ("rows.csv", "text,label\na, b,0\n", "classifier", "Is there a comma in a text that is not in quotes"),
    ("rows.csv", 'text,label\n"a,0\n', "classifier", "rows.csv: unexpected end of data"),
    ("rows.txt", LABELLED, "classifier", "rows.txt is not a .tsv, .csv or .jsonl file"),
    ("rows.tsv", HEAD + "good\tmaybe\n", "classifier", "'maybe' is not one of the model's 2 classes"),
    ("rows.tsv", b"text\tlabel\n\xff\xfe\tpositive\n", "classifier", "is not UTF-8"),
    ("rows.tsv", HEAD + "film " * 600 + "\tpositive\n", "classifier", "Lower --max-length"),
    ("rows.tsv", TEXTS, "classifier", "classification reads the columns text and label (--text-column"),
    ("rows.tsv", HEAD + "good\tfine\n", "stars", "label 'fine' is not a number"),
    ("rows.tsv", HEAD + "good\t1\n", "several", "several labels per text (problem_type)"),
    ("rows.tsv", LABELLED, "masked", "BertForMaskedLM is not a text classifier"),
    ("rows.tsv", TEXTS, "translator", "reads the columns source and target"),
    ("rows.jsonl", "{", "classifier", "row 1 is not JSON"),
    ("rows.jsonl", "[1]", "classifier", "row 1 is [1], not a JSON object"),
    ("rows.jsonl", '{"text": ["a"], "label": 1}', "classifier", "text is ['a'], expected text"),
    ("rows.jsonl", '{"text": "a", "label": NaN}', "classifier", "is not one of the model's"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "model", "message"), FILES)
def test_files_that_are_not_data(refused, folders, tmp_path, name, content, model, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(message, "score", folders / model, path, "--max-length", 700)


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


def without(pattern):
    return lambda folder: [path.unlink() for path in folder.glob(pattern)]


# folder, what is done to it, and the message
MODELS = [
    ("classifier", without("tokenizer*"), "has no tokenizer. Write one into"),
    ("classifier", text("tokenizer.json", "{"), "the tokenizer's files in"),
    ("classifier", shutil.rmtree, "no folder"),
    ("classifier", without("model.safetensors"), "model.safetensors"),
    ("classifier", text("config.json", "{"), "config.json"),
    ("classifier", config(hidden_size=32), "do not fit config.json, such as bert.embeddings."),
    ("classifier", config(hidden_size=40_000_000), "do not fit config.json"),  # no such memory
    ("classifier", config(num_hidden_layers=3), "the weights lack 16 tensors that BertFor"),
    ("classifier", config(architectures=["pipeline"]), "names ['pipeline'] instead of a class of"),
    ("classifier", config(architectures=None), "names no class instead of a class"),
    ("classifier", cut("model.safetensors", 900), "model.safetensors is damaged"),
    ("pruned", without("model.safetensors"), "no file named model.safetensors"),
    ("pruned", config(num_attention_heads=3), "do not fit"),
]


@pytest.mark.parametrize(("name", "damage", "message"), MODELS)
def test_folders_that_are_not_models(refused, folders, tmp_path, name, damage, message):
    folder, rows = tmp_path / name, tmp_path / "rows.tsv"
    shutil.copytree(folders / name, folder)
    rows.write_text(LABELLED)
    damage(folder)
    refused(message, "score", folder, rows)
