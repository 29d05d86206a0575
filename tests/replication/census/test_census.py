"""The census: what the table says of model types is what asking them again gives."""

import mmap
import re

import pytest
import torch

from headprune_lib import find_heads, score_heads
from headprune_lib.replication.census import cases, importance, laws, tiny
from headprune_lib.replication.census.census import (
    LAWS,
    NOT_BUILT,
    PASSED,
    WRONG,
    model_types,
    passed,
    read,
    row_of,
    take,
    tally,
    write,
)
from headprune_lib.replication.census.tiny import build
from headprune_lib.replication.paths import project_root

TABLE = project_root() / "data" / "census.csv"
ROWS = {row["model type"]: row for row in read(TABLE)}
# of each make one: fused, grouped, latent, two towers, encoder-decoder, speech, images, uneven
SAMPLE = (
    *("xlm-roberta", "qwen2", "phi3", "falcon", "clip", "mt5", "whisper", "dinov2", "swin"),
    *("gemma4_text", "switch_transformers"),  # layers that share keys; experts
)


def test_no_type_is_wrong():
    assert [name for name, row in ROWS.items() if row["outcome"].startswith(WRONG)] == []


def test_laws_are_asked_of_layers_where_no_cut_changes_what_comes_out():
    model, inputs = build("xcodec"), {"input_values": torch.randn(2, 1, 400)}
    case = cases.Case(model, inputs, whole=True)
    assert case.made_of_codes
    assert cases.distance(case.masked, case.plain) > 1e-3  # its layers tell
    assert laws._columns(case) == laws._removal(case) == "yes"
    model.semantic_model.encoder.layers[1].attention.out_proj.weight.data.zero_()
    model.semantic_model.encoder.layers[0].attention.out_proj.weight.data.zero_()
    with pytest.raises(laws.Broken, match="cut heads change nothing"):
        laws._columns(cases.Case(model, inputs, whole=True))


def test_what_is_wrong_with_a_part_is_said_whatever_other_parts_say(monkeypatch):
    said = iter(({"removal": "refused: so"}, {"removal": "no: not so"}, {"removal": "yes"}))

    def parts(model, _blocks):
        yield from [(model, {})] * 3
        raise cases.NotReached("a fourth is not reached")

    monkeypatch.setattr(laws, "parts_of", parts)
    monkeypatch.setattr(laws, "_ask_part", lambda *_, **__: next(said))
    unasked = []
    assert laws.ask(build("bert"), unasked)["removal"] == "no: not so"
    assert unasked == ["a fourth is not reached"]


def test_a_gradient_that_is_no_derivative_is_refused():
    for name in ("hrm_text", "yoso"):  # small ones of those that are
        model = tiny.build(name)
        ids = torch.randint(4, 20, (2, 6))
        batch = {"input_ids": ids, "labels": ids if model.can_generate() else ids[:, 0] * 0}
        for by in ("importance", "fisher", "gates", "second-order"):
            with pytest.raises(ValueError, match=r"\.py:\d+ .*without a gradient"):
                score_heads(model, [batch], by)
        assert score_heads(model, [batch], "greedy")["self"].isfinite().all()


def test_every_type_was_asked_and_most_that_have_attention_pass():
    assert set(ROWS) == set(model_types())
    assert sum(row["outcome"] == PASSED for row in ROWS.values()) >= 300


def test_every_row_says_what_came_of_the_type():
    for name, row in ROWS.items():
        assert row["outcome"], name
        if row["outcome"] == PASSED:
            assert passed(row) and row["identity"] == row["columns"] == "yes", name


@pytest.mark.parametrize("name", SAMPLE)
def test_types_that_no_list_names_pass_every_law(name):
    row = row_of(name)
    assert passed(row), row
    assert passed(ROWS[name])


@pytest.mark.nightly
def test_what_the_table_says_of_types_that_pass_is_so():
    # what is refused or not built today may be taken tomorrow; what is said to pass, passes
    asked = [name for name, row in ROWS.items() if row["outcome"].startswith(PASSED)]
    found = {row["model type"]: row for row in take(asked, jobs=2, seconds=300)}
    laws_of = {name: [row.get(law) for law in LAWS] for name, row in found.items()}
    assert laws_of == {name: [ROWS[name][law] for law in LAWS] for name in asked}


