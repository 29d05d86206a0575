"""Names of models, tasks and orders on pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headprune_lib.cli.criteria import known_criteria
from headprune_lib.replication.criteria import shown
from headprune_lib.replication.data import LANGUAGE_TASKS, TASKS, TRANSLATION_TASKS
from headprune_lib.replication.models.pretrained import BASES, LANGUAGE_MODELS
from headprune_lib.replication.order_names import parse_part
from headprune_lib.replication.store import Result

BERT_SHAPE = "BERT-base's shape"
"""The model with random weights that Table 4 times besides a fine-tuned one."""

_TRANSLATORS = {
    "post-norm": "post-norm translator",
    "post-norm-6": "post-norm translator of six epochs",
    "pre-norm": "pre-norm translator",
    "pre-norm-512": "pre-norm translator of the paper's shape",
}


def spelled(name: str) -> str:
    """The name of a model or a task on pages: the short one of its entry, else its own.

    >>> spelled("sst2"), spelled("mpnet"), spelled("reviews")
    ('SST-2', 'MPNet', 'reviews')
    >>> spelled("post-norm"), spelled("enfr")
    ('post-norm translator', 'English-French (Bible)')
    """
    registers = (TASKS, BASES, TRANSLATION_TASKS, LANGUAGE_MODELS, LANGUAGE_TASKS)
    entry = next((register[name] for register in registers if name in register), None)
    return entry.short or name if entry else _TRANSLATORS.get(name, name)


def listed(words: Sequence[str]) -> str:
    """Join words with commas and a last ``and``.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def setting(result: Result) -> str:
    """Names of a result's model and task on pages, such as ``MPNet, SST-2``."""
    return f"{spelled(result.model)}, {spelled(result.task)}"


def machine(hardware: dict[str, Any]) -> str:
    """Processor and cores, or the accelerator.

    >>> machine({"cpu": "AMD EPYC", "cores": 2, "gpu": None})
    'AMD EPYC, 2 cores'
    """
    return hardware["gpu"] or f"{hardware['cpu']}, {hardware['cores']} cores"


_ORDERS = {
    "importance main": "importance, first fine-tuning",
    "importance unnormalised": "importance, not normalised",
    "importance rescored": "importance, scored again each step",
    "oracle": "one-by-one on the test set (the paper's)",
    "oracle leak-free": "one-by-one on other text",
    "importance reversed": "importance, reversed",
    "importance unnormalised per group": "not normalised, equally many of each group",
    "importance unnormalised whole groups": "not normalised, whole groups",
}
_WORDS = {
    "unnormalised": ", not normalised",
    "normalised": ", normalised",
    "rescored": ", scored again after each step",
    "low": ", low entropy kept",
    "words": ", without special tokens",
    "chosen": ", weight chosen on training sentences",
    "shuffled": ", entropies shuffled (control)",
}


def order_title(order: str) -> str:
    """Name of an order of removal in a legend; one without a criterion keeps its own name.

    >>> order_title("fisher rescored")
    'Fisher information, scored again after each step'
    >>> order_title("entropy words")
    'attention entropy, high kept, without special tokens'
    >>> order_title("random tuned")
    'random, gates fitted'
    """
    named = parse_part(order, "tuned")
    if named.tuned:
        return f"{order_title(named.order)}, gates fitted"
    if order in _ORDERS:
        return _ORDERS[order]
    name, *words = order.split(" ")
    if name not in known_criteria():
        return order
    return shown(name).label + "".join(_WORDS.get(word, f" {word}") for word in words)
