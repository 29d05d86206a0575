"""llama.cpp computes what a pruned Llama does; its files are read as models to score, mask and prune."""

import pytest
import torch
import transformers as t
from tiny import GROUPED, build, drawn, logits_of

from headprune_lib import export_gguf, head_importance, prune_heads
from headprune_lib.export.gguf import read_gguf, read_gguf_tokenizer

gguf = pytest.importorskip("gguf", reason="the extra gguf is not installed")

CONFIG = {
    **GROUPED, "hidden_size": 64, "head_dim": 16, "num_hidden_layers": 4, "rms_norm_eps": 1e-5,
    "sliding_window": None,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
}  # fmt: skip
GROUP = [(1, 2), (1, 3)]
OF_EACH = [(layer, head) for layer in range(4) for head in (0, 1)]
LAYERS = [(layer, head) for layer in (2, 3) for head in range(4)]


def pruned(cut, model_class=t.LlamaForCausalLM, **more):
    torch.manual_seed(0)
    model = drawn(model_class(model_class.config_class(**CONFIG | more)), std=0.15)
    return prune_heads(model, cut)


def adapted():
    """An adapter within the model, whose class is still that of transformers."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    model = pruned(GROUP)
    model.add_adapter(peft.LoraConfig(r=2, target_modules=["down_proj"]))
    return model


def llama_cpp_logits(path, ids):
    """Those of the last token, by llama.cpp with a cache in float32."""
    cpp = pytest.importorskip(
        "cyllama.llama.llama_cpp", reason="llama.cpp is not installed (cyllama, for Linux)"
    )
    model_class = type("Model", (cpp.LlamaModel,), {"n_vocab": 30})  # which it forgot to name
    sizes, place = cpp.LlamaContextParams(), cpp.LlamaModelParams()
    place.n_gpu_layers, sizes.n_ctx, sizes.n_batch = 0, 64, 64
    sizes.n_threads = sizes.n_threads_batch = 1
    sizes.type_k = sizes.type_v = sizes.flash_attn_type = 0
    context = cpp.LlamaContext(model_class(str(path), place, False), sizes)
    context.decode(cpp.llama_batch_get_one(ids))
    return torch.tensor(context.get_logits_ith(-1))


CASES = {
    "whole": ([], {}),
    "a group of each layer less": (OF_EACH, {}),
    "two layers without": (GROUP + LAYERS, {}),
    "llama 3": (GROUP, {"rope_parameters": LLAMA3}),
    "mistral": (GROUP, {"model_class": t.MistralForCausalLM, "tie_word_embeddings": True}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_llama_cpp_computes_the_same(name, tmp_path):
    cut, more = CASES[name]
    model, ids = pruned(cut, **more), [5, 9, 11, 20, 7, 8, 22, 4, 6, 13]
    written = export_gguf(model, tmp_path / "model.gguf")
    assert written.architecture == ("llama" if cut in ([], OF_EACH) else "deci")
    logits = logits_of(model, {"input_ids": torch.tensor([ids])})[0, -1]
    torch.testing.assert_close(llama_cpp_logits(written.path, ids), logits, rtol=0, atol=1e-4)


def test_the_file_holds_the_heads_of_each_layer_and_no_more(tmp_path):
    model = pruned(GROUP + LAYERS)
    reader = gguf.GGUFReader(export_gguf(model, tmp_path / "model.gguf").path)
    assert reader.get_field("deci.attention.head_count").contents() == [4, 2, 0, 0]
    assert reader.get_field("deci.attention.head_count_kv").contents() == [2, 1, 0, 0]
    shapes = {one.name: tuple(one.shape) for one in reader.tensors}
    assert shapes["blk.0.attn_q.weight"] == (64, 64)
    assert shapes["blk.1.attn_q.weight"] == (64, 32)
    assert not any(name.startswith(("blk.2.attn", "blk.3.attn")) for name in shapes)


def test_the_tokenizer_of_another_file_is_copied(tmp_path):
    base, out = tmp_path / "base.gguf", tmp_path / "out.gguf"
    writer = gguf.GGUFWriter(base, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([f"piece {i}" for i in range(30)])
    writer.add_token_types([1] * 30)
    writer.add_bos_token_id(3)
    for step in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{step}_to_file")()
    writer.close()
    written = export_gguf(pruned(GROUP), out, tokenizer_from=base)
    fields, copied = (gguf.GGUFReader(path).fields for path in (base, out))
    names = [name for name in copied if name.startswith("tokenizer.")]
    assert len(names) == 5 and not [n for n in fields if "tokenizer." in n and n not in names]
    assert all(copied[name].contents() == fields[name].contents() for name in names)
    assert written.tokenizer.endswith("base.gguf")


def scaled(kind, **more):
    return lambda: pruned([], rope_parameters={"rope_type": kind, "rope_theta": 1e4, **more})


SUBCLASS = type("LlamaForCausalLM", (t.LlamaForCausalLM,), {})
REFUSED = [
    (lambda: build("bert"), "BertForSequenceClassification has no architecture in llama.cpp"),
    (lambda: build("qwen3"), "Qwen3ForCausalLM has no architecture in llama.cpp"),
    (lambda: pruned([], attention_bias=True), r"'deci' has no model\.layers\.0\.self_attn"),
    (adapted, r"'deci' has no model\.layers\.0.*base_layer.*merge adapters first"),
    (lambda: pruned([], t.MistralForCausalLM, sliding_window=4), "no sliding window"),
    (scaled("dynamic", factor=2.0), "scaled by 'dynamic' cannot be written"),
    (lambda: pruned([(0, head) for head in range(4)]), "first layer has no heads left"),
    (lambda: pruned([], SUBCLASS), "LlamaForCausalLM, or its attention, runs code other than"),
]


@pytest.mark.parametrize(("model", "message"), REFUSED)
def test_what_the_architecture_does_not_describe_is_refused(model, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        export_gguf(model(), tmp_path / "model.gguf")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    model, path = pruned([]), tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    export_gguf(model, path)
    return model, path


def test_what_is_read_computes_what_was_written(written):
    model, path = written
    ids = torch.arange(4, 20).view(2, 8)
    found, batch = read_gguf(path), {"input_ids": ids, "labels": ids}
    made, logits = (logits_of(one, batch) for one in (found, model))
    torch.testing.assert_close(made, logits, rtol=1e-5, atol=1e-6)
    mine, theirs = (head_importance(one, [batch])["self"] for one in (found, model))
    torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)
    assert prune_heads(found, [(0, 0), (0, 1)]).num_parameters() < model.num_parameters()
    found.train()(input_ids=ids, labels=ids).loss.backward()
    assert found.lm_head.weight.grad is not None


def test_files_that_cannot_be_read_are_refused(written, tmp_path):
    _, path = written
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(path.read_bytes()[:200])
    for name in (damaged, tmp_path / "none.gguf"):
        with pytest.raises(ValueError, match=f"{name.name}: transformers cannot read this file"):
            read_gguf(name)
    with pytest.raises(FileNotFoundError, match="contains no tokenizer"):
        read_gguf_tokenizer(path)


def test_weights_that_would_be_made_up_or_dropped_are_refused(written, tmp_path, monkeypatch):
    model, _ = written
    add = gguf.GGUFWriter.add_tensor

    def lacking(writer, name, values):
        if name != "blk.1.attn_q.weight":
            add(writer, name, values)

    def more(writer, name, values):
        add(writer, name, values)
        if name == "blk.0.attn_q.weight":
            add(writer, "blk.0.attn_q.bias", values[:, 0].copy())

    for number, (adding, said) in enumerate(((lacking, "it lacks 1 "), (more, "1 biases among"))):
        with monkeypatch.context() as patch:
            patch.setattr(gguf.GGUFWriter, "add_tensor", adding)
            path = export_gguf(model, tmp_path / f"{number}.gguf").path
        with pytest.raises(ValueError, match=said):
            read_gguf(path)
    path = export_gguf(pruned([], rope_parameters=LLAMA3), tmp_path / "scaled.gguf").path
    with pytest.raises(ValueError, match="scaled rotary positions"):
        read_gguf(path)
