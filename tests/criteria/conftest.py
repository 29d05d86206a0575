"""A tiny model, six examples, and each one's derivatives by real gates."""

import itertools

import pytest
from gates import of_examples
from tiny import batch, build


@pytest.fixture(scope="session")
def model():
    return build()


@pytest.fixture(scope="session")
def examples():
    return batch(6, seed=2)


@pytest.fixture(scope="session")
def derivatives(model, examples):
    """(example, layer, head) in float64."""
    return of_examples(model, [examples])["self"]


@pytest.fixture(scope="session")
def split(examples):
    """``cuts -> batches``: the examples cut before each of these places."""

    def at(cuts):
        ends = [0, *sorted(set(cuts)), len(examples["labels"])]
        return [
            {name: value[start:end] for name, value in examples.items()}
            for start, end in itertools.pairwise(ends)
        ]

    return at
