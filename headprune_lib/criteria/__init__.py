"""What scores heads: a criterion a file, found by its place in this folder.

>>> sorted(CRITERIA)[:3]
['confidence', 'entropy', 'entropy-low']
"""

import importlib
import pkgutil

from headprune_lib.criteria.registry import (
    CRITERIA,
    Criterion,
    Look,
    get_criterion,
    register_criterion,
)

__all__ = ["CRITERIA", "Criterion", "Look", "get_criterion", "register_criterion"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
