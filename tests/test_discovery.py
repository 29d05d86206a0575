"""Attention that no list names is found by its structure, and believed once it is proved."""

import copy
import warnings

import pytest
import torch
import transformers as t
from tiny import GROUPED, SHAPE, TWO_SIDED, WIDE, batch, build
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from headprune_lib import (
    cut_heads,
    find_heads,
    full_mask,
    head_importance,
    masked_heads,
    prune_heads,
    prune_mask,
    register_attention,
    trying_removal,
)
from headprune_lib.architectures import UnknownArchitecture
from headprune_lib.cli.tables import left_out
from headprune_lib.discovery import discovered
from headprune_lib.heads import head_grid

TOWER = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
IMAGES = {"image_size": 8, "patch_size": 4, "intermediate_size": 24}


class Attention(nn.Module):
    """Named like no class of transformers; what it does with its heads is to be found out."""

    def __init__(self, fault=""):
        super().__init__()
        self.n_heads, self.head_size, self.fault = 4, 2, fault
        self.wq, self.wk, self.wv, self.wo = (
            nn.Linear(8, 8),
            nn.Linear(8, 8),
            nn.Linear(8, 8),
            nn.Linear(8, 6 if fault == "narrow" else 8),
        )

    def forward(self, x, bias=None):
        query, key, value = (
            part(x).unflatten(-1, (-1, self.head_size)).transpose(1, 2)
            for part in (self.wq, self.wk, self.wv)
        )
        made = scaled_dot_product_attention(query, key, value, bias)
        if self.fault == "mixing":
            made = made + made.flip(1)
        if self.fault == "fixed":
            made = made.transpose(1, 2).reshape(*x.shape[:-1], 8)
        else:
            made = made.transpose(1, 2).flatten(-2)
        if self.fault == "random":
            made = made + torch.randn_like(made)
        if self.fault == "places":
            return self.wo(made), x.sum(-1).argsort(-1)
        return self.wo(made)


class Model(nn.Module):
    def __init__(self, *faults):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.layers = nn.ModuleList([Attention(fault) for fault in faults])

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        for layer in self.layers:
            made = layer(x)
            x = x + (made[0] if isinstance(made, tuple) else made)
        return x


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def test_a_class_that_nobody_registered_is_found_masked_and_removed():
    model, inputs = Model("", ""), torch.randint(0, 20, (3, 5))
    blocks = find_heads(model)
    assert [(b.how, b.kind, b.n_heads, b.width) for b in blocks] == [("found", "self", 4, 2)] * 2
    mask = cut_heads(model, [("self", 0, 1), ("self", 1, 3)])
    mask["self"][1] = 0
    with masked_heads(model, mask), torch.no_grad():
        masked = model(inputs)
    pruned = prune_heads(copy.deepcopy(model), mask)
    torch.testing.assert_close(pruned(inputs), masked)
    assert [(b.kept, b.how) for b in find_heads(pruned)] == [((0, 2, 3), "found"), ((), "found")]


class Biased(Model):
    """Alike modules: the first is given a mask of one key for all heads, the second a bias a head."""

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        length = x.shape[1]
        masked = torch.zeros(len(x), 1, length, length).index_fill(-1, torch.tensor([1]), -9.0)
        biases = torch.arange(4.0)[None, :, None, None] * torch.eye(length)
        for layer, bias in zip(self.layers, (masked, biases), strict=True):
            x = x + layer(x, bias=bias)
        return x


def test_of_modules_that_are_alike_one_may_be_given_a_bias_a_head():
    # as the attention of SAM 3's decoder to the image is, and that to the text is not
    model, inputs = Biased("", ""), torch.randint(0, 20, (3, 5))
    blocks = find_heads(model)
    assert [b.architecture.bias_argument for b in blocks] == [None, "bias"]
    for gone in ([("self", 0, 1), ("self", 1, 3)], [("self", 1, head) for head in range(4)]):
        mask = cut_heads(model, gone)
        with masked_heads(model, mask), torch.no_grad():
            masked = model(inputs)
        pruned = prune_heads(copy.deepcopy(model), mask)
        torch.testing.assert_close(pruned(inputs), masked)


def test_attention_that_returns_places_of_tokens_too_is_proved():
    # as an indexer of sparse attention does: integers, equal or not
    (block,) = find_heads(Model("places"))
    assert block.architecture.returns == 2 and not block.masks_only


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("mixing", r"changing the values of head.* changes heads \[0, 3\]: heads mix"),
        ("random", "returns something else at each pass"),
    ],
)
def test_what_is_not_proved_is_refused_with_what_was_seen(fault, message):
    with pytest.raises(UnknownArchitecture, match=f"seen and refused: Attention.*{message}"):
        find_heads(Model(fault))
    with pytest.warns(UserWarning, match=f"1 attention modules of Model.*{message}"):
        blocks = find_heads(Model("", fault))
    assert [block.path for block in blocks] == ["layers.0"]


