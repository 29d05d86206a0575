"""Fine-tuning an encoder: resumed after a kill, with the same weights."""

import pytest
import torch

from headprune_lib import training
from headprune_lib.profiles import load_profile
from headprune_lib.training import checkpoint_path, finetune, finetuned, recipe


@pytest.fixture
def profile(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    monkeypatch.setenv("HEADPRUNE_MODELS", str(tmp_path / "committed"))
    made = load_profile("smoke")
    object.__setattr__(made.finetuning, "epochs", 3)
    return made


class Killed(Exception):
    pass


def test_a_killed_finetuning_goes_on_and_ends_with_the_same_weights(profile, monkeypatch):
    whole = finetune(profile, 1).state_dict()
    checkpoint_path(profile.model, recipe(profile, 1)).unlink()
    calls, make = [], training.make_batches

    def dying(*args):
        calls.append(args)
        if len(calls) == 2:
            raise Killed
        return make(*args)

    monkeypatch.setattr(training, "make_batches", dying)
    with pytest.raises(Killed):
        finetuned(profile, 1)
    resumed = finetuned(profile, 1).state_dict()
    assert len(calls) == 4  # one epoch, the kill, and the two that were left
    for name, weight in whole.items():
        # as the file has them: trained weights in float16, embeddings untouched
        expected = weight if "embeddings" in name else weight.half().float()
        assert torch.equal(resumed[name], expected), name
    assert not checkpoint_path(profile.model, recipe(profile, 1)).exists()


def test_a_checkpoint_of_another_recipe_or_a_damaged_one_is_not_used(profile):
    path = checkpoint_path(profile.model, recipe(profile, 1))
    whole = finetune(profile, 1).state_dict()
    state = torch.load(path, weights_only=True)
    for other in ({**state, "recipe": {}}, None):
        if other is None:
            path.write_bytes(b"cut short")
        else:
            torch.save(other, path)
        again = finetune(profile, 1).state_dict()
        assert all(torch.equal(again[name], weight) for name, weight in whole.items())
