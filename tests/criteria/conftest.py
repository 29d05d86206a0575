"""A tiny model, six examples, and each example's derivatives by real gates."""

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
    """Derivatives by real gates, (example, layer, head), in float64."""
    return of_examples(model, [examples])["self"]


@pytest.fixture(scope="session")
def split(examples):
    """``cuts -> batches``: the examples cut before each of these places."""

    def at(cuts):
        parts = {name: value.tensor_split(cuts) for name, value in examples.items()}
        return [dict(zip(parts, part, strict=True)) for part in zip(*parts.values(), strict=True)]

    return at
