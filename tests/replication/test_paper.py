"""The encoder half of profile ``paper``: its own code, a hub on the loopback, a tiny BERT, little text."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import hub
import pandas as pd
import pytest
import tokenizers
import transformers

from headprune_lib.replication.data import TASKS, WORDS, Examples, MissingData
from headprune_lib.replication.paths import project_root

pytestmark = pytest.mark.nightly

BERT, GLUE = "models/google-bert/bert-base-uncased", "datasets/nyu-mll/glue"
N = {"train": 240, "validation": 60}
# task -> configuration of GLUE, its splits, the columns of its texts, and whose text stands in
LAYOUT = {
    "mnli": (
        ["train", "validation_matched", "validation_mismatched"],
        ["premise", "hypothesis"],
        "snli",
    ),
    "sst2": (["train", "validation"], ["sentence"], "sst2"),
    "cola": (["train", "validation"], ["sentence"], "cola"),
    "mrpc": (["train", "validation"], ["sentence1", "sentence2"], "mrpc"),
}


def sentences(task: str, n_labels: int, paired: bool) -> Examples:
    """Real ones where the public benchmarks lie in ``$HEADPRUNE_DATA``, else made-up ones."""
    try:
        return TASKS[task].load()["train"]
    except MissingData:
        words = [word for group in WORDS.values() for word in group]
        rows = [
            " ".join(words[(7 * i + 3 * j * (i % 11 + 1)) % len(words)] for j in range(4 + i % 9))
            for i in range(800)
        ]
        labels = tuple(i % n_labels for i in range(400))
        return Examples(tuple(rows[:400]), labels, tuple(rows[400:]) if paired else None)


def write_glue(folder: Path) -> list[str]:
    """Every task as parquet, with the card that says which file is which split; all sentences."""
    every, configs = [], []
    for task, (splits, columns, source) in LAYOUT.items():
        found, start = sentences(source, len(TASKS[task].labels), len(columns) == 2), 0
        config = {"config_name": task, "data_files": []}
        for split in splits:
            rows = slice(start, start := start + N[split.partition("_")[0]])
            table = {"label": found.labels[rows], columns[0]: found.texts[rows]}
            if len(columns) == 2:
                table[columns[1]] = found.second[rows]
            path = f"{task}/{split}-00000-of-00001.parquet"
            (folder / task).mkdir(parents=True, exist_ok=True)
            pd.DataFrame(table).to_parquet(folder / path)
            config["data_files"].append({"split": split, "path": f"{task}/{split}-*"})
            every += [*table[columns[0]], *table[columns[-1]]]
        configs.append(config)
    (folder / "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\n# GLUE\n")
    return every


def write_bert(folder: Path, text: list[str]) -> None:
    """A tiny BERT of random weights with word pieces of the text."""
    words = tokenizers.BertWordPieceTokenizer()
    words.train_from_iterator(text, vocab_size=400, show_progress=False)
    folder.mkdir(parents=True)
    words.save(str(folder / "whole.json"))
    transformers.BertTokenizerFast(tokenizer_file=str(folder / "whole.json")).save_pretrained(
        folder
    )
    (folder / "whole.json").unlink()
    config = transformers.BertConfig(
        vocab_size=words.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
    )
    transformers.BertForMaskedLM(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    write_bert(folder / BERT, write_glue(folder / GLUE))
    return folder


@pytest.fixture
def ask(files, tmp_path):
    """Runs code in a process that takes the loopback for the Hub; gives what it prints."""
    with hub.serving(files) as server:

        def run(code: str, code_expected: int = 0) -> str:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", code],
                capture_output=True,
                text=True,
                check=False,
                env={
                    **{
                        k: v
                        for k, v in os.environ.items()
                        if not k.startswith(("HF_", "HEADPRUNE"))
                    },
                    "PYTHONPATH": str(project_root()),
                    "HF_ENDPOINT": server.address,
                    "HF_HUB_DISABLE_XET": "1",
                    "HF_HOME": str(tmp_path / "hf"),
                    "HEADPRUNE_CACHE": str(tmp_path / "cache"),
                    "HEADPRUNE_RESULTS": str(tmp_path / "results"),
                    "OMP_NUM_THREADS": "1",
                },
            )
            assert done.returncode == code_expected, done.stderr[-3000:]
            return done.stdout + (done.stderr if code_expected else "")

        run.server, run.folder = server, tmp_path
        yield run


def downloads(server: hub.Hub) -> list[str]:
    return [one for one in server.asked if one.startswith("GET") and "/resolve/" in one]


WEIGHTS = """
from headprune_lib.replication.pretrained import BASES, load_tokenizer, new_classifier
try:
    model = new_classifier("bert-base", ("no", "yes"), 1)
    print(type(model).__name__, model.config.num_hidden_layers, *load_tokenizer("bert-base")("a film").keys())
    print(BASES["bert-base"].checksums)
