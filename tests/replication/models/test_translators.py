"""Translators of both kinds: trained, killed, resumed, stored, scored, masked and pruned."""

import dataclasses
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
import torch

from headprune_lib.fairseq_import import FairseqTranslator
from headprune_lib.fairseq_import.load import Dictionary, Splitter
from headprune_lib.replication.data import Moses
from headprune_lib.replication.metrics import corpus_bleu
from headprune_lib.replication.models import translators
from headprune_lib.replication.models.fairseq import MosesPieces
from headprune_lib.replication.models.translators import (
    END,
    PAD,
    best_epoch,
    finished,
    full_recipe,
    load_translator,
    publish,
    read_curve,
    token_batches,
    train,
    training_folder,
)
from headprune_lib.replication.store.packing import BESIDE

PRE, POST = "pre-norm", "post-norm"


def test_a_killed_training_goes_on_where_it_was(smoke, tmp_path, monkeypatch):
    whole = training_folder("toy", 1, PRE)
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    with monkeypatch.context() as patch:  # a kill right after the second epoch's checkpoint
        patch.setattr(translators, "finished", lambda curve, _: len(curve) > 1)
        folder = train(smoke, "toy", 1, model=PRE)
    assert folder != whole and len(read_curve(folder)) == 2
    train(smoke, "toy", 1, model=PRE)
    names = sorted(path.name for path in whole.glob("*.safetensors") if path.stem != "final")
    assert len(names) == 13 + 9  # as many updates, and epochs
    for name in names:
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert [r["bleu"] for r in read_curve(folder)] == [r["bleu"] for r in read_curve(whole)]
    assert read_curve(whole)[-1]["bleu"] > 20


def test_the_final_weights_are_the_mean_of_the_last_epochs(smoke):
    final = load_translator(smoke, "toy").model.state_dict()
    epochs = [load_translator(smoke, "toy", epoch=epoch).model.state_dict() for epoch in (8, 9)]
    for name, weight in final.items():
        mean = torch.stack([epoch[name].double() for epoch in epochs]).mean(0)
        torch.testing.assert_close(weight.double(), mean, rtol=1e-3, atol=1e-6)  # float16


def test_a_flipped_byte_in_a_cached_training_is_refused(smoke, tmp_path, monkeypatch):
    load_translator(smoke, "toy")  # whose weights are made when first asked for
    whole = training_folder("toy", 1)
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    shutil.copytree(whole, folder := training_folder("toy", 1))
    for stem, epoch in (("final", None), ("epoch-09", 9), ("epoch-08", None)):
        path = folder / f"{stem}.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        if stem == "epoch-08":  # of which the final ones are a mean
            (folder / "final.safetensors").unlink()
        with (
            pytest.warns(UserWarning, match="its SHA-256 is not the one"),
            pytest.raises(ValueError, match="rain again with `headprune train toy --retrain`"),
        ):
            load_translator(smoke, "toy", epoch=epoch)
        for name in (path.name, f"{path.name}.sha256"):
            shutil.copy(whole / name, folder)


def test_the_end_of_a_training(smoke):
    recipe = dataclasses.replace(smoke.translator("toy"), min_epochs=3, max_epochs=9, patience=2)

    def ends(*bleus):
        return finished([{"epoch": i, "bleu": b} for i, b in enumerate(bleus, 1)], recipe)

    assert not ends() and not ends(5, 4) and ends(5, 4, 3)
    assert not ends(1, 2, 3, 4) and ends(1, 5, 3, 4) and ends(*range(9))
    assert best_epoch([{"epoch": 1, "bleu": 3}, {"epoch": 2, "bleu": 3}]) == 1
    # training again goes on at the rate where it ended
    rates = [translators.last_rate(smoke.translator("toy"), updates) for updates in (9, 50, 200)]
    assert rates == pytest.approx([5e-3, 5e-3, 5e-3 / 2])


def test_batches_hold_every_pair_once_within_the_budget():
    sources = [[3 + i] * (i % 5 + 1) + [END] for i in range(30)]
    targets = [[3 + i] * (i % 7 + 1) + [END] for i in range(30)]
    batches = token_batches(sources, targets, 24, seed=0, start=PAD)
    assert all(batch["labels"].numel() <= 24 for batch in batches)
    firsts = sorted(int(row[0]) for batch in batches for row in batch["labels"])
    assert firsts == list(range(3, 33))


