"""Page 08."""

from statistics import mean

from headprune_lib.replication.pages import numbers
from statements import on, result, values

PAGE = "notebooks/08_translation_models.ipynb"
SEARCH = ("search", "enfr", "post-norm")


def mostly_too_small_to_see():
    heads = values("one_head", "enfr", "post-norm")["heads"]
    return mean(abs(head["delta"]) < head["smallest_detectable"] for head in heads) > 0.9


def rank(text):
    """A correlation before its interval."""
    return float(text.partition(" [")[0])


STATEMENTS = on(
    PAGE,
    {
        "A single cut mostly changes BLEU less than these verses can show": mostly_too_small_to_see,
        "Smaller changes rank less alike": lambda: (
            rank(numbers.translation_models(result(*SEARCH))["rank_small"])
            < values(*SEARCH)["spearman"]["all"]["r"]
        ),
    },
)
