"""On a GPU as on the CPU: scores, sweeps, removal, files and generation of the same small model."""

import copy

import pytest
import torch
from census import tiny as census_tiny
from tiny import build

import headprune_lib as hp
from headprune_lib.ablation import all_but_one, masked_logits, one_head_ablation
from headprune_lib.criteria import CRITERIA
from headprune_lib.replication.models.generation import generate

pytestmark = pytest.mark.gpu


def batches(device="cpu"):
    drawn = torch.Generator().manual_seed(0)
    ids = torch.randint(4, 30, (6, 9), generator=drawn, device="cpu").to(device)
    return [{"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids[:, 0] % 2}]


@pytest.fixture
def pair():
    model = build("bert").eval()
    return model, copy.deepcopy(model).cuda()


def near(one, two, bound=1e-4):
    torch.testing.assert_close(one.cpu().double(), two.cpu().double(), rtol=bound, atol=bound)


@pytest.mark.parametrize("by", sorted(CRITERIA))
def test_every_criterion_scores_alike(pair, by):
    here, there = (hp.score_heads(model, batches(), by=by) for model in pair)
    for kind, scores in here.items():
        assert there[kind].device.type == "cpu"
        near(scores, there[kind], 1e-3)
    near(*(hp.example_importance(model, batches())["self"] for model in pair), 1e-3)


@pytest.mark.parametrize("sweep", [one_head_ablation, all_but_one])
def test_sweeps_give_the_same_logits(pair, sweep):
    (here, cut_here), (there, cut_there) = (next(iter(sweep(m, batches()))) for m in pair)
    near(here, there)
    for head, logits in cut_here.items():
        near(logits, cut_there[head])


def test_masks_removal_and_files(pair, tmp_path):
    here, there = pair
    order = hp.rank_heads(hp.head_importance(here, batches()))
    mask = hp.order_mask(here, order, len(order) // 2)
    (expected,) = masked_logits(here, batches(), mask)
    (masked,) = masked_logits(there, batches(), mask)
    near(expected, masked)
    pruned = hp.prune_heads(there, mask)
    loaded = hp.load_pruned(hp.save_pruned(pruned, tmp_path / "pruned"), device="cuda")
    for model in (pruned, loaded, hp.unprune_heads(pruned)):
        assert next(model.parameters()).is_cuda
        with torch.no_grad():
            inputs = {k: v for k, v in batches("cuda")[0].items() if k != "labels"}
            near(expected, model(**inputs).logits)


def test_gates_are_fitted_and_folded_alike(pair):
    mask = hp.head_mask(pair[0], [("self", 0, 1), ("self", 1, 3)])
    here, there = (hp.tune_mask(model, mask, batches())["self"] for model in pair)
    assert there.device.type == "cpu"
    near(here, there, 1e-3)
    (expected,) = masked_logits(pair[0], batches(), {"self": here})
    pruned = hp.prune_heads(hp.fold_gates(pair[1], {"self": here}), mask)
    assert next(pruned.parameters()).is_cuda
    near(expected, next(iter(masked_logits(pruned, batches()))))


def test_a_translator_generates_the_same():
    model = build("marian").eval()
    sources = [[5, 6, 7, 2], [8, 9, 2]]
    assert generate(copy.deepcopy(model).cuda(), sources) == generate(model, sources)


def test_heads_that_nobody_registered_are_found_and_proved():
    model = census_tiny.build("xlm-roberta").cuda()
    assert {block.source for block in hp.find_heads(model)} == {"found"}
    assert next(model.parameters()).is_cuda


def test_exports_are_of_the_same_weights(tmp_path):
    here = build("llama", dtype=torch.float32)
    mask = hp.uniform_mask(here, {"self": torch.rand(hp.ones_mask(here)["self"].shape)}, 0.5)
    here = hp.prune_heads(here, mask)
    there = copy.deepcopy(here).cuda()
    for name, export, file in (
        ("plain", hp.export_transformers, "model.safetensors"),
        ("graph", hp.export_onnx, "model.onnx"),
        ("gguf", hp.export_gguf, ""),
    ):
        paths = [tmp_path / f"{name}-{device}" for device in ("cpu", "cuda")]
        for model, path in zip((here, there), paths, strict=True):
            export(model, path)
            assert next(model.parameters()).is_cuda == (model is there)
        one, two = (path / file if file else path for path in paths)
        assert one.stat().st_size == two.stat().st_size
        assert file == "model.onnx" or one.read_bytes() == two.read_bytes()
