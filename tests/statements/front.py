"""The front page and the README."""

from headprune_lib.replication import paper
from statements import Statement, found, values
from statements.curves import fine_tunings, heads_of

INTRO, README = "book/intro.md", "README.md"
IN_THE_PAPER = {
    artifact.measurement for artifact in paper.ARTIFACTS.values() if artifact.half == "encoder"
}


def measured(model, task):
    """What was measured of a model on a task."""
    return {
        name
        for name in IN_THE_PAPER
        for one in found(name)
        if (one.model, one.task) == (model, task)
    }


def everything(model, task):
    return measured(model, task) == IN_THE_PAPER


def mpnet_is_measured():
    return (
        everything("mpnet", "sst2")
        and measured("mpnet", "snli") == {"one_head", "all_but_one", "pruning_curve"}
        and measured("mpnet", "cola") == measured("mpnet", "mrpc") == {"pruning_curve"}
    )


STATEMENTS = [
    Statement(
        INTRO,
        "On movie reviews it is measured in everything that the encoder half of the paper shows.",
        lambda: everything("minilm", "reviews"),
    ),
    Statement(
        INTRO,
        "It was also fine-tuned on the paper's own tasks, SST-2, CoLA and MRPC, and on SNLI",
        lambda: all(measured("minilm", task) for task in ("sst2", "cola", "mrpc", "snli")),
    ),
    Statement(
        INTRO,
        "On SST-2 it is measured in everything that the encoder half of the paper shows. On SNLI heads "
        "are cut one at a time, all but one in a layer (chosen on the test set, so that C2 does not rest "
        "on it), and in order of importance; on CoLA and MRPC in order of importance.",
        mpnet_is_measured,
    ),
    Statement(INTRO, "There is one fine-tuning a task.", lambda: fine_tunings("mpnet") == {1}),
    Statement(
        INTRO,
        "the small encoder: 72 heads",
        lambda: values("one_head", "reviews", "minilm")["counts"]["heads"] == 72,
    ),
    Statement(
        INTRO,
        "have the paper's numbers of heads, 288 and 144",
        lambda: (heads_of("enfr"), heads_of("deen")) == (288, 144),
    ),
    Statement(
        README,
        "an encoder of 72 heads, on movie reviews and on four public benchmarks, three of them the "
        "paper's own",
        lambda: (
            {one.task for one in found("pruning_curve") if one.model == "minilm"}
            == {"reviews", "sst2", "cola", "mrpc", "snli"}
        ),
    ),
    Statement(
        README,
        "on SST-2 in everything that the encoder half of the paper shows, on SNLI with single heads, "
        "layers reduced to one head (chosen on the test set, so that C2 does not rest on them) and "
        "removal in order of importance, on CoLA and MRPC in that order.",
        mpnet_is_measured,
    ),
    Statement(README, "There is one fine-tuning a task", lambda: fine_tunings("mpnet") == {1}),
    Statement(
        README,
        "two translators of 288 and 144 heads",
        lambda: (heads_of("enfr"), heads_of("deen")) == (288, 144),
    ),
]
