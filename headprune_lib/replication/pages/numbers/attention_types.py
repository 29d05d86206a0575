"""Numbers of the page "Types of attention"."""

from __future__ import annotations

from headprune_lib.heads import KINDS
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.values import step_at
from headprune_lib.replication.store.results import Result


def attention_types(figure4: Result) -> Numbers:
    """Figure 4: BLEU left as one kind's heads go by importance, and differences between kinds."""
    values = figure4.values
    curves = {kind: values["curves"][f"{kind} importance"]["mean"] for kind in KINDS}
    along = values["differences_along"]

    def at(removed: float) -> int:
        return step_at(values["shares"], removed)

    def gap(other: str, removed: float, ends: bool = True) -> Numbers:
        """*enc-dec* minus another kind."""
        found, name = along[f"enc-dec minus {other}"][at(removed)], f"gap_{other[:3]}_{removed:.0%}"
        low, high = found["interval"]
        name = name.removesuffix("%")
        numbers: Numbers = {name: found["difference"]}
        return numbers | {f"{name}_low": low, f"{name}_high": high} if ends else numbers

    return {
        "uncut": curves["enc-enc"][0],
        "n": figure4.n_examples,
        "enc_enc_60": curves["enc-enc"][at(0.6)],
        "enc_dec_60": curves["enc-dec"][at(0.6)],
        "dec_dec_60": curves["dec-dec"][at(0.6)],
        "enc_enc_80": curves["enc-enc"][at(0.8)],
        "enc_dec_80": curves["enc-dec"][at(0.8)],
        "dec_dec_80": curves["dec-dec"][at(0.8)],
        "enc_enc_none": curves["enc-enc"][-1],
        "enc_dec_none": curves["enc-dec"][-1],
        **gap("enc-enc", 0.4),
        **gap("enc-enc", 0.6),
        **gap("dec-dec", 0.4),
        **gap("dec-dec", 0.6),
        **gap("dec-dec", 0.8, ends=False),
    }
