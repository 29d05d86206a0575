"""The paper's values, read from the project's copy."""

from __future__ import annotations

from functools import cache

import yaml

from headprune_lib.paths import reference_root


@cache
def _published() -> dict:
    return yaml.safe_load((reference_root() / "paper_values.yml").read_text("utf-8"))


def paper(artifact: str) -> dict:
    """The published values of a table or figure, layers and heads counted from 1."""
    return _published()[artifact]
