"""The same heads measured twice: the carried figures, and agreement of fine-tunings."""

import numpy as np
import pytest
from scipy.stats import rankdata

from headprune_lib.replication import measurements
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.pages import tables
from headprune_lib.replication.pages.tables.independent import pairs
from headprune_lib.replication.store import Journal


def test_the_carried_grids_are_those_of_the_repositories():
    # first and last numbers of their files: accuracy after a cut minus accuracy before
    mnli = tables.grid("Silent-Zebra", "MNLI").values
    assert mnli.shape == (12, 12) and mnli[0, :3].tolist() == [-0.00041, 0.00061, -0.00071]
    sst2 = tables.grid("ljj7975", "SST-2").values
    assert sst2[0, 0] == pytest.approx(0.9151376146788991 - 0.9094036697247706, abs=1e-5)
    assert sst2[11, 11] == pytest.approx(0, abs=1e-5)
    for kind in ("enc-enc", "enc-dec", "dec-dec"):
        assert tables.grid("Silent-Zebra", "WMT en-fr", kind=kind).p.shape == (6, 16)
    with pytest.raises(KeyError, match="no grid of effects by ljj7975 on SNLI"):
        tables.grid("ljj7975", "SNLI")


def test_paired_grids_are_of_one_shape():
    assert len(tables.independent_table()) == len(pairs())
    assert all(one.values.shape == two.values.shape for _, one, two in pairs())


def test_agreement_is_the_rank_correlation_of_normalised_importance(smoke, tmp_path):
    values = measurements.get("agreement", smoke).values
    (pair,) = values["pairs"]
    assert pair["seeds"] == [1, 2]
    first, second = (
        EncoderSubject.of(smoke, seed)
        .importance(Journal(tmp_path / str(seed)))["self"]
        .numpy()
        .ravel()
        for seed in (1, 2)
    )
    np.testing.assert_allclose(np.ravel(values["scores"][1]), second, rtol=1e-4)
    ranks = np.corrcoef(rankdata(first), rankdata(second))[0, 1]
    assert pair["spearman"] == pytest.approx(ranks, abs=1e-5)
    assert pair["shared_least"] == 8  # the tiny model has no more heads
