"""Refusals by the removal, saving and loading of weights."""

import copy

import pytest
import torch
import transformers as t
from census import tiny as census
from tiny import build, drawn, removed_as_masked, unchanged
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import headprune_lib as hp
from headprune_lib import pruning
from headprune_lib.saving import unprune_heads
from headprune_lib.specs import ATTENTION_SPECS

IDS = torch.arange(10).view(2, 5)


@pytest.mark.parametrize("name", ["mpnet", "t5", "gpt2", "llama"])
def test_an_error_in_the_middle_leaves_the_model_as_it_was(name, monkeypatch):
    model, done = build(name), []
    mask = hp.ones_mask(model)
    for values in mask.values():
        values[0, :2] = values[1] = 0

    def run_out(*given):
        pruning.keep_heads.own(*given)
        done.append(given)
        if len(done) == 2:
            raise MemoryError("no memory left")

    run_out.own = pruning.keep_heads
    monkeypatch.setattr(pruning, "keep_heads", run_out)
    with unchanged(model), pytest.raises(MemoryError):
        hp.prune_heads(model, mask)
    assert len(done) == 2


@pytest.mark.parametrize("known", [True, False])
def test_keys_and_values_fused_beside_a_query_are_masked_and_removed(known, monkeypatch):
    if not known:  # it is then found by its structure
        monkeypatch.delitem(ATTENTION_SPECS, "GPT2Attention")
    sizes = {"vocab_size": 30, "n_embd": 16, "n_head": 4, "n_layer": 2}
    model = drawn(t.GPT2LMHeadModel(t.GPT2Config(**sizes, add_cross_attention=True)), std=0.2)
    mask, states = hp.ones_mask(model), torch.randn(2, 3, 16)
    mask["cross"][0, 1] = mask["self"][0, 2] = mask["cross"][1] = 0
    removed_as_masked(model, mask, lambda each: each(IDS, encoder_hidden_states=states).logits)
    value, output = (
        model.get_submodule(f"transformer.h.0.crossattention.{name}").weight
        for name in ("c_attn", "c_proj")
    )
    expected = (value[:, 16:20] @ output[:4]).norm().item()
    assert hp.score_heads(model, [], "magnitude")["cross"][0, 0].item() == pytest.approx(expected)


@pytest.mark.slow
def test_weights_spread_over_processes_are_refused_as_such():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = fully_shard(build(), mesh=init_device_mesh("cpu", (1,)))
        with pytest.raises(ValueError, match="spread over several processes.*before.*sharded"):
            hp.prune_heads(model, [(0, 1)])
    finally:
        distributed.destroy_process_group()


def whisper():
    """Whisper, two layers of four heads per side; only this kernel returns attention weights."""
    model = census.build("whisper")
    model.set_attn_implementation("eager")
    model.generation_config = t.GenerationConfig(
        bos_token_id=3, decoder_start_token_id=1, eos_token_id=2, pad_token_id=1,
        alignment_heads=[[0, 3], [1, 2]], no_timestamps_token_id=50,
    )  # fmt: skip
    return model


def times_of_words(model):
    sound = torch.randn(1, 16, 128, generator=torch.Generator().manual_seed(1))
    return model.generate(
        sound, max_new_tokens=6, return_timestamps=True, return_token_timestamps=True,
        return_dict_in_generate=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("named", "gone"),
    [
        ([[0, 3], [1, 2]], [(0, 0), (0, 2), (1, 3), (1, 1)]),
        ([[0, 3]], [(1, head) for head in range(4)]),  # a layer loses all
    ],
)
def test_heads_that_the_configuration_names_are_named_anew(named, gone, tmp_path):
    model = whisper()
    model.generation_config.alignment_heads = named
    heads = [("enc-dec", *head) for head in gone]
    with hp.masked_heads(model, heads):
        masked = times_of_words(model)
    pruned = hp.prune_heads(copy.deepcopy(model), heads)
    loaded = hp.load_pruned(hp.save_pruned(pruned, tmp_path / "model"), attn_implementation="eager")
    for smaller in (pruned, loaded, unprune_heads(pruned)):
        times = times_of_words(smaller)
        assert torch.equal(times["sequences"], masked["sequences"])
        assert torch.equal(times["token_timestamps"], masked["token_timestamps"])
    assert model.generation_config.alignment_heads == named


def test_a_head_that_the_configuration_names_is_not_removed():
    model, message = whisper(), r"alignment_heads of the GenerationConfig .*\[\(1, 2\)\]"
    with unchanged(model), pytest.raises(ValueError, match=message):
        hp.prune_heads(model, [("enc-dec", 1, 2), ("enc-dec", 0, 0)])
    hp.prune_heads(model, [("dec-dec", 1, 2), ("enc-enc", 0, 3)])
    assert model.generation_config.alignment_heads == [[0, 3], [1, 2]]
    model.generation_config.alignment_heads = [[0, 3]]
    hp.prune_heads(model, [("enc-dec", 0, 0), ("enc-dec", 1, 2)])
    assert model.generation_config.alignment_heads == [[0, 2]]
    speech = t.SpeechT5ForTextToSpeech(census.tiny_config("speecht5")).eval()
    assert speech.config.use_guided_attention_loss  # of the first heads
    with pytest.raises(ValueError, match=r"guided_attention_loss_num_heads of the SpeechT5Config"):
        hp.prune_heads(speech, [("enc-dec", 1, 1)])
    hp.prune_heads(speech, [("enc-dec", 1, 2), ("dec-dec", 1, 1)])
    speech.config.use_guided_attention_loss = False
    hp.prune_heads(speech, [("enc-dec", 1, 1)])
