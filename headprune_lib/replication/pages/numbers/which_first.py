"""The numbers in the prose of the page on orders of removal by every criterion."""

from __future__ import annotations

from collections.abc import Mapping

from headprune_lib.replication.claims.questions import (
    FAMILY,
    Contrast,
    above_chance,
    decide_contrasts,
    nearest_to_chance,
)
from headprune_lib.replication.measurements.contrasts import COMBINED
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, points
from headprune_lib.replication.store import Result

_KEYS = dict(zip(FAMILY, ("combined", "entropy", "rescored", "unnormalised"), strict=True))


def which_first(found: Mapping[str, Result]) -> Numbers:
    """Contrasts over everything that is measured, in points of the share kept, and their words.

    Of each contrast: its word and the difference; and the same without the model whose score is
    nearest to chance. Of entropy and normalisation, on how many models the interval of their own
    difference lies above 0, below 0, or (``open``) on both sides.

    Args:
        found: name of task and model -> result of ``which_first``.
    """
    values = {name: result.values for name, result in found.items()}
    able = {name: one for name, one in values.items() if above_chance(one)}
    numbers: Numbers = {
        "models": _named(list(able)),
        "n_models": len(able),
        "control": NOT_MEASURED,
        "left_out": _named([name for name in values if name not in able]),
    }
    for one in decide_contrasts(values):
        numbers |= _contrast(one)
        if one.control is not None:
            numbers["control"] = points(one.control[0], one.control[1:])
    nearest = nearest_to_chance(values)
    numbers["nearest"] = nearest or NOT_MEASURED
    for one in decide_contrasts({name: one for name, one in values.items() if name != nearest}):
        numbers |= {f"without_{key}": value for key, value in _contrast(one).items()}
    sides = {key: _sides(able, name) for name, key in _KEYS.items()}
    for side, names in sides["entropy"].items():
        numbers[f"entropy_n_{side}"] = len(names)
    for side in ("above", "below"):
        names = sides["unnormalised"][side]
        numbers |= {f"unnormalised_n_{side}": len(names), f"unnormalised_{side}": _named(names)}
    for key in ("unnormalised", "rescored"):
        numbers[f"{key}_n"] = sum(map(len, sides[key].values()))
    chosen = {
        name: one["orders"][COMBINED]["said"]
        for name, one in able.items()
        if COMBINED in one["orders"]
    }
    weighted = [name for name, said in chosen.items() if {*said} != {"alpha=1"}]
    return numbers | {
        "weighted": _named(
            [f"{name} (importance weighs {_alphas(chosen[name])})" for name in weighted]
        ),
        "n_not_weighted": len(chosen) - len(weighted),
    }


def _contrast(one: Contrast) -> Numbers:
    key, run = _KEYS[one.name], one.word != "not run"
    return {
        f"{key}_word": one.word,
        key: points(one.value, one.interval) if run else NOT_MEASURED,
    }


def _sides(able: Mapping[str, Mapping], contrast: str) -> dict[str, list[str]]:
    """Models by where the interval of their own difference lies."""
    sides: dict[str, list[str]] = {"above": [], "below": [], "open": []}
    for name, values in able.items():
        if (one := values["contrasts"].get(contrast)) is None:
            continue
        low, high = one["area"]["interval"]
        sides["above" if low > 0 else "below" if high < 0 else "open"].append(name)
    return sides


def _named(names: list[str]) -> str:
    return "; ".join(names) or "none"  # names of models hold commas


def _alphas(said: list[str]) -> str:
    return ", ".join(one.removeprefix("alpha=") for one in said)
