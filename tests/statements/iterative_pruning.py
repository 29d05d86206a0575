"""Page 04: the encoders."""

from headprune_lib.replication.claims.kept import kept_by_others
from headprune_lib.replication.claims.rules import share_judged
from headprune_lib.replication.published import published_shares, published_task
from statements import found, on, result, row, values
from statements.curves import (
    CURVE,
    EARLY,
    WHOLE,
    difference,
    fine_tunings,
    goes,
    kept,
    lost_much,
    seen,
    silent,
    uncut,
    word,
)

PAGE = "notebooks/04_iterative_pruning.ipynb"
REVIEWS = (CURVE, "reviews", "minilm")
MPNET = (CURVE, "sst2", "mpnet")


def most_kept(model, removed, tasks):
    """The tasks of which most is kept."""
    every = {
        one.task: kept(one.task, model, removed)[0] for one in found(CURVE) if one.model == model
    }
    return set(sorted(every, key=every.get)[-len(tasks) :]) == tasks


def only_these_reach_the_share():
    """At a loss of 2%, of the models on the tasks of the paper's Figure 6."""
    shares = published_shares()
    reached = {
        (one.task, one.model)
        for one in found(CURVE)
        if published_task(one.task) in ("sst2", "cola", "mrpc", "iwslt")
        and goes(one.key)[0] >= shares[published_task(one.task)]
    }
    of_six_epochs = {("deen", "pre-norm"), ("deen", "post-norm-6"), ("multi30k", "pre-norm")}
    return reached == {("cola", "mpnet")} | of_six_epochs


def weights(task, model):
    """What the curves of a model were measured on."""
    parts = result(CURVE, task, model).parts.values()
    return {run["weights_sha256"] for part in parts for run in part.runs}


STATEMENTS = on(
    PAGE,
    {
        "Neither result counts, for the rule could not have said *replicates* either": lambda: all(
            silent("mrpc", model) and row(CURVE, "mrpc", model, "C3").judged.power < 0.2
            for model in ("mpnet", "minilm")
        ),
        "{glue:text}`minilm_cola_power`, and neither result counts.": lambda: (
            silent("cola", "mpnet") and silent("cola", "minilm")
        ),
        "- **SNLI, 40% removed, as on MNLI.** MPNet keeps {glue:text}`mpnet_snli_kept`, MiniLM "
        "{glue:text}`minilm_snli_kept`: both undecided. On {glue:text}`held_pairs` further "
        "pairs, which no rule was fixed on, MiniLM keeps {glue:text}`held_kept`: undecided again.": lambda: (
            word("snli", "mpnet") == word("snli", "minilm") == word("snli-held", "minilm")
            and word("snli", "mpnet") == "undecided"
            and share_judged("snli", "encoder") == share_judged("snli-held", "encoder") == 0.4
        ),
        "The result does not count for C8 (power {glue:text}`mpnet_c8_power`)": lambda: (
            not row(*MPNET, "C8").counts
        ),
        "points: no difference can be seen.": lambda: (
            seen(REVIEWS, "oracle leak-free") == 0 and row(*REVIEWS, "C8").word == "undecided"
        ),
        "on reviews (60% removed), which leaves both open.": lambda: (
            word("reviews", "minilm") == word("sst2", "mpnet") == "undecided"
        ),
        "these results count, and C8 replicates.": lambda: all(
            (one := row(CURVE, "snli-held", model, "C8")).word == "replicates" and one.counts
            for model in ("minilm", "mpnet")
        ),
        "which is as much as the paper says.": lambda: (
            row(CURVE, "enfr", "post-norm", "C3").word == "replicates"
        ),
        "At the paper's 20% the order of importance has lost little; random order falls at "
        "once.": lambda: (
            kept("enfr", "post-norm", 0.2)[1] >= 0.95
            and goes((CURVE, "enfr", "post-norm"), "random")[0] == 0
        ),
        "On reviews, up to half, importance and one-by-one on other text cannot be told apart; "
        "random order falls much earlier.": lambda: (
            seen(REVIEWS, "oracle leak-free") == 0
            and goes(REVIEWS, "random")[0] <= goes(REVIEWS)[0] - 0.2
        ),
        "Importance, normalised or not, stays level up to about half; not normalised, the model "
        "then collapses at once.": lambda: (
            min(goes(MPNET)[0], goes(MPNET, "importance unnormalised")[0]) >= 0.4
            and values(*MPNET)["kept"]["importance unnormalised"]["kept"][6] < 0.05
        ),
        "At a loss of 2%, MPNet on CoLA and the translators of six epochs reach the paper's "
        "share; the others fall before it. BERT-base, measured by others, keeps at least 96% "
        "there on SST-2 and CoLA.": lambda: (
            only_these_reach_the_share()
            and min(kept_by_others(task) for task in ("sst2", "cola")) >= 0.96
        ),
        "but the whole curve also rewards the order that collapses last.": lambda: (
            lost_much(REVIEWS, 0.8) and lost_much(MPNET, 0.8)
        ),
        "An order chosen by the true effects on the test set itself can lose because": lambda: (
            seen(REVIEWS, "oracle") == 1
        ),
        "over everything: normalising pays here.": lambda: all(
            seen(REVIEWS, "importance unnormalised", areas) == 1 for areas in (EARLY, WHOLE)
        ),
        "Even random order beats the one-by-one order of training sentences here": lambda: (
            difference(MPNET, "random")[2] < difference(MPNET, "oracle leak-free")[1]
        ),
        "Scores that are not normalised by layer stay level as long as any": lambda: (
            goes(MPNET, "importance unnormalised")[0]
            == max(goes(MPNET, order)[0] for order in values(*MPNET)["prunable"])
        ),
        "Up to 50% they cannot be told from normalised ones": lambda: (
            seen(MPNET, "importance unnormalised") == 0
        ),
        "points over the whole curve, and nothing that can be seen up to 50%": lambda: (
            seen(MPNET, "importance rescored", WHOLE) == -1
            and seen(MPNET, "importance rescored") == 0
        ),
        "- **SST-2, 60% removed.** MPNet keeps {glue:text}`mpnet_sst2_kept`: undecided. "
        "MiniLM keeps {glue:text}`minilm_sst2_kept`: undecided too.": lambda: (
            word("sst2", "mpnet") == word("sst2", "minilm") == "undecided"
            and share_judged("sst2", "encoder") == 0.6
        ),
        "keeps {glue:text}`mpnet_held_kept`: by the rule that replicates, on one fine-tuning, "
        "which is none of the three above.": lambda: (
            word("snli-held", "mpnet") == "replicates"
            and not silent("snli-held", "mpnet")
            and fine_tunings("mpnet", "snli-held") == {1}
            and not weights("snli", "mpnet") & weights("snli-held", "mpnet")
        ),
        "Intervals this wide decide nothing": lambda: (
            word("cola", "mpnet") == word("cola", "minilm") == "undecided"
        ),
        "- **MRPC, 50% removed.** MPNet keeps {glue:text}`mpnet_mrpc_kept`, MiniLM "
        "{glue:text}`minilm_mrpc_kept`.": lambda: share_judged("mrpc", "encoder") == 0.5,
        "Both models are little better than chance": lambda: all(
            uncut("mrpc", model) - values(CURVE, "mrpc", model)["chance"] < 0.1
            for model in ("mpnet", "minilm")
        ),
        "Of either encoder's tasks, those on sentiment keep most with 60% removed.": lambda: (
            most_kept("minilm", 0.6, {"reviews", "sst2"}) and most_kept("mpnet", 0.6, {"sst2"})
        ),
    },
)
