"""The README and the page of the deviations say what the stored results say."""

import pytest

from headprune_lib.replication import store
from headprune_lib.replication.pages import findings
from headprune_lib.replication.paths import project_root
from headprune_lib.replication.store import Key

ROOT = project_root()


@pytest.mark.slow
def test_the_readme_holds_the_findings_of_the_stored_results():
    text = (ROOT / "README.md").read_text("utf-8")
    between = text.partition(findings.START)[2].partition(findings.END)[0]
    expected = findings.findings(findings.shown_curve())
    assert between.strip() == expected, "run `headprune findings`"
    assert (ROOT / findings.FIGURE).is_file()


def test_the_page_on_deviations_holds_the_recipes():
    text = (ROOT / findings.DEVIATIONS).read_text("utf-8")
    for task in findings.TUNED:
        before, after = findings.around(text, *findings.recipe_marks(task), ROOT)
        result = store.stored(Key("recipes", task, "minilm"))
        expected = findings.recipes(result).strip() if result else ""
        assert text[len(before) : -len(after)].strip() == expected, "run `headprune findings`"


def test_what_is_missing_is_told_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(findings, "project_root", lambda: tmp_path)
    readme = tmp_path / "README.md"
    readme.write_text(f"{findings.START} but no end")
    with pytest.raises(ValueError, match="lacks the marks"):
        findings.write_findings()
    assert readme.read_text() == f"{findings.START} but no end"
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="headprune reproduce figure3b"):
        findings.shown_curve()
