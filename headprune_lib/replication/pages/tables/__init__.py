"""Ours beside the paper's: published values, and tables for pages."""

from headprune_lib.replication.pages.tables.encoder import (
    domains_table,
    layers_table,
    orders_table,
    sizes_table,
    speed_table,
)
from headprune_lib.replication.pages.tables.independent import (
    grid,
    independent_table,
    layers_again_table,
    published_wmt,
    ranks_of_same_weights,
    seeds_table,
    significant_again,
)
from headprune_lib.replication.pages.tables.pages import (
    NOT_MEASURED,
    as_html,
    estimate,
    number,
    points,
    shown_orders,
    verdict_table,
)
from headprune_lib.replication.pages.tables.published import paper, published_share, published_task
from headprune_lib.replication.pages.tables.speed import bench_table
from headprune_lib.replication.pages.tables.tasks import (
    agreement_tasks_table,
    heads_tasks_table,
    importance_across_tasks,
    scores_table,
    side_by_side,
    tasks_table,
)
from headprune_lib.replication.pages.tables.translation import (
    checkpoints_table,
    curves_table,
    heads_table,
    kinds_table,
    quality_table,
    reduced_table,
    samples_table,
)

__all__ = [
    "NOT_MEASURED",
    "agreement_tasks_table",
    "as_html",
    "bench_table",
    "checkpoints_table",
    "curves_table",
    "domains_table",
    "estimate",
    "grid",
    "heads_table",
    "heads_tasks_table",
    "importance_across_tasks",
    "independent_table",
    "kinds_table",
    "layers_again_table",
    "layers_table",
    "number",
    "orders_table",
    "paper",
    "points",
    "published_share",
    "published_task",
    "published_wmt",
    "quality_table",
    "ranks_of_same_weights",
    "reduced_table",
    "samples_table",
    "scores_table",
    "seeds_table",
    "shown_orders",
    "side_by_side",
    "significant_again",
    "sizes_table",
    "speed_table",
    "tasks_table",
    "verdict_table",
]
