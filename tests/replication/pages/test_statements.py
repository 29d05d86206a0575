"""What the pages conclude follows from what is stored; the table is in ``tests/statements``."""

import pytest
import statements
from statements import Statement, all_statements, problem

STATEMENTS = all_statements()


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda one: f"{one.page}: {one.words[:60]}")
def test_a_sentence_stands_and_follows(statement):
    assert not problem(statement)


def test_no_sentence_is_told_twice():
    told = [(one.page, one.words) for one in STATEMENTS]
    assert len(told) == len(set(told))


# The guard itself.


def page(tmp_path, text="Most heads\ncan go."):
    (tmp_path / "page.md").write_text(text)
    return tmp_path


def test_a_true_sentence_on_its_page_has_no_problem(tmp_path):
    assert problem(Statement("page.md", "Most heads can go.", lambda: True), page(tmp_path)) == ""


def test_what_no_longer_follows_is_reported(tmp_path):
    found = problem(Statement("page.md", "Most heads can go.", lambda: False), page(tmp_path))
    assert found.startswith("no longer follows: 'Most heads can go.' on page.md")


def test_a_sentence_that_is_gone_is_reported_though_it_is_true(tmp_path):
    found = problem(Statement("page.md", "All heads can go.", lambda: True), page(tmp_path))
    assert found.startswith("not on page.md: 'All heads can go.'")


def test_a_sentence_about_a_missing_result_is_reported(tmp_path):
    gone = Statement(
        "page.md", "Most heads", lambda: statements.values("one_head", "nothing", "nobody")
    )
    assert problem(gone, page(tmp_path)).startswith("cannot be told from what is stored")


def test_of_a_notebook_only_what_a_reader_sees_as_text_counts(tmp_path):
    cells = (
        '{"cell_type": "markdown", "source": ["Most\\n", "heads"]}, '
        '{"cell_type": "code", "source": ["can go"]}'
    )
    (tmp_path / "page.ipynb").write_text(f'{{"cells": [{cells}]}}')
    assert statements.prose(tmp_path / "page.ipynb") == "Most heads"
    found = problem(Statement("page.ipynb", "can go", lambda: True), tmp_path)
    assert found.startswith("not on page.ipynb")
