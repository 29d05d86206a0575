"""Criteria that score heads: by gradients, by attention, by search and by weights alone.

>>> sorted(CRITERIA)[:3]
['confidence', 'entropy', 'entropy-low']
"""

from headprune_lib.criteria.registry import CRITERIA, Criterion, get_criterion, register_criterion

__all__ = ["CRITERIA", "Criterion", "get_criterion", "register_criterion"]

from headprune_lib.criteria import attention, gradient, search, weights  # noqa: F401
