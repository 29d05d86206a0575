"""The translation half: the loss under each cut of one head, with activations reused."""

from __future__ import annotations

from torch import nn

from headprune_lib.ablation import one_head_ablation, one_head_masks
from headprune_lib.criteria.search import mean_loss
from headprune_lib.losses import cross_entropy
from headprune_lib.masking import masked_heads
from headprune_lib.replication.bench import Row, compare
from headprune_lib.replication.models.generation import generate, marks_of
from headprune_lib.replication.profiles import Profile
from headprune_lib.replication.setups import GROUP, TranslationSubject
from headprune_lib.utils import by_length, teacher_forced


def sweeps(profile: Profile, n_sentences: int, rounds: int) -> list[Row]:
    """Time each translation's loss under each one-head cut: reused, and by plain masked passes."""
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
            with masked_heads(model, mask):
                mean_loss(model, batches)

    s, t = (sum(batch[name].numel() for batch in batches)
            for name in ("input_ids", "decoder_input_ids"))  # fmt: skip
    return [
        compare(
            "one-head sweep of losses, activations reused",
            reused,
            "plain masked passes",
            plain,
            rounds,
            floor=sweep_work(model, s, t),
            target="at most 0.6",
        )
    ]


def sweep_work(model: nn.Module, s: int, t: int) -> float:
    """Multiplications of a sweep over every head, as a share of those of one plain pass per head.

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
