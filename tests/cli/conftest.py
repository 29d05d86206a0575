"""A small classifier in a folder, and rows that it can be scored on."""

import pytest
from ownmodels import LABELLED, classifier, kept_in, tokenizer

from headprune_lib.cli.data import make_batches, read_rows


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text(LABELLED)
    return path


@pytest.fixture
def folder(tmp_path):
    return kept_in(tmp_path / "model", classifier())


@pytest.fixture
def batches_of():
    return lambda path: make_batches(
        classifier(), tokenizer(), read_rows(path, "classification"), 32, 128
    )
