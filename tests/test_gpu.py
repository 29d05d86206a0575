"""On a GPU as on the CPU: scores, sweeps, removal, files and generation of the same small model."""

import copy

import pytest
import torch
from tiny import build

from headprune_lib import (
    head_importance,
    load_pruned,
    masked_heads,
    order_mask,
    prune_heads,
    prune_order,
    save_pruned,
    score_heads,
)
from headprune_lib.ablation import all_but_one, masked_logits, one_head_ablation
from headprune_lib.criteria import CRITERIA
from headprune_lib.generation.greedy import generate
from headprune_lib.replication.measurements.speed import shaped
from headprune_lib.running import pass_seconds

pytestmark = pytest.mark.gpu


def batches(device="cpu"):
    drawn = torch.Generator().manual_seed(0)
    ids = torch.randint(4, 30, (6, 9), generator=drawn)
    labels = torch.arange(6) % 2
    every = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    return [{name: values.to(device) for name, values in every.items()}]


@pytest.fixture
def pair():
    model = build("bert").eval()
    return model, copy.deepcopy(model).cuda()


def near(one, two, bound=1e-4):
    torch.testing.assert_close(one.cpu().double(), two.cpu().double(), rtol=bound, atol=bound)


@pytest.mark.parametrize("by", sorted(CRITERIA))
def test_every_criterion_scores_alike(pair, by):
    here, there = (score_heads(model, batches(), by=by) for model in pair)
    for kind, scores in here.items():
        assert there[kind].device.type == "cpu"
        near(scores, there[kind], 1e-3)


@pytest.mark.parametrize("sweep", [one_head_ablation, all_but_one])
def test_sweeps_give_the_same_logits(pair, sweep):
    (here, cut_here), (there, cut_there) = (next(iter(sweep(m, batches()))) for m in pair)
    near(here, there)
    for head, logits in cut_here.items():
        near(logits, cut_there[head])


def test_masks_removal_and_files(pair, tmp_path):
    here, there = pair
    order = prune_order(head_importance(here, batches()))
    mask = order_mask(here, order, len(order) // 2)
    (expected,) = masked_logits(here, batches(), mask)
    (masked,) = masked_logits(there, batches(), mask)
    near(expected, masked)
    pruned = prune_heads(there, mask)
    loaded = load_pruned(save_pruned(pruned, tmp_path / "pruned"), device="cuda")
    for model in (pruned, loaded):
        assert next(model.parameters()).is_cuda
        with torch.no_grad():
            inputs = {k: v for k, v in batches("cuda")[0].items() if k != "labels"}
            near(expected, model(**inputs).logits)


def test_a_mask_given_on_the_cpu_holds_on_the_gpu(pair):
    _, there = pair
    mask = {"self": torch.ones(3, 4)}
    inputs = {k: v for k, v in batches("cuda")[0].items() if k != "labels"}
    with torch.no_grad():
        plain = there(**inputs).logits
        with masked_heads(there, mask):
            near(plain, there(**inputs).logits)


def test_float32_and_bfloat16_agree_on_the_order_of_most_heads(pair):
    here, _ = pair
    exact = head_importance(here, batches())["self"].flatten()
    with torch.autocast("cuda", torch.bfloat16):
        rough = head_importance(copy.deepcopy(here).cuda(), batches())["self"].flatten()
    ranks = torch.stack([exact.argsort().argsort(), rough.cpu().argsort().argsort()]).double()
    assert torch.corrcoef(ranks)[0, 1] > 0.9


def test_a_translator_generates_the_same():
    model = build("marian").eval()
    sources = [[5, 6, 7, 2], [8, 9, 2]]
    assert generate(copy.deepcopy(model).cuda(), sources) == generate(model, sources)


@pytest.mark.slow
def test_bert_bases_shape_is_timed():
    model = shaped("bert-base").cuda()
    ids = torch.ones(16, 128, dtype=torch.long, device="cuda")
    assert 0 < pass_seconds(model, [{"input_ids": ids}]) < 60
