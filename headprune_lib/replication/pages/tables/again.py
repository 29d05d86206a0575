"""How each result of a page is measured again, and where its files are."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import pandas as pd

from headprune_lib.replication.pages.tables.markup import Markup
from headprune_lib.replication.pages.tables.verdicts import as_in_the_paper
from headprune_lib.replication.paper import name_of
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import machine, setting

__all__ = ["again_table"]

FOLDER = "../data/results"
"""Of the stored results, as seen from a notebook: in the checkout and on the site."""


def again_table(results: Sequence[Result]) -> pd.DataFrame:
    """One row a result: command, minutes and machines of its measurement, its values as files."""
    rows = []
    for result in results:
        runs = _runs(result)
        paths = (f"{FOLDER}/{'/'.join(_path(result))}.{kind}" for kind in ("json", "csv"))
        rows.append(
            {
                "result": f"{as_in_the_paper(_named(result))}: {setting(result)}",
                "command": _folded(list(dict.fromkeys(command for command, _, _ in runs))),
                "minutes": f"{sum(seconds for _, _, seconds in runs) / 60:.0f}",
                "measured": _where(result),
                "values": Markup(
                    " ".join(
                        f'<a href="{path}">{kind}</a>'
                        for path, kind in zip(paths, ("JSON", "CSV"), strict=True)
                    )
                ),
            }
        )
    return pd.DataFrame(rows, dtype=object)


def _folded(commands: list[str]) -> Markup:
    """A command as it is; several in a fold, for two dozen may stand behind a result."""
    code = [f"<code>{html.escape(command)}</code>" for command in commands]
    if len(code) == 1:
        return Markup(code[0])
    words = f"<summary>{len(code)} commands</summary>"
    return Markup(f"<details>{words}{'<br>'.join(code)}</details>")


def _where(result: Result) -> str:
    """When the newest part was measured, and on which machines the parts were, the newest first."""
    parts = sorted(
        (part.provenance for part in result.parts.values()),
        key=lambda provenance: provenance["date"],
        reverse=True,
    )
    machines = dict.fromkeys(machine(provenance["hardware"]) for provenance in parts)
    return f"{parts[0]['date'][:10]}, {'; '.join(machines)}"


def _named(result: Result) -> str:
    half = "translation" if result.metric == "BLEU" else "encoder"
    return name_of(result.measurement, half, result.task)


def _path(result: Result) -> tuple[str, str]:
    return result.measurement, f"{result.task}.{result.model}"


def _runs(result: Result) -> list[tuple[str, str, float]]:
    """Command, date and seconds of every run behind a result; parts of one run are one."""
    found: Iterable = (part.provenance for part in result.parts.values())
    return list(
        dict.fromkeys(
            (run["command"].replace(" --profile default", ""), run["date"], run["seconds"])
            for run in found
        )
    )
