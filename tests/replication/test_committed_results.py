"""The committed results come from the committed weights: cells drawn at random are found again.

Of each result two masks are drawn, and one part, of which scores, orders and losses are found again:
``pytest --every`` takes all parts. What is drawn can be drawn again: ``pytest --seed 7``. Translators are
in a file of their own.
"""

import pytest
from committed import check, keys

from headprune_lib.replication import store
from headprune_lib.replication.data import file_sha256
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.paths import models_root
from headprune_lib.replication.verification.further import _CHECKS
from headprune_lib.replication.verification.orders import order_of
from headprune_lib.replication.verification.sheets import _READERS
from headprune_lib.replication.verification.subjects import (
    NotAtHand,
    runs_of,
    subject_of,
    subjects_of,
)


@pytest.mark.slow
@pytest.mark.parametrize("key", keys("encoder"))
def test_drawn_cells_of_an_encoder_are_found_again(key, journal, drawn_seed, n_parts):
    check(key, journal, drawn_seed, n_parts)


@pytest.mark.slow
def test_every_training_whose_weights_are_committed_is_found_again(monkeypatch, tmp_path):
    """Whatever the cache holds; a run that is not is not there for a reason."""
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    hashes = {file_sha256(path) for path in models_root().glob("*.safetensors")}
    known, here = {}, set()
    for key in store.find():
        if half_of(key) == "language":  # nobody trains these: test_committed_language.py
            continue
        result = store.load(key)
        for run in runs_of(result):
            try:
                subject_of(result, run)
                here.add(run["weights_sha256"])
                assert sheets_or_more(key)
            except NotAtHand as reason:
                known[key] = str(reason)
                assert run.get("weights_sha256") not in hashes
    assert here == hashes, "weights are committed that no result was measured on"
    assert all("not committed" in reason or "not here" in reason for reason in known.values())


def sheets_or_more(key):
    return (key.measurement, half_of(key)) in _READERS or key.measurement in _CHECKS


# Orders of removal of which the ends alone are found again: they were measured before orders were
# kept, and follow from no stored number.
ENDS_ALONE = {
    ("reviews", "minilm", "importance rescored"),
    ("reviews", "minilm", "oracle leak-free"),
    ("enfr", "post-norm", "oracle leak-free"),
}


@pytest.mark.slow
def test_orders_that_are_not_found_again_are_named():
    found = set()
    for key in store.find("pruning_curve"):
        result = store.load(key)
        try:
            subjects = subjects_of(result)
        except NotAtHand:
            continue
        for subject in subjects:
            for part, one in result.parts.items():
                on = [run["seed"] for run in one.runs]
                if subject.seed in on and order_of(result, subject, part) is None:
                    found.add((key.task, key.model, part))
    assert found == ENDS_ALONE
