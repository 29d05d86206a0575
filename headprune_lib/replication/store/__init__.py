"""Results and what is needed to keep them: files, signatures, a journal of unfinished work."""

from headprune_lib.replication.store.files import Arrays
from headprune_lib.replication.store.journal import Journal, UnitsFailed
from headprune_lib.replication.store.obtaining import Measured, Outcomes, Wanted, obtain
from headprune_lib.replication.store.results import (
    OUTCOMES,
    Key,
    Part,
    Result,
    ResultDamaged,
    find,
    load,
    save,
    stored,
)
from headprune_lib.replication.store.signature import (
    computing_on,
    fingerprint,
    make_signature,
    provenance,
)
from headprune_lib.replication.store.text import plain

__all__ = [
    "OUTCOMES",
    "Arrays",
    "Journal",
    "Key",
    "Measured",
    "Outcomes",
    "Part",
    "Result",
    "ResultDamaged",
    "UnitsFailed",
    "Wanted",
    "computing_on",
    "find",
    "fingerprint",
    "load",
    "make_signature",
    "obtain",
    "plain",
    "provenance",
    "save",
    "stored",
]
