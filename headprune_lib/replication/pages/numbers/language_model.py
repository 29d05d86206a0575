"""The numbers in the prose of the page on a language model."""

from __future__ import annotations

from headprune_lib.replication.claims.rules import language
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import kept_text
from headprune_lib.replication.store import Result

_SHOWN = (0.1, 0.2, 0.3, 0.5)
_NAMES = {
    "importance": "normalised",
    "importance unnormalised": "plain",
    "random": "random",
    "importance unnormalised per group": "per_group",
    "importance unnormalised whole groups": "whole_groups",
}


def language_model(curve: Result, heads: Result, recovery: Result) -> Numbers:
    """Perplexities of the page's own text at the shares that are told, and the two answers.

    Args:
        curve: result of ``language_curve``; heads: of ``language_heads``; recovery: of
            ``language_recovery``.
    """
    values = curve.values
    shares = [float(share) for share in values["shares"]]
    numbers: Numbers = {
        "tokens": f"{values['tokens']:,}",
        "uncut": f"{values['curves']['importance']['perplexity'][0]:.1f}",
    }
    for share in _SHOWN:
        step = shares.index(share)
        for order, name in _NAMES.items():
            found = values["curves"][order]
            numbers[f"{name}_{share:.0%}".removesuffix("%")] = f"{found['perplexity'][step]:.1f}"
    whole, *_, cut = recovery.values["recovered"]
    numbers |= {
        "removed": str(cut["removed"]),
        "cut_ratio": f"{cut['pruned'] / whole['pruned']:.1f}",
        "tuned_ratio": f"{cut['tuned'] / whole['tuned']:.1f}",
    }
    many, one = language.together(values), language.one_at_a_time(heads.values)
    return numbers | {
        "together_answer": many.answer,
        "together_kept": kept_text({"kept": many.kept, "interval": many.interval}),
        "single_answer": one.answer,
        "single_removable": f"{one.removable} of {one.heads}",
        "single_needed": str(one.needed),
        **{
            f"{name}_{found['share']:.0%}".removesuffix("%"): f"{found[value]:.1f}"
            for found in recovery.values["recovered"]
            for name, value in (("cut", "pruned"), ("tuned", "tuned"))
        },
    }
