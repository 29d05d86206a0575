"""Orders of removal: the paper's, and one for every criterion of the register."""

import pytest
import torch

from headprune_lib import prune_order, register_criterion, score_heads
from headprune_lib.criteria import CRITERIA
from headprune_lib.replication import measurements
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements import MEASUREMENTS, obtaining
from headprune_lib.replication.measurements.orders import EVERY, read_order
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.translation.subject import TranslationSubject, forced_batches


@pytest.fixture
def forget():
    known = dict(CRITERIA)
    yield
    CRITERIA.clear()
    CRITERIA.update(known)


def heads_of(part):
    """The stored order of a part's first run."""
    return [tuple(head) if len(head) == 3 else (0, *head) for head in part.raw["order"][0].tolist()]


def numbered(order, kinds):
    return [(kinds.index(kind), layer, head) for kind, layer, head in order]


@pytest.mark.parametrize(
    ("name", "by", "normalize"),
    [
        ("fisher", "fisher", "own"),
        ("importance-token", "importance-token", "own"),
        ("importance-token unnormalised", "importance-token", None),
    ],
)
def test_a_criterion_is_an_order_scored_on_the_sentences_of_importance(smoke, name, by, normalize):
    found = measurements.get("pruning_curve", smoke, parts=[name])
    subject = EncoderSubject.of(smoke, kernel="eager")
    scores = score_heads(
        subject.model, subject.batches(subject.scoring).batches, by, normalize=normalize
    )
    assert heads_of(found.parts[name]) == numbered(prune_order(scores), ("self",))
    assert len(found.values["curves"][name]["mean"]) == smoke.steps + 1


def test_the_other_way_round(smoke):
    found = measurements.get("pruning_curve", smoke, parts=["fisher", "fisher reversed"])
    one, other = (heads_of(found.parts[name]) for name in ("fisher", "fisher reversed"))
    assert one == other[::-1]


def test_beside_importance_it_has_an_area(smoke):
    alone = measurements.get("pruning_curve", smoke, parts=["importance", "fisher"])
    assert {"random", "fisher"} & set(alone.values["area_differences"]) == {"fisher"}


def test_of_a_translation_model(smoke):
    found = measurements.get("figure3a", smoke, parts=["fisher"])
    subject = TranslationSubject.of(smoke, smoke.translation_task, kernel="eager")
    scores = score_heads(subject.model, forced_batches(subject, subject.split("score")), "fisher")
    assert heads_of(found.parts["fisher"]) == numbered(
        prune_order(scores), ("enc-enc", "enc-dec", "dec-dec")
    )


def test_a_users_own_criterion_is_an_order(smoke, forget):
    @register_criterion("backwards", label="from the last head on", formula="-h", source="a test")
    def backwards(model, batches, *, loss=None, device=None):
        heads = score_heads(model, [], "random")["self"]
        return {"self": -torch.arange(heads.numel()).double().reshape(heads.shape)}

    found = measurements.get("pruning_curve", smoke, parts=["backwards"])
    heads = heads_of(found.parts["backwards"])
    assert heads == sorted(heads, reverse=True)


def test_a_new_version_of_a_criterion_is_another_signature(smoke, monkeypatch):
    def digest(name):
        return obtaining.signature(
            MEASUREMENTS["pruning_curve"], "encoder", smoke, smoke.task, name
        )["digest"]

    before = {name: digest(name) for name in ("fisher", *EVERY["encoder"])}
    for name in ("fisher", "importance", "random"):
        one = CRITERIA[name]
        monkeypatch.setitem(CRITERIA, name, type(one)(**{**vars(one), "version": 2}))
    after = {name: digest(name) for name in before}
    assert {name for name in before if before[name] != after[name]} == {"fisher"}


@pytest.mark.parametrize(
    ("half", "name", "message"),
    [
        ("encoder", "fishr", "unknown order 'fishr': did you mean fisher"),
        ("encoder", "fisher twice", "unknown order 'fisher twice'"),
        ("translation", "importance rescored", "unknown order 'importance rescored'"),
    ],
)
def test_neither_an_order_nor_a_criterion(half, name, message):
    with pytest.raises(ValueError, match=message):
        read_order(half, name)


def test_a_register_of_criteria_leaves_stored_orders_as_they_were(monkeypatch):
    """Each committed part of a curve has the signature that its measurement gives it today."""
    monkeypatch.delenv("HEADPRUNE_RESULTS", raising=False)
    checked = 0
    for name in ("pruning_curve", "pruning_by_kind"):
        for result in measurements.found(name):
            half = measurements.half_of(result.key)
            about = (
                {"task": result.task, "model": result.model}
                if half == "encoder"
                else {"translation_model": result.model}
            )
            profile = load_profile(result.profile, **about)
            for part, stored in result.parts.items():
                made = obtaining.signature(
                    MEASUREMENTS[name], half, profile, result.task, part, registered=True
                )
                assert made["digest"] == stored.signature["digest"], (result.key, part)
                checked += 1
    assert checked > 30
