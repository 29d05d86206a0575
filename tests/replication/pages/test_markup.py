"""Tables as HTML that can be read, sorted, pointed to and taken away."""

import base64
import io

import pandas as pd
from bs4 import BeautifulSoup

from headprune_lib.replication.pages.display import show
from headprune_lib.replication.pages.tables.markup import Markup, as_html

CELLS = [
    {"": "C1", "value": "0.12 [0.10, 0.20]", "ours": "replicates"},
    {"": "a<b", "value": "not measured", "ours": Markup("<b>x</b>")},
]
TABLE = pd.DataFrame(CELLS, dtype=object)


def test_headers_have_scopes_words_are_escaped_and_intervals_stay_on_a_line():
    found = BeautifulSoup(as_html(TABLE), "html.parser")
    assert {th["scope"] for th in found.select("thead th")} == {"col"}
    assert {th["scope"] for th in found.select("tbody th")} == {"row"}
    assert all(th.get_text(strip=True) for th in found.select("th"))
    assert "a<b" in found.select("tbody th")[1].get_text()
    assert found.select_one("td b").get_text() == "x" and found.select_one(".verdict-replicates")
    assert "0.12 [0.10,\N{NO-BREAK SPACE}0.20]" in found.get_text()
    assert not found.select("caption, [id]"), "it has no name"
    assert show(pd.DataFrame()).data == "<p>Not measured.</p>"


def test_a_named_table_has_a_caption_an_anchor_and_its_cells_as_csv():
    made = as_html(TABLE, name="Table S1", caption="What is seen.")
    caption = BeautifulSoup(made, "html.parser").select_one("#table-s1 > table > caption")
    assert caption.get_text().startswith("Table S1. What is")
    link = caption.select_one("a[download='table-s1.csv']")
    content = base64.b64decode(link["href"].partition(",")[2]).decode()
    assert pd.read_csv(io.StringIO(content))["value"].tolist() == TABLE["value"].tolist()
