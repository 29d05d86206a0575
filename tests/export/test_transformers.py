"""What is exported opens without this library, and computes what the pruned model does."""

import copy
import json

import pytest
import tiny
import torch
import transformers as t
from census.tiny import tiny_config
from processes import python
from tiny import batch_for, build, inputs_of, logits_of, same_weights, scores_of

import headprune_lib as hp

UNGROUPED = {**tiny.GROUPED, "num_key_value_heads": 4}
CAUSAL = "AutoModelForCausalLM"


def uniform(model, amount):
    return hp.prune_heads(model, hp.uniform_mask(model, scores_of(model), amount))


def drawn(model_class, **more):
    """Three of four heads left, in a class that takes them or not."""
    torch.manual_seed(0)
    config = model_class.config_class(**{**UNGROUPED, "pad_token_id": 1, **more})
    return uniform(model_class(config).eval(), 0.25)


def step():
    """A group of heads gone from one layer of the text, none from the next."""
    config = tiny_config("step3p7")
    config.text_config.sliding_window = 8
    torch.manual_seed(0)
    model = t.AutoModelForImageTextToText.from_config(config).eval()
    gone = next(block for block in hp.find_heads(model) if block.kind == "text")
    return hp.prune_heads(model, [("text", 0, head) for head in range(gone.queries_per_kv)])


# what opens it, how it is said, under which class; and the model
ROUTES = {
    "vit": ("AutoModelForImageClassification", "uniform, head_dim", "ViTForImageClassification",
            lambda: uniform(build("vit", dtype=torch.float32), 0.25)),
    "t5": ("AutoModelForSeq2SeqLM", "uniform", "T5ForConditionalGeneration",
           lambda: uniform(build("t5", dtype=torch.float32), 0.25)),
    "llama-half": (CAUSAL, "uniform", "LlamaForCausalLM",
                   lambda: uniform(build("llama", dtype=torch.float32), 0.5)),
    "llama": (CAUSAL, "as MistralForCausalLM", "MistralForCausalLM",
              lambda: drawn(t.LlamaForCausalLM)),
    "llama-biases": (CAUSAL, "as SeedOssForCausalLM", "SeedOssForCausalLM",
                     lambda: drawn(t.LlamaForCausalLM, attention_bias=True, mlp_bias=True)),
    "mistral": (CAUSAL, "uniform", "MistralForCausalLM", lambda: drawn(t.MistralForCausalLM)),

    "bert": ("AutoModelForSequenceClassification", "full size", "BertForSequenceClassification",
             lambda: left("bert", (0, 1), *[(2, head) for head in range(4)])),
    "step3p7": ("AutoModelForImageTextToText", "per layer", "Step3p7ForConditionalGeneration", step),
}  # fmt: skip

# run by a process that cannot import the library
ELSEWHERE = """
import json, sys
sys.modules["headprune_lib"] = None
import torch, transformers
made = {}
for name, (auto, folder) in json.load(open(sys.argv[1])).items():
    model = getattr(transformers, auto).from_pretrained(folder).eval()
    assert str(model.device) == "cpu"
    inputs = torch.load(f"{folder}/../inputs.pt")
    with torch.no_grad():
        made[name] = {"class": type(model).__name__, "logits": model(**inputs).logits}
        if model.can_generate():
            asked = {k: v for k, v in inputs.items() if k != "decoder_input_ids"}
            made[name]["tokens"] = model.generate(**asked, max_new_tokens=6, do_sample=False)
torch.save(made, sys.argv[2])
"""


def inputs_for(name):
    kind = name if name in ("vit", "t5", "bert") else "llama"
    return inputs_of(batch_for(kind), torch.float32)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Each model, what was written of it, and what another process made of that."""
    base = tmp_path_factory.mktemp("elsewhere")
    found, asked = {}, {}
    for name, (auto, route, _, make) in ROUTES.items():
        (base / name).mkdir()
        model, inputs = make(), inputs_for(name)
        before, config = copy.deepcopy(model.state_dict()), model.config.to_dict()
        written = hp.export_transformers(model, base / name / "out", full_size=route == "full size")
        assert same_weights(model, before) and model.config.to_dict() == config
        torch.save(inputs, base / name / "inputs.pt")
        found[name], asked[name] = (model, inputs, written), (auto, str(written.folder))
    (base / "asked.json").write_text(json.dumps(asked))
    python(ELSEWHERE, base / "asked.json", base / "made.pt", HF_HUB_OFFLINE="1")
    return found, torch.load(base / "made.pt")


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUTES)
def test_plain_transformers_computes_the_same(name, opened):
    found, made = opened
    model, inputs, written = found[name]
    _, route, model_class, _ = ROUTES[name]
    assert (written.route, written.model_class) == (route, model_class)
    assert made[name]["class"] == model_class
    logits = logits_of(model, inputs)
    scale = max(1.0, float(logits.abs().max()))  # of rounding
    torch.testing.assert_close(made[name]["logits"], logits, rtol=0, atol=1e-5 * scale)
    if "tokens" in made[name]:
        asked = {k: v for k, v in inputs.items() if k != "decoder_input_ids"}
        tokens = model.generate(**asked, max_new_tokens=6, do_sample=False)
        assert torch.equal(made[name]["tokens"], tokens)


class Own(t.MistralForCausalLM):
    pass


def left(name, *cut):
    return hp.prune_heads(build(name, dtype=torch.float32), cut)


def without_weights():
    with torch.device("meta"):
        return t.MistralForCausalLM(t.MistralConfig(**UNGROUPED))


SHARED = [(kind, i, i) for kind in ("enc-enc", "enc-dec", "dec-dec") for i in (0, 1)]
REFUSED = [
    (lambda: left("mistral", (0, 0), (0, 1)), r"have 2 to 4 heads left.*Prune with --uniform"),
    (lambda: left("mistral", *[(2, h) for h in range(4)]), r"0 to 4 .*at least one. Prune with"),
    # which Mistral's configuration says for it
    (lambda: left("llama", (2, 0), (2, 1)), r"have 2 to 4 heads left.*Prune with --uniform"),
    (lambda: left("bert", (2, 0), (2, 1)), r"2 to 4 heads.*no fewer of.*does not help. Use"),
    (lambda: left("t5", *SHARED), r"share one table of position biases.*--uniform"),
    (lambda: drawn(Own), r"Own is not a class of transformers.*Merge adapters"),
    (without_weights, "are not in memory"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_no_configuration_describes_is_refused(make, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        hp.export_transformers(make(), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_what_would_compute_something_else_is_not_written(tmp_path, monkeypatch):
    read = t.MistralForCausalLM.from_pretrained

    def broken(*given, **options):
        loaded = read(*given, **options)
        loaded.model.layers[0].self_attn.o_proj.weight.data.mul_(2)
        return loaded

    monkeypatch.setattr(t.MistralForCausalLM, "from_pretrained", broken)
    with pytest.raises(ValueError, match="differs from the model by"):
        hp.export_transformers(drawn(t.MistralForCausalLM), tmp_path / "out")
    assert not list(tmp_path.iterdir())
    (tmp_path / "note").touch()
    with pytest.raises(FileExistsError):
        hp.export_transformers(drawn(t.MistralForCausalLM), tmp_path)
