"""Eight cards, one per claim: what the paper says, what we found by our rule, and the results."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from matplotlib.ticker import MaxNLocator

from headprune_lib.replication.claims.rules import CLAIMS, Claim
from headprune_lib.replication.claims.verdict import BY_OTHERS, Estimate, Row, Verdict
from headprune_lib.replication.formatting import formatted
from headprune_lib.replication.pages.site.answer import GRIDS
from headprune_lib.replication.pages.tables.markup import verdict_html


def cards_html(verdicts: Iterable[Verdict]) -> str:
    """All cards as HTML."""
    return "\n".join(card_html(CLAIMS[verdict.claim], verdict) for verdict in verdicts)


def card_html(claim: Claim, verdict: Verdict) -> str:
    """One card; its anchor is ``claim-c1`` for C1, for that of a row see :func:`row_anchor`."""
    name = claim.id.lower()
    rows = [*verdict.measured, *verdict.others]
    evidence = _text(f"{verdict.how_many_count}. The paper's criterion: {verdict.criterion}.")
    return f"""<article class="claim" id="claim-{name}" aria-labelledby="claim-{name}-title">
<h2 id="claim-{name}-title"><span class="claim-id">{claim.id}</span> {_text(claim.title)}</h2>
<p><strong>Our rule: {verdict_html(verdict.word)}.</strong> {evidence}</p>
<p><strong>The paper.</strong> {_text(claim.paper_value)}</p>
{_of_grids(verdict)}{_plot(claim, rows)}
<p><a href="../{claim.page}">How it was measured: the paper's §{claim.section}</a></p>
{_evidence(claim, rows)}
</article>"""


def _of_grids(verdict: Verdict) -> str:
    """What others measured on the paper's own models, where neither picture nor table has it."""
    if verdict.claim not in GRIDS:
        return ""
    text = GRIDS[verdict.claim]()
    source = '<a href="../notebooks/09_independent.html#measure-this-again">Their numbers</a>'
    return f"<p><strong>The paper's models, by others.</strong> {_text(text.rstrip('.'))}. {source}.</p>\n"