except (ValueError, OSError) as error:
    print(type(error).__name__, error)
"""


def test_bert_comes_under_its_real_name_and_is_noted(ask):
    told = ask(WEIGHTS).splitlines()
    assert told[0] == "BertForSequenceClassification 2 input_ids token_type_ids attention_mask"
    notes = json.loads((ask.folder / "results" / "fetched.json").read_text())
    weights = "google-bert/bert-base-uncased/model.safetensors"
    assert told[1] == str({weights: notes[weights]})
    assert {name.rpartition("/")[2] for name in notes} > {"config.json", "model.safetensors"}
    assert any("tokenizer" in name or "vocab" in name for name in notes)


COUNTING = """
import collections, hashlib, os
real, times = hashlib.file_digest, collections.Counter()
def counted(file, how):
    times[os.path.realpath(file.name)] += 1
    return real(file, how)
hashlib.file_digest = counted
"""


def test_no_file_of_the_hub_is_hashed_twice(ask):
    told = ask(COUNTING + WEIGHTS + "print(*sorted(times.values()))").splitlines()
    assert told[0].startswith("BertForSequenceClassification")
    assert len(told[-1].split()) >= 3 and {*told[-1].split()} == {"1"}


def test_a_download_that_breaks_off_resumes(ask):
    ask.server.faults["model.safetensors"] = ["cut", "cut"]
    # the weights are small; the Hub's loader keeps whole chunks, of ten megabytes
    chunks = "import huggingface_hub.constants as its; its.DOWNLOAD_CHUNK_SIZE = 1024\n"
    assert "BertForSequenceClassification" in ask(chunks + WEIGHTS)
    weights = ask.server.folder / BERT / "model.safetensors"
    asked = [
        int(part[6:].partition("-")[0])
        for one, part in zip(ask.server.asked, ask.server.ranges, strict=True)
        if part and one.startswith("GET") and one.endswith("/model.safetensors")
    ]
    assert len(asked) == 2 and 0 < asked[0] < asked[1] < weights.stat().st_size


def test_a_hub_that_is_away_for_a_moment_is_asked_again(ask):
    ask.server.faults |= {"model.safetensors": [500], "config.json": [503]}
    told = ask(WEIGHTS)
    if "MissingData" in told:  # not every request is repeated by the Hub's own loader
        assert "the same command goes on where it broke off" in told
        told = ask(WEIGHTS)
    assert "BertForSequenceClassification" in told


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "is not given to you .*GatedRepoError.*hf auth login"),
        (404, "cannot be fetched .*404"),
    ],
)
def test_a_repository_that_refuses_is_told_in_a_line(ask, status, reason):
    ask.server.refused["model.safetensors"] = status
    told = ask(WEIGHTS)
    assert told.startswith("MissingData google-bert/bert-base-uncased of the Hugging Face Hub")
    assert re.search(reason, told) and told.count("\n") == 1, told
    assert not (ask.folder / "results").exists(), "nothing is noted of what did not come"
    ask.server.refused.clear()
    assert "BertForSequenceClassification" in ask(WEIGHTS)


def test_wrong_bytes_are_named_and_set_aside_then_fetched_again(ask):
    ask.server.faults["model.safetensors"] = ["wrong"]
    told = ask(WEIGHTS)
    assert told.startswith(
        "WrongChecksum google-bert/bert-base-uncased/model.safetensors has SHA-256"
    )
    aside = Path(told.strip().rpartition("set aside as ")[2])
    assert aside.is_file() and aside.name.endswith(".damaged-1")
    assert "BertForSequenceClassification" in ask(WEIGHTS)


def test_other_weights_than_those_noted_are_refused(ask):
    notes = ask.folder / "results" / "fetched.json"
    notes.parent.mkdir()
    notes.write_text(json.dumps({"google-bert/bert-base-uncased/model.safetensors": "0" * 64}))
    told = ask(WEIGHTS)
    assert told.startswith("WrongChecksum") and f"expected {'0' * 64}" in told


TEXT = """
from headprune_lib.replication.data import TASKS
try:
    for name in ("cola", "mnli", "mnli-mismatched", "sst2", "mrpc"):
        print(name, {split: len(found) for split, found in TASKS[name].load("hub").items()})
except (ValueError, OSError) as error:
    print(type(error).__name__, error)
