"""The front page and the README."""

from statements import found, on
from statements.curves import heads_of

INDEX = "index.md"


def grid(model):
    """Layers and heads of each, of an encoder."""
    order = next(
        one.parts["importance"].raw["order"] for one in found("pruning_curve") if one.model == model
    )
    layers, heads = order.reshape(-1, 2).max(0) + 1
    return int(layers), int(heads)


STATEMENTS = on(
    INDEX,
    {
        "an encoder of 6 layers with 12 heads each, half as many heads as BERT-base": lambda: (
            grid("minilm") == (6, 12)
        ),
        "an encoder of BERT-base's shape, 12 layers with 12 heads each": lambda: (
            grid("mpnet") == (12, 12)
        ),
        "from English to French with 288 heads, as many as the paper's": lambda: (
            heads_of("enfr") == 288
        ),
        "others from German to English with 144": lambda: heads_of("deen") == 144,
    },
)
