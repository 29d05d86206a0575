"""Paired tests, intervals, bootstraps and correlations: the same examples before and after a cut.

Changes are cut minus uncut. Every function raises ValueError for empty input, NaN, or shapes that
do not fit together; every draw comes from the ``seed`` it is given.
"""

from headprune_lib.replication.stats.bootstrap import (
    bootstrap_curves,
    bootstrap_indices,
    bootstrap_scores,
    paired_bootstrap,
    share_of_wins,
)
from headprune_lib.replication.stats.checks import Estimate
from headprune_lib.replication.stats.correlations import (
    correlation,
    correlation_ceiling,
    partial_spearman,
    spearman_without_one,
    split_half_reliability,
    split_half_reliability_of,
)
from headprune_lib.replication.stats.paired import (
    equivalence,
    holm,
    mcnemar_exact,
    paired_proportion_interval,
    paired_t,
    ratio_interval,
    smallest_detectable,
    unpaired_t,
)
from headprune_lib.replication.stats.power import (
    all_of,
    detectable,
    power_above,
    power_of_share,
    share_above,
    standard_error,
)
from headprune_lib.replication.stats.scores import (
    area_under_curve,
    confusion,
    f1,
    gini,
    kept_above_chance,
    matthews,
    prunable_share,
)
from headprune_lib.replication.stats.trainings import (
    TrainingsMean,
    over_trainings,
    text_influences,
)

__all__ = [
    "Estimate",
    "TrainingsMean",
    "all_of",
    "area_under_curve",
    "bootstrap_curves",
    "bootstrap_indices",
    "bootstrap_scores",
    "confusion",
    "correlation",
    "correlation_ceiling",
    "detectable",
    "equivalence",
    "f1",
    "gini",
    "holm",
    "kept_above_chance",
    "matthews",
    "mcnemar_exact",
    "over_trainings",
    "paired_bootstrap",
    "paired_proportion_interval",
    "paired_t",
    "partial_spearman",
    "power_above",
    "power_of_share",
    "prunable_share",
    "ratio_interval",
    "share_above",
    "share_of_wins",
    "smallest_detectable",
    "spearman_without_one",
    "split_half_reliability",
    "split_half_reliability_of",
    "standard_error",
    "text_influences",
    "unpaired_t",
]
