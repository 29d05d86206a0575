"""The committed results come from the committed weights: cells drawn at random are found again."""

import random

import numpy as np
import pytest

from headprune_lib import cut_heads, masked_heads
from headprune_lib.ablation import all_but_one_masks
from headprune_lib.orders import order_mask, prune_schedule
from headprune_lib.replication import store
from headprune_lib.replication.data import TASKS, Examples, MissingData
from headprune_lib.replication.encoder.recipe import recipe
from headprune_lib.replication.encoder.subject import EncoderSubject, evaluate
from headprune_lib.replication.encoder.weights import weights_path
from headprune_lib.replication.measurements import half_of
from headprune_lib.replication.paths import models_root
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.stats.bleu import corpus_bleu, sentence_counts
from headprune_lib.replication.stats.losses import MILLINAT
from headprune_lib.replication.store import OUTCOMES, Key
from headprune_lib.replication.translation.subject import KINDS, TranslationSubject, all_counts


def _keys(*measurements: str, half: str = "encoder") -> list:
    return [
        pytest.param(key, id="-".join(key))
        for name in measurements
        for key in store.find(name)
        if half_of(key) == half
    ]


def _taken(examples: Examples, members: list[int]) -> Examples:
    return Examples(
        *(
            side and tuple(side[i] for i in members)
            for side in (examples.texts, examples.labels, examples.second)
        )
    )


def _stored(key: Key, part: str) -> tuple[store.Part, EncoderSubject]:
    """A part of a committed result and the model that it was measured on, where that is here."""
    result = store.load(key)
    stored = result.parts[part]
    profile = load_profile(result.profile).on(key.task)
    weights = weights_path(profile.model, recipe(profile, profile.seed))
    try:
        TASKS[profile.task].split("test", profile.data)
    except MissingData:
        pytest.skip(f"the text of {key.task} is not here; name its folder in HEADPRUNE_DATA")
    if not weights.is_file():
        pytest.skip(
            f"{key.model} fine-tuned on {key.task} is not committed: {key.measurement} of "
            "it can be found again only where it was measured"
        )
    subject = EncoderSubject.of(profile)
    if subject.weights_sha256 != stored.runs[0]["weights_sha256"]:
        assert weights.parent != models_root(), f"{weights} is not what {key} was measured on"
        pytest.skip(f"{weights} was trained here, the result of {key} elsewhere")
    return stored, subject


@pytest.mark.slow
@pytest.mark.parametrize("key", _keys("one_head", "all_but_one"))
def test_committed_cells_are_found_again(key, drawn_seed):
    """Two cells drawn at random from a committed result, measured again with its weights."""
    stored, subject = _stored(key, OUTCOMES)
    raw = stored.raw
    assert raw["correct"].shape[1] == len(subject.test)
    generator = random.Random(drawn_seed)
    members = sorted(generator.sample(range(len(subject.test)), min(400, len(subject.test))))
    prepared = subject.batches(_taken(subject.test, members))
    for row in generator.sample(range(len(raw["heads"])), 2):
        layer, head = raw["heads"][row].tolist()
        mask = (
            cut_heads(subject.model, [("self", layer, head)])
            if key.measurement == "one_head"
            else all_but_one_masks(subject.model)["self", layer, head]
        )
        found = evaluate(subject, prepared, mask)
        differing = (found["correct"] != raw["correct"][row][members]).sum()
        assert differing <= 2, f"layer {layer}, head {head}: {differing} differ"
        nats = (raw["loss_uncut"].astype(int) + raw["loss_change"][row])[members] / MILLINAT
        np.testing.assert_allclose(found["loss"], nats, atol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("key", _keys("pruning_curve"))
def test_a_committed_point_of_a_pruning_curve_is_found_again(key, drawn_seed):
    """Heads removed by importance up to a drawn step."""
    stored, subject = _stored(key, "importance")
    generator = random.Random(drawn_seed)
    members = sorted(generator.sample(range(len(subject.test)), min(400, len(subject.test))))
    steps = subject.profile.steps
    step = generator.randrange(1, steps)
    order = [("self", *head) for head in stored.raw["order"][0].tolist()]
    mask = order_mask(subject.model, order, prune_schedule(len(order), steps)[step])
    found = evaluate(subject, subject.batches(_taken(subject.test, members)), mask)
    differing = (found["correct"] != stored.raw["correct"][0, step, members]).sum()
    assert differing <= 2, f"step {step}: {differing} differ"
    np.testing.assert_allclose(
        found["loss"], stored.raw["loss"][0, step, members] / MILLINAT, atol=0.01
    )


@pytest.mark.slow
@pytest.mark.parametrize("key", _keys("one_head", half="translation"))
def test_committed_cells_of_table1_are_found_again(key, drawn_seed):
    """Three heads drawn at random, each cut in plain masked generation on 150 drawn verses."""
    result = store.load(key)
    raw = result.raw
    subject = TranslationSubject.of(load_profile(result.profile), key.task)
    assert subject.run == result.parts[OUTCOMES].runs[0]
    pairs = subject.headline
    assert raw["counts_change"].shape[1] == len(pairs)
    generator = random.Random(drawn_seed)
    members = sorted(generator.sample(range(len(pairs)), 150))
    _, cuts = all_counts(raw)
    for row in generator.sample(range(len(raw["heads"])), 3):
        kind, layer, head = raw["heads"][row].tolist()
        mask = cut_heads(subject.model, [(KINDS[kind], layer, head)])
        with masked_heads(subject.model, mask):
            made = subject.translator.translate([pairs.sources[i] for i in members])
        found = sentence_counts(made, [pairs.targets[i] for i in members])
        # two words of the same score can change places with the size of a batch
        differing = (found != cuts[row][members]).any(-1).sum()
        where = f"{KINDS[kind]} layer {layer}, head {head}"
        assert differing <= 2, f"{where}: {differing} verses differ"
        bleu = [float(corpus_bleu(counts.sum(0))) for counts in (found, cuts[row][members])]
        assert bleu[0] == pytest.approx(bleu[1], abs=0.3), where