def test_without_the_proof_it_is_believed():
    model = Model("mixing")
    blocks = find_heads(model, verify=False)
    assert [block.how for block in blocks] == ["assumed"]
    assert [block.how for block in find_heads(model)] == ["assumed"]


def test_heads_that_cannot_be_removed_are_masked_only():
    model = Model("fixed", "")
    fixed, free = find_heads(model)
    assert "does not run with fewer heads" in fixed.masks_only and not free.masks_only
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=r"layers.0: heads of it can be masked.*not removed"):
        prune_heads(model, cut_heads(model, [("self", 0, 1), ("self", 1, 1)]))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    prune_heads(model, cut_heads(model, [("self", 1, 1)]))


def test_what_is_registered_by_hand_goes_before_what_is_found(forget_taught):
    register_attention(
        Attention, query="wq", key="wk", value="wv", output="wo", n_heads="n_heads",
        width="head_size", returns=1,
    )  # fmt: skip
    assert [block.how for block in find_heads(Model(""))] == ["registered"]


def test_what_is_registered_wrongly_is_refused(forget_taught):
    gpt_neox = t.GPTNeoXForCausalLM(
        t.GPTNeoXConfig(**WIDE, vocab_size=30, max_position_embeddings=24)
    ).eval()
    register_attention(  # its rows lie head by head
        "GPTNeoXAttention", fused="query_key_value", output="dense",
        n_heads="config.num_attention_heads", width="head_size",
    )  # fmt: skip
    with pytest.raises(UnknownArchitecture, match=r"as registered: changing the values of head"):
        find_heads(gpt_neox)
    register_attention(Attention, query="wq", key="wk", value="wv", output="wo", n_heads="n_heads",
                       width="head_size")  # fmt: skip
    (block,) = find_heads(Model(""))  # it returns a tensor alone, not two things
    assert block.how == "registered" and "returns 1 things" in block.keeps_one


class Functional(nn.Module):
    """Attention whose projections of queries, keys and values are one Parameter."""

    def __init__(self):
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.randn(48, 16))
        self.out_proj, self.num_heads, self.head_dim = nn.Linear(16, 16), 4, 4

    def forward(self, x):
        q, k, v = nn.functional.linear(x, self.in_proj_weight).unflatten(-1, (3, 4, 4)).unbind(-3)
        heads = (one.transpose(1, 2) for one in (q, k, v))
        attended = nn.functional.scaled_dot_product_attention(*heads)
        return self.out_proj(attended.transpose(1, 2).flatten(-2))


