"""The commands of book/own_model.md, with a tiny model and a few lines of text."""

import itertools
import json
import pickle
import re
import shlex
from contextlib import ExitStack, contextmanager
from unittest import mock

import pytest
import torch
import transformers
from ownmodels import bert, classifier, kept_in, language_model, marian
from ownmodels import run as headprune
from tiny import build

from headprune_lib.replication import store
from headprune_lib.replication.data import LANGUAGE_TASKS, OWN_TEXTS, TASKS, TRANSLATION_TASKS
from headprune_lib.replication.data.classification import to_examples
from headprune_lib.replication.measurements import MEASUREMENTS
from headprune_lib.replication.measurements.obtaining import Request
from headprune_lib.replication.models import pretrained
from headprune_lib.replication.models.encoders import finetuned
from headprune_lib.replication.models.pretrained import BASES, LANGUAGE_MODELS
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.profiles import load_profile

TEXTS = (TASKS, TRANSLATION_TASKS, LANGUAGE_TASKS, OWN_TEXTS)
PAGE = (project_root() / "book" / "own_model.md").read_text("utf-8")


def commands_after(words: str) -> list[str]:
    """The commands of the first block of the page after some words."""
    block = re.search(words + r".*?```bash\n(.*?)```", PAGE, re.DOTALL)[1]
    return [line for line in block.splitlines() if not line.startswith("#")]


COMMANDS = commands_after("## From nothing")
KINDS = {"question": ("is the film good", "was the plot dull"), "complaint": ("the cast is bad",)}
SMALL = "profile: {seeds: [1, 2], random_orders: 1, compared: [importance]}\n"


@pytest.fixture
def there(tmp_path, monkeypatch):
    """A folder with a base model and with the task of the page, as a user has them."""
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    kept_in(tmp_path / "my-bert", bert(transformers.BertModel, max_position_embeddings=16))
    folder = tmp_path / "tickets"
    folder.mkdir()
    (folder / "task.yml").write_text(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1] + SMALL)
    words = ("very warm", "cold", "sharp, and glad", "grim", "fine")
    for number, file in enumerate(("train", "test", "chats")):
        rows = [
            f'{kind},"{text} {word}, {number} {again}"'
            for kind, texts in KINDS.items()
            for text, word, again in itertools.product(texts, words, range(4 - number))
        ]
        (folder / f"{file}.csv").write_text("\n".join(["kind,message", *rows]) + "\n")
    with nothing_entered():
        yield tmp_path


@contextmanager
def nothing_entered():
    """Inside, models and text of one's own are entered that nobody knows outside."""
    with ExitStack() as stack:
        for register in (BASES, LANGUAGE_MODELS, *TEXTS):
            stack.enter_context(mock.patch.dict(register))
        yield


def run(line):
    done = headprune(*shlex.split(line, comments=True)[1:])
    assert done.exit_code == 0, (line, done.output, done.exception)
    bars = re.findall(r"([^\r\n]+): +(\d+)%[^\r]*(?:unit/s|s/unit)", done.stderr)
    assert not bars or " run " in line or bars[-1] == (bars[0][0], "100"), "one bar for the whole"
    return done.stdout


def refused(line, message):
    done = headprune(*shlex.split(line))
    assert done.exit_code == 2 and message in done.stderr, (line, done.output, done.exception)
    assert done.stderr.count("\n") == 1


def test_there_are_ten_commands_and_a_worker_knows_the_model_and_the_task(there):
    assert len(COMMANDS) == 10
    with nothing_entered():
        profile = load_profile(model="my-bert", data="tickets")
        sent = pickle.dumps(profile)
    assert (profile.model, profile.task, profile.domains) == ("my-bert", "tickets", ["chats"])
    assert profile.n_scoring == profile.n_selection == 30 and profile.finetuning.max_length == 16
    assert "my-bert" not in BASES and "tickets" not in OWN_TEXTS
    assert pickle.loads(sent) == profile
    assert "tickets" in OWN_TEXTS and "chats" in TASKS and BASES["my-bert"].given


@pytest.mark.slow
def test_nine_commands_measure_and_list(there):
    told = [run(line) for line in COMMANDS[:9]]
    assert "would be stored in" in told[1] and "paper      C1" in told[3]
    (curve,) = there.glob("cache/results/*/pruning_curve/tickets.my-bert.json")
    stored = json.loads(curve.read_text())
    assert {"importance", "random", "entropy"} <= stored["parts"].keys()
    assert {"importance", "entropy"} <= stored["values"]["curves"].keys()
    assert told[8].count("tickets/my-bert: ") >= 4 and "committed  C3" in told[8]


@pytest.mark.nightly
def test_the_tenth_makes_a_page_that_says_what_was_changed(there):
    run(COMMANDS[9])
    page = (there / "04_iterative_pruning-run.html").read_text("utf-8")
    assert "run with parameters of your own" in page and "my-bert" in page
    read = re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL)
    assert not re.search(r"\{(cite|ref|glue)[:a-z]*\}", read) and "et al. (" in read


