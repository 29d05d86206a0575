"""What is written can be loaded, or is not written; what was damaged is not loaded."""

import copy
import io
import json
import pickle

import pytest
import torch
import transformers as t
from tiny import batch, build

from headprune_lib import find_heads, full_mask, load_pruned, prune_heads, save_pruned, saving


def pruned(name="bert"):
    """Without two heads of the first layer, one of the second, and all of the last."""
    model = build(name, dtype=torch.float32)
    mask = full_mask(model)
    mask["self"][0, :2] = mask["self"][1, 3] = mask["self"][2] = 0
    return prune_heads(model, mask)


def logits(model):
    with torch.no_grad():
        return model(**batch(labels=False)).logits


@pytest.fixture
def folder(tmp_path):
    return save_pruned(pruned(), tmp_path / "model")


def test_a_model_with_an_empty_layer_is_copied_pickled_and_saved_whole():
    model, file = pruned(), io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(file, weights_only=False),
    ):
        torch.testing.assert_close(logits(other), logits(model), rtol=0, atol=0)
        assert other.save_pretrained.args == (other,)  # not the one that it is a copy of


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_what_save_pretrained_writes_of_a_pruned_model_is_loaded(name, tmp_path):
    model = pruned(name)
    model.save_pretrained(tmp_path / "one")
    loaded = load_pruned(tmp_path / "one")
    torch.testing.assert_close(logits(loaded), logits(model), rtol=0, atol=1e-5)  # another kernel
    loaded.save_pretrained(tmp_path / "two")
    torch.testing.assert_close(logits(load_pruned(tmp_path / "two")), logits(loaded))


@pytest.mark.slow
def test_what_trainer_writes_of_a_pruned_model_is_loaded(tmp_path):
    model, rows = pruned(), batch(4)
    trainer = t.Trainer(
        model,
        t.TrainingArguments(tmp_path, max_steps=1, save_steps=1, use_cpu=True, report_to=[]),
        train_dataset=[{name: value[i] for name, value in rows.items()} for i in range(4)],
    )
    trainer.train()
    loaded = load_pruned(tmp_path / "checkpoint-1")
    torch.testing.assert_close(logits(loaded), logits(model.eval()))


class Own(t.BertForSequenceClassification):
    pass


class NotOfItsConfiguration(t.BertForSequenceClassification):
    def __init__(self, config, more):
        super().__init__(config)
        self.more = more


def test_a_class_of_ones_own_is_loaded_where_it_is_given(tmp_path):
    model = Own(pruned().config).eval()
    mask = full_mask(model)
    mask["self"][0, 1] = mask["self"][2] = 0
    folder = save_pruned(prune_heads(model, mask), tmp_path / "model")
    with pytest.raises(ValueError, match=r"test_saving\.Own', which transformers.*model_class=…"):
        load_pruned(folder)
    loaded = load_pruned(folder, model_class=Own)
    assert type(loaded) is Own
    torch.testing.assert_close(logits(loaded), logits(model), rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="do not fit"):
        load_pruned(folder, model_class=t.BertModel)
    with pytest.raises(ValueError, match="model_class is <class 'dict'>; give a class"):
        load_pruned(folder, model_class=dict)


def test_weights_in_several_files_are_refused_when_they_are_written(tmp_path):
    with pytest.raises(ValueError, match="several files.*larger max_shard_size"):
        pruned().save_pretrained(tmp_path, max_shard_size="10KB")


def _adapter(model):
    query = model.bert.encoder.layer[1].attention.self.query
    query.lora_A = torch.nn.Linear(16, 2, bias=False)
    return model


def _other_head(model):
    model.classifier = torch.nn.Linear(16, 7)
    return model


