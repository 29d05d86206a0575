"""The paper's eight claims: what it found, by what criterion, and the rule by which we judge."""

from __future__ import annotations

from dataclasses import dataclass

from headprune_lib.replication.claims.others import BERT_TASKS, kept_by_others
from headprune_lib.replication.stats.bounds import (
    ALPHA,
    C1_NEEDED,
    C1_REMOVABLE,
    C1_REMOVABLE_LOW,
    C3_KEPT,
    C4_UP_TO,
    C5_REMOVED,
    C7_RELIABILITY,
    C8_UP_TO,
    DELTA,
    DELTA_BLEU,
    LEAST_BLEU,
)

_LOSS = f"{100 * DELTA:g} point of accuracy or {DELTA_BLEU} BLEU"
_READING = "Our reading of the figure: "


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in our words.

    Attributes:
        short: what it says, in a few words that can follow "that".
        section: where the paper makes it.
        paper_value: what the paper found.
        criterion: how the authors read their own data; a result of ours meets it or does not.
        rule: our own, the third one.
        effect: what is taken as the truth when the power of our rule is computed.
    """

    id: str
    title: str
    short: str
    section: str
    paper_value: str
    criterion: str
    rule: str
    effect: str


CLAIMS = (
    Claim(
        "C1",
        "Most heads can be removed one at a time at no cost.",
        "most heads can be removed one at a time",
        "3.2",
        "Translation: 8 of 96 encoder heads change BLEU significantly, 4 of them for the "
        "better (Table 1). BERT: accuracy stays between 82.4% and 83.8% whichever head goes, "
        "read off Figure 1b.",
        f"Our reading of the table: at most a fifth of the heads change the score at p < {ALPHA}, "
        "uncorrected. The tests are the paper's: of BLEU the bootstrap of compare-mt as it was until "
        "July 2019 (half-samples, one-sided), of accuracy an unpaired t-test.",
        f"A head is removable if its 95% interval rules out a loss of {_LOSS}, needed if the interval "
        f"shows such a loss. Replicates: at least {C1_REMOVABLE:.0%} of the heads are removable, and the "
        f"lower end of that share's interval is at least {C1_REMOVABLE_LOW:.0%}. Differs: more than "
        f"{C1_NEEDED:.0%} are needed. Of a translator the encoder's own heads count, as in Table 1.",
        "11 of 12 heads cost nothing, the others twice the tolerated loss (Table 1: 8 of 96 change "
        "the score).",
    ),
    Claim(
        "C2",
        "In many layers a single head is enough.",
        "one head is enough in many layers",
        "3.3, appendix A",
        "BERT: no layer of 12 loses significantly, at most 0.96 points (Table 6). "
        "Translation: 9 of 18 layers do not lose significantly (Table 5).",
        f"With one head left, no layer of BERT and at most half of the layers of the translation model "
        f"lose at p < {ALPHA}, uncorrected, by the tests of C1; the head is chosen on other data. Of "
        "several trainings the mean number of layers counts.",
        f"One head is enough if the 95% interval rules out a loss of {_LOSS}, not enough if it shows one; "
        "the interval is over texts and, where there are several, over trainings. "
        "Replicates: enough in at least 80% of an encoder's layers, 40% of a translator's. Differs: not "
        "enough in more than the rest (20%, 60%).",
        "the layers lose what the paper's own lose (Tables 5 and 6), in an order drawn at random.",
    ),
    Claim(
        "C3",
        "A large share of all heads can be removed together before the score drops.",
        "many heads can be removed together",
        "4.2, appendix B",
        "40% of BERT's heads on MNLI, 20% of the translation model's (Figure 3); 60% on "
        "SST-2, 50% on CoLA and MRPC, 20% on IWSLT (Figure 6); read off plots.",
        f"{_READING}the curve looks level up to the paper's share for the task: at least "
        f"{C3_KEPT:.0%} of the score is left, chance not taken off.",
        f"At the paper's own share for the task (MNLI, and SNLI in its place, 40%; SST-2 and the reviews "
        f"60%; CoLA and MRPC 50%; translation 20%; any other text as MNLI), by normalised importance. "
        f"Replicates: the 95% interval of what is kept of the score above chance lies at or above "
        f"{C3_KEPT:.0%}. Differs: below it. All fine-tunings of a recipe count together.",
        "BERT-base keeps what others measured: "
        + ", ".join(f"{kept_by_others(task):.1%} on {name}" for task, name in BERT_TASKS.items())
        + "; elsewhere nothing is lost.",
    ),
    Claim(
        "C4",
        "Translation depends on encoder-decoder attention more than on the other kinds.",
        "translation depends most on encoder-decoder attention",
        "5",
        "Without more than 60% of its encoder-decoder heads the model collapses; with 20% of "
        "either other kind's left it still has about 30 BLEU (Figure 4, read off).",
        f"{_READING}with a fifth of a kind's heads left, the model without the other enc-dec heads keeps "
        "less than half of its BLEU, and each other kind at least 83%.",
        f"Area under the curve of the share of BLEU kept, 0-{C4_UP_TO:.0%} of one kind removed. Replicates: "
        "enc-dec minus enc-enc and enc-dec minus dec-dec both below 0, 95% intervals included. Differs: "
        "one above 0.",
        "differences of -0.261 and -0.285 in mean share of BLEU kept (others' measurement of IWSLT; the "
        "paper's Figure 4 has no numbers).",
    ),
    Claim(
        "C5",
        "Important and unimportant heads separate early in training, and the gap grows.",
        "important heads separate early in training",
        "6",
        "From epoch 10 on, 85% to 90% of BLEU is kept with 40% of the heads removed; in the "
        "first epochs less (Figure 5, read off).",
        f"{_READING}with 40% of the heads removed by importance, at least 85% of BLEU is kept where the "
        "model has 88% of its final BLEU or more (the paper's epoch 10), and less than 72.5%, nearer to a "
        "straight decline, where it has 20% or less (epochs 1 and 2).",
        f"With {C5_REMOVED:.0%} removed, two slopes over the logarithm of the updates, with t intervals over "
        "at least three trainings: the share of BLEU kept in the order of importance (the paper's figure), "
        f"and the share kept in random orders. Checkpoints of less than {LEAST_BLEU:.0f} BLEU are shown and "
        "do not count. The first part replicates if its interval lies above 0 and is denied if the interval "
        "holds neither a rise nor one like the paper's; the second replicates if its interval lies below 0 "
        "and is denied if it lies above. Both replicate: replicates. Both denied: differs. One of each: "
        "mixed.",
        "the share of BLEU kept by importance rises from 60% to 87.5%.",
    ),
    Claim(
        "C6",
        "A model with half of its heads removed runs faster.",
        "half of the heads removed makes a model faster at large batches alone",
        "4.3",
        "BERT: 17.5% faster at batch sizes 16 and 64, 1.9% and 2.7% at 1 and 4 (Table 4).",
        "One statement, with our reading of its bounds: at batch 16 and 64 the pruned model is more than "
        "1.10 times as fast (the paper: 1.175), and at 1 and 4 less than 1.05 times.",
        "One statement. Replicates: at batch 16 and 64 more than 1.10 times as fast, and the 95% intervals "
        "above 1; and at 1 and 4 the intervals below 1.10. Differs: an interval at 16 or 64 below 1.10, or "
        "one at 1 or 4 above 1.05.",
        "1.175 times as fast at 16 and 64, 1.023 times at 1 and 4.",
    ),
    Claim(
        "C7",
        "Heads that matter in one domain matter in another.",
        "heads that matter in one domain matter in another",
        "3.4",
        "r = 0.68 for BERT (MNLI matched and mismatched), r = 0.56 for translation "
        "(newstest2013 and MTNT), both p < 0.01 (Figure 2).",
        f"Pearson's correlation of the effects on the score is above 0 at p < {ALPHA}.",
        "Spearman's correlation of the effects in log-loss (of a translator: on its own uncut translation); "
        "beside it the same with the layer held fixed, and Pearson's in the score. "
        "Replicates: its 95% interval over heads above 0, and the same sign with any one head left out. "
        f"Differs: below 0, or Pearson's in the score below 0 at p < {ALPHA}. Undecided where the "
        f"reliability of either side is below {C7_RELIABILITY}. Of several texts that are compared with the "
        "same home text, the one whose effects are most reliable counts.",
        "the paper's correlation, 0.68 for BERT and 0.56 for translation, weakened by both sides' "
        "reliability.",
    ),
    Claim(
        "C8",
        "Gradient importance orders heads for removal better than their one-by-one effects do.",
        "importance orders heads better than one-by-one effects",
        "4.2",
        "The importance curves lie above the dashed one-by-one curves (Figure 3); no number "
        "is given.",
        f"{_READING}the importance curve lies at or above the one-by-one curve, chosen on the test set, at "
        "most steps.",
        f"Area under the curve over 0-{C8_UP_TO:.0%} removed, importance minus the one-by-one order chosen "
        "on other data. Replicates: its paired 95% interval above 0. Differs: below 0.",
        "3.3% of the score above chance for encoders, 0.7% for translation (fixed from others' curves of "
        "MNLI and IWSLT, which as results of their own give 3.5% and 0.7%; the paper's Figure 3 has no "
        "numbers).",
    ),
)
