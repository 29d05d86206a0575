"""Results and what is needed to keep them: files, signatures, a journal of unfinished work."""

from headprune_lib.replication.store.files import (
    Arrays,
    Journal,
    UnitsFailed,
    prefixed,
    unprefixed,
)
from headprune_lib.replication.store.results import (
    OUTCOMES,
    Key,
    Measured,
    Outcomes,
    Part,
    Result,
    ResultDamaged,
    computing_on,
    find,
    fingerprint,
    load,
    make_signature,
    plain,
    provenance,
    save,
    stored,
)
