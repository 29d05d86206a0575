"""As ``test_committed_results``, of translators: in a file of its own, so that both run at once."""

import pytest
from committed import check, keys


@pytest.mark.slow
@pytest.mark.parametrize("key", keys("translation"))
def test_drawn_cells_of_a_translator_are_found_again(key, journal, drawn_seed, n_parts):
    check(key, journal, drawn_seed, n_parts)
