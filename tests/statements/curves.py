"""What statements of several pages read off pruning curves."""

from __future__ import annotations

import math

from statements import found, row, values

CURVE = "pruning_curve"


def kept(task, model, removed):
    """Of the score above chance, by importance: estimate, ends of its interval."""
    of = values(CURVE, task, model)
    step = next(i for i, share in enumerate(of["shares"]) if math.isclose(share, removed))
    curve = of["kept"]["importance"]
    return curve["kept"][step], *curve["interval"][step]


def uncut(task, model):
    return values(CURVE, task, model)["curves"]["importance"]["mean"][0]


def word(task, model):
    """Of C3."""
    return row(CURVE, task, model, "C3").word


def silent(task, model):
    """Whether the row of C3 has no vote."""
    return not row(CURVE, task, model, "C3").counts


def lost_much(of, removed):
    """Whether every order keeps less than nine tenths of the score above chance at that share."""
    step = round(10 * removed)
    return all(curve["kept"][step] < 0.9 for curve in values(*of)["kept"].values())


def fine_tunings(model, *tasks):
    """Trainings behind the curves by importance; of all tasks if none is named."""
    return {
        len(one.values["curves"]["importance"]["runs"])
        for one in found(CURVE)
        if one.model == model and (not tasks or one.task in tasks)
    }


def heads_of(task):
    """Heads of a translator."""
    scores = values(CURVE, task, "post-norm")["scores"]
    return sum(len(layer) for kind in scores.values() for layer in kind)
