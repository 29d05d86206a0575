"""The paper's eight claims in our words, each with what the paper found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in our words, where it makes it, and what it found."""

    id: str
    title: str
    section: str
    paper_value: str


CLAIMS = (
    Claim(
        "C1",
        "Most heads can be removed one at a time at no cost.",
        "3.2",
        "Translation: 8 of 96 encoder heads change BLEU significantly, 4 of them for the "
        "better (Table 1). BERT: accuracy stays between 82.4% and 83.8% whichever head goes, "
        "read off Figure 1b.",
    ),
    Claim(
        "C2",
        "In many layers a single head is enough.",
        "3.3, appendix A",
        "BERT: no layer of 12 loses significantly, at most 0.96 points (Table 6). "
        "Translation: 9 of 18 layers do not lose significantly (Table 5).",
    ),
    Claim(
        "C3",
        "A large share of all heads can be removed together before the score drops.",
        "4.2, appendix B",
        "40% of BERT's heads on MNLI, 20% of the translation model's (Figure 3); 60% on "
        "SST-2, 50% on CoLA and MRPC, 20% on IWSLT (Figure 6); read off plots.",
    ),
    Claim(
        "C4",
        "Translation depends on encoder-decoder attention more than on the other kinds.",
        "5",
        "Without more than 60% of its encoder-decoder heads the model collapses; with 20% of "
        "either other kind's left it still has about 30 BLEU (Figure 4, read off).",
    ),
    Claim(
        "C5",
        "Which heads matter is settled early in training, and more so later on.",
        "6",
        "From epoch 10 on, 85% to 90% of BLEU is kept with 40% of the heads removed; in the "
        "first epochs less (Figure 5, read off).",
    ),
    Claim(
        "C6",
        "A model with half of its heads removed runs faster.",
        "4.3",
        "BERT: 17.5% faster at batch sizes 16 and 64, 1.9% and 2.7% at 1 and 4 (Table 4).",
    ),
    Claim(
        "C7",
        "Heads that matter in one domain matter in another.",
        "3.4",
        "r = 0.68 for BERT (MNLI matched and mismatched), r = 0.56 for translation "
        "(newstest2013 and MTNT), both p < 0.01 (Figure 2).",
    ),
    Claim(
        "C8",
        "Gradient importance orders heads for removal better than their one-by-one effects do.",
        "4.2",
        "The importance curves lie above the dashed one-by-one curves (Figure 3); no number "
        "is given.",
    ),
)
