"""A model that normalises before each block: trained, masked, scored, pruned, generating."""

import dataclasses
import re

import pytest
import torch

from headprune_lib import find_heads, full_mask, masked_heads
from headprune_lib.ablation import all_but_one_masks, one_head_masks
from headprune_lib.batching import by_length, teacher_forced
from headprune_lib.criteria.importance import example_importance
from headprune_lib.generation.drafts import translations_under
from headprune_lib.generation.greedy import generate
from headprune_lib.orders import order_mask, prune_order
from headprune_lib.pruning import prune_heads
from headprune_lib.replication.data.verses import TRANSLATION_TASKS
from headprune_lib.replication.translation.models import END, PAD, new_model
from headprune_lib.replication.translation.recipe import full_recipe
from headprune_lib.replication.translation.training import read_curve, train, training_folder
from headprune_lib.replication.translation.weights import load_translator, publish

PRE = "pre-norm"


@pytest.fixture(scope="module")
def translator(smoke):
    return load_translator(smoke, "toy", model=PRE)


@pytest.fixture(scope="module")
def pairs():
    return TRANSLATION_TASKS["toy"].load()["test"].first(12)


@pytest.fixture(scope="module")
def sources(translator, pairs):
    return translator.encode(pairs.sources)


def test_it_learns_and_keeps_weights_along_the_way(smoke, translator):
    folder = training_folder("toy", 1, PRE)
    assert folder.name == "toy.pre-norm-seed1"
    curve = read_curve(folder)
    assert curve[-1]["bleu"] > 20 and curve[0]["updates"] == 15
    # 15 updates an epoch: each quarter of the first three, rounded
    assert sorted(path.stem for path in folder.glob("update-*")) == [
        f"update-{number:06d}" for number in range(0, 49, 4)
    ]
    fresh = new_model(smoke.translator("toy", PRE).shape, 1)
    first = load_translator(smoke, "toy", model=PRE, update=0).model.state_dict()
    for name, weight in fresh.named_parameters():
        assert torch.equal(first[name], weight.half().float() if weight.requires_grad else weight)
    fourth = load_translator(smoke, "toy", model=PRE, update=4).model.state_dict()
    moved = [not torch.equal(fourth[name], first[name]) for name, _ in fresh.named_parameters()]
    assert sum(moved) > 0.9 * len(moved)
    with pytest.raises(ValueError, match="no weights of update 000005 .*update-000004"):
        load_translator(smoke, "toy", model=PRE, update=5)


def test_each_block_normalises_what_goes_in(translator):
    for stack in (translator.model.get_encoder(), translator.model.get_decoder()):
        layer, given = stack.layers[0], []
        handles = [
            module.register_forward_pre_hook(lambda _, inputs, to=given: to.append(inputs[0]))
            for module in (layer, layer.self_attn_layer_norm)
        ]
        translator.translate(["ba de ba de ba"])
        for handle in handles:
            handle.remove()
        assert torch.equal(given[0], given[1])  # a post-norm layer attends first
        assert hasattr(stack, "layer_norm")  # and one after the last