def test_the_classes_of_a_classifier_are_found_by_their_names(there):
    logits = []
    for names in (("negative", "positive"), ("POSITIVE", "Negative")):
        model = classifier(id2label=dict(enumerate(names)))
        profile = load_profile("smoke", model=str(kept_in(there / names[0], model)))
        assert TASKS[profile.task].labels == ("negative", "positive")
        ids = torch.arange(4, 12)[None]
        with torch.inference_mode():
            logits.append((model(ids).logits, finetuned(profile)(ids).logits))
    torch.testing.assert_close(logits[0][1], logits[0][0])
    torch.testing.assert_close(logits[1][1], logits[1][0].flip(1))
    other = kept_in(there / "other", classifier(id2label={0: "good", 1: "bad"}))
    with pytest.raises(ValueError, match="has the classes good, bad, and"):
        load_profile("smoke", model=str(other))


@pytest.mark.slow
def test_a_translator_and_a_language_model_read_text_of_ones_own(there):
    lines = [
        f"{word} {again}" for word in ("the film is dull", "we like a plot") for again in range(12)
    ]
    marian(there / "my-marian", build("marian"), lines)
    kept_in(there / "my-lm", language_model())
    *_, pairs, passages = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    for name, entry in (("subtitles", pairs), ("notes", passages)):
        (there / name).mkdir()
        (there / name / "task.yml").write_text(f"{entry}profile: {SMALL_LANGUAGE}\n")
        for file in re.findall(r"\w+\.(?:de|en|txt)", entry):
            (there / name / file).write_text("\n".join(lines) + "\n")
    for line, message in OF_ANOTHER_KIND.items():
        refused(line, message)
        assert not (there / "cache" / "results").exists()
    with mock.patch.object(pretrained, "_from_hub", return_value=there / "my-bert"):
        line = "reproduce language_curve --model someone/a-bert --data notes"
        refused(line, "someone/a-bert has a BertModel, no causal language model.")
    told = [run(line) for line in commands_after("Marian translator and")[1:]]
    assert len(told) == 3
    far = "reproduce figure2a --model my-marian --data subtitles"
    done = headprune(*far.split(), "--dry-run")
    assert "will be measured" in done.stderr and "missing here" not in done.stderr, done.stderr
    with nothing_entered():  # as in a process that was not given them
        for register, name in itertools.product((*TEXTS, LANGUAGE_MODELS), ("subtitles", "notes")):
            register.pop(name, None)
        done = headprune("results")
    assert "subtitles/my-marian" in done.stdout and done.stdout.count("  here  ") >= 3, done.output
    assert "cannot be read" not in done.stderr, done.stderr
    stored = {path.parts[-2]: path for path in there.glob("cache/results/*/*/*.json")}
    assert stored.keys() == {"one_head", "across_domains", "language_curve"}  # nothing committed
    sweep = store.load(store.Key.at(stored["one_head"]), stored["one_head"].parents[1]).raw
    drafts = sweep["draft_loss_uncut"]
    assert drafts.min() > 0 and drafts.max() < 1e6
    assert (drafts + sweep["draft_loss_change"] > 0).all()
    curve = json.loads(stored["language_curve"].read_text())
    (command,) = {part["provenance"]["command"] for part in curve["parts"].values()}
    assert re.fullmatch(
        r"headprune reproduce language_curve --profile default --task notes "
        r"--model \S+/my-lm --data \S+/notes( --set \S+)*",
        command,
    ), command
    assert json.loads(stored["across_domains"].read_text())["dataset"] == "subtitles-far/test"
    (there / "subtitles" / "task.yml").write_text(re.sub(r"  far:.*\n", "", pairs))
    done = headprune(*far.split())
    assert done.exit_code == 2 and "has no text of another domain" in done.stderr


