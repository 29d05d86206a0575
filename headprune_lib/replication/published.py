"""What the paper and others published, read from the project's copies."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import yaml

from headprune_lib.replication.data import whole_task
from headprune_lib.replication.paths import reference_root

__all__ = [
    "bert_base_masks",
    "bert_curve",
    "independent_curves",
    "paper",
    "published_share",
    "published_task",
    "right_of_100_berts",
]


@cache
def _published() -> dict:
    return yaml.safe_load((reference_root() / "paper_values.yml").read_text("utf-8"))


# A task here -> the task of the paper whose values stand beside its own.
_STANDS_FOR = {
    "snli": "mnli",
    "enfr": "wmt",
    "wmt14-enfr": "wmt",
    "deen": "iwslt",
    "multi30k": "iwslt",
    "iwslt14-deen": "iwslt",
}


def published_task(task: str) -> str:
    """The paper's task that one of ours stands for; itself where it is one of the paper's.

    >>> published_task("snli"), published_task("snli-held"), published_task("sst2")
    ('mnli', 'mnli', 'sst2')
    """
    whole = whole_task(task)
    return _STANDS_FOR.get(whole, whole)


def published_shares() -> dict[str, float]:
    """The paper's task -> the share of heads that goes there without noticeable effect."""
    figure3 = paper("figure3")
    return {"mnli": figure3["bert_mnli"], "wmt": figure3["wmt"], **paper("figure6")}


def published_share(task: str) -> float | None:
    """The share of heads that goes in the paper on a task; None where the paper has none.

    >>> published_share("snli"), published_share("reviews")
    (0.4, None)
    """
    return published_shares().get(published_task(task))


@cache
def independent_curves() -> dict[str, Any]:
    """Figures 3b, 4, 5, 6a, 6b and 6d measured again by others, with their source."""
    return json.loads((reference_root() / "independent_curves.json").read_text("utf-8"))


@cache
def bert_base_masks() -> dict[str, Any]:
    """BERT-base on nine GLUE tasks, pruned by others, with the source and what each number is."""
    return json.loads((reference_root() / "bert_base_masks.json").read_text("utf-8"))


def bert_curve(task: str) -> dict[str, Any] | None:
    """BERT-base's curve by importance on a task of the paper, as others measured it; None without one.

    >>> bert_curve("mnli")["n_test"], bert_curve("mrpc")
    (9815, None)
    """
    curves = (curve for curve in independent_curves().values() if isinstance(curve, dict))
    wanted = (task, "importance")
    return next((one for one in curves if (one.get("task"), one.get("order")) == wanted), None)


@cache
def right_of_100_berts() -> dict[str, Any]:
    """How many of 100 fine-tuned BERT-base got each pair of MNLI's matched set right, with the source.

    ``right`` is in the order of stored results on ``dataset``, whose checksum is ``sha256``.
    """
    path = reference_root() / "mnli_right_of_100_berts.json"
    return json.loads(path.read_text("utf-8"))


def paper(artifact: str) -> dict:
    """The published values of a table or figure, layers and heads counted from 1."""
    return _published()[artifact]
