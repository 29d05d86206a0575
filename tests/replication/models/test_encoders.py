"""Fine-tuning an encoder: the same weights as a plain loop's, as without a kill, and as stored."""

import dataclasses
import json

import numpy as np
import plainly
import pytest
import torch
from ownmodels import SMALL
from safetensors import safe_open
from tiny import logits_of
from transformers import MPNetConfig

from headprune_lib.replication import measurements
from headprune_lib.replication.data import TASKS, Texts
from headprune_lib.replication.models import encoders, pretrained
from headprune_lib.replication.models.encoders import (
    finetune,
    finetuned,
    make_batches,
    recipe,
    training_folder,
    weights_path,
    with_weights,
)
from headprune_lib.replication.models.pretrained import Base, load_tokenizer, new_classifier
from headprune_lib.replication.models.weights import (
    BFLOAT16,
    FLOAT32,
    read_weights,
    save_trained,
    stored_recipe,
    working_precision,
)
from headprune_lib.replication.profiles import load_profile
from headprune_lib.replication.setups import EncoderSubject


@pytest.fixture
def profile(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    monkeypatch.setenv("HEADPRUNE_MODELS", str(tmp_path / "committed"))
    return load_profile("smoke")


def with_recipe(profile, **values):
    finetuning = dataclasses.replace(profile.finetuning, **values)
    return dataclasses.replace(profile, finetuning=finetuning)


def same(model, weights):
    return all(torch.equal(model.state_dict()[name], one) for name, one in weights.items())


@pytest.mark.parametrize(
    ("task", "model", "seed"),
    [("synthetic-pairs", "tiny", 2), pytest.param("synthetic", "other", 1, marks=pytest.mark.slow)],
)
def test_weights_are_those_of_a_plain_loop_bit_by_bit(profile, monkeypatch, task, model, seed):
    sizes = {**SMALL, "max_position_embeddings": 40, "initializer_range": 0.2}
    other = Base("other", "MPNet", build=lambda: MPNetConfig(**sizes), kernel="eager")
    monkeypatch.setitem(pretrained.BASES, "other", other)
    profile = dataclasses.replace(profile, task=task, model=model)
    # large steps, so that an update that differs shows; a last batch that is short
    profile = with_recipe(profile, epochs=2, n_train=42, learning_rate=5e-3, weight_decay=0.1)
    fresh = new_classifier(model, TASKS[task].labels, seed, "eager")
    expected = new_classifier(model, TASKS[task].labels, seed, "eager")
    expected.base_model.embeddings.requires_grad_(False)
    settings = profile.finetuning
    plainly.fitted(expected, [*plainly.epochs_of(profile, settings, seed)], settings)
    found = finetune(profile, seed)
    assert not found.training and same(found, expected.state_dict())
    moved = [not torch.equal(found.state_dict()[n], old) for n, old in fresh.state_dict().items()]
    assert sum(moved) > len(moved) / 2
    examples = TASKS[task].split("test").first(8)
    (batch,) = make_batches(load_tokenizer(model), examples, 8, 32).batches
    # in float32, as it was not trained
    assert torch.equal(logits_of(found, batch), logits_of(expected, batch))


class Killed(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damaged", "epochs_begun"), [(None, 4), ("model.safetensors", 5), ("optimizer.pt", 5)]
)
def test_a_killed_finetuning_ends_with_the_same_weights(
    profile, monkeypatch, tmp_path, recwarn, damaged, epochs_begun
):
    profile = with_recipe(profile, epochs=3)
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "whole"))
    whole = finetune(profile, 1).state_dict()
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path / "killed"))
    calls, make, folder = [], encoders.make_batches, training_folder(profile, recipe(profile, 1))

    def dying(*args):
        calls.append(args)
        if len(calls) == 2:
            raise Killed
        return make(*args)

    monkeypatch.setattr(encoders, "make_batches", dying)
    with pytest.raises(Killed):
        finetuned(profile, 1)
    (checkpoint,) = folder.glob("checkpoint-*")
    if damaged:
        content = (checkpoint / damaged).read_bytes()
        (checkpoint / damaged).write_bytes(content[: len(content) // 2])
    resumed = finetuned(profile, 1)
    assert len(calls) == epochs_begun  # one, the kill, and the two that were left or all three
    warned = any("is damaged or was cut short" in str(each.message) for each in recwarn)
    assert warned == bool(damaged) and not folder.exists()
    # as the file has them: trained weights in float16, embeddings untouched
    assert same(
        resumed, {n: w if "embeddings" in n else w.half().float() for n, w in whole.items()}
    )


# --- what is stored ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_only_what_was_trained_is_stored_rounded_and_found_again(profile):
    assert (recipe(profile, 1)["frozen"], load_profile("paper").frozen) == ("embeddings", "nothing")
    for own in (profile, dataclasses.replace(profile, frozen="nothing")):
        first, path = finetuned(own), weights_path("tiny", recipe(own, 1))
        stored, before = read_weights(path, recipe(own, 1)), path.stat().st_mtime_ns
        assert any("embeddings" in name for name in stored) == (own is not profile)
        assert all(torch.equal(one, one.half().float()) for one in stored.values())
        assert same(finetuned(own, kernel="eager"), first.state_dict())
        assert path.stat().st_mtime_ns == before
    words = "bert.embeddings.word_embeddings.weight"
    frozen = finetuned(profile).state_dict()[words].half().float()
    assert not torch.equal(stored[words], frozen)


@pytest.mark.slow
def test_a_flipped_byte_in_weights_is_noticed_and_they_are_trained_again(profile, tmp_path):
    before = finetuned(profile).state_dict()
    path = weights_path("tiny", recipe(profile, 1))
    whole = path.read_bytes()
    for at in (-1, -len(whole) // 3):
        content = bytearray(whole)
        content[at] ^= 1
        path.write_bytes(content)
        with pytest.warns(UserWarning, match=r"cannot be used \(its SHA-256 .* was set aside as"):
            assert same(finetuned(profile), before)
    assert path.read_bytes() == whole and len([*path.parent.glob("*.safetensors.damaged-*")]) == 2
    committed = tmp_path / "committed" / "synthetic-tiny-seed1.safetensors"
    committed.parent.mkdir()
    noted, noted_there = (each.with_name(f"{each.name}.sha256") for each in (path, committed))
    noted_there.write_text(noted.read_text())
    committed.write_bytes(content)
    with pytest.warns(UserWarning, match=r"committed/.* \(its SHA-256 .* was set aside as"):
        assert same(finetuned(profile), before)
    noted.unlink()  # as of weights that were trained earlier
    assert same(finetuned(profile), before)


@pytest.mark.slow
def test_committed_weights_of_another_recipe_are_left_alone(profile, tmp_path):
    finetuned(profile)
    committed = tmp_path / "committed" / "synthetic-tiny-seed1.safetensors"
    wanted = recipe(profile, 1)
    committed.parent.mkdir()
    weights_path("tiny", wanted).rename(committed)
    assert weights_path("tiny", wanted) == committed
    others = [weights_path("tiny", {**wanted, "epochs": epochs}) for epochs in (7, 8)]
    assert {one.parent for one in others} == {tmp_path / "models"} and others[0] != others[1]
    committed.write_bytes(b"cut short")
    with pytest.warns(UserWarning, match="is damaged .* If committed, restore it with git"):
        assert weights_path("tiny", wanted).parent == tmp_path / "models"
    with pytest.raises(ValueError, match="do not fit tiny: classifier.weight has shape"):
        with_weights("synthetic", "tiny", 1, {"classifier.weight": torch.ones(9, 9)}, "sdpa")


@pytest.mark.parametrize(
    ("avx512_bf16", "device", "worked_in"),
    [(True, "cpu", BFLOAT16), (False, "cpu", FLOAT32), (False, "cuda", BFLOAT16)],
)
def test_a_processor_without_bfloat16_trains_in_float32_and_the_file_says_so(
    avx512_bf16, device, worked_in, tmp_path, monkeypatch
):
    capabilities = {"avx2": True, "avx512_bf16": avx512_bf16}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert working_precision(BFLOAT16, device) == worked_in
    assert working_precision(FLOAT32, device) == FLOAT32
    if device == "cpu":
        path, wanted = tmp_path / "a.safetensors", {"precision": BFLOAT16, "seed": 1}
        save_trained(torch.nn.Linear(2, 2), path, wanted)
        with safe_open(path, "pt") as file:
            said = json.loads(file.metadata()["recipe"])
        assert said.get("trained_in", BFLOAT16) == worked_in
        assert stored_recipe(path) == wanted and read_weights(path, wanted) is not None


def test_batches_are_sorted_padded_cut_short_and_restored():
    tokenizer = load_tokenizer("tiny")
    texts = ("good film", "the plot is dull", "bad", "a very very very good cast")
    labels = (1, 0, 0, 1)
    made = make_batches(tokenizer, Texts(texts, labels), 3, 5)
    assert made.n_truncated == 2  # with [CLS] and [SEP], 6 and 8 tokens
    assert [tuple(b["input_ids"].shape) for b in made.batches] == [(3, 5), (1, 5)]
    found = torch.cat([batch["labels"] for batch in made.batches]).numpy()
    assert tuple(made.restore(found)) == labels
    pairs = Texts(("good film", "bad plot is dull"), (1, 0), ("fine", "cold cast"))
    (batch,) = make_batches(tokenizer, pairs, 2, 6).batches
    words = [tokenizer.convert_ids_to_tokens(row) for row in batch["input_ids"]]
    assert words[0] == ["[CLS]", "good", "film", "[SEP]", "fine", "[SEP]"]
    assert len(words[1]) == 6 and words[1].count("[SEP]") == 2  # both ends kept
    assert batch["token_type_ids"][0].tolist() == [0, 0, 0, 0, 1, 1]
    with pytest.raises(ValueError, match="dataset is empty"):
        make_batches(tokenizer, Texts((), ()), 3, 5)


@pytest.mark.slow
def test_scores_are_those_of_a_plain_loop_over_examples_that_were_not_trained_on(
    profile, monkeypatch, tmp_path
):
    monkeypatch.setenv("HEADPRUNE_RESULTS", str(tmp_path / "results"))
    profile = load_profile("smoke", task="synthetic-words")  # Matthews correlation
    recipes = [dataclasses.replace(profile.finetuning, epochs=epochs) for epochs in (1, 8)]
    train = TASKS[profile.task].split("train", None)
    n_held_out = len(train) // 5
    held_out = train.last(n_held_out)
    stored = measurements.get("recipes", profile).values["recipes"]
    for wanted, row in zip(recipes, stored, strict=True):
        own = dataclasses.replace(wanted, n_train=len(train) - n_held_out)  # the first ones
        model = finetune(dataclasses.replace(profile, finetuning=own), profile.seed)
        subject = EncoderSubject(profile, profile.seed, model, "")
        right, nats = plainly.answers(subject, held_out)
        said = np.where(right, held_out.labels, 1 - np.array(held_out.labels))
        matthews = np.corrcoef(said, held_out.labels)[0, 1] if np.ptp(said) else 0
        assert wanted.epochs == 1 or np.ptp(said)  # the second recipe learns enough to be scored
        assert row["epochs"] == wanted.epochs
        assert row["score"] == pytest.approx(matthews, abs=1e-5)
        assert row["accuracy"] == pytest.approx(right.mean(), abs=1e-5)
        assert row["log_loss"] == pytest.approx(nats.mean(), abs=1e-3)
