"""What is done to every page."""

from xml.etree import ElementTree

import pytest

from headprune_lib.replication.pages.site import building


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ('<span class="math notranslate">x</span>', True),
        ('<div class="output">\\(x\\)</div>', True),
        ('<p class="mathematics">x</p>', False),
        ("<p>none</p>", False),
    ],
)
def test_a_formula_is_seen(body, found):
    assert building.has_formula(body) is found


def test_addresses_are_whole_only_where_the_sites_own_is_known():
    without = building.head_tags("A & B", "What “it” says", "", "index.html")
    assert "og:title" in without
    assert "A &amp; B" in without
    assert "og:image" not in without
    own = building.head_tags("A", "B", "https://example.org/book/", "book/x.html")
    assert 'content="https://example.org/book/_static/figure3b.png"' in own
    assert 'href="https://example.org/book/book/x.html"' in own


def test_the_sitemap_is_xml_with_every_page():
    made = ElementTree.fromstring(building.sitemap(["a.html", "b/c&d.html"], "https://example.org"))
    places = [one.text for one in made.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")]
    assert places == ["https://example.org/a.html", "https://example.org/b/c&d.html"]


def test_the_repository_is_what_the_workflow_says(monkeypatch):
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://example.org")
    monkeypatch.setenv("GITHUB_REPOSITORY", "some/book")
    assert building.repository() == "https://example.org/some/book"
