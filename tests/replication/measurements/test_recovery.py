"""Training again after heads were removed: what is measured, and what follows from the outcomes."""

import copy
import dataclasses

import numpy as np
import pytest
import sacrebleu
import torch
import transformers

from headprune_lib import head_importance, order_mask, prune_heads, prune_order
from headprune_lib.batching import teacher_forced
from headprune_lib.generation.greedy import generate
from headprune_lib.replication import measurements
from headprune_lib.replication.claims.recovery import decide
from headprune_lib.replication.data import TASKS
from headprune_lib.replication.encoder import retraining
from headprune_lib.replication.encoder.batches import make_batches
from headprune_lib.replication.encoder.subject import EncoderSubject
from headprune_lib.replication.measurements.compared import n_cut
from headprune_lib.replication.measurements.recovered import Statistics, values_of
from headprune_lib.replication.measurements.recovery import name_of, read_part
from headprune_lib.replication.pretrained import load_tokenizer
from headprune_lib.replication.store.heads import heads_in
from headprune_lib.replication.translation import retraining as of_translators
from headprune_lib.replication.translation.models import PAD
from headprune_lib.replication.translation.subject import TranslationSubject


@pytest.fixture(scope="module")
def result(smoke):
    return measurements.get("recovery", smoke)


@pytest.fixture
def subject(smoke):
    return EncoderSubject.of(smoke, kernel="eager")


def answers(model, profile, examples):
    """Right or wrong and the loss, one sentence at a time."""
    with torch.no_grad():
        rows = [
            model(**make_batches(load_tokenizer(profile.model), one, 1, 32).batches[0])
            for one in (examples.after(i).first(1) for i in range(len(examples)))
        ]
    labels = torch.tensor(examples.labels)
    logits = torch.cat([row.logits for row in rows]).double()
    return (logits.argmax(-1) == labels).numpy(), np.array([float(row.loss) for row in rows])


def test_every_order_share_and_way_is_a_part(result, smoke):
    recovery = smoke.recovery
    assert recovery.ways == ["all weights", "LoRA"]
    expected = {
        (order, share, way)
        for way in recovery.ways
        for order, share in [
            ("uncut", 0.0),
            *((o, s) for s in recovery.shares for o in (*recovery.orders, "random")),
        ]
    }
    assert set(map(read_part, result.parts)) == expected
    for name, part in result.parts.items():
        order, share, way = read_part(name)
        assert name_of(order, share, way) == name
        n_runs = recovery.random_orders if order == "random" else 1
        assert part.raw["heads"].shape[:2] == (n_runs, n_cut(8, share))
        assert (part.raw["seconds"] > 0).all() and part.raw["labels"].shape == (48,)


def test_before_training_a_removed_head_is_a_masked_one(result, smoke, subject):
    test = subject.test
    scores = head_importance(subject.model, subject.batches(subject.scoring).batches)
    for order, share in [("importance", 0.4), ("random", 0.6), ("uncut", 0.0)]:
        raw = result.parts[name_of(order, share, "all weights")].raw
        for run, stored in enumerate(raw["heads"]):
            heads = heads_in(stored)
            if order == "importance":
                assert heads == prune_order(scores)[: len(heads)]
            mask = order_mask(subject.model, heads, len(heads))
            model = prune_heads(copy.deepcopy(subject.model), mask)
            correct, loss = answers(model, smoke, test)
            np.testing.assert_array_equal(raw["correct_before"][run], correct)
            np.testing.assert_allclose(raw["loss_before"][run] / 1000, loss, atol=1e-3)
            left = sum(weight.numel() for weight in model.parameters())
            assert raw["parameters"][run, 1] == left
            assert (left < raw["parameters"][run, 0]) == bool(heads)
    np.testing.assert_array_equal(raw["correct_uncut"], raw["correct_before"][0])


def test_both_ways_start_from_the_same_and_end_elsewhere(result):
    for order, share in {read_part(name)[:2] for name in result.parts}:
        whole, lora = (
            result.parts[name_of(order, share, way)].raw for way in ("all weights", "LoRA")
        )
        np.testing.assert_array_equal(whole["heads"], lora["heads"])
        np.testing.assert_array_equal(whole["loss_before"], lora["loss_before"])
        for raw in (whole, lora):
            assert np.abs(raw["loss_after"] - raw["loss_before"]).max() > 10
        assert np.abs(whole["loss_after"] - lora["loss_after"]).max() > 10


