"""Names of the criteria, without the seconds that importing their dependencies takes."""

import ast
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from headprune_lib.messages import unknown


class Described(NamedTuple):
    """A criterion's family, and a one-line summary of its scores."""

    family: str
    summary: str


@cache
def in_package() -> dict[str, Described]:
    """Built-in criteria, from the source: functions whose decorator is called with a name."""
    return {
        call.args[0].value: Described(
            path.stem, (ast.get_docstring(function) or "").partition("\n")[0]
        )
        for path in (Path(__file__).parents[1] / "criteria").glob("*.py")
        for function in ast.parse(path.read_text("utf-8")).body
        if isinstance(function, ast.FunctionDef)
        for call in function.decorator_list
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant)
    }


def known_criteria() -> dict[str, Described]:
    """Descriptions of all criteria by name: built-in ones and those registered later."""
    registry = sys.modules.get("headprune_lib.criteria.registry")
    registered = {
        name: Described(criterion.score.__module__.rpartition(".")[2], criterion.summary)
        for name, criterion in getattr(registry, "CRITERIA", {}).items()
    }
    return in_package() | registered


def check_criterion(name: str) -> str:
    """Return the name; ValueError, which suggests the nearest ones, if no criterion has it."""
    if name not in known_criteria():
        raise ValueError(unknown("criterion", name, known_criteria()))
    return name
