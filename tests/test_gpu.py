"""Every public function and criterion does the same on a GPU as on the CPU, for a small model."""

import hashlib

import pytest
import torch
from census import tiny as census
from tiny import batch, build, logits_of

import headprune_lib as hp
from headprune_lib.ablation import masked_logits
from headprune_lib.criteria import CRITERIA
from headprune_lib.replication.models.generation import generate

BATCHES = [batch(6)]
CUT = [("self", 0, 1), ("self", 1, 3)]
SCORES = {"self": torch.rand(3, 4, generator=torch.Generator().manual_seed(0))}


def logits(model):
    return logits_of(model, {k: v.to(model.device) for k, v in BATCHES[0].items()}).cpu()


def sweep(kind):
    return lambda model, _: list(next(iter(kind(model, BATCHES)))[1].values())


def saved(model, path):
    return hp.load_pruned(hp.save_pruned(hp.prune_heads(model, CUT), path), device=model.device)


def masked(model, _):
    with hp.masked_heads(model, CUT):
        return logits(model)


def exported(export, file=""):
    def run(model, path):
        model = build("llama", dtype=torch.float32).to(model.device)
        export(hp.prune_heads(model, hp.uniform_mask(model, SCORES, 0.5)), path)
        return hashlib.sha256((path / file if file else path).read_bytes()).hexdigest()

    return run


# name -> function of a model on either device and of a path that it may write to
USES = {
    **{by: lambda m, _, by=by: hp.score_heads(m, BATCHES, by) for by in CRITERIA},
    "head_importance": lambda m, _: hp.head_importance(m, BATCHES),
    "example_importance": lambda m, _: hp.example_importance(m, BATCHES),
    "one_head_ablation": sweep(hp.one_head_ablation),
    "all_but_one": sweep(hp.all_but_one),
    "masked_heads": masked,
    "masked_logits": lambda m, _: list(masked_logits(m, BATCHES, CUT)),
    "prune_heads": lambda m, _: logits(hp.prune_heads(m, CUT)),
    "load_pruned": lambda m, path: logits(saved(m, path)),
    "unprune_heads": lambda m, _: logits(hp.unprune_heads(hp.prune_heads(m, CUT))),
    "tune_mask": lambda m, _: hp.tune_mask(m, CUT, BATCHES),
    "fold_gates": lambda m, _: logits(hp.fold_gates(m, SCORES)),
    "prune_mask": lambda m, _: hp.prune_mask(m, SCORES, 0.5),
    "find_heads": lambda m, _: [
        block.source == "found" for block in hp.find_heads(census.build("xlm-roberta").to(m.device))
    ],
    "generate": lambda m, _: generate(build("marian").to(m.device), [[5, 6, 7, 2], [8, 9, 2]]),
    "export_transformers": exported(hp.export_transformers, "model.safetensors"),
    "export_onnx": exported(hp.export_onnx, "model.onnx.data"),
    "export_gguf": exported(hp.export_gguf),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", USES)
def test_it_is_the_same_on_both_devices_and_ends_on_the_cpu(name, tmp_path):
    here, there = (USES[name](build().to(device), tmp_path / device) for device in ("cpu", "cuda"))
    if isinstance(here, str):
        assert here == there
    else:
        torch.testing.assert_close(there, here, rtol=1e-3, atol=1e-4)
