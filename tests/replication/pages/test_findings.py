"""The README says what the stored results say."""

import pytest

from headprune_lib.replication.pages import findings
from headprune_lib.replication.paths import project_root

ROOT = project_root()


@pytest.mark.slow
def test_the_readme_holds_the_findings_of_the_stored_results():
    text = (ROOT / "README.md").read_text("utf-8")
    between = text.partition(findings.START)[2].partition(findings.END)[0]
    expected = findings.findings(findings.shown_curve())
    assert between.strip() == expected, "run `headprune findings`"
    assert (ROOT / findings.FIGURE).is_file()


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
