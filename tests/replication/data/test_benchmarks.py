"""Public benchmarks from tiny files in every layout, and from the Hub's loader."""

from dataclasses import replace

import datasets
import pytest

from headprune_lib.replication.data import TASKS, MissingData
from headprune_lib.replication.data.tables import Hub, Lines, Table, to_examples

PAIRS = "index\tsentence1\tsentence2\tlabel1\tgold_label\n"
FILES = {
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
        f"mrpc/msr_paraphrase_{split}.txt": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        f'1\t7\t8\tHe said "{split}\tShe said\n'
        for split in ("train", "test")
    },
    "mrpc (GLUE)": {
        f"MRPC/{split}.tsv": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe said\tShe said\n"
        for split in ("train", "dev")
    },
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
        f"SNLI/{split}.tsv": PAIRS + "0\tA dog.\tIt barks.\tneutral\tneutral\n"
        "1\tA dog.\tAn animal.\tneutral\t-\n"
        for split in ("dev", "test")
    },
    "sick": {
        "sick/SICK_test_annotated.txt": "pair_ID\tsentence_A\tsentence_B\t"
        "relatedness_score\tentailment_judgment\n"
        "6\tNo boy.\tA boy.\t3.3\tCONTRADICTION\n"
    },
    "mnli (files)": {
        "mnli/train_part.tsv": PAIRS + "0\tA dog.\tIt barks.\tneutral\tneutral\n"
        "1\tA cat.\tIt purrs.\tneutral\tentailment\n",
        "mnli/dev_matched.tsv": PAIRS + "0\tA cat.\tIt barks.\tneutral\tcontradiction\n",
        "snli/labels.dev": "neutral\n",
        "snli/s1.dev": "A boy.\n",
        "snli/s2.dev": "He runs.\n",
    },
    "mnli": {
        "MNLI/train.tsv": PAIRS + "0\tA dog.\tIt barks.\tneutral\tneutral\n",
        "MNLI/dev_matched.tsv": PAIRS + "0\tA cat.\tIt barks.\tneutral\tcontradiction\n",
    },
    "mnli-mismatched (files)": {
        "mnli/dev_mismatched_part.tsv": PAIRS + "0\tA.\tB.\tneutral\tentailment\n"
    },
    "mnli-mismatched": {"MNLI/dev_mismatched.tsv": PAIRS + "0\tA.\tB.\tneutral\tentailment\n"},
}


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize("case", FILES)
def test_every_layout_is_read(case, tmp_path):
    task = TASKS[case.split()[0]]
    splits = task.load(write(tmp_path, FILES[case]))
    assert set(splits) >= (
        {"test"} if task.name in ("sick", "mnli-mismatched") else {"train", "test"}
    )
    for name, examples in splits.items():
        assert len(examples) and set(examples.labels) <= set(range(len(task.labels))), name
        pairs = task.name in ("mrpc", "snli", "sick", "mnli", "mnli-mismatched")
        assert (examples.second is not None) == pairs


def test_what_is_trained_on_beside_a_task_stands_amid_its_own(tmp_path):
    train = TASKS["mnli"].split("train", write(tmp_path, FILES["mnli (files)"]))
    assert {train.texts[0], train.texts[2]} == {"A dog.", "A cat."}
    assert (train.texts[1], train.second[1]) == ("A boy.", "He runs.")


