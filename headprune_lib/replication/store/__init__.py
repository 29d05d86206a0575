"""Results and what is needed to keep them: files, signatures, a journal of unfinished work."""

from headprune_lib.replication.store.files import Arrays, prefixed, unprefixed
from headprune_lib.replication.store.journal import Journal, UnitsFailed
from headprune_lib.replication.store.results import (
    OUTCOMES,
    Key,
    Measured,
    Outcomes,
    Part,
    Result,
    ResultDamaged,
    find,
    load,
    plain,
    save,
    stored,
)
from headprune_lib.replication.store.signature import (
    computing_on,
    fingerprint,
    make_signature,
    provenance,
)
