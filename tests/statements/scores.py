"""Page 15."""

from headprune_lib.replication.measurements.scores import CRITERIA, PLAIN
from statements import on, values

PAGE = "notebooks/15_scores.ipynb"
MODEL = ("reviews", "minilm")


def size(order, n):
    rows = values("scoring_examples", *MODEL)["criteria"][order]
    (found,) = (row for row in rows if row["n"] == n)
    return found


def sizes(order):
    return [row["n"] for row in values("scoring_examples", *MODEL)["criteria"][order]]


def criterion(order):
    return values("stability", *MODEL)["criteria"][order]


def domains(order):
    return {name: found["r"] for name, found in criterion(order)["domains"].items()}


def roles():
    return values("head_roles", *MODEL)


def rank(order, role):
    return roles()["orders"][order]["ranks"][role]["interval"]


def between_seeds():
    return values("agreement", *MODEL)["mean_spearman"]


def changes():
    return [head["delta_loss"] for head in values("one_head", *MODEL)["heads"]]


STATEMENTS = on(
    PAGE,
    {
        "A few hundred sentences are enough, and it hardly matters from where; another "
        "fine-tuning changes more. But none of the criteria ranks single heads by what their "
        "absence costs.": lambda: (
            size("importance", 256)["with_all"]["interval"][0] > 0.85
            and min(domains("importance").values()) > 0.85
            and between_seeds() < min(domains("importance").values())
            and all(criterion(one)["effect"]["interval"][0] < 0 for one in CRITERIA)
        ),
        "Attention entropy needs no more than 16:": lambda: (
            size("entropy", 16)["with_all"]["interval"][0] > 0.9
        ),
        "the loss is *lower*. Importance has no sign, and cannot know.": lambda: (
            sum(change < 0 for change in changes()) > len(changes()) / 2
        ),
        "By the paper's order, heads that look at special tokens go early. Without its division "
        "by layer the upper layers go first, and heads that look at one place beside the word "
        "go late.": lambda: (
            rank("importance", "special")[1] < 0
            and rank(PLAIN, "layer")[1] < 0 < rank(PLAIN, "place")[0]
        ),
        "The area differs less than the ranks: for importance every interval of what is lost "
        "includes 0.": lambda: all(
            size("importance", n)["lost"]["interval"][0]
            <= 0
            <= size("importance", n)["lost"]["interval"][1]
            for n in sizes("importance")
        ),
        "Criteria that read attention alone hardly change from text to text; those that take "
        "derivatives of the loss change more, the squared ones most, and most on tweets.": lambda: (
            min(r for order in ("entropy", "confidence") for r in domains(order).values()) > 0.98
            and all(
                max(domains(order).values()) < 0.98
                and min(domains(order), key=domains(order).get) == "tweets"
                for order in ("importance", PLAIN, "fisher")
            )
            and all(
                domains("fisher")[name] < domains(order)[name]
                for order in ("importance", PLAIN)
                for name in domains(order)
            )
        ),
        "No criterion alone has an interval above 0; within layers confidence has, by a little. "
        "Beyond importance and the layer one has an interval that excludes 0, the logits' norm, "
        "and the wrong way round": lambda: (
            [one for one in CRITERIA if criterion(one)["given_layer"]["interval"][0] > 0]
            == ["confidence"]
            and criterion("confidence")["given_layer"]["interval"][0] < 0.05
            and all(criterion(order)["effect"]["interval"][0] < 0 for order in CRITERIA)
            and criterion("logits-norm")["given_both"]["interval"][1] < 0
            and all(
                found["interval"][0] < 0 < found["interval"][1]
                for order in CRITERIA
                if order != "logits-norm" and (found := criterion(order)["given_both"])
            )
        ),
        "A single head costs little here, and its absence lowers the loss more often than it "
        "raises it;": lambda: (
            max(changes()) < 0.02
            and sum(change < 0 for change in changes()) > sum(change > 0 for change in changes())
        ),
        "The paper's order has no trend in entropy": lambda: (
            rank("importance", "entropy")[0] < 0 < rank("importance", "entropy")[1]
        ),
    },
)
