"""The mean of several trainings, along which checkpoints differ."""

import pytest

from headprune_lib.replication.pages import plots


def training(updates, kept):
    names = ("kept_at", "added_loss", "gini_within")
    missing = {"kept_random": None, "added_loss_random": None}
    points = [
        {"updates": n, **dict.fromkeys(names, k), **missing}
        for n, k in zip(updates, kept, strict=True)
    ]
    return {"checkpoints": points}


def test_the_mean_of_trainings_lies_between_them_where_all_have_begun():
    trainings = [training((0, 1, 100), (0.0, 0.2, 0.6)), training((0, 10, 100), (0, 0.8, 1))]
    mean = plots.along_training({"m": {"removed": 0.4, "trainings": trainings}}).axes[2].lines[-1]
    assert mean.get_xdata().tolist() == [10, 100]
    # by logarithms, the first is half way there at 10
    assert mean.get_ydata() == pytest.approx([(0.4 + 0.8) / 2, 0.8])
