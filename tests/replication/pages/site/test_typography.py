"""Negative numbers have a minus sign where they are read, and code stays as it is."""

import pytest

from headprune_lib.replication.pages.site.typography import with_minus_signs


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<td>-0.5</td>", "<td>−0.5</td>"),
        ("0.1 [-0.2, -.05]", "0.1 [−0.2, −.05]"),
        ("(-7.2 to -6.1), -25%", "(−7.2 to −6.1), −25%"),
        ("<td>−0.5</td>", "<td>−0.5</td>"),
        ("from -0.0 to −0% and -0.4%", "from 0.0 to 0% and −0.4%"),
        # no numbers below zero
        ("2026-11-24, SST-2, 1e-4, 0-50%, pre-norm", None),
        ("<em>enc</em>-2", None),
        # not text
        ('<path d="M -1 -2"/><svg viewBox="-1 0 1 1">x</svg>', None),
        ("<code class='x'><span>a</span> -1</code>", None),
        ("<pre>\n<b>-1</b> -2</pre>", None),
        ("<script>x = -1</script>", None),
        ('<span class="math notranslate">\\(-1\\)</span>', None),
        ('<dt class="sig sig-object py"><em>dim</em>= <span>-1</span></dt>', None),
    ],
)
def test_only_numbers_that_are_read_change(body, expected):
    assert with_minus_signs(body) == (expected or body)


def test_text_after_what_is_left_alone_is_seen():
    assert with_minus_signs("<code>-1</code> -1 <pre>-1</pre>-1") == (
        "<code>-1</code> −1 <pre>-1</pre>−1"
    )
