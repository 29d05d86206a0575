"""Stored results are found, each once."""

from headprune_lib.replication import measurements


def test_each_stored_result_is_listed_once(smoke, monkeypatch):
    for artifact in ("figure3b", "figure6b", "figure6c"):
        measurements.get(artifact, smoke)
    monkeypatch.setattr(measurements, "_TASKS", {"smoke": (None, "synthetic", "synthetic-pairs")})
    listed = measurements.found("figure3b", "figure6b", "figure6c")
    assert [(one.artifact, one.task) for one in listed] == [
        ("figure3b", "synthetic"), ("figure6b", "synthetic-words"), ("figure6c", "synthetic-pairs")]
    assert measurements.found("table5") == []
