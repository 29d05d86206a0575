"""A model that is saved can be loaded, or is not saved; removed heads can be put back."""

import copy
import json
import pickle
from pathlib import Path

import hub
import pytest
import tiny
import torch
import transformers as t
from census import tiny as census
from processes import python
from safetensors.torch import load_file, save_file
from tiny import batch, batch_for, build, logits_of, same_weights, scores_of, some_mask, unchanged

import headprune_lib as hp

slow = pytest.mark.slow


def pruned(name="bert"):
    """A model in float32 without some heads of each layer, and all of the last of each kind."""
    model = build(name, dtype=torch.float32)
    return hp.prune_heads(model, some_mask(model, empty_layer=2))


def kept(model):
    return {block.path: block.kept_heads for block in hp.find_heads(model)}


def same(loaded, model, name="bert"):
    assert kept(loaded) == kept(model)
    assert type(loaded) is type(model)
    found, expected = (logits_of(each, batch_for(name)) for each in (loaded, model))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)  # another kernel may be used


@pytest.fixture
def folder(tmp_path):
    return hp.save_pruned(pruned(), tmp_path / "model")


def _in_parts(model, folder):
    model.save_pretrained(folder, max_shard_size="10KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1


WRITTEN = {
    "save_pruned": (hp.save_pruned, {}),
    "save_pretrained": (lambda model, folder: model.save_pretrained(folder), {}),
    "in parts": (_in_parts, {}),
    "a variant": (lambda m, folder: m.save_pretrained(folder, variant="fp16"), {"variant": "fp16"}),
    "a copy": (lambda model, folder: copy.deepcopy(model).save_pretrained(folder), {}),
    "a pickle": (lambda m, folder: pickle.loads(pickle.dumps(m)).save_pretrained(folder), {}),
    "compiled": (lambda m, folder: hp.save_pruned(torch.compile(m, backend="eager"), folder), {}),
}


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *(pytest.param("bert", way, marks=slow if way == "compiled" else []) for way in WRITTEN),
        *((name, "save_pretrained") for name in ("gpt2", "t5", "bart", "qwen3")),
    ],
)
def test_what_is_gone_is_written_wherever_weights_are(name, way, tmp_path):
    (write, options), model = WRITTEN[way], pruned(name)
    write(model, tmp_path / "one")
    loaded = hp.load_pruned(tmp_path / "one", **options)
    same(loaded, model, name)
    loaded.save_pretrained(tmp_path / "two")
    same(hp.load_pruned(tmp_path / "two"), loaded, name)


@slow
def test_a_model_in_the_pruned_one_and_a_model_around_it(tmp_path):
    model, ids = pruned(), batch(labels=False)
    model.bert.save_pretrained(tmp_path / "inner")
    inner = hp.load_pruned(tmp_path / "inner")
    assert type(inner) is t.BertModel and len(kept(inner)) == len(kept(model))
    with torch.no_grad():
        expected = model.bert(**ids).last_hidden_state
        torch.testing.assert_close(inner(**ids).last_hidden_state, expected, rtol=0, atol=1e-5)
    around = t.BertForSequenceClassification(t.BertConfig(**tiny.SHAPE, **tiny.WIDE)).eval()
    around.bert = inner
    around.save_pretrained(tmp_path / "around")
    same(hp.load_pruned(tmp_path / "around"), around)


def test_options_go_to_transformers_and_half_precision_is_kept(folder):
    options = {"dtype": torch.bfloat16, "attn_implementation": "eager", "device_map": {"": "cpu"}}
    loaded = hp.load_pruned(folder, **options)
    assert loaded.config._attn_implementation == "eager" and not loaded.training
    changed = hp.load_pruned(folder, output_attentions=True, problem_type="regression").config
    assert changed.output_attentions and changed.problem_type == "regression"
    with pytest.raises(ValueError, match="Give single values of it by name"):
        hp.load_pruned(folder, config=changed)
    again, inputs = hp.load_pruned(hp.save_pruned(loaded, folder / "half")), batch_for("bert")
    for model in (loaded, again):
        assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
        found, expected = logits_of(model, inputs).float(), logits_of(pruned(), inputs)
        torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)


