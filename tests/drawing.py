"""What tests draw at random can be drawn again: ``--seed``, and the fixture ``drawn_seed``."""

import os
import random

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        type=int,
        default=os.environ.get("HEADPRUNE_SEED"),
        help="what drawn tests draw with; $HEADPRUNE_SEED, or another in each run, if left out",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Once, before the workers start: they are given the options as they are now.
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(10**6)


def pytest_report_header(config: pytest.Config) -> str:
    return f"drawn tests: --seed {config.option.seed} draws the same again"


@pytest.fixture
def drawn_seed(request: pytest.FixtureRequest) -> int:
    """A seed for what a test draws at random: its own in each test, the same for one ``--seed``."""
    seed = request.config.option.seed
    print(f"drawn with --seed {seed}")  # shown where the test fails
    return random.Random(f"{seed} {request.node.nodeid}").randrange(10**6)
