"""Ours beside the paper's: published values, and tables for pages."""

from headprune_lib.comparison.encoder import (
    domains_table,
    layers_table,
    orders_table,
    sizes_table,
    speed_table,
)
from headprune_lib.comparison.pages import as_html, points, verdict_table
from headprune_lib.comparison.published import paper
from headprune_lib.comparison.speed import bench_table
from headprune_lib.comparison.translation import (
    checkpoints_table,
    curves_table,
    heads_table,
    kinds_table,
    quality_table,
    reduced_table,
    samples_table,
)

__all__ = [
    "as_html",
    "bench_table",
    "checkpoints_table",
    "curves_table",
    "domains_table",
    "heads_table",
    "kinds_table",
    "layers_table",
    "orders_table",
    "paper",
    "points",
    "quality_table",
    "reduced_table",
    "samples_table",
    "sizes_table",
    "speed_table",
    "verdict_table",
]
