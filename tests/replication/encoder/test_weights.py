"""Fine-tuned weights: only what training changed is kept, damage is set aside."""

import dataclasses
import json

import pytest
import torch
from safetensors import safe_open

from headprune_lib.replication.encoder.recipe import recipe
from headprune_lib.replication.encoder.weights import finetuned, weights_path, with_weights
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.weights import (
    BFLOAT16,
    FLOAT32,
    read_weights,
    save_trained,
    stored_recipe,
    working_precision,
)


@pytest.fixture
def profile(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    monkeypatch.setenv("HEADPRUNE_MODELS", str(tmp_path / "committed"))
    return load_profile("smoke")


def test_a_finetuning_is_stored_rounded_and_found_again(profile):
    first = finetuned(profile)
    path = weights_path("tiny", recipe(profile, 1))
    stored = read_weights(path, recipe(profile, 1))
    assert not any("embeddings" in name for name in stored)
    assert all(torch.equal(t, t.half().float()) for t in stored.values())
    before = path.stat().st_mtime_ns
    again = finetuned(profile, kernel="eager")
    assert path.stat().st_mtime_ns == before
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])


def test_as_in_the_paper_embeddings_are_trained_too_and_stored(profile):
    assert load_profile("paper").frozen == "nothing"
    assert recipe(profile, 1)["frozen"] == "embeddings"
    whole = dataclasses.replace(profile, frozen="nothing")
    trained = finetuned(whole)
    stored = read_weights(weights_path("tiny", recipe(whole, 1)), recipe(whole, 1))
    assert set(stored) == {name for name, _ in trained.named_parameters()}
    frozen = dict(finetuned(profile).named_parameters())
    words = "bert.embeddings.word_embeddings.weight"
    assert not torch.equal(stored[words], frozen[words].half().float())
    again = dict(finetuned(whole, kernel="eager").named_parameters())
    assert all(torch.equal(tensor, again[name]) for name, tensor in trained.named_parameters())


@pytest.mark.parametrize("damage", [b"", b"not safetensors at all", None])
def test_damaged_or_other_weights_are_set_aside_and_trained_again(profile, damage):
    finetuned(profile)
    path = weights_path("tiny", recipe(profile, 1))
    good = path.read_bytes()
    wanted = recipe(profile, 1)
    if damage is None:
        wanted = {**wanted, "epochs": 7}
    else:
        path.write_bytes(damage)
    with pytest.warns(
        UserWarning, match="cannot be used .*set aside as .*damaged-1, trained again"
    ):
        assert read_weights(path, wanted) is None
    assert not path.exists() and path.with_name(f"{path.name}.damaged-1").exists()
    finetuned(profile)
    assert path.read_bytes() == good  # training is deterministic


def test_committed_weights_of_another_recipe_are_left_alone(profile, tmp_path):
    finetuned(profile)
    committed = tmp_path / "committed" / "synthetic-tiny-seed1.safetensors"
    committed.parent.mkdir()
    weights_path("tiny", recipe(profile, 1)).rename(committed)
    content = committed.read_bytes()
    assert weights_path("tiny", recipe(profile, 1)) == committed
    other = {**recipe(profile, 1), "epochs": 7}
    assert weights_path("tiny", other).parent == tmp_path / "models"
    assert weights_path("tiny", other) != weights_path("tiny", {**other, "epochs": 8})
    committed.write_bytes(b"cut short")
    with pytest.warns(UserWarning, match="is damaged .* restore it with git"):
        assert weights_path("tiny", recipe(profile, 1)).parent == tmp_path / "models"
    committed.write_bytes(content)
    assert weights_path("tiny", recipe(profile, 1)) == committed


def test_weights_of_another_model_are_refused():
    with pytest.raises(ValueError, match="do not fit tiny: classifier.weight has shape"):
        with_weights("synthetic", "tiny", 1, {"classifier.weight": torch.ones(9, 9)}, "sdpa")


@pytest.mark.parametrize(
    ("capabilities", "device", "worked_in"),
    [
        ({"avx2": True, "avx512_bf16": True}, "cpu", BFLOAT16),
        ({"avx2": True, "avx512_bf16": False}, "cpu", FLOAT32),
        ({"avx2": True, "avx512_bf16": False}, "cuda", BFLOAT16),
    ],
)
def test_a_processor_without_bfloat16_trains_in_float32_and_the_file_says_so(
    capabilities, device, worked_in, tmp_path, monkeypatch
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert working_precision(BFLOAT16, device) == worked_in
    assert working_precision(FLOAT32, device) == FLOAT32
    if device == "cpu":
        path, recipe = tmp_path / "a.safetensors", {"precision": BFLOAT16, "seed": 1}
        save_trained(torch.nn.Linear(2, 2), path, recipe)
        with safe_open(path, "pt") as file:
            said = json.loads(file.metadata()["recipe"])
        assert said.get("trained_in", BFLOAT16) == worked_in
        assert stored_recipe(path) == recipe and read_weights(path, recipe) is not None