@slow
def test_a_revision_on_the_hub(tmp_path):
    hp.save_pruned(pruned(), tmp_path / "served" / "models" / "someone" / "smaller")
    code = (
        "from headprune_lib import find_heads, load_pruned\n"
        f"model = load_pruned('someone/smaller', revision={hub.COMMIT!r})\n"
        "print([len(block.kept_heads) for block in find_heads(model)])\n"
        "try: load_pruned('someone/other')\n"
        "except FileNotFoundError as error: print(error)"
    )
    with hub.serving(tmp_path / "served") as server:
        where = {"HF_ENDPOINT": server.address, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
        said = python(code, **where).stdout.splitlines()
    assert said[0] == str([len(heads) for heads in kept(pruned()).values()])
    assert "someone/other is not a local folder, and the Hub does not have it" in said[1]
    assert any(hub.COMMIT in asked for asked in server.asked)


@slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells the peak there")
@pytest.mark.parametrize(("stored", "dtype"), [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_weights_are_in_memory_once(tmp_path, stored, dtype):
    """With 40 million weights, measured as the peak memory of a separate process."""
    config = t.BertConfig(
        vocab_size=1000, hidden_size=1024, num_attention_heads=16, num_hidden_layers=4
    )
    model = t.BertModel(config).to(getattr(torch, stored))
    model = hp.prune_heads(model, {0: [0, 1, 2], 3: range(16)})
    file = hp.save_pruned(model, tmp_path / "model") / "model.safetensors"
    hp.save_pruned(pruned(), tmp_path / "small")
    code = f"""
import torch
from headprune_lib import load_pruned
def largest():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
load_pruned({str(tmp_path / "small")!r}, dtype=torch.{dtype})  # imports what loading takes
before = largest()
model = load_pruned({str(tmp_path / "model")!r}, dtype=torch.{dtype})
sum(weight.sum() for weight in model.parameters())  # read them all: they are mapped from the file
print(largest() - before, sum(weight.nbytes for weight in model.parameters()))
"""
    taken, loaded = map(int, python(code).stdout.splitlines()[-1].split())
    room = max(loaded, 0.6 * file.stat().st_size)  # two threads convert two tensors at a time
    assert 0.9 * loaded < taken < 1.2 * room


def test_plain_transformers_refuses_and_names_what_loads_it(folder, caplog):
    t.utils.logging.enable_propagation()
    try:
        with pytest.raises(RuntimeError, match="For details look at the above report"):
            t.AutoModelForSequenceClassification.from_pretrained(folder)
    finally:
        t.utils.logging.disable_propagation()
    assert "headprune_lib_load_pruned" in caplog.text
    assert "load_pruned(folder)" in (folder / "README.md").read_text()


class Own(t.BertForSequenceClassification):
    pass


def test_a_class_of_ones_own_is_loaded_where_it_is_given(tmp_path):
    model = hp.prune_heads(Own(pruned().config).eval(), [(0, 1)])
    folder = hp.save_pruned(model, tmp_path / "model")
    same(hp.load_pruned(folder, model_class=Own), model)
    for given, message in (
        (None, r"names \['Own'\] instead of a class of transformers.*model_class=…"),
        (t.BertModel, "do not fit BertModel, which lacks 2 .*classifier"),
        (t.DistilBertModel, r"bert\..* lost heads, but DistilBertModel has no such mod"),
        (dict, "model_class is <class 'dict'>. Give a class"),
    ):
        with pytest.raises(ValueError, match=message):
            hp.load_pruned(folder, model_class=given)


def rewritten(folder, change):
    """Change a folder's weights: ``change`` gets them, and the name of the first record."""
    file = folder / "model.safetensors"
    weights = load_file(file)
    change(weights, min(name for name in weights if name.endswith("headprune_lib_load_pruned")))
    save_file(weights, file, metadata={"format": "pt"})
    return folder


def recorded(old, new):
    """A change that replaces text in the first record."""

    def change(weights, record):
        text = bytes(weights[record].tolist()).replace(old, new)
        weights[record] = torch.tensor(list(text), dtype=torch.uint8)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            recorded(b"{", b"["),
            r"model\.safetensors is damaged \(its record is not what the library writes",
        ),
        (recorded(b"[1, 2]", b"[2, 9]"), r"\[2, 9\] are not heads of bert\.encoder\.layer\.0"),
        (recorded(b"[1, 2]", b"[0, 1, 2]"), r"tensors of the weights do not fit.*attention"),
        (lambda weights, record: weights.pop(record), r"weights do not fit.*layer\.0\.attention"),
        (
            lambda weights, _record: weights.update({"classifier.more": torch.zeros(2)}),
            r"lacks 1 of their tensors, such as classifier\.more",
        ),
    ],
)
def test_weights_that_do_not_belong_together(folder, change, message):
    with pytest.raises(ValueError, match=message):
        hp.load_pruned(rewritten(folder, change))


def as_before(model, folder):
    """Save as version 0.1 of the library did, with the record next to the weights."""

    def without_records(weights, _record):
        for name in [name for name in weights if name.endswith("load_pruned")]:
            del weights[name]

    rewritten(hp.save_pruned(model, folder), without_records)
    record = {"model_class": type(model).__name__, "kept": kept(model)}
    (folder / "headprune.json").write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_an_older_folder_is_loaded_unless_its_record_cannot_be(name, tmp_path):
    model = pruned(name)
    loaded = hp.load_pruned(as_before(model, tmp_path / "old"))
    same(loaded, model, name)
    loaded.save_pretrained(tmp_path / "new")
    same(hp.load_pruned(tmp_path / "new"), model, name)
    path = tmp_path / "old" / "headprune.json"
    for change, message in (
        ({"kept": {}}, "model has others"),
        ({"model_class": None}, r"names \[None\]"),
    ):
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | change))
        with pytest.raises(ValueError, match=message):
            hp.load_pruned(path.parent)
        path.write_text(json.dumps(record))


