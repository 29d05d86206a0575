"""Stored results are found, each once."""

from headprune_lib.replication import measurements
from headprune_lib.replication.measurements.obtaining import results_folder


def test_each_stored_result_is_listed_once(smoke):
    """The paper's three names for a pruning curve are one measurement on three tasks."""
    for artifact in ("figure3b", "figure6b", "figure6c"):
        measurements.get(artifact, smoke)
    listed = measurements.found("figure3b", "figure6b", "figure6c", root=results_folder(smoke))
    assert {one.measurement for one in listed} == {"pruning_curve"}
    assert sorted(one.task for one in listed) == ["synthetic", "synthetic-pairs", "synthetic-words"]


def test_what_was_not_measured_is_not_listed(tmp_path):
    assert measurements.found("table5", root=tmp_path) == []
