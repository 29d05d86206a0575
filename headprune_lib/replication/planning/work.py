"""The amount of work in a measurement: its masks on its texts, and the scoring of heads.

The measurement itself states its parts, trainings, draws and needs; :data:`MASKS` its sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence

from headprune_lib.replication.data import TASKS, TRANSLATION_TASKS
from headprune_lib.replication.data.iwslt import N_SCORE
from headprune_lib.replication.lazy import probing
from headprune_lib.replication.measurements.base import Half
from headprune_lib.replication.measurements.obtaining import Request
from headprune_lib.replication.measurements.orders import ONE_BY_ONE
from headprune_lib.replication.measurements.speed import config_of_shape
from headprune_lib.replication.order_names import parse_part
from headprune_lib.replication.profiles import FairseqRecipe, Profile

TRAINING = 3
"""A training step costs about this many forward passes; so does I_h."""
_EACH, _ORDER = ("each head", "test"), ("order", "test")
MASKS: dict[Half, dict[str, list[tuple[str, str]]]] = {
    "encoder": {
        "one_head": [_EACH],
        "all_but_one": [_EACH],
        "best_heads": [("best head", "test"), ("each head", "selection")],
        "across_domains": [("each head", "domains")],
        "pruning_curve": [_ORDER],
    },
    "translation": {
        "one_head": [("each head", "headline")],
        "all_but_one": [_EACH],
        "best_heads": [("best head", "reported"), ("each head", "choice")],
        "across_domains": [("encoder's head", "far")],
        "pruning_curve": [_ORDER],
        "pruning_by_kind": [_ORDER],
        "along_training": [_ORDER],
    },
}
"""Masks of a measurement, and the text that they are measured on.

