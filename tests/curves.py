"""Stored pruning curves with other scores behind them, for tests of what pages say of them."""

import dataclasses

import numpy as np

from headprune_lib.replication.store import Result


def scored(curve: Result, scores) -> Result:
    """The curve as if I_h of its first training were ``scores`` (layer, head)."""
    part = curve.parts["importance"]
    changed = dataclasses.replace(part, raw={**part.raw, "scores": np.array(scores, float)})
    return dataclasses.replace(curve, parts={**curve.parts, "importance": changed})
