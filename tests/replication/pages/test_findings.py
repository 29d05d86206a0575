"""The README says what the stored results say."""

import pytest

from headprune_lib.replication import store
from headprune_lib.replication.pages import findings
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.store import Key


def test_the_readme_holds_the_findings_of_the_stored_results():
    curve = findings.shown_curve()
    text = (project_root() / "README.md").read_text("utf-8")
    between = text.partition(findings.START)[2].partition(findings.END)[0]
    assert between.strip() == findings.findings(curve), "run `headprune findings`"
    assert (project_root() / findings.FIGURE).is_file()


def test_the_page_on_deviations_holds_the_recipes_once_all_are_stored():
    before, after = findings.around(
        project_root() / findings.DEVIATIONS, findings.RECIPES_START, findings.RECIPES_END
    )
    between = (project_root() / findings.DEVIATIONS).read_text("utf-8")[len(before) : -len(after)]
    assert between.count("\n  |") == 9  # a header, its line, and seven recipes
    stored = store.stored(Key("recipes", findings.TUNED, "minilm"))
    if stored and findings.every_recipe(stored):
        assert between.strip() == findings.recipes(stored).strip(), "run `headprune findings`"


def test_without_the_curve_the_message_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="headprune reproduce figure3b"):
        findings.shown_curve()


def test_a_readme_without_the_marks_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(findings, "project_root", lambda: tmp_path)
    readme = tmp_path / "README.md"
    readme.write_text(f"{findings.START} but no end")
    with pytest.raises(ValueError, match="lacks the marks"):
        findings.write_findings()
    assert readme.read_text() == f"{findings.START} but no end"
