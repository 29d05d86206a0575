"""The numbers in a page's prose: one function a page, from results to glue key -> value.

A value is a number where the page's own results always have it. Where a result, or a part of one,
may be missing it is text, and says ``not measured`` then: no other result takes its place.
"""

from headprune_lib.replication.pages.numbers.attention_types import attention_types
from headprune_lib.replication.pages.numbers.board import board
from headprune_lib.replication.pages.numbers.language_model import language_model, other_text
from headprune_lib.replication.pages.numbers.recovery import recovery
from headprune_lib.replication.pages.numbers.scores import scores
from headprune_lib.replication.pages.numbers.speed import precision, speed
from headprune_lib.replication.pages.numbers.training_dynamics import (
    several_trainings,
    training_dynamics,
)
from headprune_lib.replication.pages.numbers.translation_models import translation_models
from headprune_lib.replication.pages.numbers.types import Numbers
from headprune_lib.replication.pages.numbers.which_first import which_first

__all__ = [
    "Numbers",
    "attention_types",
    "board",
    "language_model",
    "other_text",
    "precision",
    "recovery",
    "scores",
    "several_trainings",
    "speed",
    "training_dynamics",
    "translation_models",
    "which_first",
]
