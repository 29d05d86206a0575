"""Numbers of the page "One head at a time"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median_high
from typing import Any

from headprune_lib.replication.pages.numbers.judged import word_of
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.page import pick
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, estimate, number
from headprune_lib.replication.store.results import Result


def one_head(figure1b: Result, table1: Result, shown: Mapping[str, Result]) -> Numbers:
    """Figure 1b and Table 1; of all models and tasks, the one with the fewest removable heads, MiniLM
    on MNLI, and both encoders on SNLI's held pairs.

    Args:
        shown: name -> result of Figure 1b.
    """
    return {
        **_classifier(figure1b),
        **_least(shown),
        **_mnli(pick(shown, "minilm", "mnli")),
        **_counted("held", pick(shown, "minilm", "snli-held")),
        **_counted("mpnet_held", pick(shown, "mpnet", "snli-held")),
        **_translator(table1),
    }


def _classifier(figure1b: Result) -> Numbers:
    values = figure1b.values
    counts, worst = values["counts"], _worst(values["heads"])
    return {
        "accuracy": 100 * values["baseline"]["accuracy"],
        "n": figure1b.n_examples,
        "heads": counts["heads"],
        "removable": counts["removable"],
        **_removable("", counts, values["removable"]),
        "losses": counts["significant_losses"],
        "gains": counts["significant_gains"],
        "raw_losses": counts["paper_losses"],
        "raw_gains": counts["paper_gains"],
        "worst": 100 * worst["delta"],
        "worst_layer": worst["layer"] + 1,
        "worst_head": worst["head"] + 1,
        "detectable": 100 * _detectable(values["heads"]),
        "loss_losses": counts["loss_losses"],
        "loss_gains": counts["loss_gains"],
    }


def _least(shown: Mapping[str, Result]) -> Numbers:
    if not shown:
        return {"least": NOT_MEASURED, **_counted("least", None), "least_detectable": NOT_MEASURED}
    counts = {name: result.values["counts"] for name, result in shown.items()}
    least = min(counts, key=lambda name: counts[name]["removable"] / counts[name]["heads"])
    return {
        "least": least,
        **_counted("least", shown[least]),
        "least_detectable": f"{100 * _detectable(shown[least].values['heads']):.1f}",
    }


def _mnli(figure1b: Result | None) -> Numbers:
    """The paper's own task and test set."""
    accuracy = figure1b and 100 * figure1b.values["baseline"]["accuracy"]
    return {
        **_counted("mnli", figure1b),
        "mnli_accuracy": number(accuracy, ".1f"),
        "mnli_word": word_of(figure1b, "C1"),
    }


def _counted(prefix: str, figure1b: Result | None) -> Numbers:
    """Of one result: how many heads, how many of them removable, and on how many texts."""
    if figure1b is None:
        keys = ("removable", "heads", "share", "needed", "power", "n")
        return dict.fromkeys((f"{prefix}_{key}" for key in keys), NOT_MEASURED)
    counts = figure1b.values["counts"]
    return {
        f"{prefix}_removable": counts["removable"],
        f"{prefix}_heads": counts["heads"],
        **_removable(f"{prefix}_", counts, figure1b.values["removable"]),
        f"{prefix}_n": f"{figure1b.n_examples:,}",
    }


def _translator(table1: Result) -> Numbers:
    values = table1.values
    counts, lost = values["counts"]["enc-enc"], _worst(values["heads"])
    return {
        "bleu": values["baseline"]["bleu"],
        "n_verses": table1.n_examples,
        "enc_heads": counts["heads"],
        "enc_removable": counts["removable"],
        **_removable("enc_", counts, values["removable"]["enc-enc"]),
        "enc_losses": counts["significant_losses"],
        "enc_raw": counts["paper_losses"] + counts["paper_gains"],
        "lost_kind": lost["kind"],
        "lost_layer": lost["layer"] + 1,
        "lost_head": lost["head"] + 1,
        "bleu_lost": lost["delta"],
        "bleu_detectable": _detectable(
            head for head in values["heads"] if head["kind"] == "enc-enc"
        ),
    }


def _removable(prefix: str, counts: Mapping[str, Any], found: Mapping[str, Any]) -> Numbers:
    """Share of removable heads with its interval, heads that are needed, power of C1's rule."""
    share = counts["removable"] / counts["heads"]
    return {
        f"{prefix}share": estimate(share, found["removable_interval"], ".0%"),
        f"{prefix}needed": found["needed"],
        f"{prefix}power": f"{found['power']:.2f}",
    }


def _worst(heads: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The cut that costs most."""
    return min(heads, key=lambda head: head["delta"])


def _detectable(heads: Iterable[dict[str, Any]]) -> float:
    """The smallest change that the test could have found, median over heads."""
    return median_high([head["smallest_detectable"] for head in heads])
