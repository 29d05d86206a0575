"""The code on the pages runs as it stands, and the page of reruns names what there is."""

import re

import pytest
import torch
import transformers as t

from headprune_lib import find_heads
from headprune_lib.replication.models.pretrained import BASES, load_tokenizer
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.profiles import PROFILES

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SENTENCES = (
    "text\tlabel\nthe film is good\tpositive\nbad film\tnegative\na very dull plot\tnegative\n"
)


@pytest.mark.parametrize("page", ["prune", "models"])
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
