"""Readers see the same of the committed results as before; see ``tests/goldens.py``."""

import csv

import goldens
import mutate
import pytest
from tiny import in_tiers


@pytest.mark.parametrize(
    "kind", in_tiers(goldens.KINDS, goldens.KINDS.keys() - {"values", "tables"})
)
def test_nothing_that_readers_see_has_changed(kind):
    assert goldens.compare([kind]) == [], "if it was meant to: python tests/goldens.py write"


def test_every_mutation_was_tried_as_it_is_and_noticed():
    with mutate.TABLE.open(newline="", encoding="utf-8") as file:
        noticed = {row["entry"]: row["noticed by"] for row in csv.DictReader(file)}
    missed = [
        e["what"] for e in mutate.entries() if noticed.get(e["entry"]) not in ("check", "test")
    ]
    assert missed == [], "python tests/mutate.py"
