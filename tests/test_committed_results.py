"""The committed results come from the committed weights: cells drawn at random are found again."""

import random

import numpy as np
import pytest

from headprune_lib import cut_heads, results
from headprune_lib.ablation import all_but_one_masks
from headprune_lib.data import Examples
from headprune_lib.experiments.outcomes import MILLINAT, Setting, evaluate
from headprune_lib.profiles import load_profile


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
