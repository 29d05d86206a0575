"""Converted models compute what fairseq computes, and reading one runs nothing."""

import argparse
import os

import pytest
import torch
from fairseqmodels import train_shape
from tiny import logits_of

from headprune_lib import import_fairseq

trains = pytest.mark.nightly  # fairseq trains what is converted


def opened(data, checkpoint):
    """fairseq's own models and task; the file is ours."""
    torch.serialization.add_safe_globals([argparse.Namespace])
    from fairseq import checkpoint_utils

    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], arg_overrides={"data": str(data)}
    )
    return [model.eval() for model in models], task


def dictionaries(data):
    return [data / "dict.xx.txt", data / "dict.yy.txt"]


def lines(text, name):
    return (text / name).read_text().splitlines()


@trains
def test_logits_are_fairseqs(trained, text):
    data, checkpoint = trained
    translator, (models, _) = import_fairseq(checkpoint, dictionaries(data)), opened(*trained)
    batch = translator.batch(lines(text, "test.xx")[:8], lines(text, "test.yy")[:8])
    with torch.no_grad():
        theirs = models[0](
            batch["input_ids"], batch["attention_mask"].sum(1), batch["decoder_input_ids"]
        )[0]
    real = batch["labels"] != -100
    assert not real.all()
    torch.testing.assert_close(
        logits_of(translator.model, batch)[real], theirs[real], rtol=0, atol=1e-5
    )


@trains
# pieces; what is made at the limit ends there, as theirs
@pytest.mark.parametrize("longest", [4, 200])
def test_translations_are_fairseqs(trained, text, longest):
    translator = import_fairseq(trained[1], dictionaries(trained[0]))
    models, task = opened(*trained)
    from fairseq.dataclass.configs import GenerationConfig

    generator = task.build_generator(models, GenerationConfig(beam=5, max_len_b=longest))
    theirs = []
    for line in lines(text, "test.xx"):
        ids = torch.tensor([translator.source.encode(line.split())])
        sample = {"src_tokens": ids, "src_lengths": torch.tensor([ids.shape[1]])}
        found = task.inference_step(generator, models, {"net_input": sample})
        theirs.append(task.target_dictionary.string(found[0][0]["tokens"]))
    assert translator.translate(lines(text, "test.xx"), beams=5, max_len_b=longest) == theirs
    assert len(set(theirs)) > 10
    assert longest > 4 or longest in [len(line.split()) for line in theirs]


@trains
def test_checkpoints_of_old_versions_are_the_same_model(trained, tmp_path, text):
    data, checkpoint = trained
    found = torch.load(checkpoint, weights_only=False)
    weights, old = found["model"], {}
    for name, tensor in weights.items():
        if ".k_proj." in name:
            parts = [weights[name.replace(".k_proj.", f".{part}_proj.")] for part in "qkv"]
            old[name.replace("k_proj.", "in_proj_")] = torch.cat(parts)
        elif not any(f".{part}_proj." in name for part in "qv"):
            for number, norm in enumerate(
                ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm")
            ):
                place = number if name.startswith("decoder") else min(number, 1)
                name = name.replace(f".{norm}.", f".layer_norms.{place}.")
            old[name] = tensor
    old["encoder.version"] = torch.tensor([3.0])
    torch.save({"args": found["cfg"]["model"], "model": old}, tmp_path / "old.pt")
    new, same = (
        import_fairseq(path, dictionaries(data)) for path in (checkpoint, tmp_path / "old.pt")
    )
    batch = new.batch(lines(text, "test.xx")[:4], lines(text, "test.yy")[:4])
    assert torch.equal(logits_of(new.model, batch), logits_of(same.model, batch))


class Malicious:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("place", ["args", "model", "extra"])
def test_nothing_in_a_malicious_checkpoint_runs(place, tmp_path):
    trace, path = tmp_path / "it ran".replace(" ", "-"), tmp_path / "checkpoint.pt"
    torch.save({"args": argparse.Namespace(), "model": {}, place: Malicious(trace)}, path)
    (tmp_path / "dict.txt").write_text("a 1\n")
    with pytest.raises(ValueError, match="nothing in it has been run"):
        import_fairseq(path, [tmp_path / "dict.txt"])
    assert not trace.exists()
    torch.load(path, weights_only=False)
    assert trace.exists()  # opened without care, it does


def test_files_that_are_no_checkpoints(tmp_path):
    path, words = tmp_path / "checkpoint.pt", tmp_path / "dict.txt"
    words.write_text("a 1\n")
    with pytest.raises(FileNotFoundError, match="checkpoint.pt does not exist"):
        import_fairseq(path, [words])
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="is not read|damaged"):
        import_fairseq(path, [words])
    for content, message in (
        ({"model": {}}, "neither 'args' nor"),
        ([1, 2], "not a fairseq check"),
    ):
        torch.save(content, path)
        with pytest.raises(ValueError, match=message):
            import_fairseq(path, [words])
    with pytest.raises(FileNotFoundError, match="the file .*other.txt does not exist"):
        import_fairseq(path, [tmp_path / "other.txt"])


@trains
def test_what_has_no_counterpart_or_is_of_another_training_is_refused(
    prepared, tmp_path_factory, tmp_path
):
    data, checkpoint = train_shape("pre-norm on one side", prepared, tmp_path_factory)
    with pytest.raises(ValueError, match="before the blocks of one side only"):
        import_fairseq(checkpoint, dictionaries(data))
    data, checkpoint = train_shape("joined", prepared, tmp_path_factory)
    words = tmp_path / "dict.txt"
    words.write_text("a 1\nb 1\n")
    with pytest.raises(ValueError, match=r"has 6 entries.*embeddings have \d+. Give the"):
        import_fairseq(checkpoint, [words, data / "dict.yy.txt"])
    words.write_text("a 1\nb\n")
    with pytest.raises(ValueError, match="line 2: 'b' is not a piece and its count"):
        import_fairseq(checkpoint, [words])
