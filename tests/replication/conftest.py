"""What several modules of this folder share."""

import pytest


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder whose ``results`` and ``cache`` stand in place of everybody's."""
    for name in ("results", "cache"):
        monkeypatch.setenv(f"HEADPRUNE_{name.upper()}", str(tmp_path / name))
    return tmp_path
