"""The answer in words: title, tally, and how sure we are, computed from stored results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from headprune_lib.replication import measurements
from headprune_lib.replication.claims.rules import CLAIMS
from headprune_lib.replication.claims.verdict import PLURALS, Verdict, Word, agreeing
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.store import Result
from headprune_lib.replication.titles import listed, spelled

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_HEADINGS: dict[Word, str] = {
    "replicates": "Replicated",
    "mixed": "Replicated in part",
    "differs": "Not replicated",
    "undecided": "Undecided",
    "not run": "Not run",
}
_MODELS = {"encoder": "encoder", "translation": "translator"}
# The paper's own models and tasks: their names here -> those that pages show.
_PAPER_MODELS = {"bert-base": "BERT-base"}
_PAPER_TASKS = {"mnli": "MNLI", "wmt": "WMT14", "iwslt": "IWSLT14"}


def title(verdicts: Sequence[Verdict]) -> str:
    """The front page's title, such as "Four of eight claims replicate"."""
    n = sum(verdict.word == "replicates" for verdict in verdicts)
    verb = agreeing("replicates", n)
    return f"{_number(n).capitalize()} of {_number(len(verdicts))} claims {verb}"


def answer(verdicts: Iterable[Verdict]) -> str:
    """The answer in words: how many of the results that count have each verdict, by kind of model.

    Raises:
        ValueError: no result counts, so that there is no answer.
    """
    verdicts = list(verdicts)
    rows = [row for verdict in verdicts for row in verdict.counted]
    if not rows:
        raise ValueError("no result counts, so there is no answer. Measure some that count")
    parts = []
    for half, models in _MODELS.items():
        numbers = Counter(row.word for row in rows if row.half == half)
        if numbers:
            parts.append(_counted(numbers, models))
    return ", and ".join(parts)


def tally(verdicts: Sequence[Verdict]) -> str:
    """Sentences on which claims meet the paper's own criterion, and how many results lack power."""
    read = [verdict for verdict in verdicts if verdict.met[1]]
    met = [verdict.claim for verdict in read if verdict.met[0] == verdict.met[1]]
    unmet = [verdict.claim for verdict in read if not verdict.met[0]]
    sentences = []
    if met:
        verb = "is" if len(met) == 1 else "are"
        sentences.append(
            f"By our reading of the paper's own criterion {listed(met)} {verb} met in every result "
            f"where it can be read{f', {listed(unmet)} in none' if unmet else ''}."
        )
    one_way = {verdict.claim: len(verdict.one_way) for verdict in verdicts if verdict.one_way}
    if one_way:
        several = sum(one_way.values())
        more, count = ("result differs", "does") if several == 1 else ("results differ", "do")
        each = listed([f"{_number(n)} on {claim}" for claim, n in one_way.items()])
        sentences.append(
            f"{_number(several).capitalize()} more {more} but {count} not count, because their power "
            f"to find that the claim holds is too low: {each}."
        )
    return " ".join(sentences)


def _counted(numbers: Counter[Word], models: str) -> str:
    """Counts of verdicts in words: "3 of 6 encoder results replicate (2 differ, 1 undecided)"."""
    verb = agreeing("replicates", numbers["replicates"])
    rest = [
        f"{numbers[word]} {agreeing(word, numbers[word])}"
        for word in PLURALS
        if word != "replicates" and numbers[word]
    ]
    sentence = f"{numbers['replicates']} of {numbers.total()} {models} results that count {verb}"
    return f"{sentence} ({', '.join(rest)})" if rest else sentence


def standing(verdicts: Sequence[Verdict]) -> str:
    """The claims in words as a list, one line per verdict.

    Such as ``- **Replicated:** most heads can be removed one at a time (C1).``
    """
    lines = []
    for word, heading in _HEADINGS.items():
        claims = [
            f"{CLAIMS[verdict.claim].short} ({verdict.claim})"
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


def _heads_by_model(results: Iterable[Result]) -> dict[str, int]:
    """Encoder, or language pair and layout of a translator -> its number of heads."""
    n_heads = {}
    for result in results:
        order = result.parts.get("importance") and result.parts["importance"].raw.get("order")
        if order is not None:
            translates = half_of(result) == "translation"
            name = f"{result.task}, {result.model}" if translates else spelled(result.model)
            n_heads[name] = int(order.shape[1])
    return n_heads


def _models(results: Sequence[Result]) -> str:
    known = [result for result in results if result.measurement == "pruning_curve"]
    encoders, translators = (
        _heads_by_model(result for result in known if half_of(result) == half) for half in _MODELS
    )
    parts = []
    if encoders:
        each = [f"{name} ({heads} heads)" for name, heads in encoders.items()]
        parts.append(f"{_number(len(each))} {_plural('encoder', each)}, {listed(each)}")
    if translators:
        counts = sorted(Counter(translators.values()).items())
        each = [f"{_number(n)} of {heads} heads" for heads, n in counts]
        parts.append(
            f"{_number(len(translators))} small {_plural('translator', list(translators))}, "
            f"{listed(each)}"
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


def _not_run(results: Iterable[Result]) -> str:
    results = list(results)
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


def _plural(word: str, several: Sequence[object]) -> str:
    return word if len(several) == 1 else f"{word}s"
