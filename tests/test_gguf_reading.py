"""Files of llama.cpp are read as models whose heads can be scored, masked and removed."""

import pytest
import torch
import transformers as t
from tiny import GROUPED

from headprune_lib import cut_heads, export_gguf, head_importance, prune_heads
from headprune_lib.export import gguf_file
from headprune_lib.gguf_reading import read_gguf, read_gguf_tokenizer

pytest.importorskip("gguf", reason="the extra gguf is not installed")
CONFIG = {**GROUPED, "hidden_size": 64, "head_dim": 16, "sliding_window": None}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    torch.manual_seed(0)
    model = t.LlamaForCausalLM(t.LlamaConfig(**CONFIG)).eval()
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    export_gguf(model, path)
    return model, path


def test_what_is_read_computes_what_was_written(written):
    model, path = written
    ids = torch.arange(4, 20).view(2, 8)
    found = read_gguf(path)
    with torch.no_grad():
        torch.testing.assert_close(found(ids).logits, model(ids).logits, rtol=1e-5, atol=1e-6)
    batch = {"input_ids": ids, "labels": ids}
    mine, theirs = (head_importance(one, [batch])["self"] for one in (found, model))
    torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)
    group = [("self", 0, 0), ("self", 0, 1)]
    assert prune_heads(found, cut_heads(found, group)).num_parameters() < model.num_parameters()
    found.train()(input_ids=ids, labels=ids).loss.backward()
    assert found.lm_head.weight.grad is not None


def test_files_that_cannot_be_read_are_refused(written, tmp_path):
    _, path = written
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(path.read_bytes()[:200])
    for name in (damaged, tmp_path / "none.gguf"):
        with pytest.raises(ValueError, match=f"{name.name}: transformers cannot read this file"):
            read_gguf(name)
    with pytest.raises(FileNotFoundError, match="holds no tokenizer"):
        read_gguf_tokenizer(path)


def test_weights_that_would_be_made_up_or_dropped_are_refused(written, tmp_path, monkeypatch):
    model, _ = written
    real = gguf_file._tensors

    def lacking(of):
        return (tensor for tensor in real(of) if tensor[0] != "blk.1.attn_q.weight")

    def more(of):
        return (*real(of), ("blk.0.attn_q.bias", torch.zeros(64)))

    for number, (tensors, said) in enumerate(((lacking, "it lacks 1 "), (more, "1 biases among"))):
        monkeypatch.setattr(gguf_file, "_tensors", tensors)
        path = export_gguf(model, tmp_path / f"{number}.gguf").path
        with pytest.raises(ValueError, match=said):
            read_gguf(path)
    monkeypatch.setattr(gguf_file, "_tensors", real)
    scaled = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip
    config = t.LlamaConfig(**CONFIG, rope_parameters=scaled)
    path = export_gguf(t.LlamaForCausalLM(config), tmp_path / "scaled.gguf").path
    with pytest.raises(ValueError, match="scaled rotary positions"):
        read_gguf(path)
