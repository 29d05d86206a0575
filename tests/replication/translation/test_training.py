"""A translation model is trained, killed, resumed, stored and read back."""

import dataclasses

import pytest
import torch
from typer.testing import CliRunner

from headprune_lib.batching import teacher_forced
from headprune_lib.replication.cli import app
from headprune_lib.replication.translation.batches import token_batches
from headprune_lib.replication.translation.models import END, PAD
from headprune_lib.replication.translation.training import best_epoch, finished, read_curve, train
from headprune_lib.replication.translation.weights import load_translator


def test_a_second_call_trains_nothing(smoke, monkeypatch):
    monkeypatch.setattr("headprune_lib.replication.translation.training.new_model", None)
    folder = train(smoke, "toy", 1)
    assert [record["epoch"] for record in read_curve(folder)] == list(range(1, 10))
    assert sorted(path.name for path in folder.glob("epoch-*")) == [
        f"epoch-{i:02d}.safetensors" for i in range(1, 10)
    ]


def test_a_killed_training_goes_on_where_it_was(smoke, tmp_path, monkeypatch):
    def weights(folder):
        return (folder / "epoch-09.safetensors").read_bytes()

    whole = train(smoke, "toy", 1)
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    with monkeypatch.context() as patch:
        # a kill right after the first epoch's checkpoint
        patch.setattr(
            "headprune_lib.replication.translation.training.finished",
            lambda curve, _: len(curve) > 0,
        )
        folder = train(smoke, "toy", 1)
    assert len(read_curve(folder)) == 1
    train(smoke, "toy", 1)
    assert weights(folder) == weights(whole)
    assert [r["bleu"] for r in read_curve(folder)] == [r["bleu"] for r in read_curve(whole)]


def test_the_stored_model_translates(smoke):
    translator = load_translator(smoke, "toy")
    text = ["ba de ba de ba de", "ko ga ko ga ko"]
    assert translator.translate(text) == [translator.translate([line])[0] for line in text]
    assert (
        len(set(translator.translate(text))) == 2
        and read_curve(train(smoke, "toy", 1))[-1]["bleu"] > 20
    )
    assert translator.model.get_encoder().embed_tokens.weight is translator.model.lm_head.weight
    assert all(
        torch.equal(weight, weight.half().float())
        for weight in translator.model.parameters()
        if weight.requires_grad
    )


def test_the_final_weights_are_the_mean_of_the_last_epochs(smoke):
    final = load_translator(smoke, "toy").model.state_dict()
    epochs = [load_translator(smoke, "toy", epoch=epoch).model.state_dict() for epoch in (8, 9)]
    for name, weight in final.items():
        mean = torch.stack([epoch[name].double() for epoch in epochs]).mean(0)
        torch.testing.assert_close(weight.double(), mean, rtol=1e-3, atol=1e-6)  # float16


@pytest.mark.parametrize(
    ("text", "message"), [(["ba", " "], "line 2 is empty"), (["ba de " * 400], "split it")]
)
def test_lines_that_cannot_be_translated(smoke, text, message):
    with pytest.raises(ValueError, match=message):
        load_translator(smoke, "toy").translate(text)


def test_wrong_tasks_epochs_and_files(smoke, tmp_path):
    with pytest.raises(ValueError, match="unknown translation task 'tyo': did you mean toy"):
        load_translator(smoke, "tyo")
    with pytest.raises(ValueError, match="no weights of epoch 17"):
        load_translator(smoke, "toy", epoch=17)
    recipe = smoke.translator("toy")
    wide = dataclasses.replace(recipe, shape=dataclasses.replace(recipe.shape, width=16))
    other = dataclasses.replace(smoke, translation={"toy": {"post-norm": wide}})
    path = train(smoke, "toy", 1) / "epoch-01.safetensors"
    before = path.read_bytes()
    with (
        pytest.warns(UserWarning, match="another recipe"),
        pytest.raises(ValueError, match="--retrain"),
    ):
        load_translator(other, "toy", epoch=1)
    path.write_bytes(before)


def test_the_end_of_a_training(smoke):
    recipe = dataclasses.replace(smoke.translator("toy"), min_epochs=3, max_epochs=9, patience=2)

    def ends(*bleu):
        return finished([{"epoch": i, "bleu": b} for i, b in enumerate(bleu, 1)], recipe)

    assert not ends(5, 4) and not ends(5, 4, 6) and ends(5, 4, 3)
    assert not ends(1, 2, 3, 4) and ends(1, 5, 3, 4) and ends(*range(9))
    assert best_epoch([{"epoch": 1, "bleu": 3}, {"epoch": 2, "bleu": 3}]) == 1


def test_batches_hold_every_pair_once_within_the_budget():
    sources = [[3 + i] * (i % 5 + 1) + [END] for i in range(30)]
    targets = [[3 + i] * (i % 7 + 1) + [END] for i in range(30)]
    batches = token_batches(sources, targets, 24, seed=0, start=PAD)
    assert all(batch["labels"].numel() <= 24 for batch in batches)
    firsts = sorted(int(row[0]) for batch in batches for row in batch["labels"])
    assert firsts == list(range(3, 33))
    one = teacher_forced(sources[:2], targets[:2], PAD, start=PAD)
    assert one["decoder_input_ids"].tolist() == [[PAD, 3, PAD], [PAD, 4, 4]]
    assert one["labels"].tolist() == [[3, END, -100], [4, 4, END]]


def test_the_command_translates_and_refuses(smoke):
    run = CliRunner().invoke
    result = run(app, ["translate", "toy", "ba de", "--profile", "smoke"])
    assert result.exit_code == 0 and len(result.output.splitlines()) == 1
    assert run(app, ["translate", "toy", "--profile", "smoke"], input="ba\nde\n").exit_code == 0
    refused = run(app, ["translate", "enfrr", "x"])
    assert refused.exit_code == 2 and "did you mean enfr" in refused.output