def row_anchor(row: Row) -> str:
    """The anchor of a row of evidence, such as ``c1-figure1b-mpnet-sst-2``."""
    words = f"{row.claim} {row.name} {row.setting}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def _plot(claim: Claim, rows: Sequence[Row]) -> str:
    form = claim.form
    estimates = [(row, mark) for row in rows for mark in row.judged.estimates]
    if not estimates:
        return "<p>No result that this claim could be read from.</p>"
    low, high = _range(estimates)

    def place(value: float) -> float:
        return round(100 * (min(max(value, low), high) - low) / (high - low), 1)

    lines = []
    for row, mark in estimates:
        ends = mark.interval or (mark.value, mark.value)
        left, right = (place(end) for end in ends)
        number = formatted(form, mark.value)
        if mark.interval:
            number += " [{}, {}]".format(*(formatted(form, end) for end in ends))
        name = _text(_dot_name(row.setting, mark.label))
        if _differs_elsewhere(claim, row):
            name += f": {verdict_html(row.word)}"
        side = "left" if mark.value < low else "right"
        dot = "dot" if low <= mark.value <= high else f"dot beyond {side}"
        goes_on = {"left": ends[0] < low <= ends[1], "right": ends[0] <= high < ends[1]}
        arrowheads = "".join(
            f'<i class="on {side}" style="left:{left if side == "left" else right}%"></i>'
            for side, beyond in goes_on.items()
            if beyond and not dot.endswith(side)
        )
        lines.append(
            f'<li class="{_kind(row)}"><span class="name">{name}</span>'
            f'<span class="track" aria-hidden="true"><i class="bound" style="left:{place(mark.bound)}%"></i>'
            f'<i class="bar" style="left:{left}%;width:{round(right - left, 1)}%"></i>{arrowheads}'
            f'<i class="{dot}" style="left:{place(mark.value)}%"></i></span>'
            f'<span class="value">{number}</span></li>'
        )
    ticks = "".join(
        f'<i style="left:{place(tick)}%">{formatted(form, tick)}</i>' for tick in _ticks(low, high)
    )
    axis = f'<li class="axis" aria-hidden="true"><span class="track">{ticks}</span></li>'
    return (
        f'<figure class="dots"><figcaption>{_text(_caption(claim, rows))}</figcaption>'
        f"<ul>{''.join(lines)}{axis}</ul></figure>"
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers within a range, three to six of them.

    >>> _ticks(0.13, 1.02)
    [0.2, 0.4, 0.6, 0.8, 1.0]
    """
    ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
    return [round(tick, 6) + 0.0 for tick in ticks.tolist() if low <= tick <= high]


def _dot_name(setting: str, label: str) -> str:
    """A short name for a dot: a phone has room for some sixteen characters per line.

    >>> _dot_name("MiniLM, reviews, 2-core CPU", "batch 4"), _dot_name("enfr", "")
    ('MiniLM, reviews, 2-core CPU, batch 4', 'enfr')
    >>> _dot_name("post-norm translator of six epochs, German-English (Bible)", "kept at random")
    'post-norm, six epochs, German-English, kept at random'
    """
    setting = setting.replace(" translator of six", ", six").replace(" translator,", ",")
    setting = setting.removesuffix(" (Bible)")
    return ", ".join(filter(None, (setting, label)))


def _kind(row: Row) -> str:
    """The CSS class of a row's dots."""
    return (
        "counts" if row.counts else "by-others" if row.judged.aside == BY_OTHERS else "not-counted"
    )


def _caption(claim: Claim, rows: Sequence[Row]) -> str:
    """A caption that says what the dots are, and on which side of the bound the claim lies."""
    kinds: dict[float, set[str]] = {}  # a rule may ask less of one kind of model than of another
    for row in rows:
        kind = "translators" if row.half == "translation" else "encoders"
        for estimate in row.judged.estimates:
            kinds.setdefault(estimate.bound, set()).add(kind)
    bounds = [
        (claim.form.format(bound) if bound else "0", kinds[bound]) for bound in sorted(kinds)[::-1]
    ]
    if len(bounds) == 2 and all(len(of) == 1 for _, of in bounds):
        bounds_text = " and ".join(f"{bound} for {', '.join(of)}" for bound, of in bounds)
    else:
        bounds_text = " or ".join(bound for bound, _ in bounds)
    shown = claim.shown[0].upper() + claim.shown[1:]
    caption = f"{shown}. Our bound is {bounds_text}; the paper's claim lies to its {claim.side}."
    if any(_differs_elsewhere(claim, row) for row in rows):
        caption += " What is marked “differs” does so by another part of the rule: see the table."
    return caption


def _differs_elsewhere(claim: Claim, row: Row) -> bool:
    """Whether a result that counts differs although its dots lie on the paper's side."""
    beyond = all(estimate.value > estimate.bound for estimate in row.judged.estimates)
    return row.counts and row.word == "differs" and claim.side == "right" and beyond


def _range(estimates: Sequence[tuple[Row, Estimate]]) -> tuple[float, float]:
    """The range of the axis: all that counts or is by others, with room; dots beyond it are arrows.

    Results without the power to count may be so uncertain that the others could not be told apart.
    """
    none_counts = not any(row.counts for row, _ in estimates)
    shown = [mark for row, mark in estimates if none_counts or _kind(row) != "not-counted"]
    numbers = [
        number
        for estimate in shown
        for number in (estimate.value, estimate.bound, *(estimate.interval or ()))
    ]
    low, high = min(numbers), max(numbers)
    room = (0.2 if len(shown) < len(estimates) else 0.05) * (high - low) or 1.0
    return low - room, high + room


def _evidence(claim: Claim, rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    body = "".join(
        f'<tr id="{row_anchor(row)}"><th scope="row"><a href="#{row_anchor(row)}">'
        f"{_text(row.where)}</a></th>"
        f"<td>{_text(row.judged.measured)}</td><td>{verdict_html(row.word)}</td>"
        f"<td>{row.criterion}</td>"
        f"<td>{'yes' if row.counts else _text(f'no: {row.why_not}')}</td></tr>"
        for row in rows
    )
    heads = ("where", "measured", "our rule", "paper's criterion", "counts")
    head = "".join(f'<th scope="col">{heading}</th>' for heading in heads)
    others = sum(row.judged.aside == BY_OTHERS for row in rows)
    n = f"{len(rows) - others} results" if len(rows) - others != 1 else "1 result"
    n += f", and {others} by others" * bool(others)
    return (
        f"<details><summary>{claim.id}: {n}</summary>"
        f'<div class="scrolled" tabindex="0" role="region" aria-label="Results behind {claim.id}">'
        f'<table class="evidence"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>'
    )


def _text(words: str) -> str:
    return html.escape(words, quote=False)
