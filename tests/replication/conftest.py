"""What several modules of this folder share."""

import pytest

from headprune_lib.replication.store import Journal


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """Importance of each model, measured once."""
    return Journal(tmp_path_factory.mktemp("journal"))


@pytest.fixture
def n_parts(request) -> int | None:
    """Parts of a result that a run looks at closely; all of them with ``--every``."""
    return None if request.config.option.every else 1
