"""The code on the pages for practitioners runs as it stands."""

import re

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from headprune_lib import find_heads
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.pretrained import load_tokenizer

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
