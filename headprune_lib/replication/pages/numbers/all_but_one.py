"""Numbers of the page "All heads but one"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headprune_lib.replication.bounds import ALPHA, DELTA, DELTA_BLEU
from headprune_lib.replication.pages.numbers.judged import power_of, word_of
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.page import pick
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled


def all_but_one(
    table6: Result,
    table2: Result,
    table5: Result,
    tables3: Mapping[str, Result],
    tables6: Mapping[str, Result],
) -> Numbers:
    """Tables 2, 5 and 6; MiniLM on MNLI, MPNet on SST-2 and both on SNLI's held pairs (Table 6's
    way), and MPNet on SNLI (Table 3's).

    Args:
        tables3: name -> result of Table 3.
        tables6: name -> result of Table 6.
    """
    mnli = pick(tables6, "minilm", "mnli")
    return {
        **_classifier(table6),
        **({**_chosen(mnli, "_mnli"), "word_mnli": word_of(mnli, "C2")} if mnli else {}),
        **_chosen(pick(tables6, "mpnet", "sst2"), "12"),
        **_chosen(pick(tables6, "minilm", "snli-held"), "_held"),
        **_chosen(pick(tables6, "mpnet", "snli-held"), "_held12"),
        **_on_test("mpnet", "snli", tables3),
        **_translator(table2, table5),
    }


def _classifier(table6: Result) -> Numbers:
    worst = _worst(table6.values["layers"])
    return {**_chosen(table6), "worst": 100 * worst["delta"]}  # which the page rounds


def _chosen(table6: Result | None, suffix: str = "") -> Numbers:
    """The best head chosen on training text; ``suffix`` follows the name of each number."""
    if table6 is None:
        return {f"{name}{suffix}": NOT_MEASURED for name in _CHOSEN}
    layers = table6.values["layers"]
    worst = _worst(layers)
    found = (
        f"{table6.n_examples:,}",
        f"{table6.values['n_selection']:,}",
        len(layers),
        _sure(layers),
        _lacking(layers, DELTA),
        power_of(table6, "C2"),
        f"{100 * worst['delta']:.2f}",
        worst["layer"] + 1,
        len(_losing(layers)),
    )
    return {f"{name}{suffix}": value for name, value in zip(_CHOSEN, found, strict=True)}


_CHOSEN = (
    "n_tested",
    "n_selection",
    "layers",
    "within",
    "lacking",
    "power",
    "worst",
    "worst_layer",
    "lost",
)


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
        **_trained_again(table5),
    }


def _trained_again(table5: Result) -> Numbers:
    """The same of a translator's further trainings, one number each: "9 and 10"."""
    further = [one["layers"] for _, one in sorted(table5.values.get("further", {}).items())]
    told = {
        "again_losing": [len(_losing(layers)) for layers in further],
        "again_sure": [_sure(layers) for layers in further],
        "again_lacking": [_lacking(layers, DELTA_BLEU) for layers in further],
        "again_deepest": [f"{_worst(layers)['delta']:.2f}" for layers in further],
    }
    return {name: " and ".join(map(str, each)) or NOT_MEASURED for name, each in told.items()}


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
