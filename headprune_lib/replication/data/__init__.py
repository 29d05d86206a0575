"""Tasks: where a task's text comes from, how it is split, and its labels.

>>> [task.name for task in TASKS.values() if task.metric == "f1"]
['synthetic-pairs', 'mrpc']
"""

from headprune_lib.replication.data.benchmarks import BENCHMARKS
from headprune_lib.replication.data.examples import Examples, normalise, split_by_hash
from headprune_lib.replication.data.fetched import check_fetched, check_hub_cache, noted
from headprune_lib.replication.data.rated import SOURCES, domain, read_rated, reviews
from headprune_lib.replication.data.sources import (
    INSTALL,
    MissingData,
    Source,
    WrongChecksum,
    file_sha256,
    locate,
)
from headprune_lib.replication.data.synthetic import WORDS, synthetic, synthetic_pairs
from headprune_lib.replication.data.task import Task

_SENTIMENT = ("negative", "positive")
_RATED = {
    "reviews": ("movie-review sentences", "reviews"),
    "amazon": ("Amazon product reviews", "Amazon"),
    "nyt": ("New York Times editorials", "NYT"),
    "tweets": ("tweets", "tweets"),
}
_MADE_UP = {"synthetic": "seeded"}

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        *(
            Task(
                name,
                title,
                _SENTIMENT,
                reviews if name == "reviews" else domain(name),
                {SOURCES[name].path: SOURCES[name].sha256},
                short=short,
            )
            for name, (title, short) in _RATED.items()
        ),
        Task("synthetic", "made-up sentences", _SENTIMENT, synthetic(0), _MADE_UP),
        Task("synthetic-far", "other made-up sentences", _SENTIMENT, synthetic(1), _MADE_UP),
        Task(
            "synthetic-words",
            "made-up sentences, scored as CoLA is",
            _SENTIMENT,
            synthetic(2),
            _MADE_UP,
            "matthews",
        ),
        Task(
            "synthetic-pairs",
            "pairs of made-up sentences, scored as MRPC is",
            ("different", "alike"),
            synthetic_pairs(3),
            _MADE_UP,
            "f1",
        ),
        *BENCHMARKS,
    )
}


def whole_task(name: str) -> str:
    """The task whose text and fine-tunings stand behind a task's name; an unknown name itself.

    >>> whole_task("snli-held"), whole_task("snli"), whole_task("no-task")
    ('snli', 'snli', 'no-task')
    """
    return TASKS[name].whole if name in TASKS else name


__all__ = [
    "INSTALL",
    "SOURCES",
    "TASKS",
    "WORDS",
    "Examples",
    "MissingData",
    "Source",
    "Task",
    "WrongChecksum",
    "check_fetched",
    "check_hub_cache",
    "file_sha256",
    "locate",
    "normalise",
    "noted",
    "read_rated",
    "split_by_hash",
    "whole_task",
]