An order has one mask per step, the ``best head`` one per layer.
"""
Work = tuple[float, float]
"""Passes of a text through the model, and sentences that are translated, each once per mask."""

_N = {
    "mnli": {"train": 392_702, "test": 9_815},
    "mnli-mismatched": {"test": 9_832},
    "sst2": {"train": 67_349, "test": 872},
    "cola": {"train": 8_551, "test": 1_043},
    "mrpc": {"train": 3_668, "test": 408},
    "wmt14-enfr": {"score": 11_020, "test": 3_000, "valid": 3_003},
    "mtnt-enfr": {"test": 1_020},
    "iwslt14-deen": {"train": 160_239, "valid": 7_283, "test": 6_750, "score": N_SCORE},
}
"""Sizes of texts that may be absent, by the Hub's cards and MTNT's authors, cleaned by fairseq."""


def work_of(request: Request, parts: Sequence[str]) -> Work:
    """Upper bound on the work of measuring some parts, without that of other measurements."""
    if request.measurement.name == "speed":
        return _timed(request.profile), 0.0
    return (_encoder if request.half == "encoder" else _translation)(request, parts)


def training_passes(half: Half, profile: Profile, task: str) -> float:
    """Cost of one training, in passes of a text through the model."""
    n = _n(profile, half, task, "train")
    if half == "encoder":
        tuning = profile.finetuning
        return TRAINING * min(n, tuning.n_train or n) * tuning.epochs
    recipe = profile.translator(task, profile.model_of(task))
    epochs = recipe.epochs if isinstance(recipe, FairseqRecipe) else recipe.max_epochs
    return TRAINING * n * epochs


def _n(profile: Profile, half: Half, task: str, split: str, most: int | None = None) -> int:
    """Number of texts of a split, at most ``most``; nothing is fetched to count them."""
    if task in _N and (half == "translation" or profile.data == "hub"):
        n = _N[task].get(split, 0)
    elif half == "encoder":
        n = len(TASKS[task].load(profile.data).get(split, ()))
    else:
        n = len(TRANSLATION_TASKS[task].split(split))
    return n if most is None else min(n, most)


def _encoder(request: Request, parts: Sequence[str]) -> Work:
    measurement, _, profile, task, _ = request
    config = probing.config_of(profile)
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    test = _n(profile, "encoder", task, "test") - profile.n_used
    # the outcomes of the task itself are taken from another measurement
    domains = [_n(profile, "encoder", name, "test", profile.n_domain) for name in profile.domains]
    texts = {
        "test": min(test, profile.n_examples or test),
        "selection": profile.n_selection,
        "domains": sum(domains),
    }
    along, scored, passes = set(), set(), 0.0
    for part in parts:
        of_part, order = measurement.own(profile, "encoder", part), parse_part(part).curve
        seeds = of_part.seeds or (profile.seed,)
        chosen = [("each head", "selection")] if order == ONE_BY_ONE else []
        for masks, text in (*MASKS["encoder"][measurement.name], *chosen):
            n = texts[text]
            if masks == "each head":  # only layers from the cut one upwards
                passes += n * (1 + heads * (layers + 1) / 2)
            elif masks == "best head":
                passes += 0 if of_part.needs else n * (1 + layers)
            else:  # both ends of all orders on a training are evaluated once
                passes += n * of_part.values.get("draws", len(seeds)) * (profile.steps - 1)
                passes += n * 2 * len({*seeds} - along)
                along |= {*seeds}
        if "n_scoring" in of_part.values:
            again = order.endswith("rescored")  # at each step
            scores = order if again or "criterion" in of_part.values else "importance"
            new = {(scores, seed) for seed in seeds} - scored
            passes += TRAINING * profile.n_scoring * len(new) * (profile.steps if again else 1)
            scored |= new
    return passes, 0.0


def _translation(request: Request, parts: Sequence[str]) -> Work:
    measurement, _, profile, task, _ = request
    shape, far = probing.shape_of(profile, task), profile.translation_far
    (choice, reported), several = TRANSLATION_TASKS[task].chosen, profile.n_headline
    verses = profile.n_verses
    points, further = 1, 0  # checkpoints, and masks of other orders than the stored one
    if measurement.name == "pruning_curve" and task == profile.translation_task:
        verses = several
    if measurement.name == "along_training":
        wanted = profile.checkpoints_of(task)
        points = len(wanted.shares) + len(wanted.epochs) + wanted.within
        if wanted.every:
            recipe = profile.translator(task, profile.model_of(task))
            points += recipe.max_epochs // wanted.every + 1
        further = wanted.unnormalised + (wanted.random_orders or 0)
        verses = wanted.n_verses or verses
    texts = {
        "test": (task, "test", verses),
        "headline": (task, "test", several),
        "choice": (task, choice, verses),
        "reported": (task, reported, several),
        "valid": (task, "valid", profile.n_verses),
        "far": (far, TRANSLATION_TASKS[far].far, verses),
    }
    passes = translations = 0.0
    scored = set()
    for part in parts:
        of_part, order = measurement.own(profile, "translation", part), parse_part(part).curve
        chosen = [("each head", "valid")] if order == ONE_BY_ONE else []
        for masks, text in (*MASKS["translation"][measurement.name], *chosen):
            n = _n(profile, "translation", *texts[text])
            n_masks = {
                "order": of_part.values.get("draws", 1) * profile.steps + further,
                "best head": 3 * shape.layers,
                "each head": 3 * shape.layers * shape.heads,
                "encoder's head": shape.layers * shape.heads,
            }[masks]
            # besides each mask the uncut model, and its translations, which are kept unless a
            # mask changes them
            translations += points * n * (n_masks + 2)
            passes += points * n * (n_masks + 1)
            if masks == "order":
                scored |= {*(of_part.seeds or profile.trainings(task)[:1])}
            if measurement.name == "along_training":  # the references are scored, too
                passes += points * n * (n_masks + 1)
    n_scored = points * len(scored) * _n(profile, "translation", task, "score") if scored else 0
    return passes + TRAINING * n_scored, translations


def _timed(profile: Profile) -> float:
    """Work of timing the model's shape and a published one, and of I_h, in passes of the former."""
    speed, fine_tuned = profile.speed, probing.config_of(profile)
    shape = config_of_shape(speed.shape)
    # the cost of a pass grows with its tokens times a layer's weights, in every layer
    costs = [
        config.num_hidden_layers * config.hidden_size**2 * length
        for config, length in ((shape, speed.shape_length), (fine_tuned, probing.LENGTH))
    ]
    n = speed.n_sentences + speed.shape_sentences * costs[0] / costs[1]
    return 2 * n * len(speed.batch_sizes) * speed.repetitions + TRAINING * profile.n_scoring
