"""Public benchmarks from tiny files in every layout, and from the Hub's loader."""

from dataclasses import replace

import datasets
import pytest

from headprune_lib.replication.data import TASKS, MissingData

PAIRS = "index\tsentence1\tsentence2\tlabel1\tgold_label\n"
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe said"
SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
NEUTRAL = PAIRS + "0\tA dog.\tIt barks.\tneutral\tneutral\n"
CASES = {
    "sst2": {
        "sst2/train.tsv": "good film\t1\nbad\t0\n",
        "sst2/dev.tsv": "fine\t1\n",
        "sst2/test.tsv": "dull\t0\n",
    },
    "sst2 (GLUE)": {
        "SST-2/train.tsv": "sentence\tlabel\ngood film\t1\nbad\t0\n",
        "SST-2/dev.tsv": "sentence\tlabel\ndull\t0\n",
    },
    "cola": {
        "cola/in_domain_train.tsv": "gj04\t1\t\tA cat sat.\ngj04\t0\t*\tSat a cat.\n",
        "cola/in_domain_dev.tsv": "gj04\t1\t\tHe ran.\n",
        "cola/out_of_domain_dev.tsv": "clc95\t0\t*\tRan he.\n",
    },
    "cola (GLUE)": {
        "CoLA/train.tsv": "gj04\t1\t\tA cat sat.\ngj04\t0\t*\tSat a cat.\n",
        "CoLA/dev.tsv": "gj04\t1\t\tHe ran.\nclc95\t0\t*\tRan he.\n",
    },
    "mrpc": {
        f"mrpc/msr_paraphrase_{split}.txt": f'\ufeff{MRPC} "{split}\tShe said\n'
        for split in ("train", "test")
    },
    "mrpc (GLUE)": {f"MRPC/{split}.tsv": f"{MRPC}\tShe said\n" for split in ("train", "dev")},
    "snli": {
        f"snli/{file}.{split}": content
        for split in ("dev", "test")
        for file, content in (
            ("labels", "neutral\nentailment\n"),
            ("s1", "A dog.\nA dog.\n"),
            ("s2", "It barks.\nAn animal.\n"),
        )
    },
    "snli (GLUE)": {
        f"SNLI/{split}.tsv": NEUTRAL + "1\tA dog.\tAn animal.\tneutral\t-\n"
        for split in ("dev", "test")
    },
    "sick": {"sick/SICK_test_annotated.txt": SICK + "6\tNo boy.\tA boy.\t3.3\tCONTRADICTION\n"},
    "mnli (files)": {
        "mnli/train_part.tsv": NEUTRAL + "1\tA cat.\tIt purrs.\tneutral\tentailment\n",
        "mnli/dev_matched.tsv": NEUTRAL,
        "snli/labels.dev": "neutral\n",
        "snli/s1.dev": "A boy.\n",
        "snli/s2.dev": "He runs.\n",
    },
    "mnli-mismatched (files)": {
        "mnli/dev_mismatched_part.tsv": PAIRS + "0\tA.\tB.\tneutral\tentailment\n"
    },
    "mnli": {"MNLI/train.tsv": NEUTRAL, "MNLI/dev_matched.tsv": NEUTRAL},
    "mnli-mismatched": {"MNLI/dev_mismatched.tsv": PAIRS + "0\tA.\tB.\tneutral\tentailment\n"},
}
# What the rows of the test split hold: texts, second texts, names of the labels.
TEST_ROWS = {
    "sst2": (("dull",), None, ["negative"]),
    "cola": (("He ran.", "Ran he."), None, ["acceptable", "unacceptable"]),
    "mrpc (GLUE)": (("He said",), ("She said",), ["paraphrase"]),
    "snli": (("A dog.", "A dog."), ("It barks.", "An animal."), ["neutral", "entailment"]),
    "snli (GLUE)": (("A dog.",), ("It barks.",), ["neutral"]),
    "sick": (("No boy.",), ("A boy.",), ["contradiction"]),
}


def write(folder, files, encoding="utf-8"):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding=encoding)
    return str(folder)


