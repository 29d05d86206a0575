"""How pages show criteria: their names, their costs, and the look of their curves."""

from __future__ import annotations

from typing import NamedTuple


class Shown(NamedTuple):
    """A criterion on a page.

    Attributes:
        label: its name in a legend.
        colour: ``blue``, ``orange``, ``green``, ``red``, ``purple``, ``brown``, ``pink`` or
            ``grey``.
        dash: ``-``, ``--``, ``-.`` or ``:``.
        marker: ``o``, ``s``, ``^``, …; empty for none.
        cost: the computation that it takes.
    """

    label: str
    colour: str = "pink"
    dash: str = "-."
    marker: str = ""
    cost: str = "a forward and a backward pass"


_EAGER = "a forward and a backward pass, eager"
_SHOWN = {
    "confidence": Shown("confidence", "red", "--", "", "a forward pass, eager"),
    "entropy": Shown("attention entropy, high kept", "pink", "--", "", "a forward pass, eager"),
    "entropy-low": Shown("attention entropy, low kept", "orange", ":", "", "a forward pass, eager"),
    "fisher": Shown("Fisher information", "brown", "-"),
    "gates": Shown(
        *("learned gates", "green", ":", ""),
        "400 updates, each a forward and a backward pass of a batch",
    ),
    "greedy": Shown(
        *("greedy by the loss", "green", "-", ""),
        "about half as many forward passes as heads, times the steps",
    ),
    "importance": Shown("importance, Eq. 2", "blue", "-"),
    "importance-batch": Shown("importance a batch", "purple", "-."),
    "importance-bertology": Shown("importance of the bertology script", "purple", ":"),
    "importance-entropy": Shown("importance and entropy", "red", "-", "", _EAGER),
    "importance-integrated": Shown(
        *("importance integrated over the mask", "purple", "--", "^"),
        "8 forward and backward passes",
    ),
    "importance-signed": Shown("importance with its sign", "pink", ":"),
    "importance-times-entropy": Shown("importance times entropy", "red", "--", "s", _EAGER),
    "importance-times-focus": Shown("importance times (1 - entropy)", "red", ":", "", _EAGER),
    "importance-token": Shown("importance a token (the authors' code)", "purple", "--"),
    "logits-norm": Shown("norm of the logits", "green", "-."),
    "magnitude": Shown("magnitude of the weights", "grey", "--", "", "none: weights alone"),
    "random": Shown("random", "grey", "-", "", "none"),
    "second-order": Shown(
        "second order", "brown", "--", "", "a forward, a backward and 4 second backward passes"
    ),
    "shapley": Shown(
        *("Shapley value", "brown", ":", ""),
        "as many forward passes of a batch as heads, times the permutations",
    ),
}


def shown(name: str) -> Shown:
    """How pages show a criterion; one without an entry gets its own name, in pink.

    >>> shown("fisher").label, shown("my-own").label
    ('Fisher information', 'my own')
    """
    return _SHOWN.get(name) or Shown(name.replace("-", " "))
