"""Tables of the claims with both verdicts, their results, the rules, and how to measure again."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence

import pandas as pd

from headprune_lib.replication.claims.rules import CLAIMS
from headprune_lib.replication.claims.verdict import Row, Verdict
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.pages.tables.markup import Markup
from headprune_lib.replication.paper import as_in_the_paper, name_of
from headprune_lib.replication.paths import project_root, reference_root
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import BERT_SHAPE, machine, setting


def claims_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """One row per claim: title, the paper's criterion, our verdict, and how many results count."""
    return pd.DataFrame(
        [
            {
                "": verdict.claim,
                "claim": CLAIMS[verdict.claim].title,
                "paper's criterion": verdict.criterion,
                "ours": verdict.word,
                "what counts": verdict.why,
            }
            for verdict in verdicts
        ]
    )


def both_words(row: Row) -> dict[str, str]:
    """A result's cells: the paper's own criterion, our rule's word, and whether it counts."""
    counts = "yes" if row.counts else "no"
    return {"paper's criterion": row.criterion, "ours": row.word, "counts": counts}


def rows_table(rows: Iterable[Row]) -> pd.DataFrame:
    """One row per result: where it was measured, the numbers, both verdicts, and whether it counts.

    Power is how often the rule would decide, the smallest effect the least that it could see.
    """
    return pd.DataFrame(
        [
            {
                "claim": row.claim,
                "where": row.where,
                "measured": row.judged.measured,
                **both_words(row),
                "counts": "yes" if row.counts else f"no: {row.why_not}",
                "power": "–" if row.judged.power is None else f"{row.judged.power:.2f}",
                "smallest effect": row.judged.smallest,
                "data": row.kind,
            }
            for row in rows
            if row.word != "not run"
        ]
    )


def others_table(rows: Iterable[Row]) -> pd.DataFrame:
    """One row per curve of the paper's models measured by others: both verdicts; none counts."""
    columns = ["claim", "where", "measured", "paper's criterion", "ours"]
    return rows_table(rows).reindex(columns=columns)


_ITSELF = "the claim"
Words = dict[tuple[str, str, str], tuple[str, str]]
"""Claim, table or figure, and setting (the last two empty for the claim itself) -> word, counted."""


def changed_table() -> pd.DataFrame:
    """Every word by the second rules and by the third on the same results, both as stored.

    A dash marks a result that did not exist, or that counts together with another.
    """
    columns = ["second rules", "counted", "third rules", "counts"]
    return _words_table(stored_words("second_rules"), stored_words("third_rules"), columns)


def new_data_table(verdicts: Iterable[Verdict]) -> pd.DataFrame:
    """The third rules' words when fixed and now: every claim, and results that are new or changed.

    A dash marks a result that did not exist yet.
    """
    columns = ["27 November 2026", "counted", "now", "counts"]
    table = _words_table(stored_words("third_rules"), _words(verdicts), columns)
    before, now = table[columns[:2]].to_numpy(), table[columns[2:]].to_numpy()
    changed = table[(before != now).any(1) | (table["where"] == _ITSELF)]
    changed.attrs["prose"] = True  # aligned as the table before it, which has long names
    return changed


def stored_words(name: str) -> Words:
    """The words in a file of ``data/reference``, which rules gave on the results of their day."""
    stored = pd.read_csv(reference_root() / f"{name}.csv", keep_default_na=False)
    return {tuple(row[:3]): tuple(row[3:]) for row in stored.itertuples(index=False)}


def _words(verdicts: Iterable[Verdict]) -> Words:
    words: Words = {}
    for verdict in verdicts:
        words[verdict.claim, "", ""] = (verdict.word, "")
        for row in verdict.measured:
            words[verdict.claim, row.name, row.setting] = (row.word, both_words(row)["counts"])
    return words


def _words_table(before: Words, after: Words, columns: list[str]) -> pd.DataFrame:
    """One row per claim, then one per result of it, those in the second set of words first."""
    lines, none = [], ("–", "–")
    for key in sorted(dict.fromkeys([*after, *before]), key=lambda key: key[0]):
        claim, artifact, setup_name = key
        where = f"{as_in_the_paper(artifact)}: {setup_name}" if artifact else _ITSELF
        lines.append([claim, where, *before.get(key, none), *after.get(key, none)])
    return pd.DataFrame(lines, columns=["claim", "where", *columns])


def rules_table() -> pd.DataFrame:
    """One row per claim: the paper's criterion, our rule, and the truth that its power assumes."""
    return pd.DataFrame(
        [
            {
                "claim": claim.id,
                "the paper's criterion": claim.criterion,
                "ours": claim.rule,
                "the truth that power is computed for": claim.effect,
            }
            for claim in CLAIMS.values()
        ]
    )


FOLDER = "../data/results"
"""Path of the stored results as seen from a notebook, in the checkout and on the site."""


def again_table(results: Sequence[Result]) -> pd.DataFrame:
    """One row per result: how it was measured (command, minutes, machines), and files of values."""
    rows = []
    for result in results:
        runs = _runs(result)
        rows.append(
            {
                "result": named(result),
                "command": _folded(list(dict.fromkeys(runs.values()))),
                "minutes": f"{sum(seconds for _, seconds in runs) / 60:.0f}",
                "measured": _where(result),
                "values": _files(result),
            }
        )
    return pd.DataFrame(rows, dtype=object)


def _files(result: Result) -> Markup:
    """Links to the files of a committed result; what finds those of another one."""
    file = result.key.path(project_root() / "data" / "results")
    parts = json.loads(file.read_text("utf-8"))["parts"] if file.is_file() else {}
    outcomes = {name: part.raw_sha256 for name, part in result.parts.items()}
    if outcomes != {name: part["raw_sha256"] for name, part in parts.items()}:
        return Markup("<code>headprune results</code>")
    path = f"{FOLDER}/{result.measurement}/{result.task}.{result.model}"
    return Markup(f'<a href="{path}.json">JSON</a> <a href="{path}.csv">CSV</a>')


def _folded(commands: list[str]) -> Markup:
    """A single command as it is; several in a fold, since a result may have two dozen."""
    code = [f"<code>{html.escape(command)}</code>" for command in commands]
    if len(code) == 1:
        return Markup(code[0])
    words = f"<summary>{len(code)} commands</summary>"
    return Markup(f"<details>{words}{'<br>'.join(code)}</details>")


def _where(result: Result) -> str:
    """The date of the newest part, and the machines that measured the parts, newest first."""
    parts = [part.provenance for part in result.parts.values()]
    parts.sort(key=lambda provenance: provenance["date"], reverse=True)
    machines = dict.fromkeys(machine(provenance["hardware"]) for provenance in parts)
    return f"{parts[0]['date'][:10]}, {'; '.join(machines)}"


def named(result: Result) -> str:
    """The table or figure of a result, with its model and task.

    Of Table 4 by profile smoke, whose own model is too small, only a published shape is shown.
    """
    artifact = name_of(result.measurement, half_of(result), result.task)
    parameters = next(iter(result.parts.values())).signature["parameters"]
    of_shape = result.profile == "smoke" and parameters.get("shape") == "bert-base"
    return f"{as_in_the_paper(artifact)}: {BERT_SHAPE if of_shape else setting(result)}"


def _runs(result: Result) -> dict[tuple[str, float], str]:
    """Date and seconds of every run behind a result -> its command."""
    return {
        (run["date"], run["seconds"]): run["command"].replace(" --profile default", "")
        for run in (part.provenance for part in result.parts.values())
    }
