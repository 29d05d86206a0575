"""A bar is drawn where somebody looks, for each round, and the batches are as they were."""

import io

from headprune_lib.cli.progress import Watched


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_each_round_has_a_bar_of_its_own_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    watched = Watched([1, 2, 3])
    assert [list(watched), list(watched), len(watched)] == [[1, 2, 3], [1, 2, 3], 3]
    assert terminal.getvalue().count("scoring heads:   0%|") == 2
    assert "0/3" in terminal.getvalue()


def test_nothing_is_drawn_into_a_file(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr("sys.stderr", file)
    assert list(Watched([1])) == [1] and file.getvalue() == ""
