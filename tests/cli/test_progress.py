"""A bar is drawn where somebody looks, for each round, and the batches are as they were."""

import io

import pytest

from headprune_lib.cli.progress import Watched


@pytest.mark.parametrize("terminal", [True, False])
def test_each_round_has_a_bar_on_a_terminal_and_nothing_goes_into_a_file(monkeypatch, terminal):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr("sys.stderr", stream)
    watched = Watched([1, 2, 3])
    assert [list(watched), list(watched), len(watched)] == [[1, 2, 3], [1, 2, 3], 3]
    assert stream.getvalue().count("scoring heads:   0%|") == 2 * terminal
