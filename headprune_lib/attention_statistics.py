"""What is said of attention weights: how widely a head looks, how surely, and where.

Each is a sum over real queries with the number of them, so that batches add up.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from headprune_lib.attention import Weights


def entropies(weights: Weights, leave_out: Collection[int] = ()) -> tuple[Tensor, Tensor]:
    """Entropy of every query's weights over the log of the number of keys that it sees: 0 to 1.

    A query that sees one key has nothing to choose, and one that sees none nothing at all: both are
    left out.

    Args:
        leave_out: ids of tokens whose keys do not count; the weights of the others are brought to
            sum 1 again. A query that gives them nothing is left out.

    Returns:
        (kept head,) sums over queries, and (kept head,) numbers of queries, both float64.
    """
    keys = weights.seen & ~_named(weights, leave_out)
    values = weights.values.double() * keys[:, None]
    mass, n_keys = values.sum(-1, keepdim=True), keys.sum(-1)[:, None]
    counted = (n_keys > 1) & (mass[..., 0] > 0)  # (example, head, query)
    shares = values / mass.where(mass > 0, 1)
    entropy = -torch.special.xlogy(shares, shares).sum(-1)
    entropy = entropy / n_keys.clamp(min=2).double().log()
    return (entropy * counted).sum((0, 2)), counted.sum((0, 2)).double()


def greatest(weights: Weights, leave_out: Collection[int] = ()) -> tuple[Tensor, Tensor]:
    """The greatest weight of every query, summed over queries; see :func:`entropies`.

    Keys that are left out do not count, and nothing is brought to sum 1 (Voita et al. 2019 leave
    the end mark out).
    """
    keys = weights.seen & ~_named(weights, leave_out)
    values = weights.values.double() * keys[:, None]
    counted = keys.any(-1)[:, None].expand(values.shape[:-1])
    return (values.amax(-1) * counted).sum((0, 2)), counted.sum((0, 2)).double()


def mass_on(weights: Weights, ids: Collection[int]) -> tuple[Tensor, Tensor]:
    """The weight that every query puts on some tokens, summed over queries; see :func:`entropies`."""
    named, asking = weights.seen & _named(weights, ids), weights.seen.any(-1)[:, None]
    values = weights.values.double() * named[:, None]
    counted = asking.expand(values.shape[:-1])
    return values.sum((0, 2, 3)), counted.sum((0, 2)).double()


def mass_at(weights: Weights, offset: int) -> tuple[Tensor, Tensor]:
    """The weight that every query puts on one place beside it, summed over queries.

    Queries whose place is no key that they see are left out: the first has no previous one.

    Args:
        offset: -1 for the previous position, 0 for the query's own, 1 for the next.

    Returns:
        See :func:`entropies`.
    """
    beside = weights.values.diagonal(offset, -2, -1).double()  # (example, head, query)
    counted = weights.seen.diagonal(offset, -2, -1)[:, None].expand(beside.shape)
    return (beside * counted).sum((0, 2)), counted.sum((0, 2)).double()


def _named(weights: Weights, ids: Collection[int]) -> Tensor:
    """(example, 1, key): whether the token behind a key is one of these."""
    if not ids or weights.ids is None:
        return torch.zeros_like(weights.seen[:, :1])
    wanted = torch.tensor(sorted(ids), device=weights.ids.device)
    return torch.isin(weights.ids, wanted)[:, None]