class Torchs(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


@pytest.mark.parametrize(
    ("module", "names", "message"),
    [
        (Functional, {"fused": "in_proj_weight"}, "fused='in_proj_weight', a Parameter and no module"),
        (Functional, {"fused": "in_proj"}, "fused='in_proj', which it does not have"),
        (Functional, {"fused": "out_proj", "n_heads": "heads"}, "n_heads='heads', which it does not"),
        (Torchs, {}, "torch's class never calls out_proj"),
        (Torchs, {"fused": "out_proj"}, "ran 0 times .*MultiheadAttention never calls out_proj"),
    ],
)  # fmt: skip
def test_projections_that_are_no_layers(forget_taught, module, names, message):
    model, inputs = nn.Sequential(module()), {"input": torch.randn(2, 3, 16)}
    if names:
        taught = nn.MultiheadAttention if module is Torchs else module
        register_attention(taught, output="out_proj", returns=1, **names)
    with pytest.raises(UnknownArchitecture, match=message):
        find_heads(model, inputs=inputs)


def test_the_proof_changes_nothing_and_is_made_once(monkeypatch):
    model, passes = Model("", "").train(), []
    model.layers[0].eval()
    model.register_forward_hook(lambda *_: passes.append(1))
    modes = [module.training for module in model.modules()]
    weights, state = copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    find_heads(model)
    assert passes and torch.equal(torch.random.get_rng_state(), state)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    assert not any(module._forward_pre_hooks for module in model.modules())
    n = len(passes)
    find_heads(model)
    assert len(passes) == n
    model.layers.append(Attention("mixing"))  # another module: what was proved holds no longer
    with pytest.warns(UserWarning, match="not taken"):
        assert len(find_heads(model)) == 2
    assert len(passes) > n


class Closed(nn.Module):
    """Its ``forward`` asks for what cannot be guessed."""

    def __init__(self):
        super().__init__()
        self.inner = Model("")

    def forward(self, secret):
        return self.inner(secret["ids"])


def test_a_batch_of_ones_own_proves_what_random_inputs_do_not_reach():
    model = Closed()
    with pytest.raises(UnknownArchitecture, match="did not run on random inputs.*inputs=…"):
        find_heads(model)
    ids = torch.randint(0, 20, (2, 5))
    assert [b.how for b in find_heads(model, inputs={"secret": {"ids": ids}})] == ["found"]
    assert find_heads(model)  # and it is remembered


def llava():
    return t.LlavaForConditionalGeneration(
        t.LlavaConfig(
            vision_config=t.CLIPVisionConfig(**TOWER, **IMAGES),
            text_config=t.LlamaConfig(**GROUPED),
            image_token_index=5,
        )
    ).eval()


def test_several_towers_are_several_kinds():
    model = llava()
    kinds = {block.kind: block.path for block in find_heads(model)}
    assert kinds.keys() == {"vision", "text"}
    assert head_grid(model) == {"vision": (2, 2), "text": (3, 4)}
    assert "vision" in kinds["vision"] and "language" in kinds["text"]


def test_one_tower_alone_is_self():
    vision = t.CLIPVisionModel(t.CLIPVisionConfig(**TOWER, **IMAGES)).eval()
    assert {block.kind for block in find_heads(vision)} == {"self"}


def test_attention_to_something_outside_is_cross():
    config = t.BertConfig(**SHAPE, **WIDE, is_decoder=True, add_cross_attention=True)
    model = t.BertLMHeadModel(config).eval()
    assert head_grid(model) == {"self": (3, 4), "cross": (3, 4)}
    blocks = {block.kind: block.path for block in find_heads(model)}
    assert blocks["cross"].endswith("crossattention")


def test_the_kinds_of_an_encoder_decoder_are_the_papers():
    model = t.WhisperForConditionalGeneration(
        t.WhisperConfig(
            **{k: v for k, v in TWO_SIDED.items() if k != "max_position_embeddings"},
            num_mel_bins=8, max_source_positions=20, max_target_positions=20, bos_token_id=3,
        )
    ).eval()  # fmt: skip
    assert head_grid(model) == {"enc-enc": (2, 4), "enc-dec": (2, 4), "dec-dec": (2, 4)}
    assert {block.how for block in find_heads(model)} == {"found"}


def test_attention_to_an_encoder_is_known_by_the_names_that_models_give_it():
    model = t.NllbMoeForConditionalGeneration(
        t.NllbMoeConfig(**TWO_SIDED, num_experts=2, encoder_sparse_step=2, decoder_sparse_step=2)
    ).eval()
    kinds = {block.path: block.kind for block in find_heads(model)}
    assert {kind for path, kind in kinds.items() if "cross_attention" in path} == {"enc-dec"}
    assert head_grid(model) == {"enc-enc": (2, 4), "enc-dec": (2, 4), "dec-dec": (2, 4)}


def test_what_is_not_taken_is_listed():
    with pytest.warns(UserWarning, match="not taken"):
        (row,) = left_out(Model("", "mixing"))
    assert row["module"] == "layers.1" and "heads mix" in row["not taken"]


def phi3():
    return t.Phi3ForCausalLM(t.Phi3Config(**GROUPED)).eval()


def falcon():
    return t.FalconForCausalLM(
        t.FalconConfig(
            vocab_size=30, hidden_size=16, num_attention_heads=4, num_kv_heads=2,
            num_hidden_layers=2, new_decoder_architecture=True, alibi=False,
        )
    ).eval()  # fmt: skip


@pytest.mark.parametrize("make", [phi3, falcon])
def test_fused_projections_with_grouped_queries(make):
    model = make()
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1 and "embed" not in name:
            nn.init.normal_(parameter, std=0.3)
    assert {(b.group, b.masks_only) for b in find_heads(model)} == {(2, "")}
    inputs = {k: v for k, v in batch().items() if k != "labels"}
    mask = cut_heads(model, [("self", 0, 0), ("self", 0, 1), ("self", 1, 2), ("self", 1, 3)])
    with masked_heads(model, mask), torch.no_grad():
        masked = model(**inputs).logits
    with torch.no_grad():
        assert not torch.allclose(masked, model(**inputs).logits, atol=1e-3)
        pruned = prune_heads(model, mask)(**inputs).logits
    torch.testing.assert_close(pruned, masked, rtol=0, atol=1e-5)


def uneven():
    """Layers of 2, 4, 8 and 16 heads."""
    model = t.SwinForImageClassification(
        t.SwinConfig(
            image_size=64, patch_size=4, embed_dim=16, depths=[1, 1, 1, 1], window_size=2,
            num_heads=[2, 4, 8, 16], num_labels=3,
        )
    ).eval()  # fmt: skip
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.2)
    return model


