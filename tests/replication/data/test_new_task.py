"""A task that nobody listed anywhere else is trained on, measured and found."""

import dataclasses

import numpy as np
import pytest
import torch

from headprune_lib.replication import measurements
from headprune_lib.replication.data import TASKS, Examples, Task
from headprune_lib.replication.data.synthetic import WORDS
from headprune_lib.replication.encoder.recipe import recipe
from headprune_lib.replication.encoder.weights import finetuned, weights_path
from headprune_lib.replication.measurements.obtaining import results_folder
from headprune_lib.replication.pretrained import BASES, load_tokenizer
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.titles import setting, spelled


def three_classes() -> dict[str, Examples]:
    """Which group of words ends a sentence of neutral ones."""
    rows = [
        (f"{a} {b} {end}", label)
        for a in WORDS[None]
        for b in WORDS[None]
        if a < b
        for label, end in enumerate((WORDS[0][0], WORDS[1][0], WORDS[1][1]))
    ]
    parts = {"train": rows[:130], "test": rows[130:]}
    return {name: Examples(*map(tuple, zip(*part, strict=True))) for name, part in parts.items()}


@pytest.fixture
def task(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "cache"))
    made = Task(
        "ends",
        "which word ends a sentence",
        ("bad", "good", "fine"),
        three_classes,
        {"ends": "enumerated"},
        short="Ends",
    )
    monkeypatch.setitem(TASKS, made.name, made)
    return made


def test_a_new_task_is_trained_scored_and_found(task):
    profile = load_profile("smoke", task="ends")
    result = measurements.get("figure1b", profile)
    assert result.task == "ends" and setting(result) == "tiny, Ends"
    assert weights_path("tiny", recipe(profile, 1)).name.startswith("ends-tiny-seed1")
    # its accuracy, one sentence at a time
    model, tokenizer = finetuned(profile), load_tokenizer("tiny")
    assert model.config.id2label == {0: "bad", 1: "good", 2: "fine"}
    test = task.split("test").first(profile.n_examples)
    with torch.no_grad():
        right = [
            int(model(**tokenizer(text, return_tensors="pt")).logits.argmax()) == label
            for text, label in zip(test.texts, test.labels, strict=True)
        ]
    assert result.values["baseline"]["accuracy"] == pytest.approx(np.mean(right), abs=1e-6)
    # found again, by its name
    folder = results_folder(profile)
    assert [found.values for found in measurements.found("figure1b", root=folder)] == [
        result.values
    ]
    assert result.key.path(folder).name == "ends.tiny.json"
    with pytest.raises(ValueError, match="unknown task 'end': did you mean ends"):
        load_profile("smoke", task="end")


def test_pages_take_names_from_the_entries(task, monkeypatch):
    monkeypatch.setitem(BASES, "other", dataclasses.replace(BASES["tiny"], short="Other"))
    assert [spelled(name) for name in ("ends", "other", "minilm", "sst2", "nyt", "tiny", "x")] == [
        "Ends",
        "Other",
        "MiniLM",
        "SST-2",
        "NYT",
        "tiny",
        "x",
    ]
    shorts = [entry.short for entry in (*TASKS.values(), *BASES.values()) if entry.short]
    assert len(shorts) == len(set(shorts))  # two rows of a table are told apart
