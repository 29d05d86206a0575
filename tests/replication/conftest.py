"""What several modules of this folder share."""

import pytest

from headprune_lib.replication.store import Journal


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """Importance of each model, measured once."""
    return Journal(tmp_path_factory.mktemp("journal"))
