"""The graph has the sizes that are left, and computes what the model does at any batch and length."""

import pytest
import torch
from tiny import batch, batch_for, build, logits_of

from headprune_lib import export_onnx, find_heads, prune_heads
from headprune_lib.export import onnx as onnx_graph

pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")


def pruned(name):
    """One head, or group, less in the first layer of each kind, and all gone from the second."""
    model = build(name, "sdpa", dtype=torch.float32)
    gone = []
    for block in find_heads(model):
        n = {0: block.queries_per_kv, 1: 4}.get(block.layer, 0)
        gone += [(block.kind, block.layer, head) for head in range(n)]
    return prune_heads(model, gone)


def fed(session, inputs):
    feed = {one.name: inputs[one.name].numpy() for one in session.get_inputs()}
    return torch.from_numpy(session.run(None, feed)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "t5"])  # BERT goes the whole way in the command's test
def test_logits_are_equal_at_several_sizes_and_the_file_holds_what_is_left(name, tmp_path):
    model = pruned(name)
    written = export_onnx(model, tmp_path / "out")
    assert written.difference < 1e-4
    path = written.folder / "model.onnx"
    session = onnxruntime.InferenceSession(str(path))
    for n, length in ((1, 4), (2, 9), (5, 16)):
        inputs = batch(n, length, labels=False)
        if name == "t5":
            inputs["decoder_input_ids"] = batch_for("t5", n)["decoder_input_ids"]
        logits = logits_of(model, inputs)
        torch.testing.assert_close(fed(session, inputs), logits, rtol=0, atol=1e-4)
    weights = [one.dims for one in onnx.load(path).graph.initializer if one.data_type == 1]  # float
    numbers = sum(torch.Size(dims).numel() for dims in weights)
    # tensors that are alike, such as the weights of norms before training, may be there once
    alike = {(one.shape, one.detach().numpy().tobytes()): one for one in model.parameters()}
    left = sum(weight.numel() for weight in alike.values())
    full = sum(weight.numel() for weight in build(name).parameters())
    assert left <= numbers < (left + full) / 2  # T5's tied table is there twice


@pytest.mark.slow
def test_a_graph_that_computes_something_else_is_not_written(tmp_path, monkeypatch):
    own = onnx_graph.difference
    monkeypatch.setattr(
        onnx_graph, "difference", lambda a, b, *rest: own([x + 1 for x in a], b, *rest)
    )
    with pytest.raises(ValueError, match="differs from the model by"):
        export_onnx(pruned("bert"), tmp_path / "out")
    assert not list(tmp_path.iterdir())
