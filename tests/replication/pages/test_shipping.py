"""Every stored result lies beside the pages, as JSON and as CSV."""

import csv
import json
from types import SimpleNamespace

import pytest

from headprune_lib.replication import store
from headprune_lib.replication.pages.shipping import csv_rows, offer_to_run, ship
from headprune_lib.replication.paths import project_root


@pytest.mark.slow
def test_every_result_is_there_in_both_forms(tmp_path):
    ship(tmp_path)
    for key in store.find():
        shipped = tmp_path / key.path().relative_to(project_root())
        assert shipped.read_bytes() == key.path().read_bytes()
        with shipped.with_suffix(".csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(csv_rows(store.load(key).values)) > 0 and all(rows[0])
    published = tmp_path / "data" / "reference" / "independent_reproductions.json"
    assert json.loads(published.read_text("utf-8"))["grids"]


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        (
            {
                "shares": [0.0, 0.5],
                "curves": {"random": {"mean": [3, 2], "runs": [[4, 2], [2, 2]]}},
            },
            [
                {"order": "random", "removed": 0.0, "mean": 3, "run 1": 4, "run 2": 2},
                {"order": "random", "removed": 0.5, "mean": 2, "run 1": 2, "run 2": 2},
            ],
        ),
        (
            {"heads": [{"head": 3, "interval": [-1.0, 2.0], "counts": [1, 2], "more": {"x": 1}}]},
            [{"head": 3, "interval_low": -1.0, "interval_high": 2.0}],
        ),
        (
            {"recovered": [{"order": "a", "before": {"score": 0.5, "interval": [0.4, 0.6]}}]},
            [
                {
                    "order": "a",
                    "before_score": 0.5,
                    "before_interval_low": 0.4,
                    "before_interval_high": 0.6,
                }
            ],
        ),
    ],
)
def test_rows_are_steps_and_intervals_two_columns(values, rows):
    assert csv_rows(values) == rows


def test_notebooks_can_be_launched_where_the_codes_address_is_known(monkeypatch):
    for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    config = SimpleNamespace(html_theme_options={"use_download_button": True})
    offer_to_run(config)
    assert config.html_theme_options == {"use_download_button": True}
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://example.org")
    monkeypatch.setenv("GITHUB_REPOSITORY", "somebody/heads")
    offer_to_run(config)
    assert config.html_theme_options["repository_url"] == "https://example.org/somebody/heads"
    assert {*config.html_theme_options["launch_buttons"]} >= {"binderhub_url", "colab_url"}