def test_two_layouts_of_the_same_text_are_one_dataset(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    cola = TASKS["cola"]
    one = cola.checksums(write(tmp_path / "a", FILES["cola"]))
    assert one == cola.checksums(write(tmp_path / "b", FILES["cola (GLUE)"]))
    assert one != cola.registered


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    sst2 = TASKS["sst2"]
    assert sst2.checksums() == sst2.registered  # nothing at hand: the committed results'
    monkeypatch.setenv("HEADPRUNE_DATA", write(tmp_path, FILES["sst2"]))
    assert sst2.load()["test"].texts == ("dull",)
    assert sst2.checksums() != sst2.registered


def test_the_hub_and_a_folder_give_the_same_examples(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "results"))  # notes what is fetched
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "cache"))
    cola, hub = TASKS["cola"], tmp_path / "hub"
    hub.mkdir()
    for split, rows in {
        "train": [("A cat sat.", 1), ("Sat a cat.", 0)],
        "validation": [("He ran.", 1), ("Ran he.", 0)],
    }.items():
        datasets.Dataset.from_list(
            [{"sentence": text, "label": label, "idx": i} for i, (text, label) in enumerate(rows)],
            features=datasets.Features(
                {
                    "sentence": datasets.Value("string"),
                    "idx": datasets.Value("int32"),
                    "label": datasets.ClassLabel(names=["unacceptable", "acceptable"]),
                }
            ),
        ).to_parquet(hub / f"{split}.parquet")
    cola = replace(cola, hub=Hub(str(hub), None, cola.hub.splits, "label", "sentence"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    (tmp_path / "files").mkdir()
    folder = write(tmp_path / "files", FILES["cola"])
    assert cola.load("hub") == cola.load(folder)
    assert cola.checksums("hub") == cola.checksums(folder)
    with pytest.raises(MissingData, match="no text for cola at hand"):
        cola.load()  # the Hub is read where it is asked for


@pytest.mark.parametrize(
    ("folder", "files", "message"),
    [
        ("nowhere", {}, "there is no folder .*nowhere"),
        (
            "",
            {"cola/in_domain_train.tsv": ""},
            r"lacks cola/in_domain_dev\.tsv, cola/out_of_domain_dev\.tsv for cola$",
        ),
        ("", {"sst2/train.tsv": ""}, r"(?s)holds nothing for cola.*Put cola/in_domain_train\.tsv"),
    ],
)
def test_a_folder_without_the_text_says_what_is_missing(tmp_path, folder, files, message):
    write(tmp_path, files)
    with pytest.raises(MissingData, match=message):
        TASKS["cola"].load(str(tmp_path / folder))


def test_an_incomplete_folder_in_the_environment_is_not_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_DATA", write(tmp_path, {"cola/in_domain_train.tsv": ""}))
    with pytest.raises(MissingData, match="lacks cola/in_domain_dev"):
        TASKS["cola"].checksums()
    assert TASKS["mrpc"].checksums() == TASKS["mrpc"].registered


class OwnError(Exception):
    """Of a library below, such as a proxy's refusal."""


@pytest.mark.parametrize("error", [ConnectionError, ValueError, OwnError])
def test_a_hub_that_cannot_be_reached_says_what_to_put_where(monkeypatch, error):
    def unreachable(*_args, **_kwargs):
        raise error("no route to host")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(MissingData, match=r"(?s)no route to host.*or MNLI/train\.tsv") as refused:
        TASKS["mnli"].load("hub")
    assert "data=hub" not in str(refused.value), "no use in asking it again"
    with pytest.raises(MissingData, match="SICK_test_annotated"):
        TASKS["sick"].load("hub")


def test_a_task_without_training_text_is_refused_in_words(tmp_path):
    folder = write(tmp_path, FILES["sick"])
    with pytest.raises(ValueError, match="sick has no split train, only test"):
        TASKS["sick"].split("train", folder)


def test_text_in_another_encoding_is_named(tmp_path):
    (tmp_path / "t").write_bytes("gut\t1\nschön\t0\n".encode("latin-1"))
    with pytest.raises(ValueError, match="t, after line 0: .*UTF-8"):
        list(Table(("t",), 1, 0, width=2).rows(tmp_path))
    (tmp_path / "l").write_text("0\n1\n")
    with pytest.raises(ValueError, match="l, t must be text in UTF-8"):
        list(Lines("l", "t").rows(tmp_path))


@pytest.mark.parametrize(
    ("table", "content", "message"),
    [
        (Table(("t",), 1, 0, width=2), "good\t1\nbad\n", "line 2: 1 columns, expected 2"),
        (Table(("t",), "label", "text"), "label\ttxt\n", "'text'. among them"),
        (
            Table(("t",), 1, 0, width=2),
            "good\t7\n",
            "line 1: unknown label '7', expected one of no, yes",
        ),
        (Table(("t",), 1, 0, width=2), " \t1\n", "line 1: an empty text"),
    ],
)
def test_bad_lines_are_named(table, content, message, tmp_path):
    (tmp_path / "t").write_text(content)
    with pytest.raises(ValueError, match=message):
        to_examples(table.rows(tmp_path), ("no", "yes"))


def test_parallel_files_must_be_equally_long(tmp_path):
    (tmp_path / "l").write_text("0\n1\n")
    (tmp_path / "a").write_text("one\n")
    with pytest.raises(ValueError, match="differ in their numbers of lines"):
        list(Lines("l", "a").rows(tmp_path))
