"""The page of the deviations."""

from statistics import median

from headprune_lib.replication.profiles import load_profile
from statements import found, on, result, values
from statements.curves import fine_tunings, kept, lost_much, silent, uncut, word

DEVIATIONS = "book/deviations.md"


def cola_scores():
    return [
        run[0] for run in values("pruning_curve", "cola", "minilm")["curves"]["importance"]["runs"]
    ]


def best_recipe():
    recipes = values("recipes", "cola", "minilm")["recipes"]
    best = max(recipes, key=lambda recipe: recipe["score"])
    chosen = (best["epochs"], best["batch_size"], best["learning_rate"])
    return len(recipes) == 7 and chosen == (10, 32, 1e-4)


def log_losses():
    curve = values("pruning_curve", "cola", "minilm")["curves"]["importance"]["log_loss"]
    return round(curve[0], 2), round(curve[-1], 2)


def searches_agree():
    """No cut that costs two points under one search costs less than one under the other."""
    losses = [
        (-cut["beam 1"], -cut["beam 5"]) for cut in values("search", "enfr", "post-norm")["cuts"]
    ]
    return min(min(pair) for pair in losses if max(pair) > 2) > 1


def many_ties():
    """The median head shares its change of accuracy with at least two others."""
    changes = [head["delta"] for head in values("one_head", "reviews", "minilm")["heads"]]
    return median(changes.count(change) for change in changes) > 2


def counts_of(measurement, part):
    """N-gram counts of the translations with all heads, and the part that they are of."""
    found = result(measurement, "deen", "pre-norm").parts[part]
    return found.raw["counts_uncut"], found


def same_on_both():
    """Whether a translator's words are the same on a GPU and on a CPU, with the same weights."""
    there, on_gpu = counts_of("pruning_by_kind", "enc-enc importance training 3")
    here, on_cpu = counts_of("pruning_curve", "importance training 3")
    return (
        on_gpu.runs == on_cpu.runs
        and bool(on_gpu.provenance["hardware"]["gpu"])
        and not on_cpu.provenance["hardware"]["gpu"]
        and len(here) == 512
        and bool((here == there).all())
    )


STATEMENTS = on(
    "book/rerun.md",
    {
        "the greedy translations of 512 verses have the same n-gram counts on the GPU and on "
        "a CPU": same_on_both,
    },
)
STATEMENTS += on(
    DEVIATIONS,
    {
        "with 40% removed 97.2% is kept": lambda: (
            round(kept("snli", "mpnet", 0.4)[0], 3) == 0.972
            and round(kept("snli-held", "mpnet", 0.4)[0], 3) == 0.974
        ),
        "undecided both times.": lambda: (
            word("snli", "mpnet") == "undecided" and fine_tunings("mpnet", "snli") == {3}
        ),
        "by C3's rule the result is *undecided* and has too little power to count": lambda: (
            word("cola", "minilm") == "undecided" and silent("cola", "minilm")
        ),
        "ten epochs give 0.34, 0.32 and 0.26 (three seeds)": lambda: (
            [round(score, 2) for score in cola_scores()] == [0.34, 0.32, 0.26]
        ),
        "Of seven recipes compared on 1,500 held-out training sentences, one seed each, ten epochs "
        "in batches of 32 at a learning rate of 1e-4 had the best score": best_recipe,
        "**The 0.40 is not met**": lambda: max(cola_scores()) < 0.40,
        "MPNet has 0.56 after three epochs": lambda: (
            round(uncut("cola", "mpnet"), 2) == 0.56
            and load_profile("base").on("cola").finetuning.epochs == 3
        ),
        "Its log-loss on the test sentences rose from 0.64 to 1.30, more than the 0.65 of a "
        "model without heads": lambda: log_losses() == (1.30, 0.65),
        "[Cuts that hurt do so under both]": searches_agree,
        "MiniLM: five on reviews, three on the benchmarks; MPNet: three, on SNLI's new pairs "
        "one": lambda: (
            fine_tunings("minilm", "reviews") == {5}
            and fine_tunings("mpnet", "sst2", "cola", "snli", "mrpc") == {3}
            and fine_tunings("mpnet", "snli-held") == {1}
        ),
        "the end of the curve, where every order has lost much": lambda: (
            lost_much(("pruning_curve", "reviews", "minilm"), 0.8)
            and lost_much(("pruning_curve", "sst2", "mpnet"), 0.8)
        ),
        "Many heads change the same number of predictions.": many_ties,
        "- Several trainings of the German-English translator of twenty epochs; Figure 4's "
        "random orders on German-English. - The new pairs of SNLI by MiniLM in random orders": lambda: (
            "random" not in result("pruning_curve", "snli-held", "minilm").parts
            and fine_tunings("post-norm", "deen") == {1}
            and fine_tunings("post-norm", "enfr") == {3}
            and all(
                not part.endswith("random")
                for one in found("pruning_by_kind")
                if one.task == "deen"
                for part in one.parts
            )
        ),
    },
)
