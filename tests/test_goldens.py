"""What readers see of the committed results is what it was; see ``tests/goldens.py``."""

import goldens
import pytest


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow if kind in ("values", "tables") else [])
        for kind in goldens.KINDS
    ],
)
def test_nothing_that_readers_see_has_changed(kind):
    assert goldens.compare([kind]) == [], "if it was meant to: python tests/goldens.py write"
