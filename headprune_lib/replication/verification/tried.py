"""Masks that were tried on texts, and what came of them: rows of a sheet, and stored outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from headprune_lib.ablation import all_but_one_masks, one_head_masks
from headprune_lib.masking import HeadTensors, ones_mask
from headprune_lib.replication.data import Texts
from headprune_lib.replication.metrics import MILLINAT
from headprune_lib.replication.store import Arrays
from headprune_lib.replication.store.heads import heads_in
from headprune_lib.replication.store.verses import all_counts
from headprune_lib.selection import Head, order_masks, prune_schedule

Row = tuple[str, HeadTensors]
"""A mask and what it is called."""


@dataclass(frozen=True)
class Sheet:
    """Stored outcomes of some masks on some texts.

    Attributes:
        texts: the examples, or pairs of verses.
        rows: the masks, the one that cuts nothing first.
        outcomes: by name, (row, text, ...): ``correct`` and ``loss`` in nats of answers; ``counts``
            (row, text, 10) and ``draft_loss`` in nats of translations, with the ``slack`` of losses
            that are rounded in the file.
        beams: width of the search.
    """

    texts: Texts
    rows: list[Row]
    outcomes: Arrays
    beams: int = 1


def uncut_row(model: nn.Module) -> Row:
    """The mask that cuts nothing."""
    return "no head cut", ones_mask(model)


def nothing_kept(model: nn.Module) -> HeadTensors:
    """The mask that cuts every head."""
    return {kind: torch.zeros_like(mask) for kind, mask in ones_mask(model).items()}


def _named(head: Head) -> str:
    kind, layer, number = head
    return f"head {number + 1} of layer {layer + 1}" + (f", {kind}" if kind != "self" else "")


def one_head_rows(model: nn.Module, heads: Iterable[Head]) -> list[Row]:
    """The uncut model, then each head cut by itself."""
    masks = one_head_masks(model)
    return [uncut_row(model), *((f"without {_named(head)}", masks[head]) for head in heads)]


def all_but_one_rows(model: nn.Module, heads: Iterable[Head]) -> list[Row]:
    """The uncut model, then each head left alone in its layer."""
    masks = all_but_one_masks(model)
    return [
        uncut_row(model),
        *((f"only {_named(head)} in its layer", masks[head]) for head in heads),
    ]


def rows_along(model: nn.Module, order: np.ndarray, steps: int, name: str) -> Iterator[Row]:
    """The masks after each step of an order but the first."""
    heads = heads_in(order)
    masks = order_masks(model, heads, prune_schedule(len(heads), steps)[1:])
    for step, mask in enumerate(masks, 1):
        yield f"{name}, step {step}", mask


def answers(raw: Arrays, prefix: str = "") -> Arrays:
    """Of a sweep over an encoder's heads: (1 + H, n), the uncut model first."""
    uncut, change = raw[f"{prefix}loss_uncut"].astype(int), raw[f"{prefix}loss_change"]
    return {
        "correct": np.vstack([raw[f"{prefix}correct_uncut"][None], raw[f"{prefix}correct"]]),
        "loss": np.vstack([uncut[None], uncut + change]) / MILLINAT,
    }


def translations(raw: Arrays, prefix: str = "", *, coarse: bool = False) -> Arrays:
    """Of a sweep over masks of a translator: (1 + M, n, ...), the uncut model first.

    ``coarse`` where changes of losses have five binary digits in the file.
    """
    uncut, cuts = all_counts(raw, prefix)
    found = {"counts": np.concatenate([uncut[None], cuts])}
    if f"{prefix}draft_loss_change" in raw:  # means alone are kept where no statistic asks for more
        loss, change = raw[f"{prefix}draft_loss_uncut"], raw[f"{prefix}draft_loss_change"]
        found["draft_loss"] = np.vstack([loss[None], loss + change]) / MILLINAT
        if coarse:
            uncut = np.zeros_like(change[:1])
            found["slack"] = np.abs(np.vstack([uncut, change])) / (32 * MILLINAT)
    return found


def answers_along(raw: Arrays, runs: Sequence[int]) -> Arrays:
    """Right or wrong, and the loss where it was kept, of the uncut model and after each step."""

    def rows(values: np.ndarray) -> np.ndarray:  # (run, step, example)
        return np.concatenate([values[runs[0], :1], *(values[run, 1:] for run in runs)])

    found = {"correct": rows(raw["correct"])}
    kept = max(runs) < len(raw.get("loss", ()))
    return found | ({"loss": rows(raw["loss"]) / MILLINAT} if kept else {})


def run_by_run(values: np.ndarray) -> np.ndarray:
    """(run, step, ...) as the first step and then the others of every run."""
    return np.concatenate([values[0, :1], *(run[1:] for run in values)])