@pytest.mark.nightly
def test_refused_types_do_not_turn_wrong():
    # one that is taken today and was refused may pass, but not give wrong numbers
    refused = sorted(name for name, row in ROWS.items() if row["outcome"].startswith("refused"))
    found = {row["model type"]: row["outcome"] for row in take(refused, jobs=2, seconds=300)}
    assert found.keys() == set(refused)
    assert [name for name, outcome in found.items() if outcome.startswith(WRONG)] == []


def test_the_page_shows_the_tally_of_the_table():
    page = (project_root() / "book" / "models.md").read_text("utf-8")
    shown = dict(re.findall(r"^\| ([\w ,]+?) \| +(\d+) \|$", page, re.MULTILINE))
    assert shown == {name: str(n) for name, n in tally(ROWS.values()).items()}


def test_a_law_that_does_not_hold_is_said(monkeypatch):
    model = build("bert")

    def damaged(model, mask):
        model.bert.embeddings.word_embeddings.weight.data[:, 0] += 1
        return model

    for module in (cases, laws):
        monkeypatch.setattr(module, "prune_heads", damaged)
    monkeypatch.setattr(
        importance, "head_importance", lambda *_, **__: {"self": torch.full((2, 4), 5.0)}
    )
    answers = laws.ask(model)
    assert answers["identity"] == answers["columns"] == "yes"
    assert answers["removal"].startswith("no: pruned and masked differ")
    assert answers["empty layer"].startswith("no: pruned and masked differ")
    assert answers["importance"].startswith("no: self 0 0: 5, finite differences")
    assert answers["places"].startswith("no: hidden_states[0] is that of another layer")


@pytest.mark.parametrize("law", ["generation", "static cache", "chunked prefill", "chunks, static"])
def test_another_token_or_logit_is_said_of_every_cache(monkeypatch, law):
    def damaged(model, mask):
        model.transformer.wte.weight.data[:, 0] += 1
        return model

    monkeypatch.setattr(laws, "prune_heads", damaged)
    assert laws.ask(build("gpt2"))[law].startswith("no: what pruned and masked models generate")


def test_what_the_unpruned_model_cannot_do_is_no_fault_of_a_pruned_one():
    row = row_of("falcon")  # transformers makes room for other heads than its keys have
    assert row["chunks, static"].startswith("-: unpruned, RuntimeError: index_copy_()")
    assert passed(row) and row["static cache"] == "yes"


def test_an_error_inside_a_law_is_not_taken_for_a_model_that_was_not_built(monkeypatch):
    def fails(*_):
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(laws, "ask", fails)
    assert row_of("bert")["outcome"].startswith(f"{WRONG}: IndexError")


def test_what_single_precision_feigns_is_asked_again_in_double(monkeypatch):
    model, ids = build("bert"), torch.randint(4, 20, (2, 6))
    blocks = find_heads(model)
    whole = importance._difference

    def blind(model, *given):
        single = next(model.parameters()).dtype == torch.float32
        return (0.0, 0.0) if single else whole(model, *given)

    monkeypatch.setattr(importance, "_difference", blind)
    assert importance.importance_problem(model, {"input_ids": ids}, {}, blocks) == ""
    monkeypatch.setattr(importance, "_in_double", lambda *_: None)
    assert "finite differences 0" in importance.importance_problem(
        model, {"input_ids": ids}, {}, blocks
    )


def test_a_type_that_takes_too_long_is_left(monkeypatch):
    (row,) = take(["bert"], seconds=0)
    assert row["outcome"] == f"{NOT_BUILT}: more than 0 s"


def test_memory_is_what_a_type_takes_beyond_its_asker():
    held = mmap.mmap(-1, 7 * 2**30)  # address space alone: nothing of it is touched
    (row,) = take(["bert"], seconds=300, gigabytes=6)
    held.close()
    assert passed(row), row
    (row,) = take(["bert"], seconds=300, gigabytes=0)
    assert not passed(row)


def test_the_table_is_read_as_it_was_written(tmp_path):
    rows = [{"model type": "b", "outcome": 'said "so", twice'}, {"model type": "a"}]
    write(rows, tmp_path / "table.csv")
    found = read(tmp_path / "table.csv")
    assert [row["model type"] for row in found] == ["a", "b"]
    assert found[1]["outcome"] == 'said "so", twice' and found[0]["identity"] == ""
