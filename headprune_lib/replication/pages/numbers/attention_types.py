"""Numbers of the page "Types of attention"."""

from __future__ import annotations

from headprune_lib.discovery import KINDS
from headprune_lib.replication.claims.verdict import defined
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.tables.pages import NOT_ABOVE_CHANCE, points, signed
from headprune_lib.replication.pages.values import step_at
from headprune_lib.replication.store.results import Result


def attention_types(figure4: Result) -> Numbers:
    """Figure 4: areas of the share of BLEU kept, and BLEU left as one kind's heads go."""
    values = figure4.values
    curves = {kind: values["curves"][f"{kind} importance"]["mean"] for kind in KINDS}
    most = step_at(values["shares"], 0.8)
    kept = {kind: values["kept"][f"{kind} importance"]["kept"][most] for kind in KINDS}
    return {
        "uncut": curves["enc-enc"][0],
        "n": figure4.n_examples,
        **{
            f"area_{_key(other)}": points(found["difference"], found["interval"])
            if defined(*found["interval"])
            else NOT_ABOVE_CHANCE
            for other, found in values["areas"].items()
        },
        **{f"{_key(kind)}_80": curve[most] for kind, curve in curves.items()},
        **{
            f"{_key(kind)}_kept_80": NOT_ABOVE_CHANCE if share is None else f"{share:.0%}"
            for kind, share in kept.items()
        },
        "gap_dec_40": _gap(figure4, "dec-dec", 0.4),
        "gap_dec_60": _gap(figure4, "dec-dec", 0.6),
        "enc_enc_none": curves["enc-enc"][-1],
        "enc_dec_none": curves["enc-dec"][-1],
    }


def _gap(figure4: Result, other: str, removed: float) -> str:
    """BLEU left, *enc-dec* minus another kind, with its interval."""
    along = figure4.values["differences_along"][f"enc-dec minus {other}"]
    found = along[step_at(figure4.values["shares"], removed)]
    return signed(found["difference"], found["interval"])


def _key(kind: str) -> str:
    return kind.replace("-", "_")
