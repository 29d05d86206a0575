"""The numbers in the prose of the page on how much a score can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headprune_lib.replication.measurements.scores import SIZES
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import (
    NOT_MEASURED,
    estimate,
    number,
    points,
    signed,
)
from headprune_lib.replication.pages.tables.scores import between_trainings
from headprune_lib.replication.store import Result

_PERCENT = ("place", "special")


_IN_PROSE = (
    *("all_sentences", "n_heads", "n_lower", "entropy_16_ranks", "importance_256_ranks"),
    *("importance_16_lost", "importance_256_between", "importance_1000_between"),
    *("importance_other_text", "entropy_other_text", "fisher_other_text"),
    *("importance_trainings", "importance_unnormalised_trainings"),
    *("importance_layer", "logits_norm_both"),
    *("first_special_importance", "last_special_importance", "mean_special"),
    *("rank_entropy_importance", "rank_special_importance"),
    *("rank_layer_importance_unnormalised", "rank_place_importance_unnormalised"),
)


def scores(
    sentences: Result, stability: Result, agreement: Result | None, roles: Result
) -> Numbers:
    """Those of :func:`every_number` that the page says; one that was not measured says so."""
    every = every_number(sentences, stability, agreement, roles)
    return {name: every.get(name, NOT_MEASURED) for name in _IN_PROSE}


def every_number(
    sentences: Result, stability: Result, agreement: Result | None, roles: Result
) -> Numbers:
    """Ranks on few sentences, on other text and after other trainings, what criteria know of single
    heads, and what the heads look at that go first and last.

    Args:
        sentences: of ``scoring_examples``.
        agreement: of importance in several fine-tunings, if it was measured.
        roles: of ``head_roles``.
    """
    return {
        **_sentences(sentences.values["criteria"]),
        **_other_text(stability, agreement),
        **_known(stability.values["criteria"]),
        **_effects(stability),
        **_roles(roles.values),
    }


def _key(order: str) -> str:
    return order.replace(" ", "_").replace("-", "_")


def _sentences(criteria: Mapping[str, Any]) -> Numbers:
    most = max(row["n"] for rows in criteria.values() for row in rows)
    numbers: Numbers = {"all_sentences": f"{most:,}"}
    for name, rows in criteria.items():
        for n in SIZES:
            row = next((row for row in rows if row["n"] == n), None)
            numbers[f"{_key(name)}_{n}_ranks"] = (
                estimate(row["with_all"]["value"], row["with_all"]["interval"])
                if row
                else NOT_MEASURED
            )
            numbers[f"{_key(name)}_{n}_between"] = number(row and row["between"], ".2f")
            numbers[f"{_key(name)}_{n}_lost"] = (
                points(row["lost"]["value"], row["lost"]["interval"]) if row else NOT_MEASURED
            )
        numbers[f"{_key(name)}_kept"] = estimate(
            rows[-1]["area"]["value"], rows[-1]["area"]["interval"], ".0%"
        )
    return numbers


def _other_text(stability: Result, agreement: Result | None) -> Numbers:
    numbers: Numbers = {}
    for name, found in stability.values["criteria"].items():
        known = [one["r"] for one in found["domains"].values() if one["r"] is not None]
        numbers[f"{_key(name)}_other_text"] = _range(known)
        numbers[f"{_key(name)}_trainings"] = number(
            between_trainings(name, stability, agreement), ".2f"
        )
    return numbers


def _range(values: Iterable[float]) -> str:
    """The least and the largest.

    >>> _range([0.913, 0.7, 0.8]), _range([])
    ('0.70 to 0.91', 'not measured')
    """
    values = sorted(values)
    return f"{values[0]:.2f} to {values[-1]:.2f}" if values else NOT_MEASURED


def _known(criteria: Mapping[str, Any]) -> Numbers:
    return {
        f"{_key(name)}_{said}": signed(one["r"], one["interval"])
        if (one := found[what]) and one["r"] is not None
        else NOT_MEASURED
        for name, found in criteria.items()
        for said, what in (("alone", "effect"), ("layer", "given_layer"), ("both", "given_both"))
    }


def _effects(stability: Result) -> Numbers:
    """How many heads there are, and without how many of them the loss is lower."""
    effects = [part.raw["effect"] for part in stability.parts.values() if "effect" in part.raw]
    return {"n_heads": effects[0].size, "n_lower": int((effects[0] < 0).sum())}


def _roles(values: Mapping[str, Any]) -> Numbers:
    numbers: Numbers = {}
    for name, order in values["orders"].items():
        for role, steps in order["steps"].items():
            form = ".0%" if role in _PERCENT else ".2f"
            key = f"{role}_{_key(name)}"
            numbers[f"first_{key}"] = f"{steps[0]['mean']:{form}}"
            numbers[f"last_{key}"] = f"{steps[-1]['mean']:{form}}"
            rank = order["ranks"][role]
            numbers[f"rank_{key}"] = (
                NOT_MEASURED if rank["r"] is None else signed(rank["r"], rank["interval"])
            )
    for role, mean in values["means"].items():
        numbers[f"mean_{role}"] = f"{mean:{'.0%' if role in _PERCENT else '.2f'}}"
    return numbers
