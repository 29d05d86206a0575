"""Other software in which a pruned model runs, as ``book/prune.md`` says."""

import pytest
import torch
import transformers as t
from tiny import batch_for, build, logits_of

from headprune_lib import find_heads, load_pruned, prune_heads, save_pruned

pytestmark = pytest.mark.nightly


@pytest.fixture(params=["bert", "llama"])
def pruned(request, tmp_path):
    """A loaded model, uneven and with an empty layer, and a batch for it."""
    model = build(request.param, dtype=torch.float32)
    prune_heads(model, [(0, 0), (0, 1), *((1, head) for head in range(4))])
    return load_pruned(save_pruned(model, tmp_path / "model")), batch_for(request.param, 3)


def same(model, inputs, expected, atol=1e-5):
    torch.testing.assert_close(logits_of(model, inputs), expected, rtol=0, atol=atol)


def test_a_trainer_takes_a_step_and_its_checkpoint_is_loaded(pruned, tmp_path):
    model, inputs = pruned
    before = logits_of(model, inputs)
    settings = t.TrainingArguments(
        tmp_path / "run", max_steps=1, save_steps=1, use_cpu=True, report_to=[], learning_rate=0.1
    )
    rows = [{name: value[i] for name, value in inputs.items()} for i in range(3)]
    t.Trainer(model, settings, train_dataset=rows).train()
    after = logits_of(model.eval(), inputs)
    assert not torch.equal(before, after)
    same(load_pruned(tmp_path / "run" / "checkpoint-1"), inputs, after)


def test_an_adapter_is_trained_merged_and_saved(pruned, tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model, inputs = pruned
    parts = ["q_proj", "v_proj"] if model.can_generate() else ["query", "value"]
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=parts))
    optimizer = torch.optim.SGD([p for p in adapted.parameters() if p.requires_grad], lr=1.0)
    before = logits_of(adapted.eval(), inputs)
    for _ in range(2):  # the first step moves one factor off zero, the second both
        optimizer.zero_grad()
        adapted(**inputs).loss.backward()
        optimizer.step()
    after = logits_of(adapted, inputs)
    assert not torch.equal(before, after)
    merged = adapted.merge_and_unload()
    for each in (merged, load_pruned(save_pruned(merged, tmp_path / "merged"))):
        same(each, inputs, after, atol=1e-4)


def test_layers_are_dispatched_to_the_disk(pruned, tmp_path):
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    model, inputs = pruned
    expected = logits_of(model, inputs)
    layers = tuple(f"{block.layer_path}." for block in find_heads(model))
    places = {
        name: "disk" if name.startswith(layers) else "cpu"
        for name, module in model.named_modules()
        if not list(module.children())
    }
    placed = accelerate.dispatch_model(
        model, places, main_device="cpu", offload_dir=str(tmp_path / "offloaded"), force_hooks=True
    )
    assert any(weight.is_meta for weight in placed.parameters())  # on the disk
    same(placed, inputs, expected)
