"""What cells hand to their page."""

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from headprune_lib.replication import measurements
from headprune_lib.replication.pages.display import glue_all, show, show_verdicts


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_every_number_is_glued_under_its_key(shell):
    with capture_output() as captured:
        glue_all({"n": 12, "share": "40% [30%, 50%]", "r": 0.25})
    kind = "application/papermill.record/text/plain"
    glued = {output.metadata["scrapbook"]["name"]: output.data[kind] for output in captured.outputs}
    assert glued == {"n": "12", "share": "'40% [30%, 50%]'", "r": "0.25"}


def test_an_empty_table_says_that_nothing_was_measured():
    assert show(pd.DataFrame()).data == "<p>Not measured.</p>"
    assert '<th scope="row">1</th>' in show(pd.DataFrame({"layer": [1]})).data


def test_verdicts_name_their_claim(smoke):
    shown = show_verdicts(measurements.get("figure1b", smoke)).data
    assert "<strong>C1</strong>" in shown and "verdict-" in shown
