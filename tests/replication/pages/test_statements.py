"""What the pages conclude follows from what is stored; the table is in ``tests/statements``."""

import json

import pytest
from statements import Statement, all_statements, problem, values

STATEMENTS = all_statements()


@pytest.mark.parametrize(
    "statement",
    [pytest.param(one, marks=[pytest.mark.slow] * one.slow) for one in STATEMENTS],
    ids=lambda one: f"{one.page}: {one.words[:60]}",
)
def test_a_sentence_stands_and_follows(statement):
    assert not problem(statement)


def test_no_sentence_is_told_twice():
    told = [(one.page, one.words) for one in STATEMENTS]
    assert len(told) == len(set(told))


def test_what_is_wrong_with_a_sentence_is_told(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["Most\n", "heads can go."]},
        {"cell_type": "code", "source": ["not read"]},
    ]
    (tmp_path / "page.ipynb").write_text(json.dumps({"cells": cells}))
    for words, follows, told in (
        ("Most heads can go.", lambda: True, ""),
        ("Most heads can go.", lambda: False, "no longer follows: 'Most heads can go.' on page"),
        ("All heads can go.", lambda: True, "not on page.ipynb: 'All heads can go.'"),
        ("not read", lambda: True, "not on page.ipynb"),
        ("heads", lambda: values("one_head", "nothing", "nobody"), "cannot be told from what is"),
    ):
        found = problem(Statement("page.ipynb", words, follows), tmp_path)
        assert found.startswith(told) and bool(found) == bool(told)
