"""The report on a pruning: it says what was done, is accessible, and needs no other file."""

import pytest
import torch
from bs4 import BeautifulSoup
from ownmodels import classifier, kept_in, told

from headprune_lib import head_mask, prune_heads
from headprune_lib.cli.report import maps


@pytest.fixture
def made(tmp_path, labelled, monkeypatch):
    """A report on a model whose name looks like markup, and what the command printed."""
    folder = kept_in(tmp_path / "<b>model", classifier())
    words = ["prune", folder, labelled, tmp_path / "out", "--parameters", 0.9]
    words += ["--report", tmp_path / "report.html"]
    monkeypatch.setattr("sys.argv", ["headprune", *map(str, words)])
    return tmp_path / "report.html", told(*words)


def test_the_map_the_curves_and_the_table_are_those_of_the_pruning(made, tmp_path):
    path, found = made
    soup = BeautifulSoup(path.read_text("utf-8"), "html.parser")
    cells = soup.select(".map td")
    assert len(cells) == 8
    gone = found["before"]["heads"] - found["after"]["heads"]
    assert sum("removed" in cell["class"] for cell in cells) == gone > 0
    assert sum(cell.find("del") is not None for cell in cells) == gone  # not by colour alone
    assert all(0 <= float(cell.text) <= 1 for cell in cells)
    (walked,) = [one for one in soup.select("figure") if "What was walked" in one.text]
    points = [row.th.text for row in walked.select("tbody tr")]
    gone_at = [point["heads gone"] for point in found["walked"]]
    assert [int(text.split()[0]) for text in points] == gone_at
    assert ["(taken)" in text for text in points] == [False] * (len(points) - 1) + [True]
    drawn = walked.polyline["points"].split()
    assert len(drawn) == len(points) and f"M {drawn[-1]} h 0".replace(",", " ") == walked.path["d"]
    table = {row.th.text: [td.text for td in row.select("td")] for row in soup.select("tbody tr")}
    assert table["heads"][:2] == ["8", str(8 - gone)]
    assert table["accuracy"][0] == f"{found['before']['accuracy']:.4f}"
    assert f"--parameters 0.9 --report {path}" in soup.select("main > p > code")[-1].text
    assert {"headprune", "torch", "transformers", "Python"} <= {dt.text for dt in soup.select("dt")}
    assert soup.b is None and "<b>model" in soup.title.text  # the folder's name is no markup


def test_heads_that_were_gone_before_and_places_without_a_head():
    def model(*gone):
        return prune_heads(classifier(), head_mask(classifier(), list(gone)))

    scores = {"self": torch.arange(8.0).reshape(2, 4)}
    scores["self"][0, 1] = torch.nan
    rows = maps(model(("self", 0, 1)), model(("self", 0, 1), ("self", 1, 0)), scores)["self"]
    assert [[state for state, *_ in row] for row in rows] == [
        ["kept", "gone", "kept", "kept"],
        ["removed", "kept", "kept", "kept"],
    ]
    assert (rows[0][0], rows[0][1]) == (("kept", "0", 0), ("gone", "", 0))
    assert rows[1][3] == ("kept", "7", 1)