def test_the_two_models_of_a_task_are_kept_apart_and_what_is_published_is_used(
    smoke, tmp_path, monkeypatch
):
    post, pre = (full_recipe("toy", smoke.translator("toy", model), 1) for model in (POST, PRE))
    assert pre == {**post, "precision": "float32", "shape": {**post["shape"], "norm": "before"}}
    before = {model: load_translator(smoke, "toy", model=model) for model in (POST, PRE)}
    monkeypatch.setenv("HEADPRUNE_MODELS", str(tmp_path))
    ends = ("curve.json", "safetensors", "safetensors.sha256", "spm")
    for model, name in ((POST, "toy-seed1"), (PRE, "toy.pre-norm-seed1")):
        published = publish(smoke, "toy", 1, model)
        assert sorted(path.name for path in published) == [f"{name}.{end}" for end in ends]
        last = training_folder("toy", 1, model) / "final.safetensors"
        content = last.read_bytes()
        last.write_bytes(content[:-2] + bytes(2))  # another training of the same recipe
        (again, *_) = publish(smoke, "toy", 1, model)
        assert again.read_bytes() != content and load_translator(smoke, "toy", model=model)
        last.write_bytes(content)
        publish(smoke, "toy", 1, model)
    monkeypatch.setattr(translators, "train", None)  # the committed ones
    for model, known in before.items():
        again = load_translator(smoke, "toy", model=model).model.state_dict()
        assert all(torch.equal(again[n], one) for n, one in known.model.state_dict().items())


def test_a_training_of_another_recipe_is_not_mixed_in(smoke):
    recipes = {name: smoke.translator("toy", name) for name in (POST, PRE)}
    wide = dataclasses.replace(recipes[POST].shape, width=16)
    recipes[POST] = dataclasses.replace(recipes[POST], shape=wide)
    recipes[PRE] = dataclasses.replace(recipes[PRE], precision="bfloat16 autocast")
    other = dataclasses.replace(smoke, translation={"toy": recipes})
    with pytest.raises(ValueError, match="comes from a training by another recipe"):
        train(other, "toy", 1, model=PRE)
    path = training_folder("toy", 1) / "epoch-01.safetensors"
    before = path.read_bytes()
    with (
        pytest.warns(UserWarning, match="another recipe"),
        pytest.raises(ValueError, match="--retrain"),
    ):
        load_translator(other, "toy", epoch=1)
    path.write_bytes(before)


def test_what_cannot_be_translated_is_refused(smoke):
    for text, message in ((["ba", " "], "line 2 is empty"), (["ba de " * 400], "Split it")):
        with pytest.raises(ValueError, match=message):
            load_translator(smoke, "toy").translate(text)


# --- pieces ----------------------------------------------------------------------------------------

TEXTS = ["It’s a well-known cat.", 'He said: "No!"', "A & B sat on the mat."]
EN = Moses("en", aggressive=True, straight=True)


@pytest.fixture
def pieces(tmp_path):
    words = sorted({word for text in TEXTS for word in EN.tokens(text).split()})
    (tmp_path / "dict.txt").write_text("".join(f"{word} 1\n" for word in words))
    both = Dictionary(tmp_path / "dict.txt")
    model = SimpleNamespace(config=SimpleNamespace(max_position_embeddings=9))
    return MosesPieces(FairseqTranslator(model, both, both, Splitter(None)), EN, EN)


def test_tokens_become_ids_and_text_again(pieces):
    rows = pieces.targets(TEXTS)
    assert pieces.sources(TEXTS) == rows
    assert pieces.tokens(rows) == [EN.tokens(text) for text in TEXTS]
    assert pieces.tokens(rows)[0] == "It &apos;s a well @-@ known cat ."
    assert pieces.texts(rows) == [text.replace("’", "'") for text in TEXTS]


def test_bleu_of_moses_tokens_and_sacrebleus_own(pieces):
    made = ["A well-known cat sat on the mat.", "No!", "A & B sat on a mat."]
    found = pieces.counts(pieces.targets(made), TEXTS)
    tokens = pieces.tokens(pieces.targets(made))
    wanted = [EN.tokens(text) for text in TEXTS]
    for counts, score in (
        (found[""], sacrebleu.corpus_bleu(tokens, [wanted], tokenize="none", force=True)),
        (found[BESIDE], sacrebleu.corpus_bleu(pieces.texts(pieces.targets(made)), [TEXTS])),
    ):
        assert float(corpus_bleu(counts.sum(0))) == pytest.approx(score.score, abs=1e-9)
    assert not np.array_equal(found[""], found[BESIDE])


def test_lower_case_is_compared_with_lower_case(pieces):
    lower = MosesPieces(pieces.fairseq, EN, Moses("en", lower=True))
    assert lower.target.tokens("The Cat.") == "the cat ."
    counts = lower.counts(pieces.targets(["on the mat ."]), ["On The Mat."])
    assert float(corpus_bleu(counts[BESIDE].sum(0))) == pytest.approx(100)