def plainly_trained(profile, model, seed):
    """One epoch of AdamW by hand, over all weights but the embeddings."""
    import random

    import transformers

    from headprune_lib.replication.encoder.batches import shuffled_by_length
    from headprune_lib.replication.weights import BFLOAT16, working_precision

    settings = profile.finetuning
    train = TASKS[profile.task].split("train", profile.data).first(settings.n_train)
    order = shuffled_by_length(train, settings.batch_size, random.Random(seed))
    batches = make_batches(
        load_tokenizer(profile.model), train, settings.batch_size, settings.max_length, order
    ).batches
    model.train().base_model.embeddings.requires_grad_(False)
    optimizer = torch.optim.AdamW(
        (p for p in model.parameters() if p.requires_grad),
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
    )
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, int(settings.warmup * len(batches)), len(batches)
    )
    mixed = working_precision(BFLOAT16, "cpu") == BFLOAT16
    for batch in batches:
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
    return model.eval()


def test_training_all_weights_is_a_plain_loop(result, smoke, subject):
    raw = result.parts["importance 40% all weights"].raw
    heads = heads_in(raw["heads"][0])
    model = prune_heads(copy.deepcopy(subject.model), order_mask(subject.model, heads, len(heads)))
    torch.manual_seed(retraining.SEED)
    _, loss = answers(plainly_trained(smoke, model, retraining.SEED), smoke, subject.test)
    np.testing.assert_allclose(raw["loss_after"][0] / 1000, loss, atol=1e-3)


def test_lora_moves_projections_alone(subject, smoke):
    mask = order_mask(subject.model, [("self", 0, head) for head in range(4)], 4)
    model = prune_heads(copy.deepcopy(subject.model), mask)  # a layer without attention
    before = {name: value.clone() for name, value in model.state_dict().items()}
    after = retraining.retrained(subject, model, "LoRA", "none in the first layer")
    assert not after.training and list(after.state_dict()) == list(before)
    moved = {n for n, value in after.state_dict().items() if not torch.equal(value, before[n])}
    expected = {f"{name}.weight" for name in retraining.projections(after)}
    empty = {name for name in expected if not before[name].numel()}
    assert len(empty) == 4 and moved == expected - empty
    assert not any("pooler" in name or "classifier" in name for name in expected)
    for name in moved:
        change = (after.state_dict()[name] - before[name]).double()
        assert torch.linalg.matrix_rank(change, atol=1e-5) <= smoke.recovery.lora.rank


def test_another_recipe_does_not_go_on_from_a_checkpoint(subject, smoke, monkeypatch):
    folders = []

    def noted(profile, model, settings, seed, folder, title):
        folders.append(folder)
        return model

    monkeypatch.setattr(retraining, "trained", noted)
    longer = dataclasses.replace(smoke.recovery, epochs=2)
    for recovery, heads in [
        (smoke.recovery, "a"),
        (smoke.recovery, "a"),
        (longer, "a"),
        (smoke.recovery, "b"),
    ]:
        own = dataclasses.replace(smoke, recovery=recovery)
        one = dataclasses.replace(subject, profile=own)
        retraining.retrained(one, copy.deepcopy(subject.model), "all weights", heads)
    assert folders[0] == folders[1] and len(set(folders)) == 3


def test_the_subject_stays_as_it_was(smoke, subject):
    before = {name: value.clone() for name, value in subject.model.state_dict().items()}
    part = ["importance 40% LoRA"]
    again = measurements.get("recovery", smoke, parts=part, fresh=True)
    assert again.parts[part[0]].raw["correct_after"].shape == (1, 48)
    stored = EncoderSubject.of(smoke, kernel="eager").model.state_dict()
    assert all(torch.equal(stored[name], value) for name, value in before.items())


@pytest.mark.parametrize("name", ["importance", "importance 40%", "random 140% LoRA", "x% LoRA"])
def test_a_wrong_part_is_refused(smoke, name):
    with pytest.raises(ValueError, match="is no part of recovery: give an order, a share and"):
        measurements.get("recovery", smoke, parts=[name])


def test_an_order_that_is_none_is_refused(smoke):
    with pytest.raises(ValueError, match="unknown order 'importanse'"):
        measurements.get("recovery", smoke, parts=["importanse 40% LoRA"])


# --- translators ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def translated(smoke):
    parts = ["uncut 0% all weights", "importance 40% all weights", "random 60% all weights"]
    return measurements.get("recovery", smoke, task="toy", parts=parts)


def judged(subject, model):
    """BLEU of greedy translations, one sentence at a time, and the loss a piece of each reference."""
    pairs, translator = subject.headline, subject.translator
    rows = [generate(model, [source])[0] for source in translator.encode(pairs.sources)]
    losses = []
    for source, target in zip(
        translator.encode(pairs.sources), translator.encode_targets(pairs.targets), strict=True
    ):
        batch = teacher_forced([source], [target], PAD, model.config.decoder_start_token_id)
        with torch.no_grad():
            losses.append(float(model(**batch).loss))
    hypotheses = translator.pieces.texts(rows)
    return sacrebleu.corpus_bleu(hypotheses, [list(pairs.targets)]).score, np.array(losses)


