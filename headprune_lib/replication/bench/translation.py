"""The translation half: a sweep over single heads against one ``generate`` a head."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from headprune_lib.ablation import one_head_masks
from headprune_lib.batching import by_length
from headprune_lib.generation.drafts import translations_under
from headprune_lib.generation.greedy import generate
from headprune_lib.heads import HeadTensors
from headprune_lib.kernels import fast_linears, fast_single_queries
from headprune_lib.masking import masked_heads
from headprune_lib.orders import Head
from headprune_lib.replication.bench.compare import Row, compare
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.translation.subject import GROUP, TranslationSubject

_EVERY = 12  # one head in twelve: some of each kind and layer, and minutes in place of an hour
_PLAIN_BATCH = 32

Ids = list[int]


def rows(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """The sweep against plain masked translation, in file order and in order of length.

    Raises:
        AssertionError: the two make other translations of more than one sentence in a thousand,
            which is what equal scores of two words can explain.
    """
    subject = TranslationSubject.of(profile, profile.translation_task)
    model = subject.model
    sources = subject.translator.encode(subject.split("test").first(n_sentences).sources)
    masks = dict(list(one_head_masks(model).items())[::_EVERY])
    made: dict[str, list[list[Ids]]] = {}
    with fast_linears(model):
        drafts = generate(model, sources)  # once for all 288 heads, so not timed with one in twelve

    def swept() -> None:
        made["sweep"] = sweep_translations(model, sources, drafts, list(masks.values()))

    def plain() -> None:
        made["plain"] = [_masked(model, mask, sources) for mask in masks.values()]

    def sorted_plain() -> None:
        with fast_linears(model):
            for mask in masks.values():
                with masked_heads(model, mask):
                    generate(model, sources)

    rounds, n = max(1, rounds // 2), len(masks) * len(sources)
    title = f"sweep of {len(masks)} heads on {len(sources)} verses"
    first = compare(
        f"one generate a head, batches of {_PLAIN_BATCH} in file order",
        plain,
        title,
        swept,
        rounds,
        None,
        "at least 5",
        n,
    )
    bound = operations(model, sources, drafts, dict(zip(masks, made["sweep"], strict=True)))
    second = compare(
        title,
        swept,
        "one generate a head, sorted, batches of 128, same kernels",
        sorted_plain,
        rounds,
        bound,
        "",
        n,
    )
    different = sum(
        a != b
        for one, two in zip(made["sweep"], made["plain"], strict=True)
        for a, b in zip(one, two, strict=True)
    )
    assert different <= n / 1000, f"{different} of {n} translations are other than generate's"
    return [first, second]


def sweep_translations(
    model: nn.Module, sources: Sequence[Ids], drafts: Sequence[Ids], masks: Sequence[HeadTensors]
) -> list[list[Ids]]:
    """Greedy translations of every source under every mask: (masks, sources).

    ``drafts`` are the unmasked model's translations.
    """
    found: list[list[Ids]] = [[[] for _ in sources] for _ in masks]
    with fast_linears(model), fast_single_queries(model):
        for members in by_length(sources, GROUP):
            own, first = ([side[i] for i in members] for side in (sources, drafts))
            for row, one in zip(found, translations_under(model, own, first, masks), strict=True):
                for i, ids in zip(members, one.ids, strict=True):
                    row[i] = ids
    return found


def _masked(model: nn.Module, mask: HeadTensors, sources: Sequence[Ids]) -> list[Ids]:
    """As a simple script would: plain kernels, batches as the sentences come."""
    made: list[Ids] = []
    with masked_heads(model, mask):
        for start in range(0, len(sources), _PLAIN_BATCH):
            made += generate(model, sources[start : start + _PLAIN_BATCH])
    return made


def operations(
    model: nn.Module,
    sources: Sequence[Ids],
    drafts: Sequence[Ids],
    translations: dict[Head, list[Ids]],
) -> float:
    """Multiplications that a sweep needs, as a share of those of one ``generate`` a head.

    Needed are, for a cut in layer l, the layers from l on along the draft, and whole passes for the
    pieces after the first one that changes. Attention's own products, below a twentieth at
    these lengths, are left out; so is the draft, one ``generate`` for all heads.
    """
    config, needed, plain = model.config, 0.0, 0.0
    width, feed_forward, layers = config.d_model, config.decoder_ffn_dim, config.decoder_layers
    encoder_layer = 4 * width**2 + 2 * width * feed_forward  # a source piece
    decoder_layer = 6 * width**2 + 2 * width * feed_forward  # a target piece
    views, words = 2 * width**2, config.vocab_size * width  # a source piece a layer; a target piece
    for (kind, layer, _), rows_ in translations.items():
        for source, draft, row in zip(sources, drafts, rows_, strict=True):
            s, t, n = len(source), len(row) + 1, len(draft) + 1
            same = next(
                (i for i, (a, b) in enumerate(zip(draft, row, strict=False)) if a != b),
                min(len(draft), len(row)),
            )
            again = 0 if row == draft else t - same - 1
            plain += s * layers * (encoder_layer + views) + t * (layers * decoder_layer + words)
            above = layers - layer
            if kind == "enc-enc":
                needed += s * (above * encoder_layer + layers * views) + n * layers * decoder_layer
            else:
                needed += n * above * decoder_layer
            needed += n * words + again * (layers * decoder_layer + words)
    return needed / plain
