"""The answer in words: title, tally, and how sure we are, written by rule from what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from headprune_lib.replication import measurements
from headprune_lib.replication.claims.verdict import WORDS, Verdict, Word
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.store import Result
from headprune_lib.replication.titles import listed, spelled

_ONE: dict[Word, str] = {
    "replicates": "most attention heads can go one at a time",
    "differs": "many attention heads cannot go even one at a time",
    "mixed": "most attention heads can go one at a time in some models only",
    "inconclusive": "whether most attention heads can go one at a time is open",
}
_MANY: dict[Word, str] = {
    "replicates": "many can go together, as reported",
    "differs": "removing many together costs more than reported",
    "mixed": "removing many together works less often than reported",
    "inconclusive": "whether many can go together is open",
}
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SAID: dict[Word, tuple[str, str]] = {
    "replicates": ("replicates", "replicate"),
    "differs": ("differs", "differ"),
    "mixed": ("is mixed", "are mixed"),
    "inconclusive": ("is inconclusive", "are inconclusive"),
    "not run": ("was not run", "were not run"),
}
# What the paper ran itself: how it is called here, model -> name and task -> name.
_PAPER_MODELS = {"bert-base": "BERT-base"}
_PAPER_TASKS = {"mnli": "MNLI", "wmt": "WMT14", "iwslt": "IWSLT14"}


def answer(verdicts: Iterable[Verdict]) -> str:
    """The title line, from the words of C1 (heads one at a time) and C3 (many together).

    Raises:
        ValueError: one of the two was not run, so that there is no answer.
    """
    words = {verdict.claim: verdict.word for verdict in verdicts}
    if missing := [claim for claim in ("C1", "C3") if words.get(claim, "not run") == "not run"]:
        raise ValueError(f"{' and '.join(missing)} must be measured before there is an answer")
    title = f"{_ONE[words['C1']]}; {_MANY[words['C3']]}"
    return title[0].upper() + title[1:]


def tally(verdicts: Sequence[Verdict]) -> str:
    """How many claims have which word by our rules, and how many meet the paper's criterion."""
    counts = Counter(verdict.word for verdict in verdicts)
    told = [
        f"{_number(counts[word])} {_SAID[word][counts[word] != 1]}"
        for word in WORDS
        if counts[word]
    ]
    everywhere = sum(read > 0 and met == read for met, read in (one.met for one in verdicts))
    return (
        f"Of the paper's {_number(len(verdicts))} claims, {listed(told)} by our rules; "
        f"{_number(everywhere)} {'meets' if everywhere == 1 else 'meet'} the paper's own criterion "
        "wherever we measured."
    )


def how_sure(verdicts: Iterable[Verdict], results: Sequence[Result]) -> tuple[str, str, str]:
    """Three sentences: which models, how many trainings, and what was not run.

    Args:
        results: all that are stored.
    """
    return _models(results), _trainings(verdicts), _not_run(results)


def heads_by_model(results: Iterable[Result]) -> dict[str, int]:
    """Encoder, or pair of languages and layout of a translator -> its number of heads."""
    found = {}
    for result in results:
        order = result.parts.get("importance") and result.parts["importance"].raw.get("order")
        if order is not None:
            name = spelled(result.model)
            if half_of(result.key) == "translation":
                name = f"{result.task}, {result.model}"
            found[name] = int(order.shape[1])
    return found


def _models(results: Sequence[Result]) -> str:
    known = [one for one in results if one.measurement == "pruning_curve"]
    encoders = heads_by_model(one for one in known if half_of(one.key) == "encoder")
    translators = heads_by_model(one for one in known if half_of(one.key) == "translation")
    told = []
    if encoders:
        each = [f"{name} ({heads} heads)" for name, heads in encoders.items()]
        told.append(f"{_number(len(each))} {_plural('encoder', each)}, {listed(each)}")
    if translators:
        counts = sorted(Counter(translators.values()).items())
        each = [f"{_number(n)} of {heads} heads" for heads, n in counts]
        told.append(
            f"{_number(len(translators))} small {_plural('translator', list(translators))}, "
            f"{listed(each)}"
        )
    return f"We measured {', and '.join(told)}." if told else "No model was measured."


def _trainings(verdicts: Iterable[Verdict]) -> str:
    rows = [row for verdict in verdicts for row in verdict.rows if row.word != "not run"]
    counts = Counter(row.judged.trainings for row in rows)
    more = [trainings for trainings in counts if trainings > 1]
    told = f"{counts[1]} of the {len(rows)} results behind the verdicts rest on one training of their model"
    if not more:
        return f"{told}."
    spread = f"{min(more)}" if len(more) == 1 else f"{min(more)} to {max(more)}"
    return f"{told}, {len(rows) - counts[1]} on {spread}."


def _not_run(results: Iterable[Result]) -> str:
    results = list(results)
    models, tasks = {one.model for one in results}, {one.task for one in results}
    missing = [name for model, name in _PAPER_MODELS.items() if model not in models]
    missing += [name for task, name in _PAPER_TASKS.items() if task not in tasks]
    if not missing:
        return "The paper's own models and texts were run."
    return (
        f"Not run here, of the paper's own models and texts: {listed(missing)}; smaller models "
        "and other texts stand in for them."
    )


def all_results() -> list[Result]:
    """Every stored result, of all measurements."""
    return measurements.found(*measurements.MEASUREMENTS)


def _number(n: int) -> str:
    return _NUMBERS[n] if n < len(_NUMBERS) else str(n)


def _plural(word: str, several: Sequence[object]) -> str:
    return word if len(several) == 1 else f"{word}s"