def test_before_training_a_translator_loses_what_its_masks_cut(translated, smoke):
    subject = TranslationSubject.of(smoke, "toy")
    for part, raw in ((name, one.raw) for name, one in translated.parts.items()):
        rows = [r for r in translated.values["recovered"] if part.startswith(f"{r['order']} ")]
        assert len(rows) == 1 and len(rows[0]["before"]["runs"]) == len(raw["heads"])
        for run, stored in enumerate(raw["heads"]):
            heads = heads_in(stored)
            assert len(heads) == n_cut(24, read_part(part)[1])
            mask = order_mask(subject.model, heads, len(heads))
            bleu, loss = judged(subject, prune_heads(copy.deepcopy(subject.model), mask))
            assert rows[0]["before"]["runs"][run] == pytest.approx(bleu / 100, abs=1e-4)
            np.testing.assert_allclose(raw["loss_before"][run] / 1000, loss, atol=1e-3)
            assert raw["parameters"][run, 1] <= raw["parameters"][run, 0]


def plainly_trained_translator(subject, model, batches):
    """One epoch of Adam by hand, with label smoothing, a rise and a fall of the learning rate."""
    recipe = subject.profile.translator("toy")
    updates = subject.translator.curve[-1]["updates"]
    peak = recipe.learning_rate * (recipe.warmup / updates) ** 0.5
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=0)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, int(0.1 * len(batches)), len(batches)
    )
    smoothed = torch.nn.CrossEntropyLoss(label_smoothing=recipe.label_smoothing)
    model.train()
    for batch in batches:
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        logits = model(**inputs).logits
        smoothed(logits.flatten(0, 1), batch["labels"].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model.eval()


def test_a_translator_is_trained_as_by_hand(smoke, monkeypatch):
    # without dropout nothing is drawn; in float32, for two ways to add bfloat16 differ
    recipe = dataclasses.replace(smoke.translator("toy"), precision="float32")
    subject = TranslationSubject.of(smoke, "toy", kernel="eager")
    exact = dataclasses.replace(smoke, translation={"toy": {"post-norm": recipe}})
    subject, seen = dataclasses.replace(subject, profile=exact), []
    whole = of_translators.whole_batch
    monkeypatch.setattr(
        of_translators, "whole_batch", lambda items: seen.append(dict(items[0])) or whole(items)
    )
    heads = [("enc-enc", 0, 1), ("enc-dec", 1, 0), ("dec-dec", 0, 3)]
    mask = order_mask(subject.model, heads, len(heads))
    ours, ours_too, hand, before = (
        prune_heads(copy.deepcopy(subject.model), mask) for _ in range(4)
    )
    ours = of_translators.retrained(subject, ours, "some heads")
    first, seen[:] = [*seen], []
    assert sum(len(batch["labels"]) for batch in first) == len(subject.split("train"))
    by_hand = plainly_trained_translator(subject, hand, first)
    assert not ours.training
    before = dict(before.named_parameters())
    for (name, one), two in zip(ours.named_parameters(), by_hand.parameters(), strict=True):
        if name.endswith("k_proj.bias"):  # changes no output: its gradient is rounding alone
            continue
        moved = float((one - before[name]).detach().abs().max())
        torch.testing.assert_close(one, two, rtol=0, atol=0.02 * moved + 1e-7, msg=name)
    # whichever heads are gone, batches come in one order
    of_translators.retrained(subject, ours_too, "other heads")
    assert all(
        torch.equal(one["labels"], two["labels"]) for one, two in zip(first, seen, strict=True)
    )


def test_the_rate_goes_on_from_where_the_training_ended(smoke):
    recipe = smoke.translator("toy")
    assert of_translators.last_rate(recipe, 50) == of_translators.last_rate(recipe, 9) == 5e-3
    assert of_translators.last_rate(recipe, 200) == pytest.approx(5e-3 / 2)


def test_adapters_for_translators_are_refused(smoke):
    with pytest.raises(ValueError, match="by 'all weights' alone, not 'LoRA'"):
        measurements.get("recovery", smoke, task="toy", parts=["uncut 0% LoRA"])


# --- values on made-up outcomes -------------------------------------------------------------------


def made_up(after, n=2000, seed=0):
    """Outcomes with 40% removed: shares of right answers by importance and in two random orders."""
    rng = np.random.default_rng(seed)
    place = rng.random(n)  # an easy example is easy to every model
    labels = (rng.random(n) < 0.45).astype(np.int8)

    def raw(before, after, gone):
        # each model is right on its easiest examples, but for a few of its own
        rows = {}
        for when, shares in (("before", before), ("after", after)):
            noisy = place + 0.02 * rng.standard_normal((len(shares), n))
            rows[f"correct_{when}"] = noisy < np.array(shares)[:, None]
            rows[f"loss_{when}"] = (1000 * (0.2 + noisy.clip(0))).astype(np.int16)
        return rows | {
            "correct_uncut": place < 0.85,
            "loss_uncut": (300 * place).astype(np.int16),
            "heads": np.zeros((len(before), gone, 2), np.int16),
            "parameters": np.array([[100, 100 - gone]] * len(before)),
            "seconds": np.full(len(before), 2.5),
            "labels": labels,
            "metric": np.array("accuracy"),
        }

    best, drawn = after
    return {
        ("uncut", 0.0, "all weights"): raw([0.85], [0.86], 0),
        ("importance", 0.4, "all weights"): raw([0.84], [best], 29),
        ("random", 0.4, "all weights"): raw([0.75, 0.65], drawn, 29),
        ("importance", 0.6, "LoRA"): raw([0.7], [0.8], 44),
    }


@pytest.mark.parametrize(
    ("after", "n", "word"),
    [
        ((0.85, [0.80, 0.82]), 2000, "still matters"),
        ((0.80, [0.85, 0.83]), 2000, "random is better"),
        ((0.84, [0.84, 0.84]), 8000, "hardly matters"),
        ((0.84, [0.84, 0.84]), 200, "open"),
    ],
)
def test_the_word_comes_out_each_way(after, n, word):
    answer = decide(values_of(made_up(after, n), Statistics(resamples=500)))
    assert answer.word == word
    assert answer.before[0] == pytest.approx(0.84 - 0.70, abs=0.05) and answer.before[1] > 0


def test_nothing_is_said_of_what_was_not_run():
    outcomes = made_up((0.8, [0.8, 0.8]), 100)
    del outcomes["random", 0.4, "all weights"]
    values = values_of(outcomes, Statistics(resamples=50))
    assert values["leads"] == [] and decide(values).word == decide(None).word == "not run"


def test_values_are_those_of_a_plain_computation():
    outcomes = made_up((0.84, [0.80, 0.76]), 700, seed=3)
    statistics = Statistics(resamples=400, seed=5)
    values = values_of(outcomes, statistics)
    labels = outcomes["uncut", 0.0, "all weights"]["labels"]
    chance, whole = (
        max(labels.mean(), 1 - labels.mean()),
        outcomes["uncut", 0.0, "all weights"]["correct_uncut"],
    )
    assert values["chance"] == pytest.approx(chance)
    assert values["whole"] == pytest.approx(whole.mean())
    rows = {(row["order"], row["share"], row["way"]): row for row in values["recovered"]}
    backwards = dict(reversed(outcomes.items()))
    assert values_of(backwards, statistics)["recovered"][0]["order"] == "uncut"
    assert list(rows) == list(outcomes)  # by way, share and order
    for asked, raw in outcomes.items():
        row = rows[asked]
        assert row["removed"] == raw["heads"].shape[1] and row["seconds"] == 2.5
        assert (row["parameters"], row["left"]) == (100, 100 - row["removed"])
        for when in ("before", "after"):
            state, correct = row[when], raw[f"correct_{when}"].mean(1)
            np.testing.assert_allclose(state["runs"], correct)
            assert state["score"] == pytest.approx(correct.mean())
            kept = (correct.mean() - chance) / (whole.mean() - chance)
            assert state["kept"] == pytest.approx(kept)
            assert state["loss"] == pytest.approx(raw[f"loss_{when}"].mean() / 1000)
            for name in ("score", "kept", "loss"):
                low, high = state["interval" if name == "score" else f"{name}_interval"]
                assert low <= state[name] <= high
    (lead,) = values["leads"]
    mine, theirs = (outcomes[order, 0.4, "all weights"] for order in ("importance", "random"))
    rng = np.random.default_rng(17)
    for when in ("before", "after"):
        for found, name, unit in (
            (lead[when], f"correct_{when}", 1),
            (lead[f"loss_{when}"], f"loss_{when}", 1000),
        ):
            apart = (mine[name].mean(0) - theirs[name].mean(0)) / unit  # an example
            assert found["difference"] == pytest.approx(apart.mean())
            drawn = [rng.choice(apart, len(apart)).mean() for _ in range(4000)]
            width = np.subtract(*np.quantile(drawn, [0.975, 0.025]))
            np.testing.assert_allclose(
                found["interval"], np.quantile(drawn, [0.025, 0.975]), atol=0.15 * width
            )


def test_draws_are_the_same_whatever_else_is_stored():
    outcomes = made_up((0.84, [0.80, 0.76]), 300)
    fewer = {asked: raw for asked, raw in outcomes.items() if asked[0] != "uncut"}
    one, other = (values_of(some, Statistics(resamples=100)) for some in (outcomes, fewer))
    np.testing.assert_array_equal(
        one["leads"][0]["after"]["interval"], other["leads"][0]["after"]["interval"]
    )