def test_layers_of_different_numbers_of_heads():
    model, pixels = uneven(), torch.randn(1, 3, 64, 64)
    heads = [block.n_heads for block in find_heads(model)]
    assert heads == [2, 4, 8, 16] and head_grid(model) == {"self": (4, 16)}
    mask = full_mask(model)["self"]
    assert mask.isnan().sum(1).tolist() == [16 - n for n in heads]
    assert mask.nansum() == sum(heads)
    with pytest.raises(IndexError, match="no head"):
        cut_heads(model, [("self", 0, 2)])
    made = {"pixel_values": pixels, "labels": torch.tensor([1])}
    scores = head_importance(model, [made])["self"]
    assert torch.equal(scores.isnan(), mask.isnan())
    with pytest.raises(ValueError, match="batches of one example"):
        head_importance(model, [{k: v.repeat_interleave(2, 0) for k, v in made.items()}])
    cut = prune_mask(model, {"self": scores}, 0.4)
    assert (cut["self"] == 0).sum() == int(0.4 * sum(heads))
    with masked_heads(model, cut), torch.no_grad():
        masked = model(pixels).logits
    # what is given where there is no head is of no account
    with masked_heads(model, {"self": cut["self"].nan_to_num(7.0)}), torch.no_grad():
        torch.testing.assert_close(model(pixels).logits, masked, rtol=0, atol=0)
    pruned = prune_heads(model, cut)
    torch.testing.assert_close(pruned(pixels).logits, masked, rtol=0, atol=1e-5)


def test_nothing_is_said_where_nothing_is_left_out():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not discovered(llava()).refused


@pytest.mark.usefixtures("forget_taught")
def test_a_registered_class_that_returns_its_weights_may_lose_all_its_heads():
    register_attention("LlamaAttention", like="LlamaAttention")
    blocks = find_heads(build("llama"))  # the eager kernel
    assert [(block.how, block.keeps_one) for block in blocks] == [("registered", "")] * len(blocks)


def test_a_layer_that_hands_on_a_bias_of_its_heads_keeps_them():
    """Without one of them it would hand on less than the layers above have heads."""
    # the local attention of LongT5's lowest layer makes a bias of five dimensions for those above
    from headprune_lib.replication.census import tiny

    model = tiny.build("longt5")
    lowest = find_heads(model)[0]
    assert lowest.masks_only
    for gone in ([0], range(lowest.n_heads)):
        with pytest.raises(ValueError, match="can be masked and scored, not removed"):
            prune_heads(model, cut_heads(model, [(lowest.kind, 0, head) for head in gone]))
    ids = torch.arange(4, 20)[None]
    assert model(input_ids=ids, decoder_input_ids=ids[:, :3]).logits.isfinite().all()


@pytest.mark.parametrize(
    ("returned", "are"),
    [
        (torch.rand(2, 4, 3, 5).softmax(-1), True),
        (0.5 * torch.rand(2, 4, 3, 5).softmax(-1), True),  # a sink takes the rest
        (torch.tensor([[[torch.nan, torch.nan], [0.5, 0.5]]]), True),  # a query sees no key
        (torch.rand(2, 4, 3, 5) - 0.5, False),  # a bias of positions
        (torch.full((2, 4, 3, 5), 0.5), False),
        (torch.zeros(2, 3, 5, dtype=torch.int64), False),  # places of keys
    ],
)
def test_weights_of_attention_are_shares_of_each_query(returned, are):
    assert trying_removal.looks_like_weights(returned) is are


@pytest.mark.parametrize("kind", ["block_sparse", "original_full"])
def test_a_model_that_exchanges_its_attention_is_left_as_it_was(kind):
    """BigBird takes other modules for good where a text is short, as those tried here are."""
    torch.manual_seed(0)
    config = t.BigBirdConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=16, block_size=4, num_random_blocks=1, attention_type=kind,
        max_position_embeddings=128,
    )  # fmt: skip
    model = t.BigBirdForSequenceClassification(config).double().eval()
    given = {"input_ids": torch.randint(4, 60, (2, 64)), "attention_mask": torch.ones(2, 64).long()}
    before, modules = model(**given).logits, [*model.modules()]
    if kind == "original_full":
        assert len(find_heads(model)) == 2
    else:
        with pytest.raises(
            ValueError, match=r"exchanges modules.*attention_type=\"original_full\""
        ):
            find_heads(model)
    assert [*model.modules()] == modules and model.bert.attention_type == kind
    assert torch.equal(model(**given).logits, before)
