"""A criterion is a function of this package, or one that a user registers."""

from unittest import mock

import pytest
import torch
from tiny import batch, batch_for, build

from headprune_lib import discovery, prune_heads, rank_heads, register_criterion, score_heads
from headprune_lib.cli.criteria import in_package, known_criteria
from headprune_lib.criteria import CRITERIA

UNLABELLED = {"confidence", "entropy", "entropy-low", "logits-norm", "magnitude", "random"}
"""Criteria that read no labels."""


@pytest.fixture
def forget():
    with mock.patch.dict(CRITERIA):
        yield


def magnitude(model, batches, *, loss=None, device=None, power=1):
    weights = [layer.attention.output.dense.weight for layer in model.bert.encoder.layer]
    norms = [w.detach().unflatten(1, (4, 4)).norm(dim=(0, 2)) ** power for w in weights]
    return {"self": torch.stack(norms)}


def test_what_is_listed_without_importing_it_is_what_is_there(forget):
    described = {
        name: (each.score.__module__.rpartition(".")[2], each.summary)
        for name, each in CRITERIA.items()
    }
    assert in_package() == described
    register_criterion("size")(magnitude)
    assert known_criteria().keys() == CRITERIA.keys()


def test_a_users_own_is_found_by_name_with_its_settings(forget):
    assert register_criterion("size")(magnitude) is magnitude
    model = build()
    scores = score_heads(model, [], "size")
    assert torch.equal(scores["self"], magnitude(model, [])["self"])
    assert torch.equal(score_heads(model, [], "size", power=2)["self"], scores["self"] ** 2)
    assert len(rank_heads(scores)) == 12
    norms = score_heads(model, [], "size", normalize="l2")["self"].norm(dim=1)
    torch.testing.assert_close(norms, torch.ones_like(norms))
    register_criterion("size", normalize="l2")(magnitude)  # a cell that is run again
    assert torch.equal(score_heads(model, [], "size")["self"].norm(dim=1), norms)


@pytest.mark.parametrize("name", sorted(CRITERIA))
def test_each_scores_every_head_that_is_left_by_its_seed_and_passes_over_flags(name, monkeypatch):
    assert CRITERIA[name].name == name and 20 < len(CRITERIA[name].summary) < 63
    model, inputs = prune_heads(build(), [(1, head) for head in range(4)]), batch()
    settings = {"gates": {"updates": 15}, "shapley": {"permutations": 1}}.get(name, {})
    walks, split = [], discovery._split
    monkeypatch.setattr(discovery, "_split", lambda modules: walks.append(1) or split(modules))

    def scored(given=inputs, **more):
        return score_heads(model, [given], name, **settings, **more)["self"]

    scores = scored()
    assert len(walks) == 1 or name == "greedy"  # heads are looked for once; a search sweeps
    assert scores.shape == (3, 4) and scores.dtype == torch.float64
    assert scores[1].isnan().all() and len(scores[[0, 2]].unique()) == 8
    assert scores[[0, 2]].isfinite().all()
    further = {"token_type_ids": None, "use_cache": False, "output_attentions": True, "extra": 1}
    given = {**inputs, **further, "labels": inputs["labels"].int()}
    torch.testing.assert_close(scored(given), scores, equal_nan=True)
    assert given["labels"].dtype == torch.int32
    if name in ("gates", "random", "second-order", "shapley"):
        torch.testing.assert_close(scored(seed=0), scores, equal_nan=True)
        assert not torch.allclose(scored(seed=1)[0], scores[0])
    if name not in ("magnitude", "random"):
        with pytest.raises(ValueError, match="no batches"):
            score_heads(model, [], name)


@pytest.mark.parametrize("unlabelled", ["all labels -100", "texts of one token"])
@pytest.mark.parametrize("by", sorted(set(CRITERIA) - UNLABELLED))
def test_where_no_label_counts_there_are_no_scores(by, unlabelled):
    """Without a loss there is no order; after a single token there is nothing to predict."""
    model, batch = build("gpt2"), batch_for("gpt2")
    if unlabelled == "all labels -100":
        batch["labels"] = torch.full_like(batch["labels"], -100)
    else:
        batch = {name: values[:, :1] for name, values in batch.items()}
    with pytest.raises(ValueError, match="no label counts|no example has a label that counts"):
        score_heads(model, [batch], by)
