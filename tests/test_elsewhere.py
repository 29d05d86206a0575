"""What else a pruned model runs in, as ``book/prune.md`` says."""

import pytest
import torch
import transformers as t
from ownmodels import SMALL, classifier

from headprune_lib import find_heads, head_mask, load_pruned, prune_heads, save_pruned

HEADS = [("self", 0, 0), ("self", 0, 1), *(("self", 1, head) for head in range(4))]


def llama():
    torch.manual_seed(0)
    config = t.LlamaConfig(**SMALL, head_dim=4, num_key_value_heads=4, initializer_range=0.3)
    return t.LlamaForCausalLM(config).eval()


def loaded(build):
    def run(folder):
        model = build()
        return load_pruned(save_pruned(prune_heads(model, head_mask(model, HEADS)), folder))

    return run


# What loads it -> how the model came to be: uneven, and with an empty layer.
WAYS = {"`load_pruned`, encoder": loaded(classifier), "`load_pruned`, decoder": loaded(llama)}


def batch(model):
    ids = torch.randint(4, 60, (3, 6), generator=torch.Generator().manual_seed(1))
    labels = ids if model.can_generate() else torch.tensor([0, 1, 0])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def logits(model):
    inputs = batch(model)
    inputs.pop("labels")
    with torch.no_grad():
        return model(**inputs).logits


def trainer(model, folder):
    rows, before = batch(model), logits(model)
    settings = t.TrainingArguments(
        folder / "run", max_steps=1, save_steps=1, use_cpu=True, report_to=[], learning_rate=0.1
    )
    data = [{name: value[i] for name, value in rows.items()} for i in range(3)]
    t.Trainer(model, settings, train_dataset=data).train()
    after = logits(model.eval())
    assert not torch.equal(before, after)
    checkpoint = folder / "run" / "checkpoint-1"
    again = load_pruned(checkpoint)
    torch.testing.assert_close(logits(again), after, rtol=0, atol=1e-5)


def lora(model, folder):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    parts = ["q_proj", "v_proj"] if model.can_generate() else ["query", "value"]
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=parts))
    optimizer = torch.optim.SGD([p for p in adapted.parameters() if p.requires_grad], lr=1.0)
    before = logits(adapted.eval())
    for _ in range(2):  # the first step moves one factor off zero, the second both
        optimizer.zero_grad()
        adapted(**batch(model)).loss.backward()
        optimizer.step()
    after = logits(adapted)
    assert not torch.equal(before, after)
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(logits(merged), after, rtol=0, atol=1e-4)
    again = load_pruned(save_pruned(merged, folder / "merged"))
    torch.testing.assert_close(logits(again), after, rtol=0, atol=1e-4)


def dispatched(model, folder):
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    before = logits(model)
    layers = {block.layer_path for block in find_heads(model)}
    places = {
        name: "disk" if any(name.startswith(f"{path}.") for path in layers) else "cpu"
        for name, module in model.named_modules()
        if not list(module.children())
    }
    placed = accelerate.dispatch_model(
        model, places, main_device="cpu", offload_dir=str(folder / "offloaded"), force_hooks=True
    )
    assert any(one.is_meta for one in placed.parameters())  # on the disk
    torch.testing.assert_close(logits(placed), before, rtol=0, atol=1e-5)


# Program -> what is asked.
PROGRAMS = {
    "`Trainer`, a step and its checkpoint": trainer,
    "PEFT: LoRA, two steps, merged": lora,
    "`accelerate.dispatch_model`, layers on the disk": dispatched,
}


@pytest.mark.nightly
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("way", WAYS)
def test_a_pruned_model_works_in(program, way, tmp_path):
    PROGRAMS[program](WAYS[way](tmp_path / "model"), tmp_path)
