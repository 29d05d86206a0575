"""The committed results come from the committed weights: cells drawn at random are found again."""

import random

import numpy as np
import pytest

from headprune_lib import cut_heads, masked_heads
from headprune_lib.ablation import all_but_one_masks
from headprune_lib.orders import order_mask, prune_schedule
from headprune_lib.replication.data import TASKS, Examples, MissingData, file_sha256
from headprune_lib.replication.encoder.recipe import recipe
from headprune_lib.replication.encoder.subject import MILLINAT, Setting, evaluate
from headprune_lib.replication.encoder.weights import weights_path
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.stats.bleu import corpus_bleu, sentence_counts
from headprune_lib.replication.store import results
from headprune_lib.replication.translation.subject import KINDS, TranslationSetting, all_counts


def _taken(examples: Examples, members: list[int]) -> Examples:
    return Examples(*(side and tuple(side[i] for i in members)
                      for side in (examples.texts, examples.labels, examples.second)))


def _stored(name, artifact, task):
    """A committed result and its setting; benchmarks where their text and weights are."""
    stored = results.stored(artifact, name, task)
    if stored is None:
        pytest.skip(f"no result {name}/{artifact} of {task or 'the main task'} is committed")
    profile = load_profile(name).on(stored.task)
    weights = weights_path(profile.model, recipe(profile, profile.seed))
    try:
        TASKS[profile.task].split("test", profile.data)
    except MissingData:
        pytest.skip(f"the text of {profile.task} is not here; name its folder in HEADPRUNE_DATA")
    if not weights.is_file() or file_sha256(weights) != stored.runs[0]["weights_sha256"]:
        pytest.skip(f"the weights of {name}/{artifact} are not here: "
                    f"headprune reproduce {artifact} --profile {name} makes others")
    return stored, Setting.of(profile)


@pytest.mark.parametrize(("name", "artifact", "task"), [
    ("default", "figure1b", None), ("default", "table3", None), ("default", "figure1b", "snli"),
    ("base", "figure1b", None), ("base", "figure1b", "snli"),
    ("base", "table3", None), ("base", "table3", "snli"),
])
def test_committed_cells_are_found_again(name, artifact, task):
    """Two cells drawn at random from a committed result, measured again with its weights."""
    stored, setting = _stored(name, artifact, task)
    raw = stored.raw
    assert raw["correct"].shape[1] == len(setting.test)
    seed = random.SystemRandom().randrange(10**6)
    print(f"cells drawn with seed {seed}")
    generator = random.Random(seed)
    members = sorted(generator.sample(range(len(setting.test)), 400))
    prepared = setting.batches(_taken(setting.test, members))
    for row in generator.sample(range(len(raw["heads"])), 2):
        layer, head = raw["heads"][row].tolist()
        mask = (cut_heads(setting.model, [("self", layer, head)]) if artifact == "figure1b"
                else all_but_one_masks(setting.model)["self", layer, head])
        found = evaluate(setting, prepared, mask)
        differing = (found["correct"] != raw["correct"][row][members]).sum()
        assert differing <= 2, f"seed {seed}, layer {layer}, head {head}: {differing} differ"
        nats = (raw["loss_uncut"].astype(int) + raw["loss_change"][row])[members] / MILLINAT
        np.testing.assert_allclose(found["loss"], nats, atol=0.01)


@pytest.mark.parametrize(("name", "artifact", "task"), [
    ("default", "figure3b", None), ("default", "figure3b", "sst2"), ("default", "figure3b", "snli"),
    ("default", "figure6b", None), ("default", "figure6c", None),
    ("base", "figure3b", None), ("base", "figure3b", "snli"),
    ("base", "figure6b", None), ("base", "figure6c", None),
])
def test_a_committed_point_of_a_pruning_curve_is_found_again(name, artifact, task):
    """Heads removed by importance up to a drawn step."""
    stored, setting = _stored(name, artifact, task)
    seed = random.SystemRandom().randrange(10**6)
    print(f"point drawn with seed {seed}")
    generator = random.Random(seed)
    members = sorted(generator.sample(range(len(setting.test)), min(400, len(setting.test))))
    steps = setting.profile.steps
    step = generator.randrange(1, steps)
    order = [("self", *head) for head in stored.raw["order"].tolist()]
    mask = order_mask(setting.model, order, prune_schedule(len(order), steps)[step])
    found = evaluate(setting, setting.batches(_taken(setting.test, members)), mask)
    differing = (found["correct"] != stored.raw["correct"][0, step, members]).sum()
    assert differing <= 2, f"seed {seed}, step {step}: {differing} differ"
    np.testing.assert_allclose(found["loss"], stored.raw["loss"][step, members] / MILLINAT,
                               atol=0.01)


def test_committed_cells_of_table1_are_found_again():
    """Three heads drawn at random, each cut in plain masked generation on 150 drawn verses."""
    raw = results.load("table1", "default").raw
    profile = load_profile("default")
    setting = TranslationSetting.of(profile, profile.translation_task)
    pairs = setting.headline
    assert raw["counts_change"].shape[1] == len(pairs)
    seed = random.SystemRandom().randrange(10**6)
    print(f"cells drawn with seed {seed}")
    generator = random.Random(seed)
    members = sorted(generator.sample(range(len(pairs)), 150))
    _, cuts = all_counts(raw)
    for row in generator.sample(range(len(raw["heads"])), 3):
        kind, layer, head = raw["heads"][row].tolist()
        mask = cut_heads(setting.model, [(KINDS[kind], layer, head)])
        with masked_heads(setting.model, mask):
            made = setting.translator.translate([pairs.sources[i] for i in members])
        found = sentence_counts(made, [pairs.targets[i] for i in members])
        # two words of the same score can change places with the size of a batch
        differing = (found != cuts[row][members]).any(-1).sum()
        where = f"seed {seed}, {KINDS[kind]} layer {layer}, head {head}"
        assert differing <= 2, f"{where}: {differing} verses differ"
        bleu = [float(corpus_bleu(counts.sum(0))) for counts in (found, cuts[row][members])]
        assert bleu[0] == pytest.approx(bleu[1], abs=0.3), where
