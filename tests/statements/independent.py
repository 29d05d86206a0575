"""Page 09."""

from functools import cache

import numpy as np

from headprune_lib.replication import stats
from headprune_lib.replication.pages import tables
from headprune_lib.replication.pages.tables.independent import pairs as measured_twice
from headprune_lib.replication.pages.tables.published_masks import alike
from headprune_lib.replication.pages.tables.tasks import pairs_of_tasks
from headprune_lib.replication.titles import spelled
from statements import found, on, values

PAGE = "notebooks/09_independent.ipynb"
RESAMPLES = 2_000  # the page draws more; no interval is that near to where it would matter


def correlation(x, y, method):
    """Estimate, and the ends of its interval over heads."""
    one = stats.correlation(np.ravel(x), np.ravel(y), method, RESAMPLES)
    return one.value, one.low, one.high


@cache
def pairs():
    """What differs, tasks, kind -> Pearson and Spearman, each with its interval."""
    return {
        (differs, one.task, two.task, one.kind): tuple(
            correlation(one.values, two.values, method) for method in ("pearson", "spearman")
        )
        for differs, one, two in measured_twice()
    }


def of(differs):
    return [both for (what, *_), both in pairs().items() if what.startswith(differs)]


def fine_tunings(task):
    return pairs()["the fine-tuning", task, task, "self"]


def about_as_well():
    """Two laboratories lie within what two test sets of one laboratory give."""
    (labs,) = (pearson[0] for pearson, _ in of("laboratory and test set"))
    sets = [pearson[0] for pearson, _ in of("the test set")]
    return min(sets) <= labs <= max(sets)


@cache
def layers():
    """Kind -> changes in the paper and again, a layer each; of the translation model."""
    table = tables.layers_again_table()
    return {
        kind: rows[["the paper", "again"]].astype(float).to_numpy()
        for kind, rows in table[table["model"].str.startswith("WMT")].groupby("kind")
    }


def deepest(side, of_them=2):
    every = sorted(
        (change, kind, layer)
        for kind, rows in layers().items()
        for layer, change in enumerate(rows[:, side], 1)
    )
    return [(kind, layer) for _, kind, layer in every[:of_them]]


@cache
def tasks(model):
    """Two tasks but MNLI -> Spearman's correlation of importance, with its interval."""
    every = {one.task: one for one in found("pruning_curve") if one.model == model}
    curves = {task: one for task, one in every.items() if task != "mnli"}
    return {
        ", ".join(map(spelled, pair.tasks)): correlation(*pair.importance, "spearman")
        for pair in pairs_of_tasks(curves)
    }


NAMED = {"reviews, SST-2", "MRPC, SNLI", "reviews, CoLA", "SST-2, CoLA"}
"""The small encoder's pairs of tasks of which the page tells."""


def least_alike():
    return min(one.values["mean_spearman"] for one in found("agreement"))


STATEMENTS = on(
    PAGE,
    {
        "Two laboratories agree about as well as two test sets of one laboratory do.": about_as_well,
        "The Pearson correlations owe much to a few heads": lambda: all(
            spearman[0] < pearson[0]
            for pearson, spearman in [*of("laboratory and test set"), *of("the test set")]
        ),
        "Heads agree on MNLI, and hardly at all on SST-2 and CoLA": lambda: (
            fine_tunings("MNLI")[0][1] > 0
            and all(abs(fine_tunings(task)[0][0]) < 0.2 for task in ("SST-2", "CoLA"))
            and all(fine_tunings(task)[0][1] < 0 for task in ("SST-2", "CoLA"))
        ),
        "No correlation between tasks can be told from zero.": lambda: (
            len(of("the task")) == 6
            and all(low < 0 < high for both in of("the task") for _, low, high in both)
        ),
        "Both find the same two layers that lose most, the last two of *enc-dec* attention.": lambda: (
            deepest(0) == deepest(1) == [("enc-dec", 6), ("enc-dec", 5)]
        ),
        "in *dec-dec* half of the layers change sign.": lambda: (
            2 * (np.prod(layers()["dec-dec"], axis=1) < 0).sum() == len(layers()["dec-dec"])
        ),
        "By importance, MiniLM's are; by the effect of a single cut, only on a large test "
        "set.": lambda: all(
            pair["spearman"] > 0.5 and pair["shared_least"] > 2 * seeds["shared_least_by_chance"]
            for seeds in [values("agreement", "reviews", "minilm")]
            for pair in seeds["pairs"]
        ),
        "BERT-base's, which others scored while they pruned, does so far less": lambda: (
            max(one.seeds.mean() for one in alike()) < least_alike() - 0.1
        ),
        "Means over the five seeds correlate better between tasks": lambda: all(
            (one.means > [*one.others.values()]).all() for one in alike()
        ),
        "Reviews and SST-2 are the same question about the same kind of sentence, and rank "
        "MiniLM's heads most alike.": lambda: (
            max(tasks("minilm"), key=tasks("minilm").get) == "reviews, SST-2"
        ),
        "SNLI and MRPC both compare two sentences, and come second.": lambda: (
            sorted(tasks("minilm"), key=tasks("minilm").get)[-2] == "MRPC, SNLI"
        ),
        "CoLA agrees weakly with the two sentiment tasks.": lambda: all(
            low > 0 and r < 0.4
            for r, low, _ in (tasks("minilm")[name] for name in ("reviews, CoLA", "SST-2, CoLA"))
        ),
        "No other pair of MiniLM's tasks can be told from zero.": lambda: all(
            low < 0 for name, (_, low, _) in tasks("minilm").items() if name not in NAMED
        ),
        "All pairs of tasks but reviews and SST-2 agree less than that.": lambda: all(
            r < least_alike()
            for name, (r, *_) in tasks("minilm").items()
            if name != "reviews, SST-2"
        ),
        "MPNet's tasks agree weakly": lambda: all(r < 0.5 for r, *_ in tasks("mpnet").values()),
        "all but one of the six intervals lie above zero.": lambda: (
            sorted(low > 0 for _, low, _ in tasks("mpnet").values()) == [False] + 5 * [True]
        ),
    },
)
