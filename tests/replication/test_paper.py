"""The encoder half of profile ``paper``: its own code, a hub on the loopback, a tiny BERT, little text."""

import json
import signal
from pathlib import Path

import hub
import pandas as pd
import pytest
import transformers
from ownmodels import bert, kept_in
from processes import python

from headprune_lib.replication.data import TASKS, WORDS
from headprune_lib.replication.models.pretrained import BASES
from headprune_lib.replication.paths import project_root

pytestmark = pytest.mark.nightly

BERT, GLUE = "models/google-bert/bert-base-uncased", "datasets/nyu-mll/glue"
N = {"train": 240, "validation": 60}
# task -> configuration of GLUE: its splits and the columns of its texts
LAYOUT = {
    "mnli": (("train", "validation_matched", "validation_mismatched"), ("premise", "hypothesis")),
    "sst2": (("train", "validation"), ("sentence",)),
    "cola": (("train", "validation"), ("sentence",)),
    "mrpc": (("train", "validation"), ("sentence1", "sentence2")),
}


def sentences() -> list[str]:
    words = [word for group in WORDS.values() for word in group]
    return [
        " ".join(words[(7 * i + 3 * j * (i % 11 + 1)) % len(words)] for j in range(4 + i % 9))
        for i in range(800)
    ]


def write_glue(folder: Path) -> None:
    """Every task as parquet, with the card that says which file is which split."""
    texts, configs = sentences(), []
    for task, (splits, columns) in LAYOUT.items():
        config = {"config_name": task, "data_files": []}
        start, n_labels = 0, len(TASKS[task].labels)
        (folder / task).mkdir(parents=True)
        for split in splits:
            rows = range(start, start := start + N[split.partition("_")[0]])
            table = {"label": [i % n_labels for i in rows]}
            for place, column in enumerate(columns):
                table[column] = [texts[400 * place + i] for i in rows]
            pd.DataFrame(table).to_parquet(folder / task / f"{split}-00000-of-00001.parquet")
            config["data_files"].append({"split": split, "path": f"{task}/{split}-*"})
        configs.append(config)
    (folder / "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\n# GLUE\n")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    write_glue(folder / GLUE)
    (folder / BERT).mkdir(parents=True)
    kept_in(folder / BERT, bert(transformers.BertForMaskedLM, max_position_embeddings=64))
    return folder


@pytest.fixture
def ask(files, tmp_path):
    """Runs code in a process that takes the loopback for the Hub; gives what it prints."""
    folders = {"HF_HOME": "hf", "HEADPRUNE_CACHE": "cache", "HEADPRUNE_RESULTS": "results"}
    own = {"PYTHONPATH": str(project_root()), "PYTHONWARNINGS": "ignore", "HF_HUB_DISABLE_XET": "1"}
    own |= {name: str(tmp_path / folder) for name, folder in folders.items()}
    with hub.serving(files) as server:

        def run(code: str, ends: int = 0) -> str:
            here = {**own, "HF_ENDPOINT": server.address}
            return python(code, ends=ends, without=("HF_", "HEADPRUNE"), **here).stdout

        run.server, run.folder = server, tmp_path
        yield run


def downloads(server: hub.Hub) -> list[str]:
    return [path for path in server.asked if path.startswith("GET") and "/resolve/" in path]


WEIGHTS = """
from headprune_lib.replication.models.pretrained import BASES, load_tokenizer, new_classifier
try:
    model = new_classifier("bert-base", ("no", "yes"), 1)
    print(type(model).__name__, *load_tokenizer("bert-base")("a film").keys())
    print(BASES["bert-base"].checksums)
except (ValueError, OSError) as error:
    print(type(error).__name__, error)
"""
FILE = "google-bert/bert-base-uncased/model.safetensors"


def test_bert_comes_under_its_real_name_and_is_noted(ask):
    told = ask(WEIGHTS).splitlines()
    assert told[0] == "BertForSequenceClassification input_ids token_type_ids attention_mask"
    (path,) = {path for path in downloads(ask.server) if path.endswith("model.safetensors")}
    assert f"/resolve/{BASES['bert-base'].revision}/" in path  # at the commit that is registered
    notes = json.loads((ask.folder / "results" / "fetched.json").read_text())
    assert told[1] == str({FILE: notes[FILE]})
    notes[FILE] = "0" * 64
    (ask.folder / "results" / "fetched.json").write_text(json.dumps(notes))
    told = ask(WEIGHTS)
    assert told.startswith("WrongChecksum") and f"expected {'0' * 64}" in told


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
    print(name, *result.key, result.n_examples, sep="|")
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
    artifacts = {
        "figure1b": "one_head|mnli",
        "table3": "all_but_one|mnli",
        "table6": "best_heads|mnli",
        "figure2b": "across_domains|mnli",
        "figure3b": "pruning_curve|mnli",
        "figure6a": "pruning_curve|sst2",
        "figure6b": "pruning_curve|cola",
        "figure6c": "pruning_curve|mrpc",
        "table4": "speed|mnli",
    }
    measured = [line.partition(":")[0] for line in told if " examples, measured in " in line]
    assert measured == list(artifacts)
    fetched = len(downloads(ask.server))
    stored = [line.rpartition("|")[0] for line in ask(STORED).splitlines()]
    assert stored == [f"{name}|{of}|bert-base" for name, of in artifacts.items()]
    assert written(cache / "results") | written(cache / "models") == after, "all of it is stored"
    again = downloads(ask.server)[fetched:]
    assert not [path for path in again if path.endswith((".parquet", ".safetensors"))], again
