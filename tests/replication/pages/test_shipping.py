"""Every stored result lies beside the pages, as JSON and as CSV."""

import csv
import json
from types import SimpleNamespace

import pytest

from headprune_lib.replication import store
from headprune_lib.replication.pages.shipping import csv_rows, offer_to_run, ship
from headprune_lib.replication.paths import project_root


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    ship(folder)
    return folder


def test_every_result_is_there_in_both_forms(site):
    assert store.find()
    for key in store.find():
        shipped = site / key.path().relative_to(project_root())
        assert shipped.read_bytes() == key.path().read_bytes()
        with shipped.with_suffix(".csv").open() as file:
            rows = list(csv.DictReader(file))
        assert rows and all(rows[0]), shipped.name


def test_what_was_published_is_there(site):
    shipped = site / "data" / "reference" / "independent_reproductions.json"
    assert json.loads(shipped.read_text("utf-8"))["grids"]


def test_a_curves_rows_are_its_steps():
    values = {
        "shares": [0.0, 0.5],
        "curves": {"random": {"mean": [3, 2], "runs": [[4, 2], [2, 2]]}},
    }
    assert csv_rows(values) == [
        {"order": "random", "removed": 0.0, "mean": 3, "run 1": 4, "run 2": 2},
        {"order": "random", "removed": 0.5, "mean": 2, "run 1": 2, "run 2": 2},
    ]


def test_an_interval_has_two_columns_and_longer_lists_none():
    head = {"head": 3, "interval": [-1.0, 2.0], "discordant": [1, 2], "more": {"x": 1}}
    assert csv_rows({"heads": [head]}) == [{"head": 3, "interval_low": -1.0, "interval_high": 2.0}]


def test_before_and_after_have_columns_of_their_own():
    row = {"order": "random", "before": {"score": 0.5, "interval": [0.4, 0.6]}, "seen": {"x": 1}}
    assert csv_rows({"recovered": [row]}) == [
        {
            "order": "random",
            "before_score": 0.5,
            "before_interval_low": 0.4,
            "before_interval_high": 0.6,
        }
    ]


def test_notebooks_can_be_launched_where_the_codes_address_is_known(monkeypatch):
    for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"):
        monkeypatch.delenv(name, raising=False)
    config = SimpleNamespace(html_theme_options={"use_download_button": True})
    offer_to_run(config)
    assert config.html_theme_options == {"use_download_button": True}
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://example.org")
    monkeypatch.setenv("GITHUB_REPOSITORY", "somebody/heads")
    offer_to_run(config)
    options = config.html_theme_options
    assert options["use_download_button"]
    assert options["repository_url"] == "https://example.org/somebody/heads"
    assert set(options["launch_buttons"]) >= {"binderhub_url", "colab_url"}
