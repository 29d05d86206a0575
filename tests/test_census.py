"""The census: testing model types again gives what the table says of them."""

import re

import census
import pytest
import torch
from census import cases, importance, laws, tiny
from tiny import in_tiers

from headprune_lib import score_heads
from headprune_lib.replication.paths import project_root

TABLE = project_root() / "data" / "census.csv"
ROWS = {row["model type"]: row for row in census.read(TABLE)}
FAST = ("xlm-roberta", "falcon", "dinov2")  # an encoder, fused and grouped keys, images
SLOW = (  # grouped, fused, two towers, encoder-decoder, speech, uneven; shared keys; experts
    *("qwen2", "phi3", "clip", "mt5", "whisper", "swin", "gemma4_text", "switch_transformers"),
    *("bart", "gpt2", "llama", "t5", "vit"),  # known by name: outputs of layers
)


def test_every_type_was_asked_and_the_page_shows_what_came_of_them():
    assert set(ROWS) == set(census.model_types())
    assert sum(row["outcome"] == census.PASSED for row in ROWS.values()) >= 300
    assert [name for name, row in ROWS.items() if row["outcome"].startswith(census.WRONG)] == []
    for name, row in ROWS.items():
        assert row["outcome"], name
        if row["outcome"] == census.PASSED:
            assert {row[law].partition(": ")[0] for law in census.LAWS} <= {"yes", "-"}, name
            assert row["identity"] == row["columns"] == "yes", name
    page = (project_root() / "book" / "models.md").read_text("utf-8")
    shown = dict(re.findall(r"^\| ([\w ,]+?) \| +(\d+) \|", page, re.MULTILINE))
    assert shown == {name: str(n) for name, n in census.tally(ROWS.values()).items()}
    families = re.findall(r"^\|.+\|(.+)\|(.*)\|(.*)\|$", page.split("## ")[0], re.MULTILINE)[2:]
    assert len(families) == 6
    for cells in families:
        takes, masks, refused = (filter(None, cell.strip().split(", ")) for cell in cells)
        assert all(ROWS[name]["outcome"] == census.PASSED for name in takes)
        assert all("scored, not removed" in ROWS[name]["removal"] for name in masks)
        assert all(ROWS[name]["outcome"].startswith("refused:") for name in refused)


@pytest.mark.parametrize("name", in_tiers((*FAST, *SLOW), FAST))
def test_types_that_no_list_names_pass_every_law(name):
    row = census.row_of(name)
    assert row["outcome"] == ROWS[name]["outcome"] == census.PASSED, row
    # transformers' own falcon allocates its cache for a wrong number of heads: not due to pruning
    chunks = "-: unpruned, RuntimeError: index_copy_()" if name == "falcon" else ""
    assert row["chunks, static"].startswith(chunks)


@pytest.mark.nightly
def test_what_the_table_says_is_so_and_refused_types_do_not_turn_wrong():
    # a type refused or not built today may pass tomorrow; one said to pass must pass
    outcomes = {name: row["outcome"] for name, row in ROWS.items()}
    passed = [name for name, outcome in outcomes.items() if outcome.startswith(census.PASSED)]
    refused = [name for name, outcome in outcomes.items() if outcome.startswith(census.REFUSED)]
    rows = {row["model type"]: row for row in census.take([*passed, *refused])}
    laws_of = {name: [rows[name].get(law) for law in census.LAWS] for name in passed}
    assert laws_of == {name: [ROWS[name][law] for law in census.LAWS] for name in passed}
    assert [n for n in refused if rows[n]["outcome"].startswith(census.WRONG)] == []


@pytest.mark.parametrize("name", in_tiers(("yoso", "hrm_text"), {"yoso"}))
def test_a_gradient_that_is_no_derivative_is_refused(name):
    model, ids = tiny.build(name), torch.randint(4, 20, (2, 6))
    batch = {"input_ids": ids, "labels": ids if model.can_generate() else ids[:, 0] * 0}
    for by in ("importance", "fisher", "gates", "second-order"):
        with pytest.raises(ValueError, match=r"\.py:\d+ .*without a gradient"):
            score_heads(model, [batch], by)
    assert score_heads(model, [batch], "greedy")["self"].isfinite().all()


def test_a_law_that_does_not_hold_is_said(monkeypatch):
    def damaged(model, mask):
        for embedding in (m for m in model.modules() if isinstance(m, torch.nn.Embedding)):
            embedding.weight.data[:, 0] += 1
        return model

    for module in (cases, laws):
        monkeypatch.setattr(module, "prune_heads", damaged)
    fives = {"self": torch.full((2, 4), 5.0)}
    monkeypatch.setattr(importance, "head_importance", lambda *_, **__: fives)
    answers = laws.ask(tiny.build("bert"))
    assert answers["identity"] == answers["columns"] == "yes"
    assert answers["removal"].startswith("no: pruned and masked differ")
    assert answers["empty layer"].startswith("no: pruned and masked differ")
    assert answers["importance"].startswith("no: self 0 0: 5, finite differences")
    assert answers["places"].startswith("no: hidden_states[0] is that of another layer")
    answers = laws.ask(tiny.build("gpt2"))
    for law in ("generation", "static cache", "chunked prefill", "chunks, static"):
        assert answers[law].startswith("no: what pruned and masked models generate"), law
