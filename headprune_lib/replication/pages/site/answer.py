"""The answer, computed from stored results: in words, and as a table with a row per claim."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence, Sized

import numpy as np
import pandas as pd

from headprune_lib.replication import measurements
from headprune_lib.replication.bounds import ALPHA
from headprune_lib.replication.claims.rules import CLAIMS, UNTRAINED
from headprune_lib.replication.claims.verdict import (
    MODELS,
    PLURALS,
    Estimate,
    Row,
    Verdict,
    Word,
    agreeing,
)
from headprune_lib.replication.formatting import formatted
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.pages.tables.beyond import grid, measured_twice
from headprune_lib.replication.pages.tables.markup import verdict_html
from headprune_lib.replication.store import Result
from headprune_lib.replication.titles import listed, spelled

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_HEADINGS: dict[Word, str] = {
    "replicates": "Replicated",
    "mixed": "Mixed",
    "differs": "Not replicated",
    "undecided": "Undecided",
    "not run": "Not run",
}
# The paper's own models and tasks: their names here -> those that pages show.
_PAPER_MODELS = {"bert-base": "BERT-base"}
_PAPER_TASKS = {"mnli": "MNLI", "wmt": "WMT14", "iwslt": "IWSLT14"}


# In words


def title(verdicts: Sequence[Verdict]) -> str:
    """The front page's title, such as "Four of eight claims replicate"."""
    n = sum(verdict.word == "replicates" for verdict in verdicts)
    verb = agreeing("replicates", n)
    return f"{_number(n).capitalize()} of {_number(len(verdicts))} claims {verb}"


def answer(verdicts: Iterable[Verdict]) -> str:
    """The answer in words: how many of the results that count have each verdict, by kind of model.

    Such as "3 of 6 encoder results that count replicate (2 differ, 1 undecided)".

    Raises:
        ValueError: no result counts, so that there is no answer.
    """
    rows = [row for verdict in verdicts for row in verdict.counted]
    if not rows:
        raise ValueError("no result counts, so there is no answer. Measure some that count")
    parts = []
    for half, models in MODELS.items():
        numbers = Counter(row.word for row in rows if row.half == half)
        if not numbers:
            continue
        holds = numbers.pop("replicates", 0)
        verb, results = agreeing("replicates", holds), f"{models} results that count"
        rest = ", ".join(f"{n} {agreeing(word, n)}" for word in PLURALS if (n := numbers[word]))
        part = f"{holds} of {holds + numbers.total()} {results} {verb}"
        parts.append(f"{part} ({rest})" if rest else part)
    return ", and ".join(parts)


def tally(verdicts: Sequence[Verdict]) -> str:
    """Sentences on which claims meet the paper's own criterion, and how many results lack power."""
    read = [verdict for verdict in verdicts if verdict.met[1]]
    met = [verdict.claim for verdict in read if verdict.met[0] == verdict.met[1]]
    unmet = [verdict.claim for verdict in read if not verdict.met[0]]
    sentences = []
    if met:
        verb = "holds" if len(met) == 1 else "hold"
        sentences.append(
            f"By our reading of the paper's own criterion, {listed(met)} {verb} wherever it can be "
            f"applied{f', {listed(unmet)} nowhere' if unmet else ''}."
        )
    one_way = {verdict.claim: len(verdict.one_way) for verdict in verdicts if verdict.one_way}
    if one_way:
        several = sum(one_way.values())
        most = max(row.judged.power or 0.0 for v in verdicts for row in v.one_way)
        more, count = ("result differs", "does") if several == 1 else ("results differ", "do")
        each = listed([f"{_number(n)} on {claim}" for claim, n in one_way.items()])
        sentences.append(
            f"{_number(several).capitalize()} more {more} but {count} not count, because there the "
            f"rule would say *replicates* with a probability of at most {most:.2f} even if the "
            f"claim held: {each}."
        )
    return " ".join(sentences)


def standing(verdicts: Sequence[Verdict]) -> str:
    """The claims in words as a list, one line per verdict.

    Such as ``- **Replicated:** most heads can be removed one at a time (C1).``
    """
    lines = []
    for word, heading in _HEADINGS.items():
        whether = "whether " if word in ("mixed", "undecided") else ""
        claims = [
            f"{whether}{CLAIMS[verdict.claim].short} ({verdict.claim})"
            for verdict in verdicts
            if verdict.word == word
        ]
        if claims:
            lines.append(f"- **{heading}:** {listed(claims)}.")
    return "\n".join(lines)


def how_sure(verdicts: Iterable[Verdict], results: Sequence[Result]) -> tuple[str, str, str]:
    """Three sentences: the models, the number of trainings, and what was not run.

    Args:
        results: all stored results.
    """
    return _models(results), _trainings(verdicts), _not_run(results)