def test_a_killed_training_goes_on_where_it_was(smoke, tmp_path, monkeypatch):
    whole = training_folder("toy", 1, PRE)
    monkeypatch.setenv("HEADPRUNE_CACHE", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(
            "headprune_lib.replication.translation.training.finished",
            lambda curve, _: len(curve) > 1,
        )
        folder = train(smoke, "toy", 1, model=PRE)
    assert folder != whole and len(read_curve(folder)) == 2
    train(smoke, "toy", 1, model=PRE)
    names = sorted(path.name for path in whole.glob("*.safetensors") if path.stem != "final")
    assert len(names) == 13 + 9
    for name in names:
        assert (folder / name).read_bytes() == (whole / name).read_bytes()


def test_the_two_models_of_a_task_are_kept_apart(smoke, tmp_path, monkeypatch):
    post, pre = (
        full_recipe("toy", smoke.translator("toy", model), 1) for model in ("post-norm", PRE)
    )
    assert pre == {**post, "precision": "float32", "shape": {**post["shape"], "norm": "before"}}
    assert training_folder("toy", 1).name == "toy-seed1"
    monkeypatch.setenv("HEADPRUNE_MODELS", str(tmp_path))
    published = publish(smoke, "toy", 1, PRE)
    assert sorted(path.name for path in published) == [
        f"toy.pre-norm-seed1.{end}" for end in ("curve.json", "safetensors", "spm")
    ]
    monkeypatch.setattr("headprune_lib.replication.translation.weights.train", None)
    load_translator(smoke, "toy", model=PRE)  # the committed ones
    with pytest.raises(
        ValueError,
        match=re.escape(
            "unknown model of toy 'pre': did you mean pre-norm? Known: post-norm, pre-norm"
        ),
    ):
        load_translator(smoke, "toy", model="pre")


def test_teacher_forcing_and_generation_see_the_same_positions(translator, sources):
    """Padding is no position for it: with another start mark the two would be one apart."""
    model, drafts = translator.model, generate(translator.model, sources)
    assert model.config.decoder_start_token_id == END
    batch = teacher_forced(
        sources, [[*draft, END] for draft in drafts], PAD, model.config.decoder_start_token_id
    )
    labels = batch.pop("labels")
    with torch.no_grad():
        chosen = model(**batch).logits.argmax(-1)
    assert (labels == -100).any()
    assert torch.equal(chosen[labels != -100], labels[labels != -100])


def test_every_cut_translates_as_masked_generation_does(translator, sources):
    model = translator.model
    drafts = generate(model, sources)
    masks = [*one_head_masks(model).values(), *all_but_one_masks(model).values()]
    changed = 0
    order = [i for group in by_length(sources, 6) for i in group]
    sources, drafts = [sources[i] for i in order], [drafts[i] for i in order]
    for mask, found in zip(masks, translations_under(model, sources, drafts, masks), strict=True):
        with masked_heads(model, mask):
            plain = generate(model, sources, batch_size=5)
        assert found.ids == plain
        changed += sum(new != old for new, old in zip(plain, drafts, strict=True))
    assert 0 < changed < len(masks) * len(sources)
    (uncut,) = translations_under(model, sources, drafts, [full_mask(model)])
    assert uncut.ids == drafts


def test_importance_is_the_derivative_of_each_verse(smoke, pairs):
    translator = load_translator(smoke, "toy", model=PRE, kernel="eager")
    model = translator.model.double()
    batch = teacher_forced(
        translator.encode(pairs.sources),
        translator.encode(pairs.targets),
        PAD,
        model.config.decoder_start_token_id,
    )
    scores, step = example_importance(model, [batch]), 1e-4
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    for block in find_heads(model):
        head = 2
        weight = block.part(model, "output").weight.data
        columns = slice(head * block.width, (head + 1) * block.width)
        kept, losses = weight[:, columns].clone(), []
        for factor in (1 + step, 1 - step):
            weight[:, columns] = kept * factor
            with torch.no_grad():
                logits = model(**inputs).logits
            losses.append(
                torch.nn.functional.cross_entropy(
                    logits.movedim(-1, 1), batch["labels"], reduction="none"
                ).sum(-1)
            )
        weight[:, columns] = kept
        expected = ((losses[0] - losses[1]) / (2 * step)).abs()
        torch.testing.assert_close(
            scores[block.kind][:, block.layer, head], expected, rtol=1e-5, atol=1e-7
        )


def test_removing_heads_is_masking_them(smoke, translator, pairs, sources):
    model = translator.model
    batch = teacher_forced(
        sources, translator.encode(pairs.targets), PAD, model.config.decoder_start_token_id
    )
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    scores = {kind: each.mean(0) for kind, each in example_importance(model, [batch]).items()}
    mask = order_mask(model, prune_order(scores), 11)
    with torch.no_grad(), masked_heads(model, mask):
        expected, translations = model(**inputs).logits, generate(model, sources)
    pruned = prune_heads(load_translator(smoke, "toy", model=PRE).model, mask)
    assert sum(len(block.kept) for block in find_heads(pruned)) == 24 - 11
    with torch.no_grad():
        torch.testing.assert_close(pruned(**inputs).logits, expected, rtol=1e-5, atol=1e-5)
    assert generate(pruned, sources) == translations


def test_a_training_of_another_recipe_is_not_mixed_in(smoke):
    toy = smoke.translation["toy"]
    other = dataclasses.replace(
        smoke,
        translation={
            "toy": {**toy, PRE: dataclasses.replace(toy[PRE], precision="bfloat16 autocast")}
        },
    )
    with pytest.raises(ValueError, match="is of a training by another recipe"):
        train(other, "toy", 1, model=PRE)
