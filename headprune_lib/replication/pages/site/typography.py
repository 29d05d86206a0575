"""Signs as print has them, minus before a negative number, and room for formulas."""

from __future__ import annotations

import re

# What is left as it is comes first: code, formulas and signatures with all that is in them, other
# tags, and a hyphen after a word that a tag ends ("<em>enc</em>-2").
_FOUND = re.compile(
    r"<(script|style|code|pre|textarea)\b.*?</\1>"
    r"|<(span|div)\b[^>]*\bclass=\"[^\"]*\bmath\b[^>]*>.*?</\2>"
    r"|<dt\b[^>]*\bclass=\"[^\"]*\bsig\b[^>]*>.*?</dt>"
    r"|</(?:a|abbr|b|code|em|i|strong|sub|sup)>-?"
    r"|<[^>]*>"
    r"|(?<![\w.)\]/–−-])(?P<minus>[-−])(?P<nothing>(?=0(?:\.0+)?(?![\d.])))?(?=\.?\d)",
    re.DOTALL,
)


def with_minus_signs(body: str) -> str:
    """A page's HTML with a minus sign before every negative number that is read as text.

    What is rounded to zero has no sign.

    >>> with_minus_signs("<td title='-1'>-0.5 [-1, 2]</td> <code>-1</code> 2026-11-24, SST-2")
    "<td title='-1'>−0.5 [−1, 2]</td> <code>-1</code> 2026-11-24, SST-2"
    """
    return _FOUND.sub(_sign, body)


def _sign(found: re.Match[str]) -> str:
    if not found["minus"]:
        return found[0]
    return "" if found["nothing"] is not None else "−"


_FORMULA = re.compile(r'<div class="(math [^"]*)">(.*?)</div>', re.DOTALL)


def with_room_for_formulas(body: str) -> str:
    r"""Formulas on lines of their own with the class that says how tall they will be.

    >>> with_room_for_formulas('<div class="math notranslate">\\frac{1}{2}</div>')
    '<div class="math notranslate fraction">\\frac{1}{2}</div>'
    """
    return _FORMULA.sub(_with_height, body)


def _with_height(found: re.Match[str]) -> str:
    classes, formula = found.groups()
    for sign, height in ((r"\sum", "sum"), (r"\frac", "fraction")):
        if sign in formula:
            return f'<div class="{classes} {height}">{formula}</div>'
    return found[0]