"""


def test_glue_comes_from_parquet_after_faults(ask):
    name = "train-00000-of-00001.parquet"
    ask.server.faults |= {name: ["cut", 500]}
    told = ask(TEXT)
    if "MissingData" in told:
        told = ask(TEXT)
    assert told.splitlines() == [
        "cola {'train': 240, 'test': 60}",
        "mnli {'train': 240, 'test': 60}",
        "mnli-mismatched {'test': 60}",
        "sst2 {'train': 240, 'test': 60}",
        "mrpc {'train': 240, 'test': 60}",
    ]
    notes = json.loads((ask.folder / "results" / "fetched.json").read_text())
    assert "nyu-mll/glue/mnli/validation_mismatched" in notes and len(notes) == 9


def test_a_wrong_file_of_text_is_named_and_set_aside_then_fetched_again(ask):
    ask.server.faults["train-00000-of-00001.parquet"] = ["wrong"]
    told = ask(TEXT)
    assert told.startswith(
        "WrongChecksum nyu-mll/glue/cola/train-00000-of-00001.parquet has SHA-256"
    )
    aside = Path(told.strip().rpartition("set aside as ")[2])
    assert aside.is_file() and aside.name.endswith(".damaged-1")
    assert not (ask.folder / "results").exists(), "nothing is noted of what was wrong"
    assert "cola {'train': 240, 'test': 60}" in ask(TEXT)


SIZES = [  # sizes alone
    "halves=[encoder]", "seeds=[1, 2]", "n_scoring=48", "n_selection=64", "random_orders=1",
    "batch_size=16", "finetuning={epochs: 1, max_length: 48}", "compared=[importance, entropy]",
    "speed={batch_sizes: [1, 16], n_sentences: 16, repetitions: 2, shape: tiny, shape_length: 16,"
    " shape_sentences: 16}",
]  # fmt: skip
COMMAND = f"""
from headprune_lib.cli.app import app
import headprune_lib.cli, headprune_lib.replication.cli
sizes = [word for one in {SIZES!r} for word in ("--set", one)]
app(["reproduce", "--profile", "paper", "all", "--device", "cpu", *sizes])
"""
KILLED = """
import glob, os, signal, threading, time
def kill():
    while not glob.glob(os.environ["HEADPRUNE_CACHE"] + "/models/mnli-bert-base-seed2-*"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=kill).start()
"""
STORED = f"""
from headprune_lib.replication import measurements
from headprune_lib.replication.claims import evidence
from headprune_lib.replication.cli.options import read_values
from headprune_lib.replication.profiles import load_profile
profile = load_profile("paper", device="cpu", **read_values({SIZES!r}))
for name in measurements.artifacts(profile):
    result = measurements.get(name, profile)
    evidence.rows_of(result)  # as pages judge it; so little may give no row, and never an error
    print(name, *result.key, result.dataset, result.n_examples, sep="|")
"""


def written(folder: Path) -> dict[str, int]:
    """Result and weight files -> when they were written."""
    found = [*folder.rglob("*.json"), *folder.rglob("*.safetensors")]
    return {str(path): path.stat().st_mtime_ns for path in found}


def test_the_whole_encoder_half_runs_by_its_command_and_goes_on_after_a_kill(ask):
    ask(KILLED + COMMAND, -signal.SIGKILL)
    cache = ask.folder / "cache"
    before = written(cache / "results") | written(cache / "models")
    assert {Path(path).parent.name for path in before} >= {"one_head", "best_heads", "models"}
    told = ask(COMMAND).splitlines()
    after = written(cache / "results") | written(cache / "models")
    assert before.items() < after.items(), "nothing is measured or trained a second time"
    names = ["figure1b", "table3", "table6", "figure2b", "figure3b"]
    names += ["figure6a", "figure6b", "figure6c", "table4"]
    assert [line.partition(":")[0] for line in told if " examples, measured in " in line] == names
    fetched = len(downloads(ask.server))
    assert [line.split("|")[:4] for line in ask(STORED).splitlines()] == [
        ["figure1b", "one_head", "mnli", "bert-base"],
        ["table3", "all_but_one", "mnli", "bert-base"],
        ["table6", "best_heads", "mnli", "bert-base"],
        ["figure2b", "across_domains", "mnli", "bert-base"],
        ["figure3b", "pruning_curve", "mnli", "bert-base"],
        ["figure6a", "pruning_curve", "sst2", "bert-base"],
        ["figure6b", "pruning_curve", "cola", "bert-base"],
        ["figure6c", "pruning_curve", "mrpc", "bert-base"],
        ["table4", "speed", "mnli", "bert-base"],
    ]
    assert written(cache / "results") | written(cache / "models") == after, "all of it is stored"
    again = downloads(ask.server)[fetched:]
    assert not [one for one in again if one.endswith((".parquet", ".safetensors"))], again
