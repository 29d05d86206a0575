"""What the rules beyond the paper say of the comparison of orders."""

from headprune_lib.replication.measurements.contrasts import Statistics, values_of
from headprune_lib.replication.order_names import parse_part
from statements import on, result


def depends_on_the_draw():
    """Whether MRPC's uncut models lie above chance in every resample by some seeds and not by all."""
    mrpc = result("which_first", "mrpc", "minilm")
    outcomes, runs = {}, {}
    for name, part in mrpc.parts.items():
        if parse_part(name).curve == "importance":
            outcomes[name], runs[name] = part.raw, part.runs
    least = [
        values_of(outcomes, runs, Statistics(resamples, seed))["least_above_chance"]
        for resamples, seed in ((5_000, 4), (50_000, 1))
    ]
    return mrpc.values["least_above_chance"] > 0 > max(least)


STATEMENTS = on(
    "book/beyond.md",
    {
        "by another seed, or with 50,000 resamples in place of 5,000, some resample falls to "
        "chance": depends_on_the_draw,
    },
    slow=True,
)
