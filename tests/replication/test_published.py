"""The paper's values, as the text of its tables and figures gives them."""

from headprune_lib.replication.published import (
    paper,
    published_share,
    published_shares,
    published_task,
)


def test_shares_are_those_of_figures_3_and_6():
    assert published_shares() == {
        "mnli": 0.4,
        "wmt": 0.2,
        "sst2": 0.6,
        "cola": 0.5,
        "mrpc": 0.5,
        "iwslt": 0.2,
    }


def test_a_task_stands_for_one_of_the_papers():
    assert published_share("snli") == paper("figure3")["bert_mnli"]
    assert (published_share("enfr"), published_share("deen")) == (0.2, 0.2)
    assert published_share("reviews") is None
    for task in ("snli", "enfr", "deen"):
        assert published_task(task) in published_shares()
