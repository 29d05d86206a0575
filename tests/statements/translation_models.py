"""Page 08."""

from collections import Counter

from headprune_lib.heads import KINDS
from headprune_lib.replication.pages import numbers, tables
from statements import on, result, values
from statements.curves import heads_of

PAGE = "notebooks/08_translation_models.ipynb"
SEARCH = ("search", "enfr", "post-norm")


def mostly_too_small_to_see():
    heads = values("one_head", "enfr", "post-norm")["heads"]
    return sum(abs(head["delta"]) < head["smallest_detectable"] for head in heads) > 0.9 * len(
        heads
    )


def rank(text):
    """A correlation before its interval."""
    return float(text.partition(" [")[0])


STATEMENTS = on(
    PAGE,
    {
        "(6 × 8 in each kind, 144 heads)": lambda: heads_of("deen") < heads_of("enfr"),
        "one column leaves out those with ten words in a row in common with a training verse": lambda: (
            "without verses that share a 10-gram"
            in tables.quality_table({"enfr": result("quality", "enfr", "post-norm")}).columns
        ),
        "A single cut mostly changes BLEU less than these verses can show": mostly_too_small_to_see,
        "in each kind of attention the six heads without which the uncut model's own "
        "translation becomes least likely, and each layer reduced to its best head.": lambda: (
            Counter((cut["kind"], cut["alone"]) for cut in values(*SEARCH)["cuts"])
            == {(kind, alone): 6 for kind in KINDS for alone in (False, True)}
        ),
        "Smaller changes rank less alike": lambda: (
            rank(numbers.translation_models(result(*SEARCH))["rank_small"])
            < values(*SEARCH)["spearman"]["all"]["r"]
        ),
    },
)
