"""The translation half: a sweep over single heads against one ``generate`` a head."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from headprune_lib.ablation import one_head_ablation, one_head_masks
from headprune_lib.criteria.search import mean_loss
from headprune_lib.losses import cross_entropy
from headprune_lib.masking import HeadTensors, masked_heads
from headprune_lib.replication.bench.compare import Row, compare
from headprune_lib.replication.models.drafts import translations_under
from headprune_lib.replication.models.generation import generate, marks_of
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import GROUP, TranslationSubject
from headprune_lib.selection import Head
from headprune_lib.utils import by_length, teacher_forced

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
    drafts = generate(model, sources)  # once for all 288 heads, so not timed with one in twelve

    def swept() -> None:
        made["sweep"] = sweep_translations(model, sources, drafts, list(masks.values()))

    def plain() -> None:
        made["plain"] = [_masked(model, mask, sources) for mask in masks.values()]

    def sorted_plain() -> None:
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
        "one generate a head, sorted, batches of 128",
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


def sweeps(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """The loss of each translation under each cut of one head: reused, and by plain masked passes."""
    subject = TranslationSubject.of(profile, profile.translation_task)
    model, marks = subject.model, marks_of(subject.model)
    sources = subject.translator.encode(subject.split("test").first(n_sentences).sources)
    targets = [[*draft, marks.end] for draft in generate(model, sources)]
    batches = [
        teacher_forced(*([side[i] for i in members] for side in (sources, targets)), marks.pad,
                       marks.start)
        for members in by_length(sources, GROUP)
    ]  # fmt: skip
    masks = one_head_masks(model)

    def reused() -> None:
        for _ in one_head_ablation(model, batches, reduce=cross_entropy):
            pass

    def plain() -> None:
        for mask in masks.values():
            mean_loss(model, batches, mask)

    s, t = (sum(batch[name].numel() for batch in batches)
            for name in ("input_ids", "decoder_input_ids"))  # fmt: skip
    return [
        compare(
            "one-head sweep of losses, activations reused",
            reused,
            "plain masked passes",
            plain,
            rounds,
            sweep_work(model, s, t),
            "at most 0.6",
        )
    ]


def sweep_work(model: nn.Module, s: int, t: int) -> float:
    """Multiplications of a sweep over every head, as a share of those of one plain pass a head.

    Args:
        s, t: pieces of the sources and of the targets. Attention's own products are left out.
    """
    config = model.config
    width, layers = config.d_model, config.decoder_layers
    ends = 2 * width * config.decoder_ffn_dim  # the feed-forward part, a piece
    views, words = 2 * width**2, config.vocab_size * width
    encoder, decoder = 4 * width**2 + ends, 6 * width**2 + ends
    behind = t * (layers * decoder + words) + s * layers * views  # what an encoder's cut changes
    whole = s * config.encoder_layers * encoder + behind
    heads, needed = one_head_masks(model), whole  # one pass without a cut
    for kind, layer, _ in heads:
        if kind == "enc-enc":
            needed += s * ((config.encoder_layers - layer - 1) * encoder + ends) + behind
        else:  # the decoder's own attention is followed by that to the encoder: queries, output
            rest = ends + (2 * width**2 if kind == "dec-dec" else 0)
            needed += t * ((layers - layer - 1) * decoder + rest + words)
    return needed / (len(heads) * whole)


def sweep_translations(
    model: nn.Module, sources: Sequence[Ids], drafts: Sequence[Ids], masks: Sequence[HeadTensors]
) -> list[list[Ids]]:
    """Greedy translations of every source under every mask: (masks, sources).

    ``drafts`` are the unmasked model's translations.
    """
    found: list[list[Ids]] = [[[] for _ in sources] for _ in masks]
    for members in by_length(sources, GROUP):
        own, first = ([side[i] for i in members] for side in (sources, drafts))
        for row, one in zip(found, translations_under(model, own, first, masks), strict=True):
            for i, ids in zip(members, one.ids, strict=True):
                row[i] = ids
    return found


def _masked(model: nn.Module, mask: HeadTensors, sources: Sequence[Ids]) -> list[Ids]:
    """As a simple script would: batches as the sentences come."""
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
