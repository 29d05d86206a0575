"""What is done to every page of the site."""

import pytest

from headprune_lib.replication.pages.site.typography import with_minus_signs


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
