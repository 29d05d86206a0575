"""The choice among the bounds, and options that contradict one another."""

import pytest
from ownmodels import classifier, kept_in, language_model, run, told

from headprune_lib import find_heads, load_pruned
from headprune_lib.budgets import cache_cost
from headprune_lib.cli.bounds import TITLES
from headprune_lib.cli.quality import quality
from headprune_lib.masking import ones_mask


@pytest.mark.parametrize("value", [0.9, 12000.0])
def test_parameters_as_a_share_or_a_number(tmp_path, folder, labelled, value):
    out = tmp_path / "out"
    found = told("prune", folder, labelled, out, "--parameters", value)
    before = found["before"]["parameters"]
    limit = value * before if value < 1 else value
    *_, last_but_one, last = found["walked"]
    assert last["parameters"] == found["after"]["parameters"] <= limit
    assert last_but_one["parameters"] > limit and found["walked"][0]["parameters"] == before
    assert found["bound"] == {"option": "--parameters", "value": value}
    assert sum(p.numel() for p in load_pruned(out).parameters()) == last["parameters"]


def test_a_cache_per_group_and_the_printed_curve(tmp_path):
    folder, rows = kept_in(tmp_path / "model", language_model()), tmp_path / "rows.tsv"
    rows.write_text("text\nthe film is good\nbad film\n")
    words = ("prune", folder, rows, tmp_path / "out", "--cache-bytes", 6000, "--at", "4x16")
    result = run(*words, "--per-group", "--group-score", "sum")
    assert result.exit_code == 0, result.output
    assert "bytes of keys and values" in result.output and "<- taken" in result.output
    model = load_pruned(tmp_path / "out")
    assert cache_cost(model, 4, 16)(ones_mask(model)) <= 6000
    assert {block.queries_per_kv for block in find_heads(model) if block.kept_heads} <= {1, 2}


def test_seconds_by_a_measured_table(tmp_path, folder, labelled):
    found = told("prune", folder, labelled, tmp_path / "out", "--seconds", 60, "--at", "2x8")
    assert found["after"]["heads"] == 8 and [p["heads gone"] for p in found["walked"]] == [0]
    assert 0 < found["walked"][0]["seconds a pass"] < 60
    result = run("prune", folder, labelled, tmp_path / "no", "--seconds", 1e-9, "--at", "2x8")
    assert result.exit_code == 2 and "1e-09 cannot be reached" in result.stderr
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(("option", "lost"), [("--lose-nats", 0.05), ("--lose-points", 34)])
def test_a_quality_is_kept_on_held_out_text(tmp_path, folder, labelled, batches_of, option, lost):
    out, held = tmp_path / "out", tmp_path / "held.tsv"
    held.write_text("text\tlabel\ngood plot\tpositive\nthe film\tnegative\ndull\tpositive\n")
    found = told("prune", folder, labelled, out, option, lost, "--held-out", held)
    name = "loss" if option == "--lose-nats" else "accuracy"
    both = classifier(), load_pruned(out)
    before, after = (quality(model, batches_of(held))[name] for model in both)
    bad = 1 if name == "loss" else -100
    assert bad * (after - before) <= lost + 1e-4
    walked = {point["heads gone"]: point[TITLES[option]] for point in found["walked"]}
    assert walked[0] == pytest.approx(before)
    gone = 8 - found["after"]["heads"]
    assert walked[gone] == pytest.approx(after, abs=1e-4)
    if gone < 8:
        assert bad * (walked[gone + 1] - before) > lost
