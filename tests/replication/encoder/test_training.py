"""Fine-tuning an encoder: the same weights as a plain loop's, and as without a kill."""

import dataclasses
import random

import pytest
import torch
import transformers

from headprune_lib.replication import pretrained
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.encoder import training
from headprune_lib.replication.encoder.batches import make_batches, shuffled_by_length
from headprune_lib.replication.encoder.recipe import recipe
from headprune_lib.replication.encoder.training import finetune, training_folder
from headprune_lib.replication.encoder.weights import finetuned
from headprune_lib.replication.pretrained import Base, load_tokenizer, new_classifier
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.weights import BFLOAT16, working_precision

pytestmark = pytest.mark.slow  # every test fine-tunes a tiny model


@pytest.fixture
def profile(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    monkeypatch.setenv("HEADPRUNE_MODELS", str(tmp_path / "committed"))
    return with_recipe(load_profile("smoke"), epochs=3)


def with_recipe(profile, **values):
    finetuning = dataclasses.replace(profile.finetuning, **values)
    return dataclasses.replace(profile, finetuning=finetuning)


def plain_loop(profile, seed):
    """What the committed weights were trained with: AdamW by hand, no trainer."""
    settings, shuffle = profile.finetuning, random.Random(seed)
    train = TASKS[profile.task].split("train", profile.data).first(settings.n_train)
    model = new_classifier(profile.model, TASKS[profile.task].labels, seed, "eager").train()
    model.base_model.embeddings.requires_grad_(False)
    n_updates = settings.epochs * -(-len(train) // settings.batch_size)
    optimizer = torch.optim.AdamW(
        (p for p in model.parameters() if p.requires_grad),
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
    )
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, int(settings.warmup * n_updates), n_updates
    )
    mixed = working_precision(BFLOAT16, "cpu") == BFLOAT16  # as this processor can
    for _ in range(settings.epochs):
        order = shuffled_by_length(train, settings.batch_size, shuffle)
        for batch in make_batches(
            load_tokenizer(profile.model), train, settings.batch_size, settings.max_length, order
        ).batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
    return model.eval()


def other_base():
    return transformers.MPNetConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        initializer_range=0.2,
    )


OTHER = Base("other", "MPNet", build=other_base, kernel="eager")


@pytest.mark.parametrize(
    ("task", "model", "seed"),
    [("synthetic", "tiny", 1), ("synthetic-pairs", "tiny", 2), ("synthetic", "other", 1)],
)
def test_weights_are_those_of_a_plain_loop_bit_by_bit(profile, monkeypatch, task, model, seed):
    monkeypatch.setitem(pretrained.BASES, "other", OTHER)
    made = dataclasses.replace(profile, task=task, model=model)
    # large steps, so that an update that differs shows; a last batch that is short
    made = with_recipe(made, epochs=2, n_train=42, learning_rate=5e-3, weight_decay=0.1)
    expected, found = plain_loop(made, seed), finetune(made, seed)
    assert not found.training
    for name, weight in expected.state_dict().items():
        assert torch.equal(found.state_dict()[name], weight), name
    fresh = new_classifier(model, TASKS[task].labels, seed)
    moved = [
        not torch.equal(new, old)
        for new, old in zip(found.parameters(), fresh.parameters(), strict=True)
    ]
    assert sum(moved) > len(moved) / 2
    test = TASKS[task].split("test").first(8)
    (batch,) = make_batches(load_tokenizer(model), test, 8, 32).batches
    with torch.no_grad():  # in float32, as it was not trained
        assert torch.equal(found(**batch).logits, expected(**batch).logits)


class Killed(Exception):
    pass


def test_a_killed_finetuning_goes_on_and_ends_with_the_same_weights(profile, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "whole"))
    whole = finetune(profile, 1).state_dict()
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "killed"))
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
    assert not training_folder(profile, recipe(profile, 1)).exists()


def test_a_killed_training_of_the_other_architecture_goes_on_too(profile, monkeypatch, tmp_path):
    monkeypatch.setitem(pretrained.BASES, "other", OTHER)
    profile = dataclasses.replace(profile, model="other")
    whole = finetune(profile, 1).state_dict()
    folder = training_folder(profile, recipe(profile, 1))
    (last,) = folder.glob("checkpoint-*")
    again = finetune(profile, 1).state_dict()  # nothing left to train, the weights are read
    assert all(torch.equal(again[name], weight) for name, weight in whole.items())
    assert [path.name for path in folder.glob("checkpoint-*")] == [last.name]


@pytest.mark.parametrize(
    "file", ["model.safetensors", "optimizer.pt", "rng_state.pth", "trainer_state.json"]
)
def test_a_damaged_checkpoint_is_not_used(profile, file):
    whole = finetune(profile, 1).state_dict()
    (checkpoint,) = training_folder(profile, recipe(profile, 1)).glob("checkpoint-*")
    content = (checkpoint / file).read_bytes()
    (checkpoint / file).write_bytes(content[: len(content) // 2])
    with pytest.warns(UserWarning, match="checkpoint-12 is damaged or was cut short"):
        again = finetune(profile, 1).state_dict()
    assert all(torch.equal(again[name], weight) for name, weight in whole.items())


def test_another_recipe_or_device_has_a_folder_of_its_own(profile, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    folders = {
        training_folder(one, recipe(one, seed))
        for one, seed in (
            (profile, 1),
            (profile, 2),
            (with_recipe(profile, warmup=0.2), 1),
            (dataclasses.replace(profile, device="cuda"), 1),
        )
    }
    assert len(folders) == 4
    assert training_folder(profile, recipe(profile, 1)) == training_folder(
        dataclasses.replace(profile, device="cpu"), recipe(profile, 1)
    )
