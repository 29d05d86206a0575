"""The code on the pages runs as it stands, and the page of reruns names what there is."""

import re

import nbformat
import pytest
import torch
import transformers as t
from tiny import SHAPE, TWO_SIDED

from headprune_lib import find_heads
from headprune_lib.replication.pages.notebooks import notebooks_root
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.pretrained import BASES, load_tokenizer
from headprune_lib.replication.profiles import PROFILES

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOTEBOOKS = sorted(
    path
    for one in ("0", "12", "14")
    for path in notebooks_root().glob(f"{one}*.ipynb")
    if "```python" in path.read_text("utf-8")
)
SENTENCES = (
    "text\tlabel\nthe film is good\tpositive\nbad film\tnegative\na very dull plot\tnegative\n"
)
IDS = [[5, 6, 7, 2], [8, 9, 4, 2]]


@pytest.mark.parametrize("page", ["prune", "teach"])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, forget_taught):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {"negative": 0, "positive": 1}
    shape = {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 16}
    labels = {"label2id": names, "id2label": {i: name for name, i in names.items()}}
    config = t.BertConfig(vocab_size=64, num_hidden_layers=2, **shape, **labels)
    t.BertForSequenceClassification(config).save_pretrained("my-model")
    load_tokenizer("tiny").save_pretrained("my-model")
    (tmp_path / "train.tsv").write_text(SENTENCES)
    blocks = BLOCK.findall((project_root() / "book" / f"{page}.md").read_text("utf-8"))
    assert len(blocks) >= 3
    namespace: dict = {}
    for block in blocks:
        exec(compile(block, f"book/{page}.md", "exec"), namespace)
    if page == "prune":
        assert sum(len(block.kept_heads) for block in find_heads(namespace["model"])) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_shown_lines_of_a_notebook_run(path):
    """On what the pages take for granted, tiny; a layer 3 with a head 6 is among the model's."""
    torch.manual_seed(0)
    wide = {"hidden_size": 24, "num_attention_heads": 6, "intermediate_size": 24}
    model = t.BertForSequenceClassification(t.BertConfig(**SHAPE, **wide, num_hidden_layers=3))
    translator = t.MarianMTModel(t.MarianConfig(**TWO_SIDED, bad_words_ids=None)).eval()
    sources = {"input_ids": torch.tensor(IDS), "attention_mask": torch.ones(2, 4, dtype=torch.long)}
    batch = {**sources, "labels": torch.tensor([0, 1])}
    names = {
        "model": model.eval(),
        "batch": batch,
        "batches": [batch],
        "scores": {"self": torch.rand(3, 6)},
        "translator": translator,
        "checkpoint": translator,
        "pairs": [{**sources, "labels": torch.tensor(IDS)}],
        "sources": sources,
        "translations": ["a small house"],
        "references": ["a small house"],
    }
    cells = nbformat.read(path, as_version=4).cells
    (block,) = BLOCK.findall("\n".join(one.source for one in cells if one.cell_type == "markdown"))
    exec(compile(block, path.name, "exec"), names)
    left = sum(len(one.kept_heads) for one in find_heads(names["model"]))
    assert (left < 18) == ("prune_heads(" in block)


def test_the_page_of_reruns_names_every_profile_model_and_variable():
    page = (project_root() / "book" / "rerun.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(profile|model)` \| ([^|]*) \|", page, re.MULTILINE))
    assert {*re.findall(r"`([\w-]+)`", rows["profile"])} == {*PROFILES}
    assert {*re.findall(r"`([\w-]+)`", rows["model"])} == {*BASES}
    assert not [name for name in PROFILES if f"\n`{name}`\n: " not in page]
    sources = (path.read_text("utf-8") for path in (project_root() / "headprune_lib").rglob("*.py"))
    read = {name for text in sources for name in re.findall(r"\bHEADPRUNE_[A-Z]+", text)}
    told = {*re.findall(r"`(HEADPRUNE_[A-Z]+)`", page.rpartition("table-variables")[2])}
    assert len(read) >= 6 and read <= told
