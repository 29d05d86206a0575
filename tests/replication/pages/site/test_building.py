"""What is done to every page of the site."""

from xml.etree import ElementTree

import pytest

from headprune_lib.replication.pages.site import building
from headprune_lib.replication.pages.site.typography import with_minus_signs


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('<div class="output">\\(x\\)</div><span class="math notranslate">x</span>', True),
        ('<p class="mathematics">x</p>', False),
    ],
)
def test_a_formula_is_seen(body, found):
    assert building.has_formula(body) is found


def test_addresses_are_whole_only_where_the_sites_own_is_known(monkeypatch):
    without = building.head_tags("A & B", "What “it” says", "", "index.html")
    assert "og:title" in without and "A &amp; B" in without and "og:image" not in without
    whole = building.head_tags("A", "B", "https://example.org/book/", "book/x.html")
    assert 'content="https://example.org/book/_static/figure3b.png"' in whole
    assert 'href="https://example.org/book/book/x.html"' in whole
    sitemap = building.sitemap(["a.html", "b/c&d.html"], "https://example.org")
    places = ElementTree.fromstring(sitemap).iter(
        "{http://www.sitemaps.org/schemas/sitemap/0.9}loc"
    )
    expected = ["https://example.org/a.html", "https://example.org/b/c&d.html"]
    assert [place.text for place in places] == expected
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://example.org")
    monkeypatch.setenv("GITHUB_REPOSITORY", "some/book")
    assert building.repository() == "https://example.org/some/book"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<td>-0.5</td>", "<td>−0.5</td>"),
        ("0.1 [-0.2, -.05]", "0.1 [−0.2, −.05]"),
        ("(-7.2 to -6.1), -25%", "(−7.2 to −6.1), −25%"),
        ("from -0.0 to −0% and -0.4%", "from 0.0 to 0% and −0.4%"),
        ("<code>-1</code> -1 <pre>-1</pre>-1", "<code>-1</code> −1 <pre>-1</pre>−1"),
        # no numbers below zero, or not text
        ("2026-11-24, SST-2, 1e-4, 0-50%, pre-norm", None),
        ("<em>enc</em>-2", None),
        ('<path d="M -1 -2"/><svg viewBox="-1 0 1 1">x</svg>', None),
        ("<code class='x'><span>a</span> -1</code>", None),
        ("<script>x = -1</script>", None),
        ('<span class="math notranslate">\\(-1\\)</span>', None),
        ('<dt class="sig sig-object py"><em>dim</em>= <span>-1</span></dt>', None),
    ],
)
def test_numbers_below_zero_that_are_read_have_a_minus_sign(body, expected):
    assert with_minus_signs(body) == (expected or body)
