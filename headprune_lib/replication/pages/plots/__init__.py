"""One function a figure: from a result's values to a matplotlib figure, the paper's value beside.

Colours are seaborn's colour-blind palette; layers and heads are counted from 1, changes of
accuracy are in percentage points, changes of BLEU in BLEU points.
"""

from headprune_lib.replication.pages.plots.encoder import (
    figure1b,
    figure2b,
    figure3b,
    table3,
    table4,
)
from headprune_lib.replication.pages.plots.independent import agreement, same_heads
from headprune_lib.replication.pages.plots.style import as_png
from headprune_lib.replication.pages.plots.tasks import (
    domains_tasks,
    layers_tasks,
    one_head_tasks,
    pruned_tasks,
)
from headprune_lib.replication.pages.plots.translation import (
    figure1a,
    figure2a,
    figure3a,
    figure4,
    figure5,
    quality,
    search,
    table2,
)

__all__ = [
    "agreement",
    "as_png",
    "domains_tasks",
    "figure1a",
    "figure1b",
    "figure2a",
    "figure2b",
    "figure3a",
    "figure3b",
    "figure4",
    "figure5",
    "layers_tasks",
    "one_head_tasks",
    "pruned_tasks",
    "quality",
    "same_heads",
    "search",
    "table2",
    "table3",
    "table4",
]
