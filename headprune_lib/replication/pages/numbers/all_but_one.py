"""Numbers of the page "All heads but one"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headprune_lib.replication.pages.numbers.judged import power_of
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.page import pick
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED
from headprune_lib.replication.stats.bounds import ALPHA, DELTA, DELTA_BLEU
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled


def all_but_one(
    table6: Result,
    table2: Result,
    table5: Result,
    tables3: Mapping[str, Result],
    tables6: Mapping[str, Result],
) -> Numbers:
    """Tables 2, 5 and 6; MPNet on SST-2 (Table 6's way) and on SNLI (Table 3's).

    Args:
        tables3: name -> result of Table 3.
        tables6: name -> result of Table 6.
    """
    return {
        **_classifier(table6),
        **_twelve_layers(pick(tables6, "mpnet", "sst2")),
        **_on_test("mpnet", "snli", tables3),
        **_translator(table2, table5),
    }


def _classifier(table6: Result) -> Numbers:
    layers = table6.values["layers"]
    worst = _worst(layers)
    return {
        "n_selection": table6.values["n_selection"],
        "layers": len(layers),
        "within": _sure(layers),
        "lacking": _lacking(layers, DELTA),
        "power": power_of(table6, "C2"),
        "worst": 100 * worst["delta"],
        "worst_layer": worst["layer"] + 1,
        "lost": len(_losing(layers)),
    }


def _twelve_layers(table6: Result | None) -> Numbers:
    if table6 is None:
        return dict.fromkeys(
            (
                "n_selection12",
                "layers12",
                "within12",
                "lacking12",
                "power12",
                "worst12",
                "worst12_layer",
                "lost12",
            ),
            NOT_MEASURED,
        )
    return {
        "n_selection12": table6.values["n_selection"],
        "layers12": len(table6.values["layers"]),
        "within12": _sure(table6.values["layers"]),
        "lacking12": _lacking(table6.values["layers"], DELTA),
        "power12": power_of(table6, "C2"),
        "worst12": f"{100 * _worst(table6.values['layers'])['delta']:.2f}",
        "worst12_layer": _worst(table6.values["layers"])["layer"] + 1,
        "lost12": len(_losing(table6.values["layers"])),
    }


def _on_test(model: str, task: str, tables3: Mapping[str, Result]) -> Numbers:
    """The best head chosen on the test set, of a model and task that has no other choice."""
    name: Numbers = {"other": f"{spelled(model)}, {spelled(task)}"}
    if (table3 := pick(tables3, model, task)) is None:
        return name | dict.fromkeys(
            ("other_within", "other_layers", "other_worst", "other_worst_layer"), NOT_MEASURED
        )
    worst = _worst(table3.values["layers"])
    return name | {
        "other_within": _sure(table3.values["layers"]),
        "other_layers": len(table3.values["layers"]),
        "other_worst": f"{100 * worst['delta']:.2f}",
        "other_worst_layer": worst["layer"] + 1,
    }


def _translator(table2: Result, table5: Result) -> Numbers:
    layers = table5.values["layers"]
    losing, deepest = _losing(layers), _worst(layers)
    return {
        "n_swept": table2.n_examples,
        "n_reported": table5.n_examples,
        "n_chosen_on": table5.values["n_selection"],
        "n_layers": len(layers),
        "n_losing": len(losing),
        "n_losing_enc": sum(row["kind"] == "enc-enc" for row in losing),
        "n_losing_dec": sum(row["kind"] == "dec-dec" for row in losing),
        "n_sure": _sure(layers),
        "n_lacking": _lacking(layers, DELTA_BLEU),
        "power18": power_of(table5, "C2"),
        "deepest": deepest["delta"],
        "deepest_kind": deepest["kind"],
        "deepest_layer": deepest["layer"] + 1,
    }


def _worst(layers: list[dict[str, Any]]) -> dict[str, Any]:
    """The layer that loses most with one head."""
    return min(layers, key=lambda row: row["delta"])


def _sure(layers: list[dict[str, Any]]) -> int:
    """Layers where the interval rules out a loss of a point, or of half a BLEU point."""
    return sum(row["removable"] for row in layers)


def _lacking(layers: list[dict[str, Any]], tolerated: float) -> int:
    """Layers where the interval shows a loss of more than that."""
    return sum(row["interval"][1] < -tolerated for row in layers)


def _losing(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Layers that lose significantly as the paper counts, without correction."""
    return [row for row in layers if row["delta"] < 0 and row["p"] < ALPHA]
