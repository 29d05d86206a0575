"""The code on the pages for practitioners runs as it stands."""

import re

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from headprune_lib import find_heads
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.pretrained import BASES, load_tokenizer
from headprune_lib.replication.profiles import PROFILES

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ROWS = "text\tlabel\nthe film is good\tpositive\nbad film\tnegative\na very dull plot\tnegative\n"


@pytest.mark.parametrize("page", ["prune", "teach"])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, forget_taught):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names = {"negative": 0, "positive": 1}
    BertForSequenceClassification(
        BertConfig(
            vocab_size=64,
            hidden_size=16,
            num_attention_heads=4,
            num_hidden_layers=2,
            intermediate_size=16,
            label2id=names,
            id2label={i: name for name, i in names.items()},
        )
    ).save_pretrained("my-model")
    load_tokenizer("tiny").save_pretrained("my-model")
    (tmp_path / "train.tsv").write_text(ROWS)
    blocks = BLOCK.findall((project_root() / "book" / f"{page}.md").read_text("utf-8"))
    assert len(blocks) >= 3
    namespace: dict = {}
    for block in blocks:
        exec(compile(block, f"book/{page}.md", "exec"), namespace)
    if page == "prune":
        assert sum(len(block.kept) for block in find_heads(namespace["model"])) == 5
        assert [block.kept for block in find_heads(namespace["smaller"])] == [(0, 3), (0, 1, 2, 3)]
        inputs, expected = namespace["batches"][0], namespace["outputs"].logits
        torch.testing.assert_close(namespace["smaller"](**inputs).logits, expected)
        unmasked = namespace["unpruned"](**inputs, head_mask=torch.zeros(2, 4)).logits
        assert torch.equal(unmasked, namespace["unpruned"](**inputs).logits), "told as ignored"
        assert not torch.allclose(unmasked, expected)


def test_the_page_of_reruns_names_every_profile_model_and_variable():
    page = (project_root() / "book" / "rerun.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(profile|model)` \| ([^|]*) \|", page, re.MULTILINE))
    assert {*re.findall(r"`([\w-]+)`", rows["profile"])} == {*PROFILES}
    assert {*re.findall(r"`([\w-]+)`", rows["model"])} == {*BASES}
    for name in PROFILES:
        assert f"\n`{name}`\n: " in page, name
    read = {
        name
        for path in (project_root() / "headprune_lib").rglob("*.py")
        for name in re.findall(r"\bHEADPRUNE_[A-Z]+", path.read_text("utf-8"))
    }
    told = {*re.findall(r"`(HEADPRUNE_[A-Z]+)`", page.rpartition("table-variables")[2])}
    assert len(read) >= 6 and read <= told
