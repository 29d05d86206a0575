"""The lines of code that a page of the paper shows run as they stand."""

import re

import nbformat
import numpy as np
import pytest
import torch
import transformers as t
from tiny import SHAPE, TWO_SIDED

from headprune_lib import find_heads
from headprune_lib.replication.pages.notebooks import notebooks_root

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = sorted(
    path for number in ("0", "12", "14") for path in notebooks_root().glob(f"{number}*.ipynb")
)
ROWS = [[5, 6, 7, 2], [8, 9, 4, 2]]


def batch():
    """Two rows with labels."""
    return {
        "input_ids": torch.tensor(ROWS),
        "attention_mask": torch.ones(2, 4, dtype=torch.long),
        "labels": torch.tensor([0, 1]),
    }


@pytest.fixture
def names():
    """What the pages take for granted, tiny; a layer 3 with a head 6 is among the model's."""
    torch.manual_seed(0)
    wide = {"hidden_size": 24, "num_attention_heads": 6, "intermediate_size": 24}
    model = t.BertForSequenceClassification(t.BertConfig(**SHAPE, **wide, num_hidden_layers=3))
    translator = t.MarianMTModel(t.MarianConfig(**TWO_SIDED, bad_words_ids=None)).eval()
    pair = {**batch(), "labels": torch.tensor(ROWS)}
    return {
        "model": model.eval(),
        "batch": batch(),
        "batches": [batch()],
        "other_batches": [batch()],
        "scores": {"self": torch.rand(3, 6)},
        "translator": translator,
        "checkpoint": translator,
        "pairs": [pair],
        "sources": {name: pair[name] for name in ("input_ids", "attention_mask")},
        "translations": ["a small house"],
        "references": ["a small house"],
        "effects_here": np.arange(12.0).reshape(3, 4),
        "effects_there": np.arange(12.0).reshape(3, 4) ** 2,
    }


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_shown_lines_run(path, names):
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    (block,) = BLOCK.findall(text)
    assert len(block.strip().splitlines()) <= 9
    before = sum(len(one.kept) for one in find_heads(names["model"]))
    exec(compile(block, path.name, "exec"), names)
    after = sum(len(one.kept) for one in find_heads(names["model"]))
    assert (after < before) == ("prune_heads(" in block)