@pytest.mark.parametrize("case", CASES)
def test_every_layout_is_read(case, tmp_path):
    task = TASKS[case.split()[0]]
    splits = task.load(write(tmp_path, CASES[case]))
    assert "train" in splits or task.name in ("sick", "mnli-mismatched")
    test = splits["test"]
    rows = (test.texts, test.second, [task.labels[label] for label in test.labels])
    assert rows == TEST_ROWS.get(case, rows)
    for name, examples in splits.items():
        assert len(examples) and set(examples.labels) <= set(range(len(task.labels))), name
        assert (examples.second is None) == (task.name in ("sst2", "cola"))


def test_what_is_trained_on_beside_a_task_stands_amid_its_own(tmp_path):
    train = TASKS["mnli"].split("train", write(tmp_path, CASES["mnli (files)"]))
    assert {train.texts[0], train.texts[2]} == {"A dog.", "A cat."}
    assert (train.texts[1], train.second[1]) == ("A boy.", "He runs.")


def test_two_layouts_of_the_same_text_are_one_dataset_and_the_environment_names_it(
    tmp_path, monkeypatch
):
    cola, mrpc = TASKS["cola"], TASKS["mrpc"]
    assert cola.checksums() == cola.registered  # nothing at hand: the committed results'
    own = cola.checksums(write(tmp_path / "a", CASES["cola"]))
    assert own == cola.checksums(write(tmp_path / "b", CASES["cola (GLUE)"])) != cola.registered
    monkeypatch.setenv("HEADPRUNE_DATA", str(tmp_path / "a"))
    assert cola.load()["test"].texts == ("He ran.", "Ran he.") and cola.checksums() == own
    (tmp_path / "a" / "cola" / "in_domain_dev.tsv").unlink()
    with pytest.raises(MissingData, match="lacks cola/in_domain_dev"):  # and is not passed over
        cola.checksums()
    assert mrpc.checksums() == mrpc.registered


def test_the_hub_and_a_folder_give_the_same_examples(tmp_path, elsewhere, monkeypatch):
    cola, hub = TASKS["cola"], tmp_path / "hub"
    hub.mkdir()
    names = datasets.ClassLabel(names=["unacceptable", "acceptable"])
    texts = {"train": ["A cat sat.", "Sat a cat."], "validation": ["He ran.", "Ran he."]}
    for split, sentences in texts.items():
        rows = datasets.Dataset.from_dict({"sentence": sentences, "idx": [0, 1], "label": [1, 0]})
        rows.cast_column("label", names).to_parquet(hub / f"{split}.parquet")
    cola = replace(cola, hub=replace(cola.hub, path=str(hub), config=None))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    folder = write(tmp_path / "files", CASES["cola"])
    assert cola.load("hub") == cola.load(folder)
    assert cola.checksums("hub") == cola.checksums(folder)
    with pytest.raises(MissingData, match="no text for cola was found"):
        cola.load()  # the Hub is read where it is asked for


@pytest.mark.parametrize(
    ("task", "files", "message"),
    [
        ("sst2", {"sst2/test.tsv": "good\t1\nbad\n"}, "line 2: 1 columns, expected 2"),
        ("sst2", {"sst2/dev.tsv": "good\t7\n"}, "line 1: unknown label '7', expected one of neg"),
        ("sst2", {"sst2/dev.tsv": "schön\t1\n"}, "dev.tsv, after line 0: .*UTF-8"),
        ("sst2", {"sst2/dev.tsv": " \t1\n"}, "dev.tsv, line 1: an empty text"),
        ("sst2 (GLUE)", {"SST-2/dev.tsv": "sentence\tlbl\n"}, "'label'. among them"),
        ("snli", {"snli/s1.dev": "A dog.\n"}, "labels.dev has 2, s1.dev has 1, s2.dev has 2 lines"),
        ("snli", {"snli/s2.dev": "schön\nA.\n"}, "s2.dev must be text in UTF-8"),
    ],
)
def test_what_cannot_be_read_is_named(task, files, message, tmp_path):
    folder = write(tmp_path, {**CASES[task], **files}, encoding="latin-1")
    with pytest.raises(ValueError, match=message):
        TASKS[task.split()[0]].load(folder)
