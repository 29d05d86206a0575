"""Page 11."""

import numpy as np

from headprune_lib.replication.claims.contrasts import above_chance, decide, nearest_to_chance
from headprune_lib.replication.measurements.contrasts import Statistics, values_of
from headprune_lib.replication.order_names import parse_part
from statements import found, on, result

PAGE = "notebooks/11_which_first.ipynb"


def contrast(name, of=None):
    of = found("which_first") if of is None else of
    decided = decide({"/".join(each.key): each.values for each in of})
    (one,) = [one for one in decided if one.name == name]
    return one


def of_first_trainings(each):
    """The values that the first training of each order gives alone."""
    first = {name: part for name, part in each.parts.items() if parse_part(name).training is None}
    outcomes = {name: part.raw for name, part in first.items()}
    return values_of(outcomes, {name: part.runs for name, part in first.items()}, Statistics())


def is_mpnet(each):
    return each.model == "mpnet"


def is_translator(each):
    return each.task in ("enfr", "deen")


def of_mpnet():
    """Of every fine-tuning of MPNet: its task, chance, and each order's part."""
    for each in found("which_first"):
        if is_mpnet(each):
            for suffix in ("", " training 2", " training 3"):
                parts = {
                    name: each.parts[name + suffix].raw
                    for name in ("importance", "importance unnormalised")
                }
                yield each.task, each.values["chance"], parts


def emptied(parts, layer):
    """The share of the heads removed, in the order without the division, when a layer is empty."""
    heads = parts["importance unnormalised"]["order"][0]
    return (np.flatnonzero(heads[:, 0] == layer).max() + 1) / len(heads)


def accuracy(parts, order):
    return parts[order]["correct"][0].mean(-1)


def the_last_layer_decides():
    """Four fine-tunings answer with one word once the last layer is empty; two are not there yet."""
    early, late = [], []
    for task, chance, parts in of_mpnet():
        plain = accuracy(parts, "importance unnormalised")
        when = emptied(parts, 11)
        step = int(np.ceil(20 * when - 1e-9))
        if when < 0.5:
            early.append(task)
            assert plain[step] <= chance
        else:
            late.append(task)
            loses = accuracy(parts, "importance")[:11] - plain[:11]
            assert loses.mean() < 0.002
    return (early, late) == (["sst2", "snli", "snli", "snli"], ["sst2", "sst2"])


def spread(each):
    """The largest norm of a layer's importance over the smallest."""
    raw = each.parts["importance unnormalised"].raw
    if not any(name.startswith("scores") for name in raw):  # measured before they were kept
        raw = result("pruning_curve", each.task, each.model).parts["importance"].raw
    scores = [raw[name] for name in raw if name.startswith("scores")]
    first = [one[0] if one.ndim == 3 else one for one in scores]
    norms = np.concatenate([np.linalg.norm(one, axis=1) for one in first])
    return norms.max() / norms.min()


def kept_by_entropy(task, model):
    """With a tenth of the heads removed."""
    values = result("which_first", task, model).values
    return values["orders"]["entropy"]["kept"][values["shares"].index(0.1)]


def without_the_division(each):
    """The interval of what is kept without the division by layer, minus with it."""
    return each.values["contrasts"]["not normalised against normalised"]["area"]["interval"]


def _division():
    """Whether some models keep more without the division by layer, and some less."""
    ends = [
        without_the_division(each) for each in found("which_first") if above_chance(each.values)
    ]
    return any(low > 0 for low, _ in ends) and any(high < 0 for _, high in ends)


def mrpc():
    return result("which_first", "mrpc", "minilm")


def uncut_f1(each):
    """F1 of the uncut model above that of always saying yes."""
    return each.values["orders"]["importance"]["score"][0] - each.values["chance"]


def depends_on_the_draw():
    """Whether MRPC's uncut models lie above chance in every resample by some seeds and not by all."""
    outcomes, runs = {}, {}
    for name, part in mrpc().parts.items():
        if parse_part(name).curve == "importance":
            outcomes[name], runs[name] = part.raw, part.runs
    least = [
        values_of(outcomes, runs, Statistics(resamples, seed))["least_above_chance"]
        for resamples, seed in ((5_000, 4), (50_000, 1))
    ]
    return mrpc().values["least_above_chance"] > 0 > max(least)


STATEMENTS = on(
    "book/rules.md",
    {
        "by another seed, or with 50,000 resamples in place of 5,000, some resample falls to "
        "chance": depends_on_the_draw,
    },
    slow=True,
)
STATEMENTS += on(
    PAGE,
    {
        "The uncut models of {glue:text}`nearest` are hardly better than one that always says "
        "yes": lambda: (
            nearest_to_chance({"/".join(each.key): each.values for each in found("which_first")})
            == "which_first/mrpc/minilm"
            and 0 < uncut_f1(mrpc()) < 0.06
        ),
        "Whether the paper's division by layer helps differs from model to model": _division,
        "Up to 35% removed all six keep as much without the division, although four of them "
        "have no head in the last layer but one from 30% on.": lambda: (
            all(
                (
                    accuracy(parts, "importance")[:8]
                    - accuracy(parts, "importance unnormalised")[:8]
                ).max()
                < 0.01
                for *_, parts in of_mpnet()
            )
            and [emptied(parts, 10) <= 0.3 for *_, parts in of_mpnet()].count(True) == 4
        ),
        "In the three on SNLI and one on SST-2 the last layer is empty before half of the "
        "heads are gone, and the model gives one answer to everything; in the other two on "
        "SST-2 that comes after half, and up to there they lose nothing by it.": the_last_layer_decides,
        "The translators keep more without the division, although their layers differ too: "
        "the largest norm of a layer's scores is 6 times the smallest in both post-norm ones "
        "and 35 times in the pre-norm one, 8 and 14 times in MPNet.": lambda: (
            {
                (each.task, each.model): round(spread(each))
                for each in found("which_first")
                if is_translator(each) or is_mpnet(each)
            }
            == {
                ("sst2", "mpnet"): 8,
                ("snli", "mpnet"): 14,
                ("deen", "post-norm"): 6,
                ("enfr", "post-norm"): 6,
                ("deen", "pre-norm"): 35,
            }
            and all(
                without_the_division(each)[0] > 0
                for each in found("which_first")
                if is_translator(each)
            )
        ),
        "with a tenth of the heads gone the pre-norm one has lost a fifth of its BLEU, the "
        "post-norm one from German almost half, the one to French about three fifths.": lambda: (
            round(1 / (1 - kept_by_entropy("deen", "pre-norm"))) == 5
            and 0.5 < kept_by_entropy("deen", "post-norm") < 0.56
            and 0.37 < kept_by_entropy("enfr", "post-norm") < 0.43
        ),
    },
)
STATEMENTS += on(
    PAGE,
    {
        "Attention entropy gives no better order, alone or beside importance.": lambda: (
            contrast("combined against importance").word == "no difference shown"
            and contrast("entropy against random").word == "worse"
        ),
        "By the rule they count since three of them are trained.": lambda: (
            above_chance(mrpc().values)
            and max(len(one["trainings"]) for one in mrpc().values["contrasts"].values()) == 3
            and not above_chance(of_first_trainings(mrpc()))
        ),
        "and with MPNet the mean lies below 0.": lambda: (
            contrast("not normalised against normalised").value
            < 0
            < contrast(
                "not normalised against normalised",
                [each for each in found("which_first") if not is_mpnet(each)],
            ).value
        ),
    },
    slow=True,
)
