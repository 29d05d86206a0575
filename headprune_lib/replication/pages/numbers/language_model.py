"""The numbers in the prose of the page on a language model."""

from __future__ import annotations

from headprune_lib.replication.claims import questions
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import NOT_MEASURED, kept_text
from headprune_lib.replication.store import Result

# Order -> how its numbers begin, and the shares removed that are told.
_TOLD = {
    "importance": ("normalised", (0.1, 0.2, 0.3, 0.5)),
    "importance unnormalised": ("plain", (0.1, 0.3, 0.5)),
    "random": ("random", (0.3,)),
}


_TOLD_ELSEWHERE = {"importance": (0.0, 0.3, 0.5), "importance unnormalised": (0.3, 0.5)}


def other_text(curve: Result | None) -> Numbers:
    """What is told of another text than the page's own: kept, its answer, and perplexities."""
    told = {
        f"other_{_TOLD[order][0]}_{100 * share:.0f}": (order, share)
        for order, shares in _TOLD_ELSEWHERE.items()
        for share in shares
    }
    if curve is None:
        return dict.fromkeys(["other_tokens", "other_kept", "other_answer", *told], NOT_MEASURED)
    values, many = curve.values, questions.redundancy(curve.values)
    at = [float(share) for share in values["shares"]].index
    return {
        "other_tokens": f"{values['tokens']:,}",
        "other_kept": kept_text({"kept": many.kept, "interval": many.interval}),
        "other_answer": many.answer,
        **{
            name: f"{values['curves'][order]['perplexity'][at(share)]:,.0f}"
            for name, (order, share) in told.items()
        },
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
    for order, (name, told) in _TOLD.items():
        for share in told:
            found = values["curves"][order]["perplexity"][shares.index(share)]
            numbers[f"{name}_{100 * share:.0f}"] = f"{found:.1f}"
    whole, *_, cut = recovery.values["recovered"]
    numbers |= {
        "removed": str(cut["removed"]),
        "cut_ratio": f"{cut['pruned'] / whole['pruned']:.1f}",
        "tuned_ratio": f"{cut['tuned'] / whole['tuned']:.1f}",
    }
    many, one = questions.redundancy(values), questions.single_heads(heads.values)
    return numbers | {
        "together_answer": many.answer,
        "together_kept": kept_text({"kept": many.kept, "interval": many.interval}),
        "single_answer": one.answer,
        "single_removable": f"{one.removable} of {one.heads}",
        "single_needed": str(one.needed),
        f"cut_{100 * cut['share']:.0f}": f"{cut['pruned']:.1f}",
        **{
            f"tuned_{100 * one['share']:.0f}": f"{one['tuned']:.1f}"
            for one in recovery.values["recovered"]
        },
    }