FORMER = """{"architecture": {"group": "num_key_value_groups", "key": "k_proj", "kv_heads":
 "config.num_key_value_heads", "n_heads": "config.num_attention_heads", "output": "o_proj",
 "query": "q_proj", "value": "v_proj"}, "found": {"by_example": true, "how": "found",
 "keeps_groups": "", "keeps_one": "", "kind": "self", "masks_only": "", "whole_groups": ""},
 "kept": [2, 3]}"""


def test_a_record_with_former_names_is_read(tmp_path):
    model = hp.prune_heads(t.Qwen2ForCausalLM(t.Qwen2Config(**tiny.GROUPED)), [(0, 0), (0, 1)])
    text = torch.tensor(list(FORMER.encode()), dtype=torch.uint8)
    folder = rewritten(
        hp.save_pruned(model, tmp_path / "model"), lambda w, record: w.update({record: text})
    )
    assert hp.find_heads(hp.load_pruned(folder)) == hp.find_heads(model)


def cut(model, seed, per_group=False):
    """Remove some heads of every kind at random, and all of one layer unless ``per_group``."""
    mask = hp.prune_mask(model, scores_of(model, seed), 0.4, per_group=per_group)
    if not per_group:
        next(iter(mask.values()))[-1] = 0
    return hp.prune_heads(model, mask)


def llama(dtype):
    return t.LlamaForCausalLM(t.LlamaConfig(**tiny.GROUPED)).to(dtype)


UNPRUNED = {
    **{name: lambda name=name: build(name) for name in tiny.BUILDERS},
    "by group": lambda: llama(torch.float64),
    # positions are in the precision that the model has
    "by group, half": lambda: llama(torch.bfloat16),
    # classes found by their structure
    "ernie": lambda: t.ErnieForSequenceClassification(
        t.ErnieConfig(**tiny.SHAPE, **tiny.WIDE)
    ).double(),
    "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**tiny.GROUPED)).double(),
    # its positions' convolution has weights that are computed from others
    "wav2vec2": lambda: t.Wav2Vec2ForCTC(census.tiny_config("wav2vec2")).double(),
}
FAST = {"bert", "deberta-v2", "albert", "t5", "gpt2", "gpt-neox", "llama"}
FAST |= UNPRUNED.keys() - tiny.BUILDERS
SOUND = {"input_values": torch.randn(2, 4000, generator=torch.Generator().manual_seed(0))}


@pytest.mark.parametrize("name", tiny.in_tiers(UNPRUNED, FAST))
def test_zeros_or_the_originals_heads_take_the_place_of_what_was_removed(name, drawn_seed):
    torch.manual_seed(0)
    original = UNPRUNED[name]().eval()
    pruned = cut(copy.deepcopy(original), drawn_seed, per_group="by group" in name)
    whole, inputs = hp.unprune_heads(pruned), SOUND if name == "wav2vec2" else batch_for(name)
    expected, found = (logits_of(each, inputs) for each in (pruned, whole))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert hp.find_heads(whole) == hp.find_heads(original)  # though some of its weights are zeros
    with unchanged(pruned):
        assert same_weights(hp.unprune_heads(pruned, original), original.state_dict())


def test_what_the_others_learned_meanwhile_stays():
    original = build("bert")
    pruned = hp.prune_heads(copy.deepcopy(original), [(1, 2)])
    with torch.no_grad():
        for parameter in pruned.parameters():
            parameter += 1
    query, before = (
        each.bert.encoder.layer[1].attention.self.query.weight
        for each in (hp.unprune_heads(pruned, original), original)
    )
    removed = torch.arange(16) // 4 == 2
    assert torch.equal(query[removed], before[removed])
    assert torch.equal(query[~removed], before[~removed] + 1)


def test_what_a_caller_has_is_left_as_it_was():
    pruned = cut(build("bert"), 0).train()
    pruned.bert.embeddings.requires_grad_(False)
    state = torch.get_rng_state()
    with unchanged(pruned):
        whole = hp.unprune_heads(pruned)
    assert torch.equal(torch.get_rng_state(), state) and whole.training
    assert not whole.bert.embeddings.word_embeddings.weight.requires_grad
    assert whole.classifier.weight.requires_grad
    with torch.no_grad():  # nothing is shared
        whole.classifier.weight += 1
    assert not torch.equal(whole.classifier.weight, pruned.classifier.weight)
    model = build("bert")
    copied = hp.unprune_heads(model)
    assert copied is not model and same_weights(copied, model.state_dict())