def _wrapper(model):
    wrapped = torch.nn.Module()
    wrapped.model, wrapped.peft_config, wrapped.config = model, {}, model.config
    return wrapped


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: NotOfItsConfiguration(model.config, 1), "not made of its configuration"),
        (_wrapper, r"merge the adapter first, model = model\.merge_and_unload"),
        (_adapter, r"changed beside its heads.*query\.lora_A\.weight.*Merge adapters"),
        (_other_head, r"changed beside its heads.*classifier\.bias', 'classifier\.weight"),
    ],
)
def test_what_could_not_be_loaded_is_not_written(change, message, tmp_path):
    model = change(build(dtype=torch.float32))
    with pytest.raises(ValueError, match=message):
        save_pruned(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_compiled_model_is_saved_as_what_it_is(tmp_path):
    model = pruned()
    save_pruned(torch.compile(model, backend="eager"), tmp_path / "model")
    torch.testing.assert_close(logits(load_pruned(tmp_path / "model")), logits(model))


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("fails", ["save_model", "write_record"])
def test_a_full_disk_leaves_nothing_behind(there, fails, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    if there:
        folder.mkdir()

    def full(*given, **named):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(saving, fails, full)
        with pytest.raises(OSError, match="No space left"):
            save_pruned(pruned(), folder)
    assert list(tmp_path.iterdir()) == ([folder] if there else [])
    assert not there or not list(folder.iterdir())
    assert len(find_heads(load_pruned(save_pruned(pruned(), folder)))) == 3
    assert list(tmp_path.iterdir()) == [folder]


def test_a_byte_of_the_weights_that_flipped(folder):
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged, or not the file"):
        load_pruned(folder)


def test_weights_of_another_pruned_model(folder, tmp_path):
    other = pruned()
    torch.nn.init.zeros_(other.classifier.bias)
    other = save_pruned(other, tmp_path / "other")
    (other / "model.safetensors").rename(folder / "model.safetensors")
    with pytest.raises(ValueError, match="its checksum is another one"):
        load_pruned(folder)


def edited(folder, change, signed=True):
    """Write the record after a change; unsigned as an older version would have."""
    path = folder / "headprune.json"
    record = json.loads(path.read_text())
    if not signed:
        record = {name: record[name] for name in ("model_class", "kept")}
    path.write_text(json.dumps(change(record) or record))


def _swapped(record):
    first, second = sorted(record["kept"])[:2]
    kept = record["kept"]
    kept[first], kept[second] = kept[second], kept[first]


def _one_head_more(record):
    record["kept"][min(record["kept"])] = [0, 1, 9]


def _less(record):
    record["kept"].pop(min(record["kept"]))


@pytest.mark.parametrize("change", [_swapped, _one_head_more, _less])
def test_a_record_that_was_changed(folder, change):
    edited(folder, change)
    with pytest.raises(ValueError, match=r"headprune\.json was changed after it was written"):
        load_pruned(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: {"kept": {}}, r"headprune\.json is damaged \(KeyError: 'model_class'\)"),
        (lambda record: {"model_class": "BertModel"}, r"headprune\.json is damaged"),
        (lambda record: [1], r"headprune\.json is damaged"),
        (lambda record: record | {"kept": [1]}, r"headprune\.json is damaged"),
        (lambda record: record | {"kept": {"a": ["0"]}}, "kept lists of numbers"),
        (lambda record: record | {"model_class": "pipeline"}, "names the class 'pipeline', which"),
        (lambda record: record | {"model_class": "BertConfig"}, "names the class 'BertConfig'"),
        (lambda record: record | {"model_class": "NoSuch"}, "names the class 'NoSuch'"),
        (lambda record: record | {"model_class": "BartModel"}, "do not fit"),
        (_one_head_more, r"\[0, 1, 9\] are no heads of bert\.encoder\.layer\.0"),
        (_less, "the model has others"),
    ],
)
def test_a_record_without_checksums_that_cannot_be(folder, change, message):
    edited(folder, change, signed=False)
    with pytest.raises(ValueError, match=message):
        load_pruned(folder)


def test_a_record_without_checksums_is_loaded(folder):
    edited(folder, lambda record: None, signed=False)
    torch.testing.assert_close(logits(load_pruned(folder)), logits(pruned()))


@pytest.mark.parametrize("text", ["", "{", '{"hidden_size": "many"}', '{"hidden_size": -1}'])
def test_a_configuration_that_cannot_be(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises((ValueError, OSError), match=str(folder)):
        load_pruned(folder)
