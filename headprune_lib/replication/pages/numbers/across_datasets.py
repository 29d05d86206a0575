"""Numbers of the page "Across datasets"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headprune_lib.replication.bounds import C7_RELIABILITY
from headprune_lib.replication.pages.numbers.judged import word_of
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.page import pick
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, estimate, number
from headprune_lib.replication.store.results import Result
from headprune_lib.replication.titles import spelled


def across_datasets(figure2b: Result, figure2a: Result, further: Mapping[str, Result]) -> Numbers:
    """Figures 2b and 2a; Figure 2b of MPNet on SST-2, and of pairs: MNLI, and from SNLI to SICK.

    Args:
        further: name -> result of Figure 2b, for other models and tasks.
    """
    return {
        **_classifier(figure2b),
        **_twelve_layers(pick(further, "mpnet", "sst2")),
        **(_mnli(mnli) if (mnli := pick(further, "minilm", "mnli")) else {}),
        **_pairs("sick", pick(further, "minilm", "snli")),
        **_pairs("held", pick(further, "minilm", "snli-held")),
        **_pairs("mpnet_held", pick(further, "mpnet", "snli-held")),
        **_translator(figure2a),
    }


def _classifier(figure2b: Result) -> Numbers:
    """Not measured where the task has no text of another domain."""
    correlations = figure2b.values["correlations"]
    if not correlations:
        return dict.fromkeys(
            (
                "reliability_accuracy",
                "reliability_loss",
                "edge",
                "edge_domain",
                "best",
                "worst",
                "r_best",
                "r_worst",
                "domains",
                "measurable_accuracy",
                "measurable_loss",
                "sure_loss",
            ),
            NOT_MEASURED,
        )
    first = next(iter(correlations.values()))
    edge, edge_domain = min(
        (head[f"accuracy {domain}"], domain)
        for head in figure2b.values["heads"]
        for domain in correlations
    )
    in_loss = {domain: found["loss"]["spearman"] for domain, found in correlations.items()}
    # Without a correlation where no cut had any effect.
    known = [domain for domain in in_loss if in_loss[domain]["r"] is not None] or list(in_loss)
    best = max(known, key=lambda domain: in_loss[domain]["r"] or 0)
    worst = min(known, key=lambda domain: in_loss[domain]["r"] or 0)
    return {
        "reliability_accuracy": number(first["accuracy"]["reliability"][0], ".2f"),
        "reliability_loss": number(first["loss"]["reliability"][0], ".2f"),
        "edge": f"{-100 * edge:.1f}",
        "edge_domain": spelled(edge_domain),
        "best": spelled(best),
        "worst": spelled(worst),
        "r_best": estimate(in_loss[best]["r"], in_loss[best]["interval"]),
        "r_worst": estimate(in_loss[worst]["r"], in_loss[worst]["interval"]),
        "domains": len(correlations),
        "measurable_accuracy": _measurable(correlations, "accuracy"),
        "measurable_loss": _measurable(correlations, "loss"),
        "sure_loss": sum((found["interval"][0] or 0) > 0 for found in in_loss.values()),
    }


def _measurable(correlations: Mapping[str, Any], measure: str) -> int:
    """In how many domains both sides are as reliable as claim C7's rule asks."""
    return sum(
        min(found[measure]["reliability"]) >= C7_RELIABILITY for found in correlations.values()
    )


def _twelve_layers(figure2b: Result | None) -> Numbers:
    if figure2b is None:
        return dict.fromkeys(
            (
                "mpnet_right",
                "mpnet_reliability",
                "mpnet_r_least",
                "mpnet_r_most",
                "mpnet_ceiling_least",
                "mpnet_ceiling_most",
                "mpnet_sure",
                "mpnet_domains",
            ),
            NOT_MEASURED,
        )
    values = figure2b.values
    in_loss = [found["loss"] for found in values["correlations"].values()]
    known = [found for found in in_loss if found["spearman"]["r"] is not None]
    r = [found["spearman"]["r"] for found in known]
    ceilings = [found["ceiling"] for found in known]
    return {
        "mpnet_right": f"{100 * values['baselines'][values['in_domain']]['accuracy']:.0f}",
        "mpnet_reliability": number(known[0]["reliability"][0] if known else None, ".2f"),
        "mpnet_r_least": number(min(r, default=None), ".2f"),
        "mpnet_r_most": number(max(r, default=None), ".2f"),
        "mpnet_ceiling_least": number(min(ceilings, default=None), ".2f"),
        "mpnet_ceiling_most": number(max(ceilings, default=None), ".2f"),
        "mpnet_sure": sum(found["spearman"]["interval"][0] > 0 for found in known),
        "mpnet_domains": len(in_loss),
    }


def _mnli(figure2b: Result) -> Numbers:
    """MNLI's matched and mismatched pairs, the paper's own; its measure is Pearson's in accuracy."""
    (found,) = figure2b.values["correlations"].values()
    pearson = found["accuracy"]["pearson"]
    return {
        **_pairs("mnli", figure2b),
        "mnli_word": word_of(figure2b, "C7"),
        "mnli_pearson": estimate(pearson["r"], pearson["interval"]),
    }


def _pairs(prefix: str, figure2b: Result | None) -> Numbers:
    """From pairs to those of another text: how many of each, and the correlation in log-loss."""
    if figure2b is None:
        return dict.fromkeys(
            (f"{prefix}_{key}" for key in ("r", "ceiling", "n_home", "n_away")), NOT_MEASURED
        )
    ((domain, found),) = figure2b.values["correlations"].items()
    spearman = found["loss"]["spearman"]
    return {
        f"{prefix}_r": estimate(spearman["r"], spearman["interval"]),
        f"{prefix}_ceiling": number(found["loss"]["ceiling"], ".2f"),
        f"{prefix}_n_home": f"{figure2b.n_examples:,}",
        f"{prefix}_n_away": f"{figure2b.values['baselines'][domain]['n_examples']:,}",
    }


def _translator(figure2a: Result) -> Numbers:
    values = figure2a.values
    bleu, draft = (values["correlations"][measure] for measure in ("bleu", "loss"))
    edge = min(values["heads"], key=lambda head: head["bleu home"])
    return {
        "home_bleu": values["baselines"]["home"],
        "far_bleu": values["baselines"]["far"],
        "r_bleu": estimate(bleu["pearson"]["r"], bleu["pearson"]["interval"]),
        "edge_head": edge["head"] + 1,
        "edge_layer": edge["layer"] + 1,
        "edge_home": edge["bleu home"],
        "edge_far": edge["bleu far"],
        "rank_bleu": number(bleu["spearman"]["r"], ".2f"),
        "reliable_home": number(bleu["reliability"][0], ".2f"),
        "reliable_far": number(bleu["reliability"][1], ".2f"),
        "ceiling_bleu": number(bleu["ceiling"], ".2f"),
        "rank_draft": number(draft["spearman"]["r"], ".2f"),
        "r_draft": number(draft["pearson"]["r"], ".2f"),
        "ceiling_draft": number(draft["ceiling"], ".2f"),
    }
