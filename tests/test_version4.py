"""The replacements for transformers' version 4 on the book's page give what version 4 gave."""

import json
import re
from pathlib import Path

import pytest
import torch

from headprune_lib import prune_heads

HERE = Path(__file__).parent
PAGE = (HERE.parent / "book" / "what_replaces_what.md").read_text("utf-8")
VERSION4 = json.loads((HERE / "goldens" / "version4.json").read_text("utf-8"))
MADE: dict = {}  # the models, by the lines that made them in version 4
exec("\n".join(VERSION4["code"]).partition("\ndef rounded")[0], MADE)
IMPORTS = re.search(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)[1]
INPUTS = {"input_ids": torch.arange(4, 16).view(2, 6)}


def build(name):
    return MADE["build"](*MADE["MODELS"][name])


def after(section, **names):
    """The names after a section's lines have run, at most three, given the names before."""
    text = PAGE.partition(f"\n## `{section}`\n")[2].partition("\n## ")[0]
    (lines,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert lines.count("\n") <= 3
    exec(compile(IMPORTS + lines, section, "exec"), names)
    return names


def close(values, stored):
    values = values.detach().flatten(0, -2)
    expected = torch.tensor(stored, dtype=values.dtype)
    torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", MADE["MODELS"])
def test_what_replaces_version_4_gives_what_it_gave(name):
    stored, model = VERSION4[name], build(name)
    head_mask = torch.tensor([[1, 0, 0, 1], [1, 1, 1, 0.25]], requires_grad=True)
    masked = after("head_mask", model=model, inputs=INPUTS, head_mask=head_mask)
    close(masked["outputs"].logits, stored["head_mask"])
    masked["outputs"].logits.square().sum().backward()
    close(head_mask.grad, stored["gradient of head_mask"])
    ignored = model(**INPUTS, head_mask=head_mask) if name == "bert" else model(**INPUTS)
    assert torch.equal(ignored.logits, model(**INPUTS).logits), "told as ignored"
    made = after("get_head_mask", model=model)["head_mask"]
    assert made.tolist() == stored["get_head_mask"]

    smaller = after("prune_heads", model=model)["model"]
    prune_heads(smaller, [(0, 1), (1, 3)])
    close(smaller(**INPUTS).logits, stored["prune_heads"])
    assert sum(one.numel() for one in smaller.parameters()) == stored["n_parameters"]
    gone = after("config.pruned_heads", model=smaller)["pruned_heads"]
    assert gone == {int(layer): heads for layer, heads in stored["config.pruned_heads"].items()}


def test_rows_that_stay_are_those_of_version_4():
    model = build("bert")
    prune_heads(model, [(0, 1)])
    found = after("find_pruneable_heads_and_indices", model=model)
    heads, index = VERSION4["find_pruneable_heads_and_indices"]
    assert {0, 1, 2} & {*found["block"].kept_heads} == {*heads}
    assert found["stay"].nonzero().flatten().tolist() == index
