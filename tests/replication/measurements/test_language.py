"""What is measured of a language model: curves, single heads, and training again."""

import dataclasses

import numpy as np
import pytest
from typer.testing import CliRunner

from headprune_lib import cut_heads, find_heads
from headprune_lib.replication import measurements
from headprune_lib.replication.cli import app
from headprune_lib.replication.language.subject import LanguageSubject
from headprune_lib.replication.measurements import half_of, language_recovery
from headprune_lib.replication.measurements.language_curve import (
    ORDERS,
    PER_GROUP,
    WHOLE_GROUPS,
    first_heads,
    steps_of,
)
from headprune_lib.replication.measurements.perplexity import kept
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.store import Journal
from headprune_lib.replication.store.heads import heads_in


@pytest.fixture
def subject(smoke):
    return LanguageSubject.of(smoke, "made-up")


def test_a_curve_is_the_loss_under_the_masks_of_its_order(smoke, subject):
    result = measurements.get("language_curve", smoke)
    assert half_of(result.key) == "language" and set(result.parts) == set(ORDERS)
    for name, part in result.parts.items():
        raw = part.raw
        for run, order in enumerate(raw["order"]):
            for step, gone in enumerate(raw["gone"][run]):
                mask = cut_heads(subject.model, heads_in(order)[:gone])
                expected = subject.losses(subject.model, mask)
                found = (raw["loss_uncut"] + raw["loss_change"][run, step]) / 1000
                np.testing.assert_allclose(found, expected, atol=2e-3, err_msg=name)


def test_values_are_sums_over_tokens(smoke):
    result = measurements.get("language_curve", smoke)
    raw, values = result.parts["random"].raw, result.values
    loss = (raw["loss_uncut"] + raw["loss_change"]).sum(-1) / 1000 / raw["tokens"].sum()
    curve = values["curves"]["random"]
    np.testing.assert_allclose(np.array(curve["runs"])[:, 1:], loss, rtol=1e-5)
    np.testing.assert_allclose(curve["perplexity"][1:], np.exp(loss.mean(0)), rtol=1e-5)
    low, high = np.array(curve["interval"]).T
    assert (low <= curve["perplexity"]).all() and (high >= curve["perplexity"]).all()
    means = [np.array(values["curves"][name]["mean"])[:5] for name in ("entropy", "importance")]
    widths = [0.1, 0.1, 0.1, 0.2]
    one, other = (((mean[1:] + mean[:-1]) / 2 * widths).sum() / 0.5 for mean in means)
    assert values["differences"]["entropy"]["difference"] == pytest.approx(one - other, abs=1e-5)


def test_kept_is_the_share_of_the_gain_over_frequencies():
    np.testing.assert_allclose(kept(np.array([2.0, 3.0, 5.0]), 4.0), [1, 0.5, -0.5])
    assert np.isnan(kept(np.array([5.0, 4.0]), 4.0)).all()


def test_groups_go_whole_or_evenly(subject, tmp_path):
    journal = Journal(tmp_path)
    (block, *_) = find_heads(subject.model)
    groups = {tuple(group) for group in block.groups}
    for step in steps_of(subject, journal, WHOLE_GROUPS):
        assert tuple(head for _, _, head in step) in groups
    for step in steps_of(subject, journal, PER_GROUP):
        assert all(len({head for *_, head in step} & {*group}) == 1 for group in groups)
    with pytest.raises(ValueError, match="scored once"):
        steps_of(subject, journal, "importance rescored")
    steps = steps_of(subject, journal, WHOLE_GROUPS)
    assert [len(first_heads(steps, share)) for share in (0, 0.2, 0.25, 0.3, 1)] == [0, 2, 2, 4, 8]


def test_the_order_by_importance_is_the_librarys(smoke, subject, tmp_path):
    from headprune_lib import head_importance, prune_order
    from headprune_lib.attention import eager

    with eager(subject.model):
        scores = head_importance(subject.model, subject.batches(subject.scoring))
    found = [head for (head,) in steps_of(subject, Journal(tmp_path), "importance")]
    assert found == prune_order(scores)


def test_single_heads_are_told_with_their_intervals(smoke):
    result = measurements.get("language_heads", smoke)
    raw = result.raw
    added = raw["loss_change"].sum(-1) / 1000 / raw["tokens"].sum()
    for head, expected in zip(result.values["heads"], added, strict=True):
        assert head["added"] == pytest.approx(expected, abs=1e-5)
        assert head["interval"][0] <= head["added"] <= head["interval"][1]


def test_removed_heads_are_masked_ones_and_training_moves_the_model(smoke, subject, tmp_path):
    result = measurements.get("language_recovery", smoke)
    assert list(result.parts) == ["removed 0%", "removed 30%"]
    steps = steps_of(subject, Journal(tmp_path), PER_GROUP)
    for part, share in zip(result.parts.values(), (0, 0.3), strict=True):
        mask = cut_heads(subject.model, first_heads(steps, share))
        expected = subject.losses(subject.model, mask)
        np.testing.assert_allclose(part.raw["loss_pruned"] / 1000, expected, atol=2e-3)
        assert np.abs(part.raw["loss_tuned"] - part.raw["loss_pruned"]).max() > 5
    uncut, cut = result.values["recovered"]
    assert uncut["left"] == uncut["parameters"] > cut["left"] and cut["removed"] == 4


def test_the_subject_stays_as_it_was(smoke, subject):
    before = subject.losses(subject.model)
    measurements.get("language_recovery", smoke, fresh=True)
    np.testing.assert_array_equal(subject.losses(subject.model), before)


def test_the_command_takes_the_text_and_the_model(smoke):
    done = CliRunner().invoke(
        app, ["reproduce", "language_heads", "--profile", "smoke", "--task", "made-up", "--stored"]
    )
    assert done.exit_code == 0, done.output
    wrong = CliRunner().invoke(
        app, ["reproduce", "language_heads", "--profile", "smoke", "--task", "sst2"]
    )
    assert wrong.exit_code == 2 and "unknown task 'sst2'" in wrong.output


def test_another_recipe_does_not_go_on_from_a_checkpoint(smoke, monkeypatch):
    folders, train = [], language_recovery.tuned

    def noted(subject, model, folder):
        folders.append(folder)
        return train(subject, model, folder)

    monkeypatch.setattr(language_recovery, "tuned", noted)
    for updates in (3, 3, 5):
        tuning = dataclasses.replace(smoke.language.tuning, updates=updates)
        own = load_profile("smoke", language={"tuning": dataclasses.asdict(tuning)})
        measurements.get("language_recovery", own, parts=["removed 30%"], fresh=True)
    assert folders[0] == folders[1] != folders[2]
