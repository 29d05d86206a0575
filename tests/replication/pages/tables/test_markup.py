"""Tables as HTML that can be read, sorted, pointed to and taken away."""

import base64
import io

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from headprune_lib.replication.pages.tables.markup import Markup, as_html


@pytest.fixture
def table():
    return pd.DataFrame(
        [
            {"": "C1", "value": "0.12 [0.10, 0.20]", "ours": "replicates"},
            {"": "a<b", "value": "not measured", "ours": Markup("<b>x</b>")},
        ],
        dtype=object,
    )


def markup(table, **kwargs):
    return BeautifulSoup(as_html(table, **kwargs), "html.parser")


def test_every_header_says_what_it_heads_and_none_is_empty(table):
    found = markup(table)
    assert {th["scope"] for th in found.select("thead th")} == {"col"}
    assert {th["scope"] for th in found.select("tbody th")} == {"row"}
    assert all(th.get_text(strip=True) for th in found.select("th"))


def test_a_named_table_has_a_caption_an_anchor_and_its_cells_as_csv(table):
    found = markup(table, name="Table S1", caption="What is seen.")
    assert (
        found.select_one("#table-s1 > table > caption").get_text().startswith("Table S1. What is")
    )
    link = found.select_one("caption a[download]")
    assert link["download"] == "table-s1.csv"
    content = base64.b64decode(link["href"].partition(",")[2]).decode()
    assert pd.read_csv(io.StringIO(content))["value"].tolist() == table["value"].tolist()


def test_words_are_escaped_and_markup_is_not(table):
    found = markup(table)
    assert "a<b" in found.select("tbody th")[1].get_text()
    assert found.select_one("td b").get_text() == "x"
    assert found.select_one(".verdict-replicates") and found.select_one("th strong")


def test_an_interval_stays_on_one_line(table):
    assert "0.12 [0.10,\N{NO-BREAK SPACE}0.20]" in markup(table).get_text()


def test_without_a_name_there_is_no_caption(table):
    assert not markup(table).select("caption, [id]")
