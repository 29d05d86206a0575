"""What tests draw at random can be drawn again: ``--seed``, and the fixture ``drawn_seed``.

A test with the mark ``drawn`` is asked for some of its cases in each run, others in the next; with
``--every`` it is asked for all of them.
"""

import math
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
    parser.addoption(
        "--every",
        action="store_true",
        help="ask drawn tests for every case, which takes an hour",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Once, before the workers start: they are given the options as they are now.
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(10**6)


def pytest_report_header(config: pytest.Config) -> str:
    return f"drawn tests: --seed {config.option.seed} draws the same again"


# Last, so that whoever names one case is given it: what was deselected is gone by then.
@pytest.hookimpl(specname="pytest_collection_modifyitems", trylast=True)
def pytest_skip_what_is_not_drawn(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the cases of each test with the mark ``drawn(n)``, one in ``n`` is left to be run."""
    if config.option.every:
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("drawn"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, every in cases.items():
        (n,) = every[0].get_closest_marker("drawn").args
        generator = random.Random(f"{config.option.seed} {test}")
        taken = {item.nodeid for item in generator.sample(every, math.ceil(len(every) / n))}
        for item in every:
            if item.nodeid not in taken:
                item.add_marker(pytest.mark.skip(reason=f"1 in {n} is drawn, with --every all"))


@pytest.fixture
def drawn_seed(request: pytest.FixtureRequest) -> int:
    """A seed for what a test draws at random: its own in each test, the same for one ``--seed``."""
    seed = request.config.option.seed
    print(f"drawn with --seed {seed}")  # shown where the test fails
    return random.Random(f"{seed} {request.node.nodeid}").randrange(10**6)
