"""The committed results come from the committed weights: cells drawn at random are found again."""

import random

import numpy as np
import pytest

from headprune_lib import cut_heads, masked_heads, results
from headprune_lib.ablation import all_but_one_masks
from headprune_lib.data import Examples
from headprune_lib.experiments.outcomes import MILLINAT, Setting, evaluate
from headprune_lib.experiments.translation.outcomes import KINDS, TranslationSetting, all_counts
from headprune_lib.profiles import load_profile
from headprune_lib.translation.bleu import corpus_bleu, sentence_counts


@pytest.mark.parametrize("artifact", ["figure1b", "table3"])
def test_committed_cells_are_found_again(artifact):
    """Two cells drawn at random from a committed result, measured again with its weights."""
    profile = load_profile("default")
    raw = results.load(artifact, "default").raw
    setting = Setting.of(profile)
    assert raw["correct"].shape[1] == len(setting.test)
    seed = random.SystemRandom().randrange(10**6)
    print(f"cells drawn with seed {seed}")
    generator = random.Random(seed)
    members = sorted(generator.sample(range(len(setting.test)), 400))
    texts = setting.test
    part = Examples(tuple(texts.texts[i] for i in members), tuple(texts.labels[i] for i in members))
    prepared = setting.batches(part)
    for row in generator.sample(range(len(raw["heads"])), 2):
        layer, head = raw["heads"][row].tolist()
        mask = (cut_heads(setting.model, [("self", layer, head)]) if artifact == "figure1b"
                else all_but_one_masks(setting.model)["self", layer, head])
        found = evaluate(setting, prepared, mask)
        differing = (found["correct"] != raw["correct"][row][members]).sum()
        assert differing <= 2, f"seed {seed}, layer {layer}, head {head}: {differing} differ"
        stored = (raw["loss_uncut"].astype(int) + raw["loss_change"][row])[members] / MILLINAT
        np.testing.assert_allclose(found["loss"], stored, atol=0.01)


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