def _models(results: Sequence[Result]) -> str:
    heads: dict[str, dict[str, int]] = {half: {} for half in MODELS}  # of each kind, by name
    for result in results:
        if result.measurement == "pruning_curve" and "importance" in result.parts:
            half, order = half_of(result), result.parts["importance"].raw["order"]
            names = {
                "encoder": spelled(result.model),
                "translation": f"{result.task}, {result.model}",
            }
            heads[half][names[half]] = order.shape[1]
    encoders, translators = heads.values()
    parts = []
    if encoders:
        each = listed([f"{name} ({n} heads)" for name, n in encoders.items()])
        parts.append(f"{_number(len(encoders))} {_plural('encoder', encoders)}, {each}")
    if translators:
        counts = sorted(Counter(translators.values()).items())
        each = listed([f"{_number(n)} of {size} heads" for size, n in counts])
        parts.append(
            f"{_number(len(translators))} small {_plural('translator', translators)}, {each}"
        )
    return f"We measured {', and '.join(parts)}." if parts else "No model was measured."


def _trainings(verdicts: Iterable[Verdict]) -> str:
    rows = [row for verdict in verdicts for row in verdict.measured]
    counts = Counter(row.judged.trainings for row in rows)
    more = [trainings for trainings in counts if trainings > 1]
    sentence = f"{counts[1]} of the {len(rows)} results rest on a single training of their model"
    if not more:
        return f"{sentence}."
    return f"{sentence}, the others on {_number(min(more))}{' or more' * (len(more) > 1)}."


def _not_run(results: Sequence[Result]) -> str:
    models, tasks = {result.model for result in results}, {result.task for result in results}
    missing = [name for model, name in _PAPER_MODELS.items() if model not in models]
    missing += [name for task, name in _PAPER_TASKS.items() if task not in tasks]
    if not missing:
        return "We ran the paper's own models and texts."
    return (
        f"We did not run the paper's own {listed(missing)}, and used smaller models and other texts "
        "instead."
    )


def all_results() -> list[Result]:
    """Every stored result, of all measurements."""
    return measurements.found(*measurements.MEASUREMENTS)


def _number(n: int) -> str:
    return _NUMBERS[n] if n < len(_NUMBERS) else str(n)


def _plural(word: str, several: Sized) -> str:
    return word if len(several) == 1 else f"{word}s"


# As a table

COLUMNS = (
    "claim",
    "the paper",
    "the paper's models, by others",
    "our models",
    "verdict",
    "how sure",
)
_NOT_MEASURED = "not measured"
_LAB = "Silent-Zebra"  # published the effect of each head of the paper's models