OF_ANOTHER_KIND = {
    "reproduce figure1b --model my-bert --data subtitles": "figure1b measures a classifier, and "
    "subtitles is text for a translator. Give other text, or a measurement of a translator\n",
    "reproduce one_head --model my-marian --data subtitles": "for a translator. Add --task subti",
    "reproduce table1 --model my-marian --data tickets": "measures a translator, and tickets "
    "is text for a classifier.",
    "reproduce table1 --model my-marian --data notes": "notes is text for a language model.",
    "reproduce language_curve --model my-lm --data tickets": "a language model, and tickets",
    "reproduce figure1b --model my-marian": "has a MarianMTModel, which cannot classify. Give one",
    "run 01 -p model my-marian -p data subtitles": "MarianMTModel, which cannot classify. Give one",
    "reproduce language_curve --model my-bert --data notes": "has a BertModel, no causal language",
}
SMALL_LANGUAGE = "{language: {shares: [0.5], random_orders: 1, head_tokens: 50}}"
COLUMNS = "{label: kind, text: message}"
ENTRY = "name: tickets\nlabels: [question, complaint]\nfiles: {train: train.csv, test: test.csv}\n"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (f"{ENTRY}lables: [a]\n", "unknown entry 'lables': did you mean labels"),
        (f"{ENTRY}metric: acuracy\n", "unknown metric 'acuracy': did you mean accuracy"),
        (ENTRY.replace("tickets", "sst2"), "a task cannot be called 'sst2'"),
        (ENTRY.replace("train.csv", "trian.csv"), "names trian.csv, which"),
        (ENTRY.replace("[question, complaint]", "[yes, no]"), "between quotes"),
        (ENTRY, "expected ['label', 'text'] among them"),
        (f"{ENTRY}columns: {COLUMNS}\nprofile: {{stepz: 3}}\n", "'stepz': did you"),
        ("name: [", "is not valid YAML"),
        (f"{ENTRY}profile: [1]\n", "profile is [1]. Give names and values, such as"),
        (f"{ENTRY}columns: kind\n", "columns is 'kind'. Give names, such as"),
        (f"{ENTRY}columns: {{labels: kind}}\n", "unknown column 'labels': did you mean label"),
        (ENTRY.replace("[question, complaint]", "question"), "labels is 'question'. Give a list"),
        (ENTRY.replace("labels: [question, complaint]", "languages: de"), "is 'de'. Give a list"),
        *(
            (re.sub(r"files: .*", f"files: {files}", ENTRY), "Give a file, a list of files, or")
            for files in ("3", "{train: 3, test: test.csv}", "[[train.csv]]", "[3]")
        ),
        (ENTRY.replace("test.csv", "./train.csv"), "files has train.csv twice. Give each split"),
        (ENTRY.replace("files: {", "files: {valid: chats.csv, "), "files has valid, and nothing"),
        ("name: tickets\n", "has no files. Give a name, files, and one of labels"),
        ("name: tickets\nfiles: train.csv\n", "does not name one kind of task. Give"),
        (f"{ENTRY}languages: [de, en]\n", "does not name one kind of task. Give"),
        (ENTRY.replace("labels: [question, complaint]", "languages: [de]"), "two languages"),
        (
            "name: t\nunit: line\nfiles: {train: train.csv}\n",
            "no text for test. Give text for each",
        ),
    ],
)
def test_a_wrong_description_is_one_line(there, entry, message):
    (there / "tickets" / "task.yml").write_text(entry)
    refused("reproduce figure1b --data tickets --model my-bert", message)


def test_labels_score_and_tokenizer_are_in_the_signature(there):
    described = (there / "tickets" / "task.yml").read_text()

    def signature(described):
        (there / "tickets" / "task.yml").write_text(described)
        with nothing_entered():
            profile = load_profile(task="tickets", model="my-bert", data="tickets")
            request = Request(MEASUREMENTS["one_head"], "encoder", profile, "tickets")
            return request.signature(request.parts[0])

    labels = re.search(r"labels: .*", described)[0]
    usual = signature(described)
    assert signature(described) == usual
    assert signature(described.replace(labels, f"{labels}\nmetric: f1")) != usual
    tokenizer = there / "my-bert" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + " ")
    assert signature(described) != usual


@pytest.mark.parametrize(
    ("labels", "numbers"),
    [(["1", "2", "3"], [0, 1, 2]), (["-1", "1"], [0, 1]), (["1", "0"], [0, 1])],
)
def test_labels_that_are_numbers_are_names(labels, numbers):
    rows = [("line", label, f"text {label}") for label in labels]
    texts = to_examples(rows, labels)
    found = dict(zip(texts.texts, texts.labels, strict=True))
    assert [found[f"text {label}"] for label in labels] == numbers


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "has no vocabulary"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"damaged"), "damaged"),
        (
            lambda folder: (folder / "config.json").write_text(
                (folder / "config.json")
                .read_text()
                .replace('hidden_layers": 2', 'hidden_layers": 3')
            ),
            "lack",
        ),
        (
            lambda folder: (folder / "config.json").write_text(
                json.dumps(
                    json.loads((folder / "config.json").read_text())
                    | {"problem_type": "multi_label_classification"}
                )
            ),
            "gives a text several labels",
        ),
    ],
)
def test_a_model_that_is_not_whole_or_of_another_kind_is_refused(there, damage, message):
    damage(there / "my-bert")
    done = headprune("reproduce", "figure1b", "--data", "tickets", "--model", "my-bert")
    assert done.exit_code == 2 and message in done.stderr, (done.output, done.exception)


def test_verify_says_that_it_is_for_committed_results(there):
    refused("verify figure1b --model my-bert --data tickets", "committed results, not your own")