def summary_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """One row per claim, in plain words: the paper, others on its models, ours, word, how sure."""
    rows = []
    for verdict in verdicts:
        claim = CLAIMS[verdict.claim]
        cells = (claim.paper_value, by_others(verdict), ours(verdict), verdict.word)
        rows.append((f"{claim.id} {claim.title}", *cells, _sure(verdict)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def summary_html(verdicts: Sequence[Verdict], cards: str) -> str:
    """The table for the front page; each claim is a link to its card on the page ``cards``."""
    rows = []
    for verdict, row in zip(verdicts, summary_table(verdicts).to_numpy().tolist(), strict=True):
        title = html.escape(CLAIMS[verdict.claim].title, quote=False)
        link = f'<a href="{cards}#claim-{verdict.claim.lower()}">{verdict.claim}. {title}</a>'
        texts = [_in_lines(cell) for cell in row[1:]]
        texts[COLUMNS.index("verdict") - 1] = verdict_html(verdict.word)
        rows.append([link, *texts])
    return stacked_html(COLUMNS, rows, "answer")


def stacked_html(columns: Sequence[str], rows: Iterable[Sequence[str]], name: str = "") -> str:
    """A table of HTML cells whose lines become blocks on a phone, each cell with its column's name.

    Args:
        name: a further class of the table.
    """
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    lines = []
    for first, *others in rows:
        cells = "".join(
            f'<td data-column="{column}">{text}</td>'
            for column, text in zip(columns[1:], others, strict=True)
        )
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    return (
        f'<table class="stacked {name}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _in_lines(text: str) -> str:
    """A cell as HTML: each sentence, clause and number of a list on a line of its own.

    >>> _in_lines("Kept: 96% (encoders), 94% (translators); of all 3%")
    'Kept: 96% (encoders),<br>94% (translators);<br>of all 3%'
    """
    lines = re.split(r"(?<=[.;]) |(?<=\),) ", text)
    return "<br>".join(html.escape(line, quote=False) for line in lines)


def ours(verdict: Verdict) -> str:
    """The range of the results that count, from least to largest, and the range of all results.

    Results without a trained model are listed separately.
    """
    claim, measured = CLAIMS[verdict.claim], verdict.measured
    untrained = [row for row in measured if row.judged.aside == UNTRAINED]
    trained = [row for row in measured if row not in untrained]
    of_counted, of_all = (_ranges(rows) for rows in (verdict.counted or trained, trained))
    what = f"{claim.shown[0].upper()}{claim.shown[1:]}: " if measured else ""
    ranges = (
        of_all if of_counted == of_all else f"of those that count {of_counted}; of all {of_all}"
    )
    text = f"{what}{ranges}"
    return text + "".join(f"; {row.setting}: {_ranges([row])}" for row in untrained)


def _ranges(rows: Sequence[Row]) -> str:
    """Least and largest estimate for each part of a rule, for encoders and for translators."""
    parts: dict[tuple[str, str], list[Estimate]] = {}
    for of in (lambda judged: judged.estimates, lambda judged: judged.as_the_paper):
        for row in rows:
            for estimate in of(row.judged):
                parts.setdefault((estimate.label, row.half), []).append(estimate)
    if not parts:
        return _NOT_MEASURED
    form, several = CLAIMS[rows[0].claim].form, len({half for _, half in parts}) > 1
    ranges = []
    for (label, half), estimates in parts.items():
        values = [estimate.value for estimate in estimates]
        low, high = (formatted(form, end) for end in (min(values), max(values)))
        includes = (
            each.interval and each.interval[0] <= each.bound <= each.interval[1]
            for each in estimates
        )
        says = f"every interval includes {estimates[0].bound:g}" if all(includes) else ""
        name = ", ".join(filter(None, (label, f"{MODELS[half]}s" if several else "", says)))
        ranges.append(f"{low}{f' to {high}' * (low != high)}{f' ({name})' * bool(name)}")
    return ", ".join(ranges)


def by_others(verdict: Verdict) -> str:
    """Others' findings on the paper's own models that bear on the claim."""
    if verdict.claim in GRIDS:
        return GRIDS[verdict.claim]()
    shown = [row for row in verdict.others if row.judged.estimates]
    if not shown:
        sentences = [f"{row.setting}: {row.judged.measured}" for row in verdict.others]
        return " ".join(sentences) or _NOT_MEASURED
    form = CLAIMS[verdict.claim].form
    text = ", ".join(
        f"{formatted(form, estimate.value)} ({', '.join(filter(None, (row.setting, estimate.label)))})"
        for row in shown
        for estimate in row.judged.estimates
    )
    unmet = [row.setting for row in verdict.others if row.judged.met is False]
    return f"{text}; paper's criterion not met: {listed(unmet)}" if unmet else text


def _sure(verdict: Verdict) -> str:
    """The number of results that count, their models and trainings, and the paper's criterion."""
    if not verdict.measured:
        return _NOT_MEASURED
    rows = [row for row in verdict.measured if row.judged.aside != UNTRAINED]
    untrained = len(rows) < len(verdict.measured)
    on = "no trained model"
    if rows:
        models, trainings = len({row.model for row in rows}), {row.judged.trainings for row in rows}
        low, high = min(trainings), max(trainings)
        each = f"{low} to {high} trainings" if low < high else f"{low} training{'s' * (low > 1)}"
        on = f"{models} model{'s' * (models > 1)}, {each} each"
        on += ", and one with random weights" * untrained
    return f"{verdict.how_many_count}. Measured on {on}. Paper's criterion: {verdict.criterion}."


def _cut_alone() -> str:
    translator, bert = grid(_LAB, "WMT en-fr", kind="enc-enc"), grid(_LAB, "MNLI")
    changing = int((translator.p < ALPHA).sum())
    low, high = (formatted("{:+.1f}", 100 * end) for end in (bert.values.min(), bert.values.max()))
    return (
        f"WMT14 translator: {changing} of {translator.values.size} encoder heads change BLEU at "
        f"p < {ALPHA}. BERT-base on MNLI: {low} to {high} points, whichever head is removed"
    )


def _one_left() -> str:
    best = 100 * grid(_LAB, "MNLI", "all_but_one").values.max(1)
    low, high = (formatted("{:+.1f}", end) for end in (best.min(), best.max()))
    return (
        f"BERT-base on MNLI: {low} to {high} points with each layer's best head alone, chosen on the "
        "test set"
    )


def _on_two_texts() -> str:
    r = {
        home.kind: np.corrcoef(home.values.ravel(), away.values.ravel())[0, 1]
        for differs, home, away in measured_twice()
        if differs.startswith("the test set")
    }
    return (
        f"r = {r['self']:.2f} for BERT-base (MNLI matched and mismatched), {r['all kinds']:.2f} for "
        "the WMT14 translator (news and MTNT)"
    )


# Claims on single heads, for which others published grids, not results that a rule judges.
GRIDS = {"C1": _cut_alone, "C2": _one_left, "C7": _on_two_texts}
